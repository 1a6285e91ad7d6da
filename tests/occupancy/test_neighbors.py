"""Nearest neighbors: the Kozachenko-Leonenko formula, known entropies, circles and ties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box
from scipy.special import digamma

from constrained_maxent.occupancy import NearestNeighbors
from constrained_maxent.types import Batch


def fitted(states: Any, weights: Any = None, **options: Any) -> NearestNeighbors:
    states = np.asarray(states, dtype=np.float64)
    batch = Batch(observations=states, actions=np.zeros((len(states), 1)), lengths=[len(states)], weights=weights)
    estimator = NearestNeighbors(**options)
    return estimator.bind(Box(-np.inf, np.inf, (states.shape[1],)), Box(-1.0, 1.0, (1,))).fit(batch)


def log_prob(estimator: NearestNeighbors, places: Any) -> Any:
    return estimator.log_prob(np.asarray(places, dtype=np.float64), np.zeros((len(places), 1)))


@pytest.mark.parametrize("k", [1, 3])
def test_is_the_formula_of_kozachenko_and_leonenko(k: int) -> None:
    states = np.random.default_rng(0).normal(size=(60, 2)) @ np.diag([1.0, 5.0])
    # By hand, in coordinates of variance 1: H = ψ(n) - ψ(k) + log π + 2 mean log r_k + log of the scales.
    scale = states.std(axis=0)
    z = states / scale
    distances = np.sort(np.linalg.norm(z[:, None] - z[None], axis=2), axis=1)[:, k]
    entropy = digamma(60) - digamma(k) + np.log(np.pi) + 2.0 * np.log(distances).mean() + np.log(scale).sum()
    assert -log_prob(fitted(states, n_neighbors=k), states).mean() == pytest.approx(entropy, rel=1e-12)


@pytest.mark.parametrize("d", [1, 2, 4])
def test_entropy_of_a_gaussian(d: int) -> None:
    states = 3.0 * np.random.default_rng(0).normal(size=(4000, d))
    exact = d * (0.5 * np.log(2.0 * np.pi * np.e) + np.log(3.0))
    assert -log_prob(fitted(states), states).mean() == pytest.approx(exact, abs=0.08)


def test_weights_are_importance_weights() -> None:
    # Uniform samples on [0, 1], weighted by 2x: the entropy of the density 2x is 1/2 - log 2.
    states = np.random.default_rng(0).random((5000, 1))
    weights = 2.0 * states[:, 0]
    scores = log_prob(fitted(states, weights, n_neighbors=8), states)
    assert -np.average(scores, weights=weights) == pytest.approx(0.5 - np.log(2.0), abs=0.03)


def test_a_place_that_is_no_sample_counts_all_of_them() -> None:
    # Around 0, the nearest of four samples is at 1, with a quarter of the mass: ψ(1) - ψ(5) + log(4/4) - log 2 - log 1.
    estimator = fitted([[-3.0], [1.0], [5.0], [-7.0]], n_neighbors=1)
    scale = np.std([-3.0, 1.0, 5.0, -7.0])
    expected = digamma(1) - digamma(5) + np.log(4.0 * 0.25) - np.log(2.0 * 1.0 / scale) - np.log(scale)
    assert log_prob(estimator, [[0.0]]).item() == pytest.approx(expected, rel=1e-12)


def test_distance_on_a_circle_goes_the_short_way() -> None:
    states = np.array([[3.1], [-3.1], [0.0], [0.5]])
    estimator = fitted(states, n_neighbors=1, periodic=(0,))
    short = 2.0 * np.pi - 6.2
    expected = digamma(1) - digamma(4) + np.log(1.0) - np.log(2.0 * short)
    np.testing.assert_allclose(log_prob(estimator, states[:2]), expected, rtol=1e-9)


def test_entropy_of_the_uniform_circle() -> None:
    states = np.random.default_rng(0).uniform(-np.pi, np.pi, (4000, 1))
    assert -log_prob(fitted(states, periodic=(0,)), states).mean() == pytest.approx(np.log(2.0 * np.pi), abs=0.03)


def test_ties_get_the_least_distance() -> None:
    estimator = fitted(np.zeros((10, 1)), n_neighbors=2)
    expected = digamma(2) - digamma(10) + np.log(2 / 9 * 9 / 2) - np.log(2.0 * 1e-5)
    assert log_prob(estimator, [[0.0]]).item() == pytest.approx(expected, rel=1e-12)


def test_fewer_samples_than_neighbors() -> None:
    assert np.isfinite(log_prob(fitted([[0.0], [1.0], [3.0]], n_neighbors=10), [[0.0], [0.7]])).all()
