"""``cmaxent reproduce grid``: the paper's grid study again."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from constrained_maxent.cli.console import INTERRUPTED, console, number
from constrained_maxent.engine import EngineProgress
from constrained_maxent.reproduction.grid.analysis import (
    Course,
    Summary,
    courses,
    stationary_optimum,
    unconstrained_violation,
)
from constrained_maxent.reproduction.grid.claims import Claim, claims, judgements
from constrained_maxent.reproduction.grid.draw import draw_study
from constrained_maxent.reproduction.grid.mixtures import MixturePoint, frank_wolfe_course
from constrained_maxent.reproduction.grid.reach import SHARES, reaches
from constrained_maxent.reproduction.grid.run import Row, StudyFiles, run_study
from constrained_maxent.reproduction.grid.search import KEPT_VIOLATION, search_results
from constrained_maxent.reproduction.grid.sweep import SCALES, Scale, ScaleName, Study, chosen
from constrained_maxent.reproduction.grid.tables import WITHOUT_PARQUET, can_write_parquet, write_table


@dataclass(frozen=True, kw_only=True)
class ReproduceGrid:
    """The paper's grid study, or parts of it: write tables and figures, and say which claims hold."""

    only: tuple[
        Literal[
            "fig1",
            "defaults",
            "defaults-short",
            "norm",
            "norm-beta",
            "robustness",
            "unconstrained",
            "policies",
            "methods",
            "primal-dual-search",
            "primal-dual-batches",
            "ablation",
            "relaxed",
        ],
        ...,
    ] = ()
    """These studies only. Default: all."""
    scale: ScaleName = "paper"
    """"smoke": seconds, to see that it works. "paper": 15,000 iterations, 10 seeds."""
    out: Path | None = None
    """Folder of the results. Default: runs/grid-<scale>. Finished studies in it are not run again."""
    quiet: bool = False
    """No progress bar."""

    def run(self, given: frozenset[str]) -> int:
        """Do it; the exit code."""
        scale = SCALES[self.scale]
        folder = self.out or Path("runs") / f"grid-{scale.name}"
        for study in chosen(self.only):
            begun = time.perf_counter()
            try:
                rows = self._rows(study, scale, folder)
            except KeyboardInterrupt:
                console.print("Interrupted. The same command goes on from here.")
                return INTERRUPTED
            files = StudyFiles(folder, study.name)
            found = courses(rows)
            summaries = [course.summary() for course in found]
            judged = claims(summaries)
            paths = [files.rows, *write_table(files.summary, summaries)]
            if judged:
                paths += write_table(files.claims, judgements(study.name, scale.name, judged))
            mixtures: list[MixturePoint] = []
            if study.name == "methods":
                mixtures = frank_wolfe_course(study.world, files.mixtures, iterations=min(scale.iterations, 400))
                paths += [files.mixtures, *_compare(study, found, mixtures, files)]
            if study.name.startswith("primal-dual"):
                paths += _print_search(summaries, files)
            paths += draw_study(study, scale, rows, folder, mixtures=mixtures)
            _print(study, scale, summaries, judged, time.perf_counter() - begun)
            for path in paths:
                if path.suffix != ".parquet":
                    console.print(str(path), soft_wrap=True)
        if not can_write_parquet():
            console.print(WITHOUT_PARQUET, markup=False, highlight=False, soft_wrap=True)
        return 0

    def _rows(self, study: Study, scale: Scale, folder: Path) -> list[Row]:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[at]}"),
        )
        with Progress(*columns, console=console, transient=True, disable=self.quiet) as bar:
            task = bar.add_task(study.name, total=scale.iterations_of(study), at="")

            def show(at: EngineProgress) -> None:
                bar.update(task, completed=at.iterations, at=f"{at.transitions / 1e9:.2f} G transitions")

            return run_study(study, scale, folder, progress=show)


