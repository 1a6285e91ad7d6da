"""How much of a state space was visited: cells of a fixed grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from constrained_maxent.errors import InvalidData, InvalidSetting
from constrained_maxent.types import IntArray, as_array, require_finite


@dataclass(frozen=True)
class Coverage:
    r"""What was visited of a grid.

    Attributes:
        share: of all the grid's cells, those with at least one state in them.
        effective: share of all cells that, visited equally often, would have the entropy of the visits' frequencies:
            :math:`\exp(-\sum_i p_i \log p_i)` cells, Hill's number of order 1. One visit on the way hardly counts.
        outside: share of the states that lie in no cell.
        n_states: how many states were looked at, those outside included.
    """

    share: float
    effective: float
    outside: float
    n_states: int


@dataclass(frozen=True)
class Grid:
    """Equal cells in a box. A cell holds its lower bounds; the last one of each coordinate its upper bound as well.

    Args:
        low, high: bounds of each coordinate, in its unit.
        cells: how many cells each coordinate is cut into.

    Raises:
        InvalidSetting: bounds and cells differ in number, a box without extent, or fewer than one cell.

    >>> Grid((0.0, -1.0), (4.0, 1.0), (4, 2)).coverage([[0.5, 0.5], [0.9, 0.1], [4.0, -1.0], [4.1, 0.0]])
    Coverage(share=0.25, effective=0.23..., outside=0.25, n_states=4)
    """

    low: Sequence[float]
    high: Sequence[float]
    cells: Sequence[int]

    def __post_init__(self) -> None:
        if not len(self.low) == len(self.high) == len(self.cells) > 0:
            raise InvalidSetting(
                f"low, high and cells must have one entry per coordinate, got {len(self.low)}, {len(self.high)} and "
                f"{len(self.cells)}."
            )
        for i, (low, high, count) in enumerate(zip(self.low, self.high, self.cells, strict=True)):
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise InvalidSetting(f"Coordinate {i} of the grid runs from {low!r} to {high!r}: take low < high.")
            if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
                raise InvalidSetting(f"cells={count!r} of coordinate {i} must be a whole number of at least 1.")

    @property
    def n_coordinates(self) -> int:
        return len(self.cells)

    @property
    def n_cells(self) -> int:
        return math.prod(self.cells)

    def cells_of(self, states: ArrayLike) -> IntArray:
        """Number of each state's cell, the last coordinate fastest, ``(n,)``; -1 outside.

        Args:
            states: ``(n, n_coordinates)``.

        Raises:
            InvalidData: states of another number of coordinates.
            NonFiniteValue: NaN or infinity among them.
        """
        rows = as_array("states", states, np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.n_coordinates:
            raise InvalidData(f"states must have shape (n, {self.n_coordinates}), got shape {rows.shape}.")
        require_finite("states", rows)
        low, high, cells = (np.asarray(bound) for bound in (self.low, self.high, self.cells))
        inside = ((rows >= low) & (rows <= high)).all(axis=1)
        digits = np.minimum(((rows[inside] - low) / (high - low) * cells).astype(np.int64), cells - 1)
        numbers = np.full(len(rows), -1, dtype=np.int64)
        numbers[inside] = np.ravel_multi_index(tuple(digits.T), tuple(self.cells))
        return numbers

    def coverage(self, states: ArrayLike) -> Coverage:
        """What states visit, ``(n, n_coordinates)``, at least one; raises what ``cells_of`` raises."""
        numbers = self.cells_of(states)
        if not len(numbers):
            raise InvalidData("Coverage is that of at least one state.")
        _, visits = np.unique(numbers[numbers >= 0], return_counts=True)
        frequencies = visits / max(visits.sum(), 1)
        effective = math.exp(-(frequencies * np.log(frequencies)).sum()) if len(visits) else 0.0
        return Coverage(
            share=len(visits) / self.n_cells,
            effective=effective / self.n_cells,
            outside=float((numbers < 0).mean()),
            n_states=len(numbers),
        )
