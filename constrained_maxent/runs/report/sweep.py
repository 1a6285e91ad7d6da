"""The page of a sweep: the runs in its folder beside each other, by method and seed."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from constrained_maxent.errors import InvalidRun, UnevenRuns
from constrained_maxent.evaluation.rollouts import constraint_figure
from constrained_maxent.reporting.curves import Curve, Panel, curves_figure
from constrained_maxent.reporting.page import (
    Block,
    Commands,
    Folded,
    Heading,
    Key,
    Keys,
    Output,
    Page,
    Picture,
    Section,
    Status,
    Table,
    Words,
)
from constrained_maxent.runs.comparing.comparison import compare
from constrained_maxent.runs.comparing.files import lines_of, tables
from constrained_maxent.runs.comparing.measured import OBJECTIVE, best_values
from constrained_maxent.runs.comparing.methods import named, read_runs
from constrained_maxent.runs.provenance import versions
from constrained_maxent.runs.reading import Run
from constrained_maxent.runs.report.blocks import (
    certificate_blocks,
    commands,
    figure,
    how_it_ended,
    in_words,
    limit_blocks,
    tried,
    warning_blocks,
)
from constrained_maxent.runs.run_folder import FAILURES, estimates


def sweep_page(folder: Path) -> Page:
    """The page of a sweep's folder; its runs are read, and none is evaluated.

    Args:
        folder: holds ``sweep.json``, a folder for each run, and in ``failures/`` a file for each that failed.

    Raises:
        InvalidRun: it holds neither runs nor failures, or a file is damaged.
    """
    paths = sorted(path.parent for path in folder.glob("*/config.json"))
    failures = sorted((folder / FAILURES).glob("*.json"))
    if not paths and not failures:
        raise InvalidRun(f"{folder} holds no run yet: its runs are the folders in it that have a config.json.")
    runs = read_runs([folder])[0] if paths else []
    methods = _by_method(runs)
    ended = [run for run in runs if run.summary]
    limited = [run for run in ended if run.verdicts]
    kept = [run for run in limited if all(verdict.status == "kept" for verdict in run.verdicts)]
    keys = [Key("methods", str(len(methods))), Key("runs", str(len(runs)), f"{len(ended)} ended")]
    keys += [Key("all limits kept", f"{len(kept)} of {len(limited)} runs")] if limited else []
    keys += [Key("failed", str(len(failures)), status="broken" if failures else "")]
    sections = [Section("Methods", _methods(folder, methods))] if runs else []
    sections += [Section("Runs", [_runs(methods)]), Section("Curves", _curves(methods))] if runs else []
    sections += [Section("Failures", [_failure(path) for path in failures])] if failures else []
    sections += [Section("Run by run", [_details(run) for of in methods.values() for run in of])] if runs else []
    environments = ", ".join(dict.fromkeys(run.env_id for run in runs))
    return Page(
        title=f"Sweep {folder.resolve().name}",
        subtitle=environments or "no run has begun",
        head=[Keys(keys)],
        sections=sections,
        foot=f"Report by constrained-maxent {versions()['constrained-maxent']}. A run's own page: cmaxent report RUN.",
    )


def _by_method(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs by method, called as comparisons call them."""
    groups, _ = named(runs)
    return {
        f"{env_id}, {label}" if len(groups) > 1 else label: group
        for env_id, methods in groups.items()
        for label, group in methods.items()
    }


