"""Coordinates of an observation as the state, angles made of two of them, and which of them say nothing new."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.spaces import as_row
from constrained_maxent.types import FloatArray

_ON_CIRCLE = 1e-5  # greatest error of cos² + sin² = 1 in float32


def is_coordinate(entry: str) -> bool:
    """Whether this names a coordinate, or two that belong to one angle."""
    parts = entry.split(":")
    return len(parts) <= 2 and all(part.isascii() and part.isdecimal() for part in parts)


@dataclass(frozen=True)
class Coordinates:
    """The state as coordinates of an observation; a function of one observation, such as ``TrackOccupancy`` takes.

    Args:
        entries: each the number of a coordinate, from 0, or ``"i:j"``: the angle whose cosine is coordinate i and whose
            sine is j, in radians.
        space: of the observation, where that is no array.

    Raises:
        InvalidSetting: no entries, or one that is neither.

    >>> Coordinates(("0:1", "2"))(np.array([0.0, 1.0, -3.0])).round(4)
    array([ 1.5708, -3.    ])
    """

    entries: tuple[str, ...]
    space: gym.Space[Any] | None = None

    def __post_init__(self) -> None:
        if not self.entries:
            raise InvalidSetting("state must have at least one coordinate.")
        for entry in self.entries:
            if not is_coordinate(entry):
                raise InvalidSetting(
                    f"state={' '.join(self.entries)}: {entry!r} must be the number of a coordinate of the observation, "
                    "from 0, or cosine:sine, the numbers of two that belong to one angle, such as 0:1."
                )

    @property
    def numbers(self) -> list[list[int]]:
        """One or two coordinates of the observation for each of the state."""
        return [[int(part) for part in entry.split(":")] for entry in self.entries]

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
        row = observation if self.space is None else as_row(self.space, observation)
        flat = np.asarray(row, dtype=np.float64).reshape(-1)
        return np.array([flat[i] if not j else math.atan2(flat[j[0]], flat[i]) for i, *j in self.numbers])


def circles(observations: FloatArray) -> list[tuple[int, int]]:
    """Pairs of coordinates on the unit circle in all ``(n, n_coordinates)``, as cosine and sine of one angle are.

    Coordinates that never change are in no pair.
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


def copies(observations: FloatArray) -> list[tuple[int, int]]:
    """Coordinates that change, and are in all ``(n, n_coordinates)`` what an earlier one is: it and the earlier one."""
    first: dict[bytes, int] = {}
    found = []
    for i in np.flatnonzero(np.ptp(observations, axis=0) > 0.0).tolist():
        earlier = first.setdefault(observations[:, i].tobytes(), i)
        if earlier != i:
            found.append((i, earlier))
    return found


def without_redundancy(
    n_coordinates: int, pairs: Sequence[tuple[int, int]], left_out: Sequence[int] = ()
) -> Coordinates:
    """All coordinates but those to be left out, with an angle in the place of each pair."""
    sine_of = dict(pairs)
    gone = {*sine_of.values(), *left_out}
    left = (i for i in range(n_coordinates) if i not in gone)
    return Coordinates(tuple(f"{i}:{sine_of[i]}" if i in sine_of else str(i) for i in left))
