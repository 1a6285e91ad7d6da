"""Distance of densities: the value against quadrature, the derivative against finite differences of the value."""

import math

import numpy as np
import pytest

from constrained_maxent.errors import InvalidSetting, UnsupportedSpace
from constrained_maxent.functionals import MixtureDistance
from constrained_maxent.occupancy import Gaussians, Mixture
from constrained_maxent.types import Measure, Points

D = Gaussians(np.array([0.5, 0.5]), np.array([[-2.0], [2.8]]), np.array([[[0.5]], [[0.3]]]))
REFERENCE = Gaussians(np.ones(1), np.array([[-3.0]]), np.array([[[1.0]]]))
TOWARDS = Gaussians(np.ones(1), np.array([[1.0]]), np.array([[[0.7]]]))
X = -math.pi + 2.0 * math.pi * (np.arange(20_000) + 0.5) / 20_000
WRAPPED = pytest.mark.parametrize("periodic", [(), (0,)], ids=["line", "circle"])


def grid(periodic):
    """Places and their width."""
    return (X, X[1] - X[0]) if periodic else (4.0 * X, 4.0 * (X[1] - X[0]))


def measure_of(mixture, x, width):
    density = mixture.density(x[:, None])
    points = Points(density=density, state_density=density, states=x[:, None])
    return Measure(points=points, weights=density * width, states=mixture)


@WRAPPED
def test_value_is_the_norm_by_quadrature(periodic):
    x, width = grid(periodic)
    d, reference = Mixture(D, mass=0.8, periodic=periodic), Mixture(REFERENCE, periodic=periodic)
    difference = d.density(x[:, None]) - reference.density(x[:, None])
    value = MixtureDistance(reference)(measure_of(d, x, width))
    assert value == pytest.approx(math.sqrt(np.sum(difference**2) * width), rel=1e-5)


@WRAPPED
def test_derivative_is_the_slope_of_the_value_along_mixtures(periodic):
    x, width = grid(periodic)
    functional = MixtureDistance(Mixture(REFERENCE, periodic=periodic))
    towards = Mixture(TOWARDS, periodic=periodic)

    def moved(h):  # d + h (q - d) is again a mixture
        weights = (1.0 - h) * np.append(0.8 * D.weights, 0.2) + h * np.array([0.0, 0.0, 1.0])
        gaussians = Gaussians(weights, np.concatenate((D.means, TOWARDS.means)),
                              np.concatenate((D.covariances, TOWARDS.covariances)))  # fmt: skip
        return measure_of(Mixture(gaussians, periodic=periodic), x, width)

    h = 1e-4
    slope = (functional(moved(h)) - functional(moved(-h))) / (2.0 * h)
    derivative = functional.gradient(moved(0.0))
    direction = towards.density(x[:, None]) - moved(0.0).points.state_density
    assert abs(slope) > 0.01
    assert np.sum(derivative * direction) * width == pytest.approx(slope, rel=1e-4)


def test_the_derivative_is_asked_for_anywhere_and_at_the_reference_is_zero():
    d, reference = Mixture(D), Mixture(REFERENCE, mass=0.5)
    x, width = grid(())
    functional = MixtureDistance(reference, limit=0.1)
    measure = measure_of(d, x, width)
    places = np.array([[-3.0], [0.0], [2.8]])
    at = Points(density=np.full(3, np.nan), state_density=d.density(places), states=places)
    expected = (d.density(places) - reference.density(places)) / math.sqrt(d.squared_distance(reference))
    np.testing.assert_allclose(functional.derivative(measure, at), expected, rtol=1e-12)
    # The value of one measure is not taken for that of the next.
    assert functional(measure_of(reference, x, width)) == 0.0
    np.testing.assert_array_equal(functional.gradient(measure_of(reference, x, width)), 0.0)
    assert functional(measure) == pytest.approx(math.sqrt(d.squared_distance(reference)))


def test_refuses_what_is_no_mixture():
    with pytest.raises(InvalidSetting, match="must be a mixture"):
        MixtureDistance(np.ones((2, 2)))
    density = np.ones(3)
    samples = Measure(points=Points(density=density, state_density=density), weights=density)
    for use in (MixtureDistance(Mixture(D)), MixtureDistance(Mixture(D)).gradient):
        with pytest.raises(UnsupportedSpace, match="GaussianMixture"):
            use(samples)
