"""scikit-learn's densities as estimates: their own scores, weights, angles, and what they cannot do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box
from sklearn.mixture import BayesianGaussianMixture
from sklearn.mixture import GaussianMixture as Mixture
from sklearn.neighbors import KernelDensity

from constrained_maxent.errors import InvalidSetting, NonFiniteValue
from constrained_maxent.occupancy import FromScikitLearn
from constrained_maxent.types import Batch


def fitted(density: Any, states: Any, weights: Any = None, **options: Any) -> FromScikitLearn:
    states = np.asarray(states, dtype=np.float64)
    batch = Batch(observations=states, actions=np.zeros((len(states), 1)), lengths=[len(states)], weights=weights)
    estimator = FromScikitLearn(density, **options)
    return estimator.bind(Box(-np.inf, np.inf, (states.shape[1],)), Box(-1.0, 1.0, (1,))).fit(batch)


def log_prob(estimator: FromScikitLearn, places: Any) -> Any:
    return estimator.log_prob(np.asarray(places), np.zeros((len(places), 1)))


STATES = np.random.default_rng(0).normal(size=(300, 2)) @ np.diag([2.0, 0.1]) + [5.0, -1.0]


def test_scores_are_those_of_the_density_in_standardized_coordinates() -> None:
    estimator = fitted(KernelDensity(bandwidth=0.5), STATES)
    center, scale = STATES.mean(axis=0), STATES.std(axis=0)
    alone = KernelDensity(bandwidth=0.5).fit((STATES - center) / scale)
    expected = alone.score_samples((STATES - center) / scale) - np.log(scale).sum()
    np.testing.assert_allclose(log_prob(estimator, STATES), expected, rtol=1e-10)


def test_hands_weights_over() -> None:
    places = np.array([[-1.0], [1.0]])
    estimator = fitted(KernelDensity(bandwidth=0.1), places, [1.0, 3.0])
    low, high = np.exp(log_prob(estimator, places))
    assert high / low == pytest.approx(3.0, rel=1e-6)


def test_draws_by_weight_where_fit_takes_none() -> None:
    states = np.repeat([[-1.0], [1.0]], 100, axis=0) + 0.1 * np.random.default_rng(0).normal(size=(200, 1))
    estimator = fitted(Mixture(1), states, np.repeat([1.0, 3.0], 100))
    # The mean of the one Gaussian is where its density is largest.
    grid = np.linspace(-2.0, 2.0, 401)[:, None]
    assert grid[np.argmax(log_prob(estimator, grid)), 0] == pytest.approx(0.5, abs=0.05)


def test_its_density_is_left_unfitted_and_its_seed_set() -> None:
    density = BayesianGaussianMixture(n_components=2, max_iter=2000)
    first, second = (fitted(density, STATES, seed=4) for _ in range(2))
    assert not hasattr(density, "means_")
    np.testing.assert_array_equal(log_prob(first, STATES), log_prob(second, STATES))


def test_angles_are_summed_over_turns() -> None:
    estimator = fitted(KernelDensity(bandwidth=0.5), np.full((20, 1), 3.0), periodic=(0,))
    grid = (np.arange(2000) + 0.5) / 2000 * 2.0 * np.pi - np.pi
    density = np.exp(log_prob(estimator, grid[:, None]))
    assert density.mean() * 2.0 * np.pi == pytest.approx(1.0, abs=1e-8)
    expected = np.exp(-0.5 * ((np.remainder(grid - 3.0 + np.pi, 2.0 * np.pi) - np.pi) / 0.5) ** 2)
    np.testing.assert_allclose(density, expected / (0.5 * np.sqrt(2.0 * np.pi)), atol=1e-6)


def test_says_when_there_are_too_few_samples() -> None:
    with pytest.raises(InvalidSetting, match="samples"):
        fitted(Mixture(8), [[0.0], [1.0]])


def test_says_when_it_is_no_density() -> None:
    with pytest.raises(InvalidSetting, match="density="):
        FromScikitLearn(object())

    class Broken(KernelDensity):
        def score_samples(self, X: Any) -> Any:
            return np.full(len(X), np.nan)

    with pytest.raises(NonFiniteValue, match="number"):
        log_prob(fitted(Broken(), STATES), STATES)
