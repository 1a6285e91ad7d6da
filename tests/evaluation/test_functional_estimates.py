"""Intervals of functionals that are expectations: worked out on three cells."""

import gymnasium as gym
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from constrained_maxent.evaluation.statistics import estimate_of
from constrained_maxent.functionals import Entropy, KLDivergence, L2Distance
from constrained_maxent.occupancy import Counts, GaussianMixture
from constrained_maxent.types import Batch

REFERENCE = np.array([[0.5, 0.25], [0.25, 0.0]])


@pytest.fixture
def counted():
    """Four episodes of one step: three in cell (0, 0), one in (1, 0), so λ̂ = 3/4 and 1/4."""
    batch = Batch(observations=np.array([0, 0, 1, 0]), actions=np.zeros(4, dtype=int), lengths=[1] * 4)
    estimator = Counts().bind(gym.spaces.Discrete(2), gym.spaces.Discrete(2)).fit(batch)
    return estimator.measure(), batch, estimator.points_of(batch)


def test_kl_divergence_of_a_table(counted):
    estimate = estimate_of(KLDivergence(REFERENCE, limit=0.1, smoothing=0.0), *counted, seed=0)
    # Each episode has log(λ/ref) of its cell: log 1.5 or log 1.
    assert estimate.mean == pytest.approx(0.75 * np.log(1.5) - 0.1)
    # Of four episodes drawn again, at least one and at most all are in the first cell, to 95 %.
    assert [estimate.low, estimate.high] == pytest.approx([0.25 * np.log(1.5) - 0.1, np.log(1.5) - 0.1])


def test_entropy_of_a_table(counted):
    estimate = estimate_of(Entropy(smoothing=0.0), *counted, seed=0)
    assert estimate.mean == pytest.approx(-0.75 * np.log(0.75) - 0.25 * np.log(0.25))
    assert estimate.low == pytest.approx(-np.log(0.75))


def test_others_have_none(counted):
    estimate = estimate_of(L2Distance(REFERENCE, limit=0.1), *counted, seed=0)
    assert estimate.low == estimate.mean == estimate.high
    assert estimate.mean == pytest.approx(np.hypot(0.25, 0.25) - 0.1)


def test_kl_divergence_of_a_density():
    # Episodes of N(0, I) against N(m, I): KL = |m|²/2 = 1/2.
    rng = np.random.default_rng(0)
    n, length = 40, 50
    batch = Batch(
        observations=rng.normal(size=(n * length, 2)),
        actions=np.zeros((n * length, 1)),
        lengths=[length] * n,
        weights=np.full(n * length, 1.0 / length),
    )
    box = gym.spaces.Box(-np.inf, np.inf, (2,))
    estimator = GaussianMixture(n_components=1).bind(box, gym.spaces.Box(-1.0, 1.0, (1,))).fit(batch)
    over_actions = set()

    def reference(points):
        over_actions.add(points.is_over_actions)
        return multivariate_normal([1.0, 0.0]).pdf(points.states)

    functional = KLDivergence(reference, limit=2.0)
    measure = estimator.measure()
    estimate = estimate_of(functional, measure, batch, estimator.points_of(batch), seed=0)
    assert estimate.mean == pytest.approx(functional.value(measure) - 2.0, rel=1e-9)
    assert estimate.mean == pytest.approx(0.5 - 2.0, abs=0.1)
    assert over_actions == {False}, "log π is unknown: references are compared by states alone, in the interval too"
    # The log-ratio has variance |m|² = 1, over 2000 steps that are independent here.
    assert estimate.high - estimate.low == pytest.approx(2 * 1.96 / 2000**0.5, rel=0.3)
