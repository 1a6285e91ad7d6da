"""Returns of the tasks by data set, what it costs to get there, and errors of the models by distance."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from constrained_maxent.evaluation import Estimate
from constrained_maxent.reporting.curves import COLORS
from constrained_maxent.reporting.style import blank_figure, plain_axes, save_figure
from constrained_maxent.reproduction.explore_then_learn.models import EDGES, span
from constrained_maxent.reproduction.explore_then_learn.tasks import World

_WIDTH = 0.8
"""Of what is side by side, where 1 is the way to the next."""


def draw(path: Path, world: World, summaries: Mapping[str, Mapping[str, Estimate]]) -> Path:
    """Means over seeds with their 95 % intervals. Returns the file."""
    tasks = list(world.tasks)
    figure = blank_figure(13.0, 3.8)
    returns, costs, errors = figure.subplots(1, 3, width_ratios=[3, 5, 8])
    _points(returns, summaries, {f"{task}, return": _broken(task) for task in tasks})
    returns.set_ylabel("return (1: the best there is)", fontsize=9)
    returns.set_ylim(bottom=0.0)
    names = {
        "training before, share of steps that cost": "training\nbefore",
        "collecting, share of steps that cost": "collecting",
    }
    _points(costs, summaries, names | {f"{task}, share of steps that cost": _broken(task) for task in tasks})
    costs.set_ylabel("share of steps that cost", fontsize=9)
    costs.set_ylim(bottom=0.0)
    spans = {f"model, error {span(low, high)}": _short(low, high) for low, high in itertools.pairwise(EDGES)}
    _points(errors, summaries, {"model, error": "all", "model, error within": "within\nlimits"} | spans)
    errors.set_ylabel("error of the model (1: of the mean)", fontsize=9)
    errors.set_xlabel("distance from the data (standard deviations)", fontsize=9)
    errors.set_yscale("log")
    handles, labels = returns.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=8)
    return save_figure(figure, path, dpi=110)


def _broken(task: str) -> str:
    """In two lines."""
    return task.replace(" ", "\n", 1)


def _short(low: float, high: float) -> str:
    return f"> {low:g}" if math.isinf(high) else f"< {high:g}"


def _points(axes: Axes, summaries: Mapping[str, Mapping[str, Estimate]], names: Mapping[str, str]) -> None:
    """One group of points for each figure, with the intervals as bars."""
    for i, (kind, figures) in enumerate(summaries.items()):
        offset = _WIDTH * ((i + 0.5) / len(summaries) - 0.5)
        found = [(x + offset, figures[name]) for x, name in enumerate(names) if name in figures]
        at = [x for x, _ in found]
        mean = np.array([figure.mean for _, figure in found])
        bars: Any = [mean - [f.low for _, f in found], [f.high for _, f in found] - mean]
        axes.errorbar(at, mean, yerr=bars, fmt="o", markersize=3.5, linewidth=1.2, color=COLORS[i], label=kind)
    axes.set_xticks(range(len(names)), list(names.values()))
    plain_axes(axes, 8)
