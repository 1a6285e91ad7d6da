"""What the commands print with."""

from __future__ import annotations

from rich.console import Console

INTERRUPTED = 130
"""Exit code of a process that Ctrl-C ended, as shells have it."""

console = Console()
errors = Console(stderr=True)


def number(value: float | None, digits: int = 4) -> str:
    """A figure for a table; empty if there is none."""
    return "" if value is None else f"{value:z.{digits}f}"
