"""What the commands print with."""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.table import Column, Table

from constrained_maxent.startup import INTERRUPTED as INTERRUPTED

console = Console()
errors = Console(stderr=True)


def number(value: float | None, digits: int = 4) -> str:
    """A figure for a table; empty if there is none."""
    return "" if value is None or math.isnan(value) else f"{value:z.{digits}f}"


def exactly(value: float) -> str:
    """A number as it was given: none of its digits is rounded away."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def digits(limit: float) -> int:
    """Decimals of a figure that is held against a limit: at least three of the limit's own."""
    return 4 if limit == 0.0 else max(4, 2 - math.floor(math.log10(abs(limit))))


def figures_table(title: str, first: str, *headings: str) -> Table:
    """A table of a column of words and columns of figures."""
    return Table(Column(first, no_wrap=True), *(Column(heading, justify="right") for heading in headings), title=title)


def say(sentence: str) -> None:
    """A sentence as it is."""
    console.print(sentence, markup=False, highlight=False)


def print_paths(*paths: Path) -> None:
    """Files that were written, one a line, never broken."""
    for path in paths:
        console.print(str(path), soft_wrap=True)


def objective_label(given: str | None) -> str:
    """What the objective is called: the functional that ``--objective`` names, or the entropy."""
    if given is not None and not given.lstrip().startswith("{"):
        return given
    return "entropy (nats)" if given is None else str(json.loads(given).get("kind", "objective"))


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
    """SIGTERM, which schedulers send, raises ``KeyboardInterrupt`` as Ctrl-C does: neither loses anything."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not in the main thread, where signals do not arrive anyway
        yield
        return
    try:
        yield
    finally:
        if before is not None:  # None: not set from Python
            signal.signal(signal.SIGTERM, before)
