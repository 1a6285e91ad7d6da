"""What ``cmaxent reproduce grid``, ``control``, ``agents``, ``mepol`` and ``explore-then-learn`` do and print."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, get_args

import polars as pl
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from constrained_maxent.cli.console import console, figures_table, number, print_paths, print_table
from constrained_maxent.engine import EngineProgress
from constrained_maxent.evaluation import Estimate, over_seeds
from constrained_maxent.reproduction import (
    AgentStudyName,
    Effort,
    GridStudyName,
    MepolTaskName,
    WorldName,
    agents,
    control,
)
from constrained_maxent.reproduction.explore_then_learn import figures as learning_figures
from constrained_maxent.reproduction.explore_then_learn import study as learning
from constrained_maxent.reproduction.explore_then_learn.tasks import WORLDS
from constrained_maxent.reproduction.grid import conventions
from constrained_maxent.reproduction.grid.claims import Claim, claims, claims_table
from constrained_maxent.reproduction.grid.figures import draw_conventions, draw_study
from constrained_maxent.reproduction.grid.run import StudyFiles, frank_wolfe_mixtures, run_study
from constrained_maxent.reproduction.grid.studies import STUDIES, GridStudy
from constrained_maxent.reproduction.grid.tables import (
    KEPT_VIOLATION,
    SHARES,
    search_table,
    summarize,
    transitions_until_close,
)
from constrained_maxent.reproduction.grid.worlds import stationary_optimum, unconstrained_violation
from constrained_maxent.reproduction.mepol import figures as mepol_figures
from constrained_maxent.reproduction.mepol import study as mepol
from constrained_maxent.reproduction.mepol.tasks import TASKS
from constrained_maxent.reproduction.tables import write_table
from constrained_maxent.runs.run_folder import require_folder

MIXTURE_ITERATIONS = 400
"""Most iterations of Frank–Wolfe."""

_SETTING = {
    "episodes_per_batch": "B",
    "learning_rate": "η",
    "beta": "β",
    "dual_rate": "α_μ",
    "momentum": "α_t",
    "limit": "b",
}
"""Headings of the columns that tell settings apart."""


def reproduce_grid(names: Iterable[str], effort: Effort, folder: Path, *, quiet: bool) -> None:
    """Run the studies of these names, all if there are none, write and print what came out."""
    for name in dict.fromkeys(names) or get_args(GridStudyName):
        if name == "conventions":
            _reproduce_conventions(effort, folder / name, quiet=quiet)
            continue
        study, begun = STUDIES[name].within(effort), time.perf_counter()
        rows = _rows(study, folder, quiet=quiet)
        files, summaries = StudyFiles(folder, study.name), summarize(rows)
        paths = [files.rows, *write_table(files.summary, summaries)]
        if found := claims(summaries):
            paths += write_table(files.claims, claims_table(study.name, effort, found))
        if study.name.startswith("methods"):
            paths += _print_transitions(study, rows, files)
        if study.name == "methods":
            paths += _print_mixtures(study, files)
        if study.name.startswith("primal-dual"):
            paths += _print_search(summaries, files)
        paths += draw_study(study, effort, rows, folder)
        _print(study, summaries)
        _print_claims(study, effort, found)
        console.print(f"{time.perf_counter() - begun:.0f} s", highlight=False)
        print_paths(*(path for path in paths if path.suffix != ".parquet"))


def _reproduce_conventions(effort: Effort, folder: Path, *, quiet: bool) -> None:
    """What the claims depend on: all conventions, each with its studies in a folder of its own."""
    begun = time.perf_counter()
    figure_1, summaries, lines = {}, [], []
    for case in conventions.CASES:
        studies = [study.within(effort) for study in conventions.studies_of(case)]
        rows = [_rows(study, folder / case, quiet=quiet) for study in studies]
        table, found = conventions.judge(case, rows, folder / case)
        figure_1[case] = rows[0]
        summaries.append(table)
        lines.append(claims_table(case, effort, found).rename({"study": "conventions"}))
        console.print(f"{case}:", highlight=False)
        _print_claims(studies[0], effort, found)
    summary, _ = write_table(folder / "summary.csv", pl.concat(summaries))
    judged, _ = write_table(folder / "claims.csv", pl.concat(lines))
    figure = draw_conventions(folder / "fig1.png", {case: figure_1[case] for case in conventions.DRAWN})
    console.print(f"{time.perf_counter() - begun:.0f} s", highlight=False)
    print_paths(summary, judged, figure)


def _rows(study: GridStudy, folder: Path, *, quiet: bool) -> pl.DataFrame:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), TextColumn("{task.fields[at]}"))
    with Progress(*columns, console=console, transient=True, disable=quiet) as bar:
        task = bar.add_task(study.name, total=study.iterations, at="")

        def show(at: EngineProgress) -> None:
            bar.update(task, completed=at.iterations, at=f"{at.transitions / 1e9:.2f} G transitions")

        return run_study(study, folder, progress=show)


def _print_transitions(study: GridStudy, rows: pl.DataFrame, files: StudyFiles) -> list[Path]:
    """When each method comes close to the optimum; written and printed."""
    best, free = stationary_optimum(study.world, 0.0), unconstrained_violation(study.world)
    when = transitions_until_close(rows, optimum=best, violation=free)
    title = "transitions until all seeds are, and stay, within"
    table = figures_table(title, "method", *(f"{100 * share:g} %" for share in SHARES))
    for method, counts in when.group_by("method", maintain_order=True):
        table.add_row(*method, *(f"{1e-3 * n:,.0f} k" if math.isfinite(n) else "never" for n in counts["transitions"]))
    print_table(table)
    console.print(f"Of entropy {best:.4f}, and of the unconstrained {study.constraint} {free:.2f}.", highlight=False)
    return write_table(files.transitions, when)


def _print_mixtures(study: GridStudy, files: StudyFiles) -> list[Path]:
    """Frank–Wolfe, which knows the dynamics; written and printed."""
    iterations = min(study.iterations, MIXTURE_ITERATIONS)
    last = frank_wolfe_mixtures(study.world, files.mixtures, iterations=iterations).row(-1, named=True)
    console.print(
        f"Frank–Wolfe, known dynamics, a mixture of {last['policies']} time-dependent policies: {last['entropy']:.3f} "
        f"nats, {study.constraint} {last['value']:.3f}",
        highlight=False,
    )
    return [files.mixtures]


def _print_search(summaries: pl.DataFrame, files: StudyFiles) -> list[Path]:
    """How many settings of each batch size and momentum are good, and the best; written and printed."""
    found = search_table(summaries)
    kept = f"{KEPT_VIOLATION:g}"
    title = f"settings within 5 % at the end, and the most entropy at a violation of at most {kept}"
    headings = ("α_t", "settings", "within 5 %", f"≤ {kept}", "entropy (nats)", "cost", "α_θ", "α_μ")
    table = figures_table(title, "B", *headings)
    for line in found.rows(named=True):
        counts = ("episodes_per_batch", "momentum", "settings", "close", "keeping")
        table.add_row(
            *(f"{line[name]:g}" for name in counts),
            *(_over_seeds(line, "entropy", 2), _over_seeds(line, "value", 3)),
            *(f"{line[name]:g}" for name in ("learning_rate", "dual_rate")),
        )
    print_table(table)
    return write_table(files.best, found)


def _print(study: GridStudy, summaries: pl.DataFrame) -> None:
    varying = [name for name in _SETTING if summaries[name].n_unique() > 1]
    headings = [*(_SETTING[name] for name in varying), "entropy (nats)", study.constraint, "late std"]
    table = figures_table(f"{study.name}, mean ± std over {study.seeds} seeds", "method", *headings)
    for line in summaries.rows(named=True):
        table.add_row(
            line["method"],
            *(f"{line[name]:g}" for name in varying),
            *(_over_seeds(line, "entropy", 2), _over_seeds(line, "value", 3)),
            number(line["late_std"], 3),
        )
    print_table(table)


def _over_seeds(line: dict[str, float], column: str, digits: int) -> str:
    return f"{number(line[column], digits)} ± {number(line[f'{column}_std'], digits)}"


def _print_claims(study: GridStudy, effort: Effort, found: Sequence[Claim]) -> None:
    if found and effort == "smoke":
        console.print(f"Runs of {study.iterations} iterations are no evidence for or against a claim:")
    for claim in found:
        verdict = "not judged" if effort == "smoke" else "holds" if claim.holds else "DOES NOT HOLD"
        console.print(f"{verdict}: {claim.text} ({claim.numbers})", highlight=False)


def reproduce_control(
    names: Iterable[str], out: Path, *, seeds: int | None, iterations: int | None, workers: int, quiet: bool
) -> None:
    """Run the studies of these names, all if there are none, write and print what came out."""
    require_folder(out)
    for name in dict.fromkeys(names) or control.STUDIES:
        study, begun, folder = control.STUDIES[name], time.perf_counter(), out / name
        results = control.run_study(
            study,
            folder,
            seeds=seeds,
            iterations=iterations,
            workers=workers,
            progress=_said(quiet=quiet),
        )
        n_seeds = len(results[0].evaluations)
        expert = control.expert_figures(study, seeds=n_seeds)
        table, _ = write_table(out / f"{name}.csv", control.control_table(study, results, expert))
        figure = control.draw_curves(out / f"{name}.png", study, folder, seeds=n_seeds)
        print_table(_control_figures(study.name, results, expert))
        console.print(f"{time.perf_counter() - begun:.0f} s", highlight=False)
        print_paths(table, figure)


def _control_figures(name: str, results: Sequence[control.CaseResult], expert: Sequence[dict[str, Estimate]]) -> Table:
    seeds = len(results[0].evaluations)
    columns = {result.case.label: result.figures() for result in results}
    if expert:
        columns[control.EXPERT] = over_seeds(expert)
    table = figures_table(f"{name}, fresh episodes, mean of {seeds} seeds with its 95 % interval", "", *columns)
    for figure in dict.fromkeys(figure for figures in columns.values() for figure in figures):
        table.add_row(figure, *(str(figures.get(figure, "")) for figures in columns.values()))
    table.add_row("training, longest (s)", *(f"{max(result.seconds):.0f}" for result in results))
    return table


def reproduce_agents(
    names: Iterable[AgentStudyName], out: Path, *, seeds: int | None, workers: int, quiet: bool
) -> None:
    """Run the studies of these names, all if there are none, write and print what came out."""
    require_folder(out)
    for name in dict.fromkeys(names) or agents.STUDIES:
        begun = time.perf_counter()
        rows = agents.run_study(
            name,
            out / name,
            seeds=seeds,
            workers=workers,
            progress=_said(quiet=quiet),
        )
        path, _ = write_table(out / f"{name}.csv", rows)
        _print_spreads(f"{name}, last policies: mean, least, most", rows.drop("study"))
        console.print(f"{time.perf_counter() - begun:.0f} s", highlight=False)
        print_paths(path)


def reproduce_mepol(
    names: Iterable[MepolTaskName], out: Path, *, seeds: int | None, batches: int | None, workers: int, quiet: bool
) -> None:
    """Train on the tasks of these names, all if there are none, write and print what came out."""
    require_folder(out)
    for name in dict.fromkeys(names) or TASKS:
        begun = time.perf_counter()
        rows = mepol.run_study(
            name,
            out / name,
            seeds=seeds,
            batches=batches,
            workers=workers,
            progress=_said(quiet=quiet),
        )
        path, _ = write_table(out / f"{name}.csv", rows)
        figure = mepol_figures.draw_curves(out / f"{name}.png", name, rows)
        ends = rows.drop("task").group_by("case", "seed", maintain_order=True).last()
        _print_spreads(f"{name}, at the end: mean, least, most", ends)
        console.print(f"{time.perf_counter() - begun:.0f} s", highlight=False)
        print_paths(path, figure)


def reproduce_explore_then_learn(
    names: Iterable[WorldName], out: Path, *, seeds: int, workers: int, quiet: bool, **how: Any
) -> None:
    """Gather and learn in the environments of these names, all if there are none, write and print what came out."""
    require_folder(out)
    for name in dict.fromkeys(names) or WORLDS:
        begun = time.perf_counter()
        rows = learning.run_study(name, out / name, seeds=seeds, workers=workers, progress=_said(quiet=quiet), **how)
        summaries = learning.summarize(rows)
        path, _ = write_table(out / f"{name}.csv", rows)
        summary, _ = write_table(out / f"{name}-summary.csv", learning.summary_table(summaries))
        figure = learning_figures.draw(out / f"{name}.png", WORLDS[name], summaries)
        table = figures_table(f"{name}, mean of {seeds} seeds with its 95 % interval", "", *summaries)
        for figure_name in learning.shown(WORLDS[name]):
            table.add_row(figure_name, *(str(figures.get(figure_name, "")) for figures in summaries.values()))
        print_table(table)
        console.print(f"{time.perf_counter() - begun:.0f} s", highlight=False)
        print_paths(path, summary, figure)


def _said(*, quiet: bool) -> Callable[[str], None]:
    """Tells which runs are done."""
    return lambda label: None if quiet else console.print(f"done: {label}", highlight=False)


def _print_spreads(title: str, rows: pl.DataFrame) -> None:
    """What was measured, over the seeds of each case."""
    measured = [column for column in rows.columns if column not in ("case", "seed")]
    table = figures_table(title, "case", "seeds", *measured)
    for (case,), part in rows.group_by("case", maintain_order=True):
        cells = (part[column].drop_nulls() for column in measured)
        table.add_row(str(case), str(len(part)), *(_spread(list(cell)) for cell in cells))
    print_table(table)


def _spread(values: Sequence[float]) -> str:
    if not values:
        return ""
    return f"{number(sum(values) / len(values), 3)} ({number(min(values), 3)}, {number(max(values), 3)})"
