"""Densities in any units: scaling laws, offsets, outliers and clusters far apart, many coordinates, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box
from scipy.stats import multivariate_normal
from sklearn.neighbors import KernelDensity

from constrained_maxent.errors import NonFiniteValue
from constrained_maxent.evaluation import state_entropy
from constrained_maxent.functionals import Entropy, KLDivergence
from constrained_maxent.occupancy import (
    AdamGaussianMixture,
    ContinuousEstimator,
    FromScikitLearn,
    GaussianMixture,
    Gaussians,
    Mixture,
    NearestNeighbors,
)
from constrained_maxent.occupancy.degeneracy import recurring
from constrained_maxent.occupancy.samples import Frame
from constrained_maxent.occupancy.weighted_em import weighted_em
from constrained_maxent.references import Reference
from constrained_maxent.types import Batch

pytestmark = pytest.mark.fault

KINDS: dict[str, Callable[[], ContinuousEstimator]] = {
    "mixture": lambda: GaussianMixture(n_components=3),
    "adam": lambda: AdamGaussianMixture(n_steps=20),
    "neighbors": NearestNeighbors,
    "kernels": lambda: FromScikitLearn(KernelDensity(bandwidth=0.3)),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
COVARIANCE = np.array([[1.0, 0.3], [0.3, 0.5]])
EXACT = multivariate_normal(np.zeros(2), COVARIANCE).entropy()


def fitted(estimator: ContinuousEstimator, states: Any) -> ContinuousEstimator:
    n, d = states.shape
    batch = Batch(observations=states, actions=np.zeros((n, 1)), lengths=[n], weights=np.full(n, 1.0 / n))
    return estimator.bind(Box(-np.inf, np.inf, (d,)), Box(-1.0, 1.0, (1,))).fit(batch)


def entropy(estimator: ContinuousEstimator, states: Any) -> float:
    return Entropy(over="state").value(fitted(estimator, states).measure())


def normal(n: int = 600) -> Any:
    """Samples with exactly that covariance, and mean 0."""
    z = np.random.default_rng(0).normal(size=(n, 2))
    z = (z - z.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(z.T, bias=True))).T
    return z @ np.linalg.cholesky(COVARIANCE).T


@every_kind
@pytest.mark.parametrize("factor", [1e-120, 1e-12, 1e-9, 1e12, 1e120])
def test_scaling_law(kind: str, factor: float) -> None:
    # H(a X) = H(X) + d log |a|. Adam starts at σ = 1 in its own units, so that both begin far outside the bounds of σ.
    states, base = normal(), 1e-7 if kind == "adam" else 1.0
    before = entropy(KINDS[kind](), base * states) - 2.0 * np.log(base)
    assert entropy(KINDS[kind](), factor * states) == pytest.approx(before + 2.0 * np.log(factor), abs=1e-5)


@every_kind
@pytest.mark.parametrize(("factor", "offset"), [(1e-3, 1e6), (1e-6, 1e6), (1.0, 1e9)])
def test_an_offset_changes_nothing(kind: str, factor: float, offset: float) -> None:
    states = factor * normal() + offset
    exactly = states - offset  # rounded as the states are
    scale = 1e7 if kind == "adam" else 1.0  # Adam leaves ordinary units as they are
    there, here = entropy(KINDS[kind](), states), entropy(KINDS[kind](), exactly / scale) + 2.0 * np.log(scale)
    assert there == pytest.approx(here, abs=2e-3)


@pytest.mark.parametrize("far", [1e3, 1e6, 1e9])
@pytest.mark.parametrize(("kind", "bias"), [("mixture", 0.03), ("neighbors", 0.1), ("kernels", 0.2)])
def test_one_far_outlier(kind: str, bias: float, far: float) -> None:
    states = np.concatenate((normal(), [[far, -far]]))
    assert entropy(KINDS[kind](), states) == pytest.approx(EXACT, abs=bias)


@pytest.mark.parametrize("far", [1e3, 1e6, 1e9])
@pytest.mark.parametrize(("kind", "bias"), [("mixture", 0.03), ("neighbors", 0.15), ("kernels", 0.3)])
def test_two_clusters_far_apart(kind: str, bias: float, far: float) -> None:
    states = normal()
    states = np.concatenate((states, states + far))
    # Each of the two has half of the mass.
    assert entropy(KINDS[kind](), states) == pytest.approx(EXACT + np.log(2.0), abs=bias)


def test_clusters_beside_an_angle() -> None:
    # The other way of summing squares, for samples far from 0, with components that have images on the circle.
    states, rng = normal(), np.random.default_rng(1)
    angle = np.pi + 0.3 * rng.normal(size=(1200, 1))
    line = np.concatenate((states[:, :1], states[:, :1] + 1e9))
    value = entropy(GaussianMixture(n_components=2, periodic=(0,)), np.concatenate((angle, line), axis=1))
    exact = np.log(2.0) + 2.0 * 0.5 * np.log(2.0 * np.pi * np.e) + np.log(0.3)
    assert value == pytest.approx(exact, abs=0.05)


def test_evaluation_follows_the_scaling_law() -> None:
    episodes = np.split(normal(), 6)
    before = state_entropy(episodes).mean
    for factor, offset in ((1e-12, 0.0), (1e12, 0.0), (1e-3, 1e6)):
        scaled = state_entropy([factor * states + offset for states in episodes]).mean
        assert scaled == pytest.approx(before + 2.0 * np.log(factor), abs=1e-4)


class TestManyCoordinates:
    def states(self, factor: float = 1.0) -> Any:
        return factor * np.random.default_rng(0).normal(size=(1500, 300))

    @pytest.mark.parametrize("factor", [1e-4, 1.0, 1e4])
    def test_entropy_and_rewards_are_those_of_the_density(self, factor: float) -> None:
        # One Gaussian, by SciPy: densities of e±3000, which float64 does not hold.
        states = self.states(factor)
        estimator = fitted(GaussianMixture(n_components=1, covariance="diagonal"), states)
        scores = np.sum(-0.5 * ((states - states.mean(axis=0)) / states.std(axis=0)) ** 2, axis=1)
        exact = scores - np.log(states.std(axis=0)).sum() - 150.0 * np.log(2.0 * np.pi)
        measure = estimator.measure()
        for over in ("state", "state-action"):
            assert Entropy(over=over).value(measure) == pytest.approx(-exact.mean(), rel=1e-5)
            np.testing.assert_allclose(Entropy(over=over).gradient(measure), -exact - 1.0, rtol=1e-5)
        assert np.ptp(Entropy().gradient(measure)) > 10.0  # the states that are rare earn more

    def test_divergence_from_a_reference(self) -> None:
        # KL(N(0, 1) || N(0.1, 1)) = 0.1²/2 for each coordinate; both densities underflow.
        states = 1e3 * self.states()
        estimator = fitted(GaussianMixture(n_components=1, covariance="diagonal"), states)
        scale = states.std(axis=0)
        moved = Gaussians(np.ones(1), (states.mean(axis=0) + 0.1 * scale)[None], np.diag(scale**2)[None])
        divergence = KLDivergence(Reference(Mixture(moved)), over="state")
        assert divergence.value(estimator.measure()) == pytest.approx(300 * 0.005, rel=1e-3)
        np.testing.assert_allclose(divergence.gradient(estimator.measure()).mean(), 300 * 0.005 + 1.0, rtol=1e-3)

    def test_a_smoothing_that_is_given_holds(self) -> None:
        measure = fitted(GaussianMixture(n_components=1, covariance="diagonal"), 1e4 * self.states()).measure()
        np.testing.assert_allclose(Entropy(smoothing=1e-6).gradient(measure), -np.log(1e-6), rtol=1e-12)


class TestBeyondTheSamples:
    def test_a_bonus_has_an_end(self) -> None:
        estimator = fitted(GaussianMixture(n_components=1), normal())
        points = estimator.points(np.array([[1e3, 0.0], [0.0, 0.0]]), np.zeros((2, 1)))
        bonus = Entropy(over="state").derivative(estimator.measure(), points)
        assert bonus[0] == pytest.approx(-np.log(1e-300))
        assert estimator.share_beyond(points) == 0.5

    def test_also_where_densities_are_no_numbers(self) -> None:
        states = 1e4 * np.random.default_rng(0).normal(size=(900, 300))
        estimator = fitted(GaussianMixture(n_components=1, covariance="diagonal"), states)
        points = estimator.points(np.stack((states[0], states[0] + 1e8)), np.zeros((2, 1)))
        near, far = Entropy(over="state").derivative(estimator.measure(), points)
        assert 500.0 < far - near < 800.0
        assert estimator.share_beyond(points) == 0.5


@every_kind
@pytest.mark.parametrize("huge", [1e200, -1e308])
def test_numbers_whose_squares_overflow_are_refused(kind: str, huge: float) -> None:
    states = normal(80)
    before = fitted(KINDS[kind](), states)
    kept = before.log_prob(states, np.zeros((80, 1)))
    spoiled = states.copy()
    spoiled[3, 1] = huge
    with pytest.raises(NonFiniteValue, match="Coordinate 1"):
        before.fit(Batch(observations=spoiled, actions=np.zeros((80, 1)), lengths=[80]))
    # Nothing is lost.
    np.testing.assert_array_equal(before.log_prob(states, np.zeros((80, 1))), kept)


@every_kind
def test_a_huge_state_is_asked_about(kind: str) -> None:
    estimator = fitted(KINDS[kind](), normal(80))
    try:
        points = estimator.points(np.array([[1e200, -1e200]]), np.zeros((1, 1)))
    except NonFiniteValue:
        return
    assert np.isfinite(Entropy(over="state").derivative(estimator.measure(), points)).all()


class TestFrame:
    def test_what_is_constant_up_to_rounding(self) -> None:
        rng = np.random.default_rng(0)
        noise = rng.normal(size=200)
        rows = np.stack((np.full(200, 0.1), 1.0 + 1e-16 * noise, 1e-9 * noise, 1e6 + 1e-6 * noise), axis=1)
        scale = Frame.of(rows, np.ones(200), ()).scale
        assert scale[:2].tolist() == [1.0, 1.0]
        np.testing.assert_allclose(scale[2:], [rows[:, 2].std(), 1e-6 * noise.std()], rtol=1e-3)

    def test_ordinary_data_are_standardized(self) -> None:
        rng = np.random.default_rng(0)
        rows = np.stack((rng.normal(size=500), rng.random(500), rng.exponential(size=500), rng.standard_t(4, 500)), 1)
        np.testing.assert_allclose(Frame.of(rows, np.ones(500), ()).scale, rows.std(axis=0), rtol=1e-12)

    def test_ties(self) -> None:
        rng = np.random.default_rng(0)
        flag, rest = rng.integers(2, size=500), rng.normal(size=500)
        rows = np.stack((flag, rest, np.full(500, 3.0), np.where(rest > 0.5, rest, 1e-17 * rest)), axis=1)
        assert recurring(rows).tolist() == [True, False, True, True]


def test_coordinates_that_go_together_as_far_outliers_do_keep_a_thickness_that_rounding_leaves() -> None:
    # Of 12 coordinates 3 are free; 4 rows lie far along them. What remains across is 1e-12 of that, in any units.
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 12))
    rows[:4] *= 1e5
    start = Gaussians(np.full(2, 0.5), rows[[0, 50]], np.tile(np.eye(12), (2, 1, 1)))
    fitted = weighted_em(rows, np.ones(300), start)
    thickness = np.linalg.eigvalsh(fitted.covariances)
    assert (thickness[:, 0] > 1e-13 * thickness[:, -1]).all()
    scale = 10.0 ** rng.uniform(-8.0, 2.0, 12)
    expected = fitted.log_density(rows[4:]) - np.log(scale).sum()
    np.testing.assert_allclose(fitted.moved(np.zeros(12), scale).log_density(scale * rows[4:]), expected, rtol=1e-2)