def _methods(folder: Path, methods: Mapping[str, object]) -> list[Block]:
    """The comparison of the methods, or why there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnevenRuns)  # its notes say it
        compared = tried(lambda: compare([folder]))
    if (found := compared.found) is None:
        return [Words(f"The methods are not compared. {compared.reason}")]
    blocks: list[Block] = []
    for title, rows in tables(found):
        head, *lines = lines_of(rows, found.baseline)
        # A page is narrow: the baseline is named once, below, and intervals are on lines of their own.
        short = {f"mean - that of {found.baseline}": "difference", f"P(better than {found.baseline})": "P(better)"}
        cells = [[cell.replace(" [", "\n[") for cell in line] for line in lines]
        blocks.append(Table([short.get(heading, heading) for heading in head], cells, in_words(title)))
    words = [f"Values: {found.source}. Intervals: 95 %, stratified bootstrap over seeds."]
    if len(methods) > 1:
        words.append(f"Differences of means, and probabilities of being better, are from {found.baseline}.")
    return [*blocks, *map(Words, (*words, *found.notes))]


def _runs(methods: Mapping[str, Sequence[Run]]) -> Table:
    found = [(name, run, *best_values(run)) for name, group in methods.items() for run in group]
    every = dict.fromkeys(column for _, _, _, values in found for column in values)
    columns = [name for name in every if name == OBJECTIVE or name.endswith(constraint_figure(""))]
    rows, statuses = [], []
    for name, run, source, values in found:
        cells = [figure(values.get(column)) for column in columns]
        rows.append([name, str(run.seed), run.path.name, *cells, source, _kept(run) or how_it_ended(run)])
        statuses.append(_status(run))
    headings = ["method", "seed", "folder", *map(in_words, columns), "known from", "limits"]
    return Table(headings, rows, left=(2, len(headings) - 2, len(headings) - 1), statuses=statuses)


def _status(run: Run) -> Status:
    found = {verdict.status for verdict in run.verdicts}
    for status in ("broken", "undecided", "kept"):
        if status in found:
            return status
    return ""


def _kept(run: Run) -> str:
    verdicts = run.verdicts
    if len(verdicts) == 1:
        return verdicts[0].status
    return ", ".join(f"{verdict.name} {verdict.status}" for verdict in verdicts)


def _curves(methods: Mapping[str, Sequence[Run]]) -> list[Block]:
    """A picture for each environment: a panel of the objective and one of each constraint, a line for each run."""
    blocks: list[Block] = []
    for env_id in dict.fromkeys(run.env_id for of in methods.values() for run in of):
        metrics = {
            name: [found for run in of if run.env_id == env_id and (found := tried(run.folder.read_metrics).found)]
            for name, of in methods.items()
        }
        every = [found for of in metrics.values() for found in of if "iteration" in found]
        columns = dict.fromkeys(name for found in every for name in estimates(found))
        panels = [
            Panel(
                [curve for name, of in metrics.items() if (curve := _curve(name, of, column)) is not None],
                xlabel="iteration",
                ylabel=_axis(column),
                lines={} if column == "objective" else {"limit": 0.0},
            )
            for column in columns
        ]
        if not panels:
            blocks.append(Words(f"No curves of {env_id}: none of its runs has metrics.csv with an objective."))
            continue
        drawn = curves_figure([panels], band="runs", title=env_id)
        caption = "Sampled while training: the mean of each method's runs, and thin lines for the runs themselves."
        alt = f"Curves of objective and constraints over iterations on {env_id}, by method."
        blocks.append(Picture.of(drawn, alt=alt, caption=caption))
    return blocks


def _axis(column: str) -> str:
    return column if column == "objective" else f"{column.removeprefix('constraint_')} − limit"


def _curve(name: str, metrics: Sequence[Mapping[str, Any]], column: str) -> Curve | None:
    """The runs of a method over the iterations of all of them."""
    having = [found for found in metrics if column in found and len(found["iteration"])]
    if not having:
        return None
    x = np.unique(np.concatenate([found["iteration"] for found in having]))
    values = np.full((len(having), len(x)), np.nan)
    for row, found in zip(values, having, strict=True):
        row[np.searchsorted(x, found["iteration"])] = found[column]
    return Curve(name, x, values)


def _failure(path: Path) -> Block:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        reason, traceback = str(content["reason"]), str(content.get("traceback") or "")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidRun(f"{path} is damaged: it must be a JSON object with a reason.") from error
    return Folded(f"{path.stem}: {reason}", [Output(traceback or "No traceback was kept.")])


def _details(run: Run) -> Block:
    blocks = limit_blocks(run.verdicts)
    blocks += [Heading("Certificate"), *certificate_blocks(run)] if run.summary else []
    blocks += [Heading("Warnings"), *warning_blocks(run)]
    if to_repeat := commands(run):
        blocks += [Heading("To repeat it"), Commands(to_repeat)]
    return Folded(f"{run.path.name}: {run.env_id}, {run.agent}, seed {run.seed}, {how_it_ended(run)}", blocks)
