"""A mixture with mass and angles: densities against SciPy, distances against quadrature, samples against moments."""

import itertools
import math

import gymnasium as gym
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from constrained_maxent.errors import InsufficientMemory, InvalidData, InvalidSetting, NonFiniteValue
from constrained_maxent.occupancy import AdamGaussianMixture, GaussianMixture, Gaussians, Mixture, NearestNeighbors
from constrained_maxent.occupancy.gaussians import images
from constrained_maxent.types import Batch

LINE = Gaussians(np.array([0.25, 0.75]), np.array([[-1.0], [2.0]]), np.array([[[0.5]], [[1.5]]]))
CIRCLE = Gaussians(np.ones(1), np.array([[3.0]]), np.array([[[1.2]]]))


def test_density_is_scipys_times_the_mass():
    places = np.linspace(-4.0, 5.0, 7)
    expected = 0.25 * norm.pdf(places, -1.0, math.sqrt(0.5)) + 0.75 * norm.pdf(places, 2.0, math.sqrt(1.5))
    np.testing.assert_allclose(Mixture(LINE, mass=0.4).density(places[:, None]), 0.4 * expected, rtol=1e-12)
    np.testing.assert_allclose(Mixture(LINE, mass=0.4).log_prob(places[:, None]), np.log(expected), rtol=1e-12)


def test_angles_are_folded_and_wrapped():
    mixture = Mixture(CIRCLE, periodic=(0,))
    angles = np.array([[-3.0], [3.0], [3.0 + 2.0 * math.pi]])
    expected = sum(norm.pdf(angles[:, 0] + 2.0 * math.pi * j, 3.0, math.sqrt(1.2)) for j in range(-5, 6))
    np.testing.assert_allclose(mixture.density(angles), expected, rtol=1e-5)


def test_images_are_all_turns_that_reach_into_the_circle():
    rng = np.random.default_rng(0)
    means, deviations = rng.uniform(-math.pi, math.pi, (4, 3)), rng.uniform(0.1, 2.0, (4, 3))
    covariances = np.einsum("ki,ij->kij", deviations**2, np.eye(3))
    component, shift = images(means, covariances, (0, 2))
    expected = [
        (k, 2.0 * math.pi * i, 0.0, 2.0 * math.pi * j)
        for k, i, j in itertools.product(range(4), range(-3, 4), range(-3, 4))
        if abs(means[k, 0] + 2.0 * math.pi * i) <= math.pi + 5.0 * deviations[k, 0]
        and abs(means[k, 2] + 2.0 * math.pi * j) <= math.pi + 5.0 * deviations[k, 2]
    ]
    np.testing.assert_allclose(np.column_stack((component, shift)), expected)
    with pytest.raises(InsufficientMemory, match="11 angles"):
        images(np.zeros((1, 11)), 4.0 * np.eye(11)[None], range(11))


def test_squared_distance_on_the_line_by_quadrature():
    other = Gaussians(np.ones(1), np.array([[0.5]]), np.array([[[1.0]]]))
    x = np.linspace(-15.0, 15.0, 20_001)
    d, e = Mixture(LINE, mass=0.9), Mixture(other, mass=0.6)
    expected = np.trapezoid((d.density(x[:, None]) - e.density(x[:, None])) ** 2, x)
    assert d.squared_distance(e) == pytest.approx(expected, rel=1e-8)
    assert d.squared_distance(d) == 0.0


def test_squared_distance_on_the_circle_by_quadrature():
    other = Gaussians(np.array([0.5, 0.5]), np.array([[-3.0], [0.0]]), np.array([[[0.4]], [[2.0]]]))
    d, e = Mixture(CIRCLE, periodic=(0,)), Mixture(other, mass=0.5, periodic=(0,))
    # Over one turn of a periodic function the midpoint rule is exact up to rounding.
    x = -math.pi + 2.0 * math.pi * (np.arange(4000) + 0.5) / 4000
    expected = np.mean((d.density(x[:, None]) - e.density(x[:, None])) ** 2) * 2.0 * math.pi
    assert d.squared_distance(e) == pytest.approx(expected, rel=1e-5)


