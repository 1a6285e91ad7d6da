"""What the commands print with."""

from __future__ import annotations

import json
import math
import signal
import sys
import textwrap
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table

from constrained_maxent.startup import handling

if TYPE_CHECKING:
    from constrained_maxent.evaluation import RolloutEvaluation

_LARGEST = 1e9

_ENDLESS = 10_000
_LONGEST_WORD = 20
"""Columns of a terminal: of one that no table fills, and what a word may take before it is broken."""

# Names of the user's may hold brackets and colons.
console = Console(markup=False, emoji=False)
errors = Console(stderr=True, markup=False, emoji=False)


def number(value: float | None, digits: int = 4) -> str:
    """A figure for a table; empty if there is none. What is too long to be read in digits has a power of ten."""
    if value is None or math.isnan(value):
        return ""
    return f"{value:z.{digits}f}" if abs(value) < _LARGEST or math.isinf(value) else f"{value:.{digits}e}"


def digits(limit: float) -> int:
    """Decimals of a figure that is held against a limit: at least three of the limit's own."""
    return 4 if limit == 0.0 else max(4, 2 - math.floor(math.log10(abs(limit))))


def figures_table(title: str, first: str, *headings: str) -> Table:
    """A table of a column of words and columns of figures."""
    return Table(first, *(Column(heading, justify="right") for heading in headings), title=title)


def print_table(table: Table) -> None:
    """Print a table whose figures are never cut: words wrap, and where that is not enough, it is one figure a line."""
    natural = Measurement.get(console, console.options.update(max_width=_ENDLESS), table).maximum
    if natural > console.width:
        for column in table.columns:
            if column.justify == "right":
                longest = max((cell_len(str(text)) for text in [*column.cells, *str(column.header).split()]), default=1)
                column.header, column.no_wrap = "\n".join(textwrap.wrap(str(column.header), longest)), True
                column.min_width = longest
            else:
                words = (word for text in [column.header, *column.cells] for word in str(text).split())
                column.min_width = min(max(map(cell_len, words), default=0), _LONGEST_WORD)
            column.overflow = "fold"
        least = sum(column.min_width or 0 for column in table.columns) + 3 * len(table.columns) + 1
        if least > console.width:
            _print_lines(table)
            return
    console.print(table)


def _print_lines(table: Table) -> None:
    """A row's name, and below it each of its figures with its heading."""

    def show(text: str, style: str = "") -> None:
        console.print(text, style=style, highlight=False, soft_wrap=True)

    show(str(table.title), "italic")
    headings = [" ".join(str(column.header).split()) for column in table.columns[1:]]
    for name, *figures in zip(*(column.cells for column in table.columns), strict=True):
        show(str(name), "bold")
        for heading, figure in zip(headings, figures, strict=True):
            if figure:
                label = f"  {heading}:" if heading and len(headings) > 1 else ""
                is_long = not label or cell_len(f"{label} {figure}") > console.width
                show(f"{label}\n    {figure}".lstrip("\n") if is_long else f"{label} {figure}")


def say(sentence: str) -> None:
    """A sentence as it is."""
    console.print(sentence, highlight=False)


def print_paths(*paths: Path) -> None:
    """Files that were written, one a line, never broken."""
    for path in paths:
        console.print(str(path), soft_wrap=True)


def objective_label(given: str | None) -> str:
    """What the objective is called: the functional that ``--objective`` names, or the entropy."""
    if given is not None and not given.lstrip().startswith("{"):
        return given
    return "entropy (nats)" if given is None else str(json.loads(given).get("kind", "objective"))


def print_evaluation(title: str, found: RolloutEvaluation) -> None:
    """What episodes show: a table, whether limits are kept, and which cells their entropies are of."""
    table = figures_table(title, "", f"{found.n_episodes} episodes")
    for name, estimate in found.figures().items():
        table.add_row(name, str(estimate))
    print_table(table)
    for words in (*map(str, found.limits), *cells_in_words(found.cell_sizes)):
        say(words)


def cells_in_words(cell_sizes: Mapping[str, Sequence[float]]) -> list[str]:
    """Which cells the entropies of densities are those of, a line for each term."""
    lines = []
    for name, sizes in cell_sizes.items():
        shown = " × ".join(f"{size:.3g}" for size in sizes[:12]) + (" × …" if len(sizes) > 12 else "")
        lines.append(
            f"{name}: the entropy of cells of {shown}, in the units of state and action. How small they are says what "
            'a step of life is worth where episodes end early: --objective \'{"kind": "Entropy", "resolution": 0.01}\'.'
        )
    return lines


@contextmanager
def terminating_as_interrupt() -> Iterator[None]:
    """SIGTERM, which schedulers send, and the end of a terminal are as Ctrl-C: neither loses anything."""
    before, timers = sys.unraisablehook, []

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def again(lost: Any) -> None:
        """What is raised within a callback of somebody's, such as JAX's of the garbage collector, goes no further."""
        if lost.exc_type is not KeyboardInterrupt:
            before(lost)
            return
        timers.append(threading.Timer(0.1, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)))
        timers[-1].daemon = True
        timers[-1].start()

    sys.unraisablehook = again
    try:
        with handling(interrupt):
            try:
                yield
            finally:
                for timer in timers:
                    timer.cancel()
    finally:
        sys.unraisablehook = before


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Warnings of this package say what is wrong and what to do: the line of code that gives them is no help."""
    before = warnings.formatwarning

    def shown(message: Warning | str, category: type[Warning], *place: Any, **line: Any) -> str:
        if category.__module__.startswith("constrained_maxent"):
            return f"cmaxent: {category.__name__}: {message}\n"
        return before(message, category, *place, **line)

    warnings.formatwarning = shown
    try:
        yield
    finally:
        warnings.formatwarning = before
