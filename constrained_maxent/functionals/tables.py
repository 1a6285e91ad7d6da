"""Tables over the cells of a finite space: checked, and looked up at points."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from constrained_maxent.errors import InvalidData
from constrained_maxent.types import FloatArray, Points, as_array, require_finite


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
