"""``cmaxent reproduce control``: cartpole and point mass, over seeds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from constrained_maxent.cli.console import INTERRUPTED, console
from constrained_maxent.evaluation import Estimate, over_seeds
from constrained_maxent.reproduction.control_cases import STUDIES, StudyName
from constrained_maxent.reproduction.control_study import (
    EXPERT,
    CaseResult,
    draw_curves,
    expert_figures,
    run_study,
    write_table,
)
from constrained_maxent.runs.run_folder import require_folder


@dataclass(frozen=True, kw_only=True)
class ReproduceControl:
    """Cartpole and point mass over seeds: train, evaluate the last policies on fresh episodes, write tables, curves."""

    only: tuple[StudyName, ...] = ()
    """These studies only. Default: all."""
    seeds: int | None = None
    """Seeds of each setting. Default: the study's own number."""
    iterations: int | None = None
    """Batches of each run. Default: those of the presets."""
    workers: int = 2
    """Runs at a time."""
    out: Path = Path("runs/control")
    """Folder of the results. Finished runs in it are not done again."""
    quiet: bool = False
    """Do not say which runs are done."""

    def run(self, given: frozenset[str]) -> int:
        """Do it; the exit code."""
        require_folder(self.out)
        for name in self.only or tuple(STUDIES):
            study, begun = STUDIES[name], time.perf_counter()
            folder = self.out / name
            try:
                results = run_study(
                    study,
                    folder,
                    seeds=self.seeds,
                    iterations=self.iterations,
                    workers=self.workers,
                    progress=lambda label: None if self.quiet else console.print(f"done: {label}", highlight=False),
                )
            except KeyboardInterrupt:
                console.print("Interrupted. The same command goes on from here.")
                return INTERRUPTED
            table, figure = self.out / f"{name}.csv", self.out / f"{name}.png"
            expert = expert_figures(study, seeds=len(results[0].evaluations))
            write_table(table, study, results, expert)
            draw_curves(figure, study, folder, seeds=len(results[0].evaluations))
            console.print(_table(study.name, results, expert))
            console.print(f"{time.perf_counter() - begun:.0f} s", highlight=False)
            for path in (table, figure):
                console.print(str(path), soft_wrap=True)
        return 0


def _table(name: str, results: list[CaseResult], expert: list[dict[str, Estimate]]) -> Table:
    seeds = len(results[0].evaluations)
    table = Table(title=f"{name}, fresh episodes, mean of {seeds} seeds with its 95 % interval")
    table.add_column("")
    for result in results:
        table.add_column(result.case.label, justify="right")
    figures = [result.figures() for result in results]
    if expert:
        table.add_column(EXPERT, justify="right")
        figures.append(over_seeds(expert))
    for figure in dict.fromkeys(figure for found in figures for figure in found):
        table.add_row(figure, *(str(found[figure]) if figure in found else "" for found in figures))
    table.add_row("training, longest (s)", *(f"{max(result.seconds):.0f}" for result in results))
    return table
