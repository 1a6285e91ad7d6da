"""The contract of a functional F(λ): a value, and the derivative ∂F/∂λ at any point."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import ArrayLike

from constrained_maxent.errors import InvalidData, InvalidSetting, UnsupportedFunctional
from constrained_maxent.functionals.terms import EngineTerm
from constrained_maxent.types import FloatArray, Measure, Points, as_array, is_number, require_finite

CELL_SMOOTHING = 1e-6
"""Usual σ where λ is the mass of cells: the pseudo-reward of a cell never seen is 13.8 nats."""

DENSITY_SMOOTHING = 1e-300
"""Usual σ where λ is a density. How large that is depends on units, so that σ may only keep logarithms finite: where λ
underflows, they are 690 nats."""


@dataclass(frozen=True, eq=False)
class Functional(ABC):
    r"""A function :math:`F` of the occupancy measure :math:`\lambda`.

    Subclasses implement ``_value`` and ``_derivative`` once; finite tables, sparse counts and samples of a continuous
    density all reach them as a :class:`~constrained_maxent.types.Measure`.

    Args:
        limit: as a constraint the functional reads F(λ) ≤ ``limit``, in the units of F; an objective does not use it.

    Raises:
        InvalidSetting: a limit that is not finite.
    """

    _: KW_ONLY
    limit: float = 0.0

    def __post_init__(self) -> None:
        if not (is_number(self.limit) and np.isfinite(self.limit)):
            raise InvalidSetting(f"limit={self.limit!r} must be a finite number.")

    def value(self, occupancy: Measure | ArrayLike) -> float:
        """:math:`F(λ)`.

        Args:
            occupancy: a measure, or a table λ(s, a) of shape ``(n_states, n_actions)``.
        """
        return float(self._value(as_measure(occupancy)))

    def derivative(self, occupancy: Measure | ArrayLike, at: Points | None = None) -> FloatArray:
        r""":math:`\partial F/\partial\lambda(s,a)` of the measure.

        Args:
            occupancy: a measure, or a table λ(s, a) of shape ``(n_states, n_actions)``.
            at: where; by default the measure's own points, so that a table gives a table.

        Returns:
            float64 array of the shape of the points, read-only.
        """
        measure = as_measure(occupancy)
        points = measure.points if at is None else at
        derivative = self._derivative(measure, points)
        if derivative.shape != points.density.shape:
            return np.broadcast_to(derivative, points.density.shape)
        derivative = derivative.view()
        derivative.flags.writeable = False
        return derivative

    def _value(self, measure: Measure) -> float: ...

    def _derivative(self, measure: Measure, points: Points) -> FloatArray: ...

    def __call__(self, occupancy: Measure | ArrayLike) -> float:
        return float(self.value(as_measure(occupancy)))

    def gradient(self, occupancy: Measure | ArrayLike) -> FloatArray:
        measure = as_measure(occupancy)
        return self.derivative(measure, measure.points)

    def engine_terms(self, n_states: int, n_actions: int) -> Sequence[EngineTerm]:
        raise UnsupportedFunctional(type(self).__name__, "engine_terms", "override it.")

    def check(self, n_states: int, n_actions: int) -> None:
        """Raise ``InvalidData`` if this functional does not fit a finite space of that size; by default it does."""


def as_measure(occupancy: Measure | ArrayLike) -> Measure:
    """A measure as it is; a table as the measure of all its cells."""
    return occupancy if isinstance(occupancy, Measure) else Measure.from_table(occupancy)


def table_at(table: FloatArray, points: Points) -> FloatArray:
    """Entries of a table over all cells at the given points, in the points' shape."""
    if points.cells is None:
        if table.shape != points.density.shape:
            raise InvalidData(
                f"A table of shape {table.shape} does not fit an occupancy of shape {points.density.shape}."
            )
        return table
    # Cells may run past a table of another size; NumPy would name an index, not the reason.
    if points.cells.size and points.cells.max() >= table.size:
        raise InvalidData(f"A table of {table.size} cells does not fit: the occupancy has a cell {points.cells.max()}.")
    return table.reshape(-1)[points.cells]


def frozen_table(name: str, values: ArrayLike) -> FloatArray:
    """A read-only float64 copy of a table of shape ``(n_states, n_actions)``, checked."""
    table = as_array(name, values, np.float64).copy()
    if table.ndim != 2:
        raise InvalidData(f"{name} must be a table of shape (n_states, n_actions), got shape {table.shape}.")
    require_finite(name, table)
    table.flags.writeable = False
    return table


def check_table(name: str, table: FloatArray, n_states: int, n_actions: int) -> None:
    """Raise ``InvalidData`` unless the table has one entry per state and action."""
    if table.shape != (n_states, n_actions):
        raise InvalidData(
            f"{name} has shape {table.shape}, but the environment has {n_states} states and {n_actions} actions: "
            f"give a table of shape {(n_states, n_actions)}."
        )


def smoothing_at(smoothing: float | None, points: Points) -> float:
    """σ as given, or what is usual at these points."""
    return cell_smoothing(smoothing) if points.are_cells or smoothing is not None else DENSITY_SMOOTHING


def cell_smoothing(smoothing: float | None) -> float:
    """σ as given, or what is usual where λ is the mass of cells."""
    return CELL_SMOOTHING if smoothing is None else float(smoothing)


def check_smoothing(smoothing: float | None) -> None:
    """Raise ``InvalidSetting`` unless σ is ``None`` or a finite number of at least 0."""
    if smoothing is not None and not (is_number(smoothing) and 0.0 <= smoothing < np.inf):
        raise InvalidSetting(f"smoothing={smoothing!r} must be a finite number of at least 0.")
