"""Ctrl-C, SIGTERM and SIGHUP; and what they do while the command line is still being imported.

Nothing has begun then, and there is nothing to tell: an exception raised in the midst of imports would come out as a
traceback, or as another error of a library's.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

INTERRUPTED = 130
"""Exit code of a process that Ctrl-C ended, as shells have it; also where SIGTERM asked for the same."""

_before: dict[int, Any] = {}


@contextmanager
def handling(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Ctrl-C, SIGTERM and the end of the terminal call ``handler`` meanwhile; outside the main thread, nothing does."""
    before = _handled_by(handler)
    try:
        yield
    finally:
        _put_back(before)


def begin() -> None:
    """End the process at such a signal from now on, if it is one of the command line; else do nothing."""
    # As long as Python looks for a module that it is to run, "-m" stands in the place of its path.
    program = sys.argv[0] if sys.argv else ""
    if Path(program).name == "cmaxent" or (program == "-m" and "constrained_maxent.cli" in sys.orig_argv):
        _before.update(_handled_by(_leave))


def over() -> None:
    """Put the handlers back that were there."""
    _put_back(_before)


def _handled_by(handler: Callable[[int, FrameType | None], None]) -> dict[int, Any]:
    before: dict[int, Any] = {}
    with suppress(ValueError):  # not in the main thread, where no signals arrive
        for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
            # What nohup starts outlives its terminal.
            if number not in before and (signal.getsignal(number) is not signal.SIG_IGN or number == signal.SIGINT):
                before[number] = signal.signal(number, handler)
    return before


def _put_back(before: dict[int, Any]) -> None:
    while before:
        number, handler = before.popitem()
        if handler is not None:  # None: not set from Python
            signal.signal(number, handler)


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"cmaxent: interrupted.\n")
    os._exit(INTERRUPTED)
