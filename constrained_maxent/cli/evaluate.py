"""``cmaxent evaluate``: the last policies of runs on fresh episodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from constrained_maxent.cli.console import console, number
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.evaluation import Estimate, Evaluation, over_seeds
from constrained_maxent.evaluation.rollouts import OBJECTIVE, constraint_figure
from constrained_maxent.runs.evaluation import RunEvaluation, evaluate_run
from constrained_maxent.runs.run_folder import RunFolder


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Evaluate the last policies of runs on fresh episodes, and exactly where the environment is finite and known.

    Several runs of one environment also get their mean, with its interval over runs.
    """

    run_folders: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]")]
    """Folder of a run. Its evaluation.json is written anew."""
    episodes: int | None = None
    """Fresh episodes to roll out; 20 if not given, or 100 where observations are finite."""
    seed: int = 1_000_000
    """Seed of the rollouts."""

    def run(self, given: frozenset[str]) -> int:
        """The exit code."""
        if not self.run_folders:
            raise InvalidSetting("Which run? cmaxent evaluate RUN, the folder of a training run.")
        folders = [RunFolder(path) for path in self.run_folders]
        found = [evaluate_run(folder, n_episodes=self.episodes, seed=self.seed) for folder in folders]
        table = _one(found[0]) if len(found) == 1 else _several(self.run_folders, found)
        console.print(table)
        for line in dict.fromkeys(note for evaluation in found for note in _notes(evaluation)):
            console.print(line, markup=False, highlight=False)
        for folder in folders:
            console.print(str(folder.evaluation_path), soft_wrap=True)
        return 0


def _one(found: RunEvaluation) -> Table:
    rollouts, exact = found.rollouts, found.exact
    table = Table(title=f"{found.env_id}, iteration {found.iteration}")
    table.add_column("")
    table.add_column(f"{rollouts.n_episodes} fresh episodes", justify="right")
    known = {} if exact is None else _exact_figures(exact)
    if exact is not None:
        table.add_column("exact", justify="right")
    for name, estimate in rollouts.figures().items():
        table.add_row(name, str(estimate), *([number(known.get(name))] if exact is not None else []))
    return table


def _exact_figures(exact: Evaluation) -> dict[str, float]:
    figures = {} if exact.objective is None else {OBJECTIVE: exact.objective}
    return figures | {constraint_figure(name): value for name, value in exact.constraints.items()}


def _several(paths: tuple[Path, ...], found: list[RunEvaluation]) -> Table:
    figures: list[Mapping[str, Estimate]] = [evaluation.rollouts.figures() for evaluation in found]
    same = len({evaluation.env_id for evaluation in found}) == 1
    title = f"{found[0].env_id}, fresh episodes" if same else "Fresh episodes"
    table = Table(title=title)
    table.add_column("")
    for path in paths:
        table.add_column(str(path), justify="right", overflow="fold")
    mean = over_seeds(figures) if same else {}
    if same:
        table.add_column(f"mean of {len(found)} runs", justify="right")
    for name in dict.fromkeys(name for figure in figures for name in figure):
        columns = [number(figure[name].mean) if name in figure else "" for figure in figures]
        table.add_row(name, *columns, *([str(mean[name]) if name in mean else ""] if same else []))
    return table


def _notes(found: RunEvaluation) -> list[str]:
    """What the figures of states are measured in and by."""
    states = found.rollouts.states
    if states is None:
        return []
    notes = []
    if states.units:
        notes.append(f"{found.env_id}: the state entropy is that of a density per {'·'.join(states.units)}.")
    if states.coverage is not None:
        notes.append(f"{found.env_id}: grid cells are counted in {states.coverage.n_states:,} steps.")
    return notes
