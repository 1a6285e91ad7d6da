"""A comparison as files: CSV, Markdown, LaTeX and a figure."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from constrained_maxent.atomic import replacing, write_text
from constrained_maxent.evaluation.statistics import Estimate
from constrained_maxent.runs.comparing.comparison import Comparison, LearningCurve, Row

_UNITS = {"steps": "steps in the environment", "seconds": "seconds"}
_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "λ": r"$\lambda$",
}


def lines_of(rows: Sequence[Row], baseline: str) -> list[list[str]]:
    """The table of these rows in words, its headings first, without columns that are empty."""
    headings = ["method", "seeds", "mean", "interquartile mean", "limit kept"]
    headings += [f"mean - that of {baseline}", f"P(better than {baseline})"]
    entries = [_entries(row) for row in rows]
    columns = [i for i in range(len(headings)) if any(line[i] for line in entries)]
    return [[line[i] for i in columns] for line in (headings, *entries)]


def _entries(row: Row) -> list[str]:
    kept = "" if row.kept is None else f"{row.kept:.0%}"
    difference = f"{_text(row.difference)}{', paired' if row.paired else ''}"
    return [row.method, str(row.n_seeds), _text(row.mean), _text(row.iqm), kept, difference, _text(row.improvement)]


def tables(comparison: Comparison) -> list[tuple[str, list[Row]]]:
    """The rows of each quantity in each environment, with a title."""
    grouped = groupby(comparison.rows, key=lambda row: (row.environment, row.quantity))
    return [(f"{environment}: {quantity}", list(rows)) for (environment, quantity), rows in grouped]


def write_comparison(comparison: Comparison, folder: Path) -> list[Path]:
    """Write a comparison into a folder, which is made, each file whole or not at all; the paths.

    ``comparison.csv`` has a line for each row with all its digits, ``comparison-curves.csv`` one for each point of the
    curves, ``comparison.md`` and ``comparison.tex`` (for the package booktabs) the tables, ``comparison.png`` the
    curves.
    """
    # Imported late: Matplotlib takes a second.
    from constrained_maxent.reporting.style import save_figure

    folder.mkdir(parents=True, exist_ok=True)
    paths = [_write_csv(folder / "comparison.csv", map(_record, comparison.rows))]
    paths.append(_write(folder / "comparison.md", markdown(comparison)))
    paths.append(_write(folder / "comparison.tex", latex(comparison)))
    if comparison.curves:
        points = (point for curve in comparison.curves for point in _points(curve, comparison.over))
        paths.append(_write_csv(folder / "comparison-curves.csv", points))
        paths.append(save_figure(_figure(comparison), folder / "comparison.png"))
    return paths


def markdown(comparison: Comparison) -> str:
    """The tables and the notes."""
    lines = [f"Values: {comparison.source}. Intervals: 95 %, stratified bootstrap over seeds.", ""]
    for title, rows in tables(comparison):
        cells = lines_of(rows, comparison.baseline)
        first, *others = ["| " + " | ".join(map(_markdown, line)) + " |" for line in cells]
        lines += [f"**{_markdown(title)}**", "", first, "| --- " + "| ---: " * (len(cells[0]) - 1) + "|", *others, ""]
    return "\n".join([*lines, *(f"- {_markdown(note)}" for note in comparison.notes)]).rstrip("\n") + "\n"


def latex(comparison: Comparison) -> str:
    """A ``table`` of all quantities, with rules of booktabs; what its figures are stands in its caption."""
    head, *every = lines_of(comparison.rows, comparison.baseline)
    lines = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}", r"\toprule"]
    lines.append(" & ".join(map(_latex, head)) + r" \\")
    entries = iter(every)
    for title, rows in tables(comparison):
        lines += [r"\midrule", rf"\multicolumn{{{len(head)}}}{{l}}{{\emph{{{_latex(title)}}}}} \\"]
        lines += [" & ".join(map(_latex, entry)) + r" \\" for _, entry in zip(rows, entries, strict=False)]
    caption = f"Values: {_latex(comparison.source)}. Intervals: 95\\,\\%, stratified bootstrap over seeds."
    lines += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{caption}}}", r"\end{table}"]
    return "\n".join([*(f"% {note}" for note in comparison.notes), *lines]) + "\n"


def _text(estimate: Estimate | None) -> str:
    return "" if estimate is None else str(estimate)


def _markdown(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*")


def _latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text)


def _record(row: Row) -> dict[str, Any]:
    record: dict[str, Any] = {"environment": row.environment, "quantity": row.quantity, "method": row.method}
    record["seeds"] = row.n_seeds
    for name in ("mean", "iqm", "difference", "improvement"):
        record |= _numbers(name, getattr(row, name))
    return {**record, "paired": row.paired, "kept": row.kept}


def _numbers(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    value = low = high = None
    if estimate is not None:
        value = estimate.mean
        if estimate.low < estimate.high:
            low, high = estimate.low, estimate.high
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def _points(curve: LearningCurve, over: str) -> Iterable[dict[str, Any]]:
    for i, x in enumerate(curve.x.tolist()):
        point: dict[str, Any] = {"environment": curve.environment, "quantity": curve.quantity, "method": curve.method}
        point |= {"seeds": len(curve.values), over: x}
        for name, columns in (("mean", curve.mean), ("iqm", curve.iqm)):
            for end, column in zip(("", "_low", "_high"), columns, strict=True):
                point[name + end] = None if column is None else float(column[i])
        yield point


def _write_csv(path: Path, records: Iterable[dict[str, Any]]) -> Path:
    lines = list(records)
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    return path


def _write(path: Path, text: str) -> Path:
    write_text(path, text)
    return path


def _figure(comparison: Comparison) -> Any:
    """Interquartile means over steps or seconds: a row for each environment, a panel for each quantity."""
    from constrained_maxent.evaluation.rollouts import constraint_figure
    from constrained_maxent.reporting.curves import Curve, Panel, curves_figure

    rows = []
    for environment, of_environment in groupby(comparison.curves, key=lambda curve: curve.environment):
        panels: list[Panel] = []
        for quantity, of_quantity in groupby(of_environment, key=lambda curve: curve.quantity):
            drawn = []
            for curve in of_quantity:
                middle, low, high = curve.iqm
                bounds = None if low is None or high is None else (low, high)
                drawn.append(Curve(curve.method, curve.x, curve.values, middle, bounds))
            lines = {"limit": 0.0} if quantity.endswith(constraint_figure("")) else {}
            title = environment if not panels else ""
            panels.append(Panel(drawn, title, _UNITS[comparison.over], quantity, lines))
        rows.append(panels)
    width = max(map(len, rows))
    return curves_figure(
        [[*panels, *(Panel([]) for _ in range(width - len(panels)))] for panels in rows],
        title=f"Interquartile means over seeds, 95 % bootstrap intervals\n{comparison.curve_source}",
    )
