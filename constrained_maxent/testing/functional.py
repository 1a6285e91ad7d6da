"""The contract of a functional of λ."""

from __future__ import annotations

from typing import Any

import numpy as np

from constrained_maxent.functionals import Functional
from constrained_maxent.testing.assertions import require
from constrained_maxent.types import Measure, Points


def check_functional(functional: Functional, occupancy_table: Any, *, n_directions: int = 8, seed: int = 0) -> None:
    """Check value and derivative of a functional on a finite space, the derivative against finite differences.

    Convexity is not checked.

    Args:
        functional: differentiable at the table. One of observed costs (``LinearCost("cost")``) has no value there.
        occupancy_table: λ(s, a), ``(n_states, n_actions)``. Directions leave its zeros zero: give a positive table.
        n_directions: how many random directions are tried.
        seed: of the directions.

    Raises:
        AssertionError: what is wrong.

    >>> from constrained_maxent.functionals import Entropy
    >>> check_functional(Entropy(), [[0.5, 0.25], [0.125, 0.125]])
    """
    table = np.array(occupancy_table, dtype=np.float64)
    given = table.copy()
    value, derivative = functional.value(table), functional.derivative(table)
    require(np.array_equal(table, given), "value and derivative must not change the table")
    require(type(value) is float and bool(np.isfinite(value)), f"value must be a finite float, got {value!r}")
    require(
        derivative.shape == table.shape and derivative.dtype == np.float64,
        f"derivative must be float64 of shape {table.shape}, got {derivative.dtype} of shape {derivative.shape}",
    )
    require(bool(np.isfinite(derivative).all()), "derivative must be finite")
    require(functional.value(Measure.from_table(table)) == value, "a table and its measure must have the same value")

    rng = np.random.default_rng(seed)
    cells = rng.permutation(table.size)[: max(1, table.size // 2)]
    states = cells // table.shape[1]
    points = Points(density=table.reshape(-1)[cells], state_density=table.sum(axis=1)[states], cells=cells)
    require(
        np.allclose(functional.derivative(table, at=points), derivative.reshape(-1)[cells], rtol=1e-9),
        "derivative(λ, at=points) must be the entries of derivative(λ) at the points' cells",
    )
    step = 1e-4
    for _ in range(n_directions):
        direction = table * rng.uniform(-1.0, 1.0, table.shape)
        ahead, behind = (functional.value(table + sign * step * direction) for sign in (1.0, -1.0))
        difference, slope = (ahead - behind) / (2.0 * step), float(np.sum(derivative * direction))
        tolerance = 1e-6 * (float(np.sum(np.abs(derivative * direction))) + abs(value)) + 1e-12
        require(
            abs(difference - slope) <= tolerance,
            f"the derivative must match finite differences: it gives {slope:g} along a direction in which the value "
            f"changes by {difference:g}",
        )
