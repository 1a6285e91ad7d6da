"""Tables over the cells of a finite space, and the smoothing σ of logarithms of λ: checked, and looked up at points."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from constrained_maxent.errors import InvalidData, InvalidSetting
from constrained_maxent.types import FloatArray, Points, as_array, is_number, require_finite

CELL_SMOOTHING = 1e-6
"""Usual σ where λ is the mass of cells: the pseudo-reward of a cell never seen is 13.8 nats."""

DENSITY_SMOOTHING = 1e-300
"""Usual σ where λ is a density. How large that is depends on units, so that σ may only keep logarithms finite: where λ
underflows, they are 690 nats."""


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


def cell_smoothing(smoothing: float | None) -> float:
    """σ as given, or what is usual where λ is the mass of cells."""
    return CELL_SMOOTHING if smoothing is None else float(smoothing)


def smoothing_at(smoothing: float | None, points: Points) -> float:
    """σ as given, or what is usual at these points."""
    return cell_smoothing(smoothing) if points.are_cells or smoothing is not None else DENSITY_SMOOTHING


def check_smoothing(smoothing: float | None) -> None:
    """Raise ``InvalidSetting`` unless σ is ``None`` or a finite number of at least 0."""
    if smoothing is not None and not (is_number(smoothing) and 0.0 <= smoothing < np.inf):
        raise InvalidSetting(f"smoothing={smoothing!r} must be a finite number of at least 0.")


def require_smoothing(functional: object, smoothing: float | None) -> None:
    """Raise ``InvalidSetting`` where σ = 0 would make a pseudo-reward infinite."""
    if smoothing == 0.0:
        raise InvalidSetting(
            f"smoothing=0 makes the pseudo-reward of {type(functional).__name__} infinite in cells never seen: "
            "give a smoothing above 0."
        )
