"""Every functional, on a table and as points: derivatives against finite differences, sparse against dense."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from constrained_maxent.errors import UnsupportedSpace
from constrained_maxent.functionals import Autograd, Entropy, Functional, KLDivergence, L2Distance, LinearCost
from constrained_maxent.functionals.base import as_measure
from constrained_maxent.testing import check_functional
from constrained_maxent.types import Measure, Points

N_STATES, N_ACTIONS = 5, 3
RNG = np.random.default_rng(3)
REFERENCE, POSITIVE = RNG.dirichlet(np.ones(15), size=2).reshape(2, N_STATES, N_ACTIONS)
COST = RNG.normal(size=(N_STATES, N_ACTIONS))
# State 1 was never visited, nor were single actions elsewhere.
VISITED = np.array([[1, 1, 0], [0, 0, 0], [1, 1, 1], [0, 1, 0], [1, 0, 1]], dtype=bool)
WITH_HOLES = np.where(VISITED, POSITIVE, 0.0)


def smooth_largest(occupancy: Any) -> Any:
    return (20.0 * occupancy).logsumexp(dim=(0, 1)) / 20.0


FUNCTIONALS: dict[str, Functional] = {
    "entropy": Entropy(smoothing=1e-3),
    "entropy, default smoothing": Entropy(),
    "entropy over states": Entropy(over="state", smoothing=1e-3),
    "linear": LinearCost(COST),
    "kl": KLDivergence(REFERENCE, smoothing=1e-3),
    "kl, default smoothing": KLDivergence(REFERENCE),
    "l2": L2Distance(REFERENCE),
    "autograd": Autograd(smooth_largest),
}
each_functional = pytest.mark.parametrize("functional", FUNCTIONALS.values(), ids=FUNCTIONALS.keys())


def points_at(table: np.ndarray, cells: np.ndarray) -> Points:
    states = cells // N_ACTIONS
    return Points(density=table.ravel()[cells], state_density=table.sum(axis=1)[states], cells=cells)


@each_functional
@pytest.mark.parametrize("scale", [1.0, 22.2], ids=["mass 1", "mass 22.2"])
def test_contract(functional: Functional, scale: float) -> None:
    check_functional(functional, scale * POSITIVE)
    check_functional(functional, scale * WITH_HOLES)


@each_functional
@pytest.mark.parametrize("table", [POSITIVE, WITH_HOLES], ids=["positive", "with empty cells"])
def test_derivative_is_the_limit_of_differences_in_every_cell(functional: Functional, table: np.ndarray) -> None:
    derivative = functional.gradient(table)
    # Empty cells have differences to one side only. The step is far below the smoothing, where curvature is 1/σ.
    h = 1e-9
    for cell in np.ndindex(table.shape):
        step = np.zeros_like(table)
        step[cell] = h
        ahead = functional(table + step) - functional(table)
        assert ahead / h == pytest.approx(derivative[cell], rel=2e-3, abs=2e-5)


@each_functional
def test_a_sparse_measure_is_the_table_of_its_cells(functional: Functional) -> None:
    cells = np.flatnonzero(VISITED)
    points = points_at(WITH_HOLES, cells)
    sparse = Measure(points=points, weights=points.density)
    if isinstance(functional, Autograd):
        with pytest.raises(UnsupportedSpace):
            functional(sparse)
        return
    assert functional(sparse) == pytest.approx(functional(WITH_HOLES), rel=1e-12)
    derivative = functional.gradient(WITH_HOLES).ravel()
    np.testing.assert_allclose(functional.gradient(sparse), derivative[cells], rtol=1e-12)
    # Asked elsewhere, in any order and more than once, unvisited cells and states included.
    elsewhere = np.array([14, 2, 3, 4, 2, 0, 9])
    np.testing.assert_allclose(
        functional.derivative(as_measure(sparse), points_at(WITH_HOLES, elsewhere)), derivative[elsewhere], rtol=1e-12
    )


@each_functional
def test_a_table_tells_its_derivative_at_points(functional: Functional) -> None:
    cells = RNG.permutation(N_STATES * N_ACTIONS)
    at_points = functional.derivative(as_measure(WITH_HOLES), points_at(WITH_HOLES, cells))
    assert at_points.shape == cells.shape
    np.testing.assert_allclose(at_points, functional.gradient(WITH_HOLES).ravel()[cells], rtol=1e-12)


@each_functional
def test_convex_functionals_lie_above_and_concave_ones_below_their_tangents(functional: Functional) -> None:
    tangent = functional(POSITIVE) + float(np.sum(functional.gradient(POSITIVE) * (REFERENCE - POSITIVE)))
    gap = functional(REFERENCE) - tangent
    if isinstance(functional, LinearCost):
        assert gap == pytest.approx(0.0, abs=1e-14)
    else:
        assert gap < 0.0 if isinstance(functional, Entropy) else gap > 0.0


def test_a_continuous_density_is_averaged_over_its_samples() -> None:
    # Mass 0.5 of a standard normal, as 40 samples: H = -½ mean log(0.5 φ(x)), and its derivative -log(0.5 φ(x)) - 1.
    x = np.random.default_rng(0).normal(size=40)
    density = 0.5 * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    measure = Measure(points=Points(density=density, state_density=density), weights=np.full(40, 0.5 / 40))
    log_density = np.log(0.5) - 0.5 * x**2 - 0.5 * np.log(2 * np.pi)
    entropy = Entropy(smoothing=0.0)
    assert entropy(measure) == pytest.approx(-0.5 * log_density.mean(), rel=1e-12)
    np.testing.assert_allclose(entropy.gradient(measure), -log_density - 1, rtol=1e-12)
