"""What ``cmaxent reproduce control`` does and prints."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.table import Table

from constrained_maxent.cli.console import console, figures_table, print_paths
from constrained_maxent.evaluation import Estimate, over_seeds
from constrained_maxent.reproduction.control import (
    EXPERT,
    STUDIES,
    CaseResult,
    control_table,
    draw_curves,
    expert_figures,
    run_study,
)
from constrained_maxent.reproduction.tables import write_table
from constrained_maxent.runs.run_folder import require_folder


def reproduce_control(
    names: Iterable[str], out: Path, *, seeds: int | None, iterations: int | None, workers: int, quiet: bool
) -> None:
    """Run the studies of these names, all if there are none, write and print what came out."""
    require_folder(out)
    for name in dict.fromkeys(names) or STUDIES:
        study, begun, folder = STUDIES[name], time.perf_counter(), out / name
        results = run_study(
            study,
            folder,
            seeds=seeds,
            iterations=iterations,
            workers=workers,
            progress=lambda label: None if quiet else console.print(f"done: {label}", highlight=False),
        )
        n_seeds = len(results[0].evaluations)
        expert = expert_figures(study, seeds=n_seeds)
        table, _ = write_table(out / f"{name}.csv", control_table(study, results, expert))
        figure = draw_curves(out / f"{name}.png", study, folder, seeds=n_seeds)
        console.print(_printed(study.name, results, expert))
        console.print(f"{time.perf_counter() - begun:.0f} s", highlight=False)
        print_paths(table, figure)


def _printed(name: str, results: Sequence[CaseResult], expert: Sequence[dict[str, Estimate]]) -> Table:
    seeds = len(results[0].evaluations)
    columns = {result.case.label: result.figures() for result in results}
    if expert:
        columns[EXPERT] = over_seeds(expert)
    table = figures_table(f"{name}, fresh episodes, mean of {seeds} seeds with its 95 % interval", "", *columns)
    for figure in dict.fromkeys(figure for figures in columns.values() for figure in figures):
        table.add_row(figure, *(str(figures.get(figure, "")) for figures in columns.values()))
    table.add_row("training, longest (s)", *(f"{max(result.seconds):.0f}" for result in results))
    return table
