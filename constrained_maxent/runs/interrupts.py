"""Ctrl-C and SIGTERM while an agent learns: it stops where nothing is lost, and soon."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from constrained_maxent.startup import handling

PATIENCE = 1.0
"""Seconds that an iteration is waited for, once somebody asked to stop."""


class Interrupts:
    """What Ctrl-C and SIGTERM do; made by :func:`stop_on_request`.

    The first one asks to stop after the iteration under way. Where that takes longer than ``PATIENCE``, and at the
    second one, ``KeyboardInterrupt`` is raised in its midst: there may be no end, where episodes never end.

    Attributes:
        asked: whether somebody asked.
    """

    def __init__(self) -> None:
        self.asked = False
        self._is_iterating = False
        self._is_patience_over = False
        self._timer: threading.Timer | None = None

    @contextmanager
    def within_iterations(self, *, is_iterating: bool = True) -> Iterator[None]:
        """Code, of an agent and an environment, that is not waited for; or a part of it that is, as it writes files."""
        before, self._is_iterating = self._is_iterating, is_iterating
        try:
            yield
        finally:
            self._is_iterating = before

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The signal's handler."""
        if self._is_patience_over:  # this is not another one, but the timer's
            self._is_patience_over = False
            if self._is_iterating:
                raise KeyboardInterrupt
        elif self.asked:
            raise KeyboardInterrupt
        else:
            self.asked = True
            self._timer = threading.Timer(PATIENCE, self._lose_patience, (number, threading.get_ident()))
            self._timer.daemon = True
            self._timer.start()

    def _lose_patience(self, number: int, thread: int) -> None:
        self._is_patience_over = True
        signal.pthread_kill(thread, number)  # also wakes a thread that sleeps

    def stop_waiting(self) -> None:
        """The iterations are over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()


@contextmanager
def stop_on_request() -> Iterator[Interrupts]:
    """Handles Ctrl-C and the like meanwhile."""
    interrupts = Interrupts()
    with handling(interrupts.handle):
        try:
            yield interrupts
        finally:
            interrupts.stop_waiting()
