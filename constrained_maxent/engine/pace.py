"""How many batches the engine does at a time: as many as take a given time, which is measured."""

from __future__ import annotations

CHUNK_SECONDS = 0.3
"""What a chunk is to take [s]: for so long Ctrl-C may have to wait, and progress stands still."""

_LEAST_WORK = 4_000  # transitions and cells of a run in one chunk: to begin and end it costs as much as some hundred
_MOST_GROWTH, _MOST_SHRINKAGE = 8.0, 32.0  # from one chunk to the next; the first may have waited for the compiler


class Pace:
    """The length of the next chunk. It begins with the shortest that is worth its overhead.

    Transitions alone do not tell what a batch takes: on large state spaces most of it goes into the cells' logarithms.

    Args:
        work: of one batch of one run, on average, in transitions and cells.
    """

    def __init__(self, work: float) -> None:
        self._least = max(1, int(_LEAST_WORK / work))
        self.iterations = self._least

    def observe(self, seconds: float) -> None:
        """A chunk of ``iterations`` batches took so long."""
        factor = CHUNK_SECONDS / max(seconds, 1e-9)
        factor = min(max(factor, 1.0 / _MOST_SHRINKAGE), _MOST_GROWTH)
        self.iterations = max(self._least, int(self.iterations * factor))
