"""Which coordinates of an observation are the state: given on the command line, or found by looking at observations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.types import FloatArray

_ON_CIRCLE = 1e-5
"""Greatest error of cos² + sin² = 1 in float32."""


@dataclass(frozen=True)
class Coordinates:
    """The state as coordinates of an observation; a function of one observation, such as ``TrackOccupancy`` takes.

    Args:
        entries: each the number of a coordinate, from 0, or ``"i:j"``: the angle whose cosine is coordinate i and whose
            sine is j, in radians.

    Raises:
        InvalidSetting: no entries, or one that is neither.

    >>> Coordinates(("0:1", "2"))(np.array([0.0, 1.0, -3.0])).round(4)
    array([ 1.5708, -3.    ])
    """

    entries: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.entries:
            raise InvalidSetting("state must have at least one coordinate.")
        for entry in self.entries:
            parts = entry.split(":")
            if len(parts) > 2 or not all(part.isascii() and part.isdecimal() for part in parts):
                raise InvalidSetting(
                    f"state={' '.join(self.entries)}: {entry!r} must be the number of a coordinate of the observation, "
                    "from 0, or cosine:sine, the numbers of two that belong to one angle, such as 0:1."
                )

    @property
    def numbers(self) -> tuple[tuple[int, ...], ...]:
        """One or two coordinates of the observation for each of the state."""
        return tuple(tuple(int(part) for part in entry.split(":")) for entry in self.entries)

    @property
    def angles(self) -> tuple[int, ...]:
        """Which coordinates of the state are angles made of two."""
        return tuple(i for i, parts in enumerate(self.numbers) if len(parts) == 2)

    def check(self, n_coordinates: int) -> None:
        """Raise ``InvalidSetting`` if an observation of so many coordinates lacks one."""
        if max(itertools.chain(*self.numbers)) >= n_coordinates:
            raise InvalidSetting(
                f"state={' '.join(self.entries)}: the observation has only {n_coordinates} coordinates, from 0."
            )

    def __call__(self, observation: Any) -> FloatArray:
        flat = np.asarray(observation, dtype=np.float64).reshape(-1)
        return np.array(
            [
                flat[parts[0]] if len(parts) == 1 else math.atan2(flat[parts[1]], flat[parts[0]])
                for parts in self.numbers
            ]
        )


def circles(observations: FloatArray) -> list[tuple[int, int]]:
    """Pairs of coordinates that lie on the unit circle in all observations, as cosine and sine of one angle do.

    Args:
        observations: ``(n, n_coordinates)``. Coordinates that never change are in no pair.
    """
    free = np.flatnonzero(np.ptp(observations, axis=0) > 0.0).tolist()
    squares = observations**2
    found: list[tuple[int, int]] = []
    while free:
        i = free.pop(0)
        for j in free:
            if np.abs(squares[:, i] + squares[:, j] - 1.0).max() <= _ON_CIRCLE:
                found.append((i, j))
                free.remove(j)
                break
    return found


def without_redundancy(n_coordinates: int, pairs: Sequence[tuple[int, int]]) -> Coordinates:
    """All coordinates, with an angle in the place of each pair."""
    second = {j for _, j in pairs}
    pair_of = dict(pairs)
    return Coordinates(
        tuple(f"{i}:{pair_of[i]}" if i in pair_of else str(i) for i in range(n_coordinates) if i not in second)
    )
