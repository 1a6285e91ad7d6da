"""The warnings of a training, kept beside its results: who reads a report was not there when they were shown."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any


class KeptWarnings:
    """What was warned, once each; made by :func:`kept_warnings`.

    Attributes:
        entries: ``category`` (name of the class), ``message`` and ``iteration``, as plain data, in the order given.
        iteration: how many iterations are over, ``None`` before the agent is made: what the next entry says.
    """

    def __init__(self, known: Sequence[Mapping[str, Any]] = ()) -> None:
        self.entries: list[dict[str, Any]] = [dict(entry) for entry in known]
        self.iteration: int | None = None

    def add(self, category: type[Warning], message: str) -> None:
        """Keep a warning, unless the same was given before."""
        name = category.__name__
        if all((entry["category"], entry["message"]) != (name, message) for entry in self.entries):
            self.entries.append({"category": name, "message": message, "iteration": self.iteration})


@contextmanager
def kept_warnings(known: Sequence[Mapping[str, Any]] = ()) -> Iterator[KeptWarnings]:
    """Keeps what is warned meanwhile, and shows it as before. Nothing is kept of what filters leave out.

    Processes of their own, those of an ``AsyncVectorEnv`` for example, show their warnings themselves.

    Args:
        known: what was kept before.
    """
    kept = KeptWarnings(known)
    with warnings.catch_warnings():  # so a training is also warned of what an earlier one in this process was
        before = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **rest: Any) -> None:
            kept.add(category, str(message))
            before(message, category, *place, **rest)

        warnings.showwarning = show
        yield kept
