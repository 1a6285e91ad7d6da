"""Curves of entropy and cost, with what MEPOL's own code reached."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from constrained_maxent.reporting import Curve, Panel, curves_figure
from constrained_maxent.reporting.style import save_figure
from constrained_maxent.reproduction import MepolTaskName
from constrained_maxent.reproduction.mepol.tasks import TASKS

THEIRS = {"mountain-car": ((200, 400, 600, 800), (425, 850, 1275, 1700), (-3.69, -2.72, -2.54, -2.47))}
"""Of MEPOL's public code: thousand steps, about the seconds of a processor, and the entropy [nats]."""


def draw_curves(path: Path, name: MepolTaskName, rows: pl.DataFrame) -> Path:
    """Entropy against steps and against processor seconds, and the cost; every run. Returns the file."""

    def curve(case: str, x: str, y: str, unit: float) -> Curve:
        runs = [part for _, part in rows.filter(pl.col("case") == case).group_by("seed", maintain_order=True)]
        # Seconds differ from run to run: their mean is where all are drawn.
        at = unit * np.mean([run[x].to_numpy() for run in runs], axis=0)
        return Curve(case, at, np.array([run[y].to_numpy() for run in runs]))

    cases = rows["case"].unique(maintain_order=True).to_list()
    steps, seconds = ("steps", 1e-3, "thousand environment steps"), ("seconds", 1.0, "seconds of a processor")
    panels = []
    for (x, unit, xlabel), theirs in zip((steps, seconds), THEIRS.get(name, ((), (), ()))[:2], strict=True):
        curves = [curve(case, x, "entropy", unit) for case in cases]
        if name in THEIRS:
            curves.append(Curve("MEPOL", np.array(theirs), np.array([THEIRS[name][2]])))
        panels.append(Panel(curves, xlabel=xlabel, ylabel="entropy of the state [nats]"))
    x, unit, xlabel = steps
    panels.append(
        Panel(
            [curve(case, x, "cost", unit) for case in cases],
            xlabel=xlabel,
            ylabel="share of steps that cost",
            lines={"the most allowed": TASKS[name].limit},
        )
    )
    return save_figure(curves_figure([panels], band="runs"), path, dpi=110)