def test_squared_distance_in_the_plane_by_monte_carlo():
    covariance = np.array([[1.0, 0.6], [0.6, 0.8]])
    d = Mixture(Gaussians(np.ones(1), np.zeros((1, 2)), covariance[None]))
    e = Mixture(Gaussians(np.ones(1), np.array([[1.0, -0.5]]), np.eye(2)[None]), mass=0.7)
    # Importance sampling from a wide normal.
    wide = multivariate_normal([0.5, 0.0], 4.0 * np.eye(2))
    places = wide.rvs(200_000, random_state=0)
    terms = (d.density(places) - e.density(places)) ** 2 / wide.pdf(places)
    assert d.squared_distance(e) == pytest.approx(terms.mean(), abs=4.0 * terms.std() / math.sqrt(len(terms)))


def test_samples_have_the_mixtures_moments():
    states = Mixture(LINE).sample(40_000, np.random.default_rng(0))
    mean = 0.25 * -1.0 + 0.75 * 2.0
    variance = 0.25 * (0.5 + (-1.0 - mean) ** 2) + 0.75 * (1.5 + (2.0 - mean) ** 2)
    assert states.shape == (40_000, 1)
    assert states.mean() == pytest.approx(mean, abs=4.0 * math.sqrt(variance / 40_000))
    assert states.var() == pytest.approx(variance, rel=0.05)
    angles = Mixture(CIRCLE, periodic=(0,)).sample(1000, np.random.default_rng(0))
    assert -math.pi <= angles.min() < -2.0 < 2.0 < angles.max() < math.pi


@pytest.mark.parametrize("kind", [GaussianMixture, AdamGaussianMixture])
@pytest.mark.parametrize("over", ["state", "state-action"])
def test_estimators_that_are_mixtures_hand_theirs_over(kind, over):
    rng = np.random.default_rng(0)
    batch = Batch(observations=rng.normal(size=(60, 2)), actions=rng.normal(size=(60, 1)), lengths=[30, 30],
                  weights=np.full(60, 0.02))  # fmt: skip
    boxes = gym.spaces.Box(-np.inf, np.inf, (2,)), gym.spaces.Box(-np.inf, np.inf, (1,))
    measure = kind(n_components=2, over=over, periodic=(1,)).bind(*boxes).fit(batch).measure()
    # Their state marginal is what the points carry.
    assert measure.states.mass == pytest.approx(0.6)
    np.testing.assert_allclose(measure.states.density(measure.points.states), measure.points.state_density, rtol=1e-9)


def test_others_have_none():
    line = gym.spaces.Box(-np.inf, np.inf, (1,))
    batch = Batch(observations=np.random.default_rng(0).normal(size=(20, 1)), actions=np.zeros((20, 1)), lengths=[20])
    assert NearestNeighbors().bind(line, line).fit(batch).measure().states is None


def test_refuses():
    with pytest.raises(InvalidSetting, match="mass"):
        Mixture(LINE, mass=-1.0)
    with pytest.raises(InvalidSetting, match="periodic="):
        Mixture(LINE, periodic=(1,))
    with pytest.raises(InvalidData, match="coordinates"):
        Mixture(LINE).density(np.zeros((3, 2)))
    with pytest.raises(InvalidData, match="periodic="):
        Mixture(CIRCLE).squared_distance(Mixture(CIRCLE, periodic=(0,)))


def normal(n: int, deviation: float, mean: float = 0.0) -> Mixture:
    return Mixture(Gaussians(np.ones(1), np.full((1, n), mean * deviation), deviation**2 * np.eye(n)[None]))


@pytest.mark.fault
def test_distances_in_many_coordinates():
    # Of unit normals half a deviation apart in each coordinate: 2 (4π)^(-n/2) (1 - exp(-n/16)).
    exact = 2.0 * (4.0 * math.pi) ** -150.0 * -math.expm1(-300.0 / 16.0)
    assert normal(300, 1.0).squared_distance(normal(300, 1.0, 0.5)) == pytest.approx(exact, rel=1e-9)


@pytest.mark.fault
@pytest.mark.parametrize(("n", "deviation"), [(800, 1.0), (300, 1e-3), (4, 1e-100)])
def test_distances_beyond_float64_are_refused(n, deviation):
    with pytest.raises(NonFiniteValue, match="which float64 does not hold"):
        normal(n, deviation).squared_distance(normal(n, deviation, 0.5))
