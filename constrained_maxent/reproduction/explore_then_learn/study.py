"""For each data set what it cost, and what is learnt from it alone: three tasks, and a model of the dynamics."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from constrained_maxent.evaluation import Estimate, over_seeds
from constrained_maxent.reproduction import WorldName
from constrained_maxent.reproduction.explore_then_learn.data import KINDS, Gathering, Kind, gather, load, place
from constrained_maxent.reproduction.explore_then_learn.learning import (
    learn,
    measured_return,
    relabelled,
    require_d3rlpy,
)
from constrained_maxent.reproduction.explore_then_learn.models import model_errors, split
from constrained_maxent.reproduction.explore_then_learn.tasks import WORLDS, World
from constrained_maxent.reproduction.measured_once import measured_once, plain_name

FIRST_SEED = 1
"""How to learn was tried on seed 0."""


@dataclass(frozen=True, kw_only=True)
class LearningRun:
    """All that is learnt from one data set.

    Attributes:
        gradient_steps: of each task's policy.
    """

    gathering: Gathering
    kind: Kind
    gradient_steps: int

    @property
    def name(self) -> str:
        """In what is said of progress."""
        return f"{self.gathering.world}, {self.kind}, seed {self.gathering.seed}"


def run_study(
    world: WorldName,
    folder: Path,
    *,
    python: Path,
    seeds: int,
    steps: int,
    gradient_steps: int,
    iterations: int | None = None,
    workers: int = 1,
    progress: Callable[[str], None] = lambda label: None,
) -> pl.DataFrame:
    """Gather, learn and measure; what is finished in the folder is not done again.

    Args:
        world: where.
        folder: of trainings, data sets, policies and results.
        python: one that has d3rlpy.
        seeds: how many, from ``FIRST_SEED``.
        steps: of each data set, at least.
        gradient_steps: of each task's policy.
        iterations: of each training; by default those of the preset.
        workers: runs at a time, each in a process of its own.
        progress: called with the name of every run that is done.

    Returns:
        One row for each data set and seed.

    Raises:
        gymnasium.error.DependencyNotInstalled: ``python`` has no d3rlpy, or this one no Minari.
        InvalidSetting: no seeds, or fewer than one worker.
        InvalidRun: a file in the folder is of other settings.
    """
    require_d3rlpy(python)
    chosen = range(FIRST_SEED, FIRST_SEED + seeds)
    gatherings = [Gathering(world=world, seed=seed, steps=steps, iterations=iterations) for seed in chosen]
    runs = [
        LearningRun(gathering=gathering, kind=kind, gradient_steps=gradient_steps)
        for gathering in gatherings
        for kind in KINDS
    ]
    gathered = measured_once(
        gatherings,
        partial(gather, folder=folder),
        folder,
        name=lambda run: run.name,
        workers=workers,
        progress=progress,
    )
    learnt = measured_once(
        runs,
        partial(measure, folder=folder, python=python),
        folder,
        name=lambda run: run.name,
        workers=workers,
        progress=progress,
    )
    paid = dict(zip(chosen, gathered, strict=True))
    rows = [
        {"data": run.kind, "seed": run.gathering.seed}
        | _collection(paid[run.gathering.seed], run.kind)
        | _learning(found)
        for run, found in zip(runs, learnt, strict=True)
    ]
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(pl.selectors.float().round_sig_figs(6))


def measure(run: LearningRun, folder: Path, python: Path) -> dict[str, Any]:
    """Learn each task and the dynamics, and measure both."""
    gathering, begun = run.gathering, time.perf_counter()
    world, seed = WORLDS[gathering.world], gathering.seed
    data = {kind: load(gathering, kind, folder) for kind in KINDS}
    own = data[run.kind]
    policies = place(folder, gathering.world, seed) / "policies" / plain_name(run.kind)
    learn(world, own, policies, python=python, steps=run.gradient_steps, seed=seed)
    tasks = {
        task: measured_return(world, task, policies / f"{task}.pt")
        | {"in the data": float(relabelled(own, reward).mean())}
        for task, reward in world.tasks.items()
    }
    seconds_of_tasks = time.perf_counter() - begun
    parts = {kind: split(episodes, seed) for kind, episodes in data.items()}
    errors = model_errors(parts[run.kind][0], [held_out for _, held_out in parts.values()], seed=seed)
    seconds = {"tasks": round(seconds_of_tasks, 1), "model": round(time.perf_counter() - begun - seconds_of_tasks, 1)}
    return {"tasks": tasks, "model": errors, "seconds": seconds}


def _collection(gathered: Mapping[str, Any], kind: Kind) -> dict[str, float | None]:
    collecting = gathered["collecting"][kind]
    training = gathered["training"].get(kind, {})
    return {
        "steps": collecting["steps"],
        "collecting, share of steps that cost": collecting["share"],
        "collecting, mean cost": collecting["cost"],
        "training before, share of steps that cost": training.get("share"),
        "training before, mean cost": training.get("cost"),
    }


def _learning(found: Mapping[str, Any]) -> dict[str, float | None]:
    row: dict[str, float | None] = {}
    for task, measured in found["tasks"].items():
        row |= {
            f"{task}, return": measured["return"],
            f"{task}, spread of episodes": measured["spread"],
            f"{task}, return in the data": measured["in the data"],
            f"{task}, share of steps that cost": measured["share"],
            f"{task}, mean cost": measured["cost"],
        }
    row |= {f"model, {name}": value for name, value in found["model"].items()}
    return row | {f"seconds, {name}": value for name, value in found["seconds"].items()}


def summarize(rows: pl.DataFrame) -> dict[str, dict[str, Estimate]]:
    """For each kind of data the means over seeds with their 95 % intervals, of what all its seeds have."""
    found = {}
    for (kind,), part in rows.group_by("data", maintain_order=True):
        columns = [name for name in part.columns if name not in ("data", "seed") and not part[name].null_count()]
        found[str(kind)] = over_seeds(
            [{name: Estimate.exactly(line[name]) for name in columns} for line in part.rows(named=True)]
        )
    return found


def summary_table(summaries: Mapping[str, Mapping[str, Estimate]]) -> pl.DataFrame:
    """One row for each figure of each kind of data: mean, and the bounds of its interval."""
    rows: Sequence[Mapping[str, Any]] = [
        {"data": kind, "figure": name, "mean": figure.mean, "low": figure.low, "high": figure.high}
        for kind, figures in summaries.items()
        for name, figure in figures.items()
    ]
    return pl.DataFrame(rows).with_columns(pl.selectors.float().round_sig_figs(6))


def shown(world: World) -> list[str]:
    """The figures that are worth a line of a table on a screen."""
    of_tasks = [f"{task}, {what}" for task in world.tasks for what in ("return", "share of steps that cost")]
    before = [
        f"{when}, {what}"
        for what in ("share of steps that cost", "mean cost")
        for when in ("training before", "collecting")
    ]
    return [*before, *of_tasks, "model, error", "model, error within"]