_COLUMNS = (
    ("B", "episodes_per_batch"),
    ("η", "learning_rate"),
    ("β", "beta"),
    ("α_μ", "dual_rate"),
    ("α_t", "momentum"),
    ("b", "limit"),
)


def _compare(study: Study, found: list[Course], mixtures: list[MixturePoint], files: StudyFiles) -> list[Path]:
    """When each method comes close to the optimum, and Frank–Wolfe, which knows the dynamics; written and printed."""
    best, free = stationary_optimum(study.world, 0.0), unconstrained_violation(study.world)
    when = reaches(found, optimum=best, scale=free)
    table = Table(Column("method", no_wrap=True), title="transitions until all seeds are, and stay, within")
    for share in SHARES:
        table.add_column(f"{100 * share:g} %", justify="right")
    for course in found:
        mine = [reach.transitions for reach in when if reach.method == course.first.method]
        table.add_row(course.first.method, *(f"{1e-3 * n:,.0f} k" if math.isfinite(n) else "never" for n in mine))
    console.print(table)
    console.print(f"Of entropy {best:.4f}, and of the unconstrained {study.constraint} {free:.2f}.", highlight=False)
    for point in {point.densities: point for point in mixtures}.values():  # of each the last
        console.print(
            f"Frank–Wolfe, {point.densities} densities, known dynamics, a mixture of {point.policies} time-dependent "
            f"policies: {point.entropy:.3f} nats, {study.constraint} {point.value:.3f}",
            highlight=False,
        )
    return write_table(files.reaches, when)


def _print_search(summaries: list[Summary], files: StudyFiles) -> list[Path]:
    """Of each batch size and momentum how many settings are good, and the best; written and printed."""
    found = search_results(summaries)
    table = Table(
        title=f"settings within 5 % at the end, and the most entropy at a violation of at most {KEPT_VIOLATION:g}"
    )
    for heading in (
        "B",
        "α_t",
        "settings",
        "within 5 %",
        f"≤ {KEPT_VIOLATION:g}",
        "entropy (nats)",
        "cost",
        "α_θ",
        "α_μ",
    ):
        table.add_column(heading, justify="right")
    for one in found:
        table.add_row(
            *(str(one.episodes_per_batch), f"{one.momentum:g}", str(one.settings), str(one.close), str(one.keeping)),
            f"{number(one.entropy, 2)} ± {number(one.entropy_std, 2)}",
            f"{number(one.value, 3)} ± {number(one.value_std, 3)}",
            *(f"{one.learning_rate:g}", f"{one.dual_rate:g}"),
        )
    console.print(table)
    return write_table(files.best, found)


def _print(study: Study, scale: Scale, summaries: list[Summary], judged: list[Claim], seconds: float) -> None:
    table = Table(Column("method", no_wrap=True), title=f"{study.name}, mean ± std over {summaries[0].seeds} seeds")
    varying = [
        (heading, name) for heading, name in _COLUMNS if len({getattr(summary, name) for summary in summaries}) > 1
    ]
    for heading in (*(heading for heading, _ in varying), "entropy (nats)", study.constraint, "late std"):
        table.add_column(heading, justify="right")
    for summary in summaries:
        table.add_row(
            summary.method,
            *(f"{getattr(summary, name):g}" for _, name in varying),
            f"{number(summary.entropy, 2)} ± {number(summary.entropy_std, 2)}",
            f"{number(summary.value, 3)} ± {number(summary.value_std, 3)}",
            number(summary.late_std, 3),
        )
    console.print(table)
    if judged and scale.name == "smoke":
        console.print(f"Runs of {scale.iterations_of(study)} iterations are no evidence for or against a claim:")
    for claim in judged:
        verdict = "not judged" if scale.name == "smoke" else "holds" if claim.holds else "DOES NOT HOLD"
        console.print(f"{verdict}: {claim.text} ({claim.numbers})", highlight=False)
    console.print(f"{seconds:.0f} s", highlight=False)
