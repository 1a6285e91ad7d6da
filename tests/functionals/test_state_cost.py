"""The cost of being where others were: the value by quadrature, the derivative against differences of the value."""

import math

import numpy as np
import pytest

from constrained_maxent.errors import InvalidSetting, UnsupportedSpace
from constrained_maxent.functionals import StateCost
from constrained_maxent.functionals.base import as_measure
from constrained_maxent.occupancy import Gaussians, Mixture
from constrained_maxent.types import Measure, Points

X = np.linspace(-12.0, 12.0, 40_001)[:, None]
WIDTH = float(X[1, 0] - X[0, 0])


def normal(mean: float, variance: float) -> Mixture:
    return Mixture(Gaussians(np.ones(1), np.array([[mean]]), np.array([[[variance]]])))


def measure_of(*parts: tuple[float, Mixture]) -> Measure:
    density = sum(share * mixture.density(X) for share, mixture in parts)
    points = Points(density=density, state_density=density, states=X)
    return Measure(points=points, weights=density * WIDTH)


def test_value_of_two_gaussians_is_their_overlap() -> None:
    """∫ N(x; 0, 1) N(x; 2, 3) dx = N(2; 0, 4)."""
    near = StateCost(normal(0.0, 1.0), limit=0.1)
    overlap = math.exp(-(2.0**2) / (2 * 4.0)) / math.sqrt(2.0 * math.pi * 4.0)
    assert near(measure_of((1.0, normal(2.0, 3.0)))) == pytest.approx(overlap, rel=1e-6)


def test_derivative_is_the_slope_of_the_value() -> None:
    near, here, there = StateCost(normal(0.0, 1.0)), normal(2.0, 3.0), normal(-1.0, 0.5)

    def moved(h: float) -> Measure:
        return measure_of((1.0 - h, here), (h, there))

    h = 1e-4
    slope = (near(moved(h)) - near(moved(-h))) / (2.0 * h)
    direction = there.density(X) - here.density(X)
    assert abs(slope) > 0.01
    assert float((near.gradient(moved(0.0)) * direction).sum()) * WIDTH == pytest.approx(slope, rel=1e-6)


def test_cells_and_what_is_no_density_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="density of states"):
        StateCost(np.ones(3))  # type: ignore[arg-type]
    with pytest.raises(UnsupportedSpace, match="LinearCost"):
        StateCost(normal(0.0, 1.0))(as_measure(np.full((2, 2), 0.25)))
