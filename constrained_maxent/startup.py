"""Ctrl-C and SIGTERM while the command line is still being imported: nothing has begun, and there is nothing to tell.

An exception raised in the midst of imports would come out as a traceback, or as another error of a library's.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

INTERRUPTED = 130
"""Exit code of a process that Ctrl-C ended, as shells have it; also where SIGTERM asked for the same."""

_before: dict[int, Any] = {}


def begin() -> None:
    """End the process at such a signal from now on, if it is one of the command line; else do nothing."""
    # As long as Python looks for a module that it is to run, "-m" stands in the place of its path.
    program = sys.argv[0] if sys.argv else ""
    if Path(program).name == "cmaxent" or (program == "-m" and "constrained_maxent.cli" in sys.orig_argv):
        with suppress(ValueError):  # not in the main thread
            for number in (signal.SIGINT, signal.SIGTERM):
                _before[number] = signal.signal(number, _leave)


def over() -> None:
    """Put the handlers back that were there."""
    while _before:
        signal.signal(*_before.popitem())


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"cmaxent: interrupted.\n")
    os._exit(INTERRUPTED)
