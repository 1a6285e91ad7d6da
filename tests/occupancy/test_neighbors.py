"""Nearest neighbors: the Kozachenko-Leonenko formula, known entropies, circles and ties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box
from scipy.special import digamma

from constrained_maxent.functionals import Entropy
from constrained_maxent.occupancy import NearestNeighbors
from constrained_maxent.occupancy.samples import Frame
from constrained_maxent.testing import check_estimator
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


@pytest.mark.parametrize(("d", "angles"), [(3, ()), (12, ()), (12, (2, 5))])
def test_density_is_of_the_distance_to_the_kth_neighbor(d: int, angles: tuple[int, ...]) -> None:
    # All distances one by one, angles the short way; -log of the density may differ from p log r_k by one constant.
    states = np.random.default_rng(0).uniform(-3.0, 3.0, (300, d))
    z = np.where(np.isin(np.arange(d), angles), states, states / states.std(axis=0))
    difference = np.abs(z[:, None] - z[None])
    turns = difference[..., list(angles)]
    difference[..., list(angles)] = np.minimum(turns, 2.0 * np.pi - turns)
    kth = np.sort(np.linalg.norm(difference, axis=2), axis=1)[:, 4]
    surprise = -log_prob(fitted(states, periodic=angles), states)
    np.testing.assert_allclose(np.diff(surprise - d * np.log(kth)), 0.0, atol=1e-9)


@pytest.mark.parametrize("over", ["state", "state-action"])
@pytest.mark.parametrize("d", [2, 9])
def test_rewards_are_the_gradient_of_the_entropy(d: int, over: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # By each weight for itself, at coordinates that stay.
    states = np.random.default_rng(0).normal(size=(200, d))
    monkeypatch.setattr(Frame, "of", lambda rows, *_: Frame(np.zeros(rows.shape[1]), np.ones(rows.shape[1])))
    entropy = Entropy(over="state")
    measure = fitted(states, np.ones(200), over=over).measure()
    rewards = entropy.derivative(measure, measure.points)
    for j in (0, 7, 100):
        changed = np.tile(np.ones(200), (2, 1)) + 1e-4 * np.eye(200)[j] * np.array([[1.0], [-1.0]])
        up, down = (entropy.value(fitted(states, weights, over=over).measure()) for weights in changed)
        assert rewards[j] == pytest.approx((up - down) / 2e-4, abs=1e-5)


def test_rewards_follow_the_true_derivative_in_many_coordinates() -> None:
    # Of a standard Gaussian, |s|²/2: the logarithm of the distance alone follows it by two thirds.
    states = np.random.default_rng(0).normal(size=(3000, 27))
    measure = fitted(states).measure()
    rewards = Entropy(over="state").derivative(measure, measure.points)
    slope = np.polynomial.Polynomial.fit(0.5 * (states**2).sum(axis=1), rewards, 1).convert().coef[1]
    assert slope == pytest.approx(0.95, abs=0.06)


def test_elsewhere_the_nearest_samples_tell() -> None:
    states = np.random.default_rng(0).normal(size=(100, 2))
    estimator = fitted(states, n_neighbors=1)
    points = estimator.points(states + 1e-9, np.zeros((100, 1)))
    np.testing.assert_array_equal(points.influence, estimator.measure().points.influence)


def test_far_outliers_leave_neighbors_as_they_are() -> None:
    # 0.3 is resolved beside 1e7 also where squares would not: the neighbors of the others are those without it.
    near = np.random.default_rng(0).normal(size=(500, 10))
    far = np.concatenate((near, np.full((1, 10), 1e7)))
    with_it, without = log_prob(fitted(far), near), log_prob(fitted(near), near)
    np.testing.assert_allclose(with_it - without, np.median(with_it - without), atol=0.5)
    assert np.isfinite(log_prob(fitted(near), [np.full(10, -1e12)])).all()


class TestAcrossEpisodes:
    lengths = (50, 80, 70)
    owner = np.repeat(np.arange(3), lengths)
    states = np.cumsum(np.random.default_rng(0).normal(size=(200, 3)), axis=0)

    def fitted(self, weights: Any = None, **options: Any) -> NearestNeighbors:
        columns = {"observations": self.states, "actions": np.zeros((200, 1)), "lengths": self.lengths}
        estimator = NearestNeighbors(across_episodes=True, **options)
        estimator.bind(Box(-np.inf, np.inf, (3,)), Box(-1.0, 1.0, (1,)))
        return estimator.fit(Batch(weights=np.ones(200) if weights is None else weights, **columns))

    def test_neighbors_are_of_other_episodes(self) -> None:
        z = self.states / self.states.std(axis=0)
        apart = np.linalg.norm(z[:, None] - z[None], axis=2)
        apart[self.owner[:, None] == self.owner] = np.inf
        kth, n = np.sort(apart, axis=1)[:, 3], 200 - np.array(self.lengths)[self.owner]
        volume = np.log(4.0 / 3.0 * np.pi) + np.log(self.states.std(axis=0)).sum()
        expected = digamma(4) - digamma(n + 1) - volume - 3.0 * np.log(kth)
        np.testing.assert_allclose(log_prob(self.fitted(), self.states), expected, rtol=1e-9)

    def test_rewards_are_the_gradient_of_the_entropy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Frame, "of", lambda rows, *_: Frame(np.zeros(rows.shape[1]), np.ones(rows.shape[1])))
        entropy = Entropy(over="state")
        measure = self.fitted().measure()
        rewards = entropy.derivative(measure, measure.points)
        for j in (0, 77, 199):
            changed = np.ones((2, 200)) + 1e-4 * np.eye(200)[j] * np.array([[1.0], [-1.0]])
            up, down = (entropy.value(self.fitted(weights).measure()) for weights in changed)
            assert rewards[j] == pytest.approx(3.0 * (up - down) / 2e-4, abs=1e-4)  # a step weighs a third

    def test_contract(self) -> None:
        batch = Batch(observations=self.states, actions=np.zeros((200, 1)), lengths=self.lengths)
        for options in ({}, {"buffer_size": 150}, {"memory": 0.5}, {"over": "state-action"}):
            estimator = NearestNeighbors(across_episodes=True, **options)
            check_estimator(estimator, batch, Box(-np.inf, np.inf, (3,)), Box(-1.0, 1.0, (1,)))

    def test_along_walks_only_they_tell_how_rare_a_state_is(self) -> None:
        # 8 walks of 500 steps, each a Gaussian one in 8 coordinates that remembers 50 steps: log d is -|s|²/2.
        rng = np.random.default_rng(0)
        walks = rng.normal(size=(500, 8, 8))
        for t in range(1, 500):
            walks[t] = 0.98 * walks[t - 1] + np.sqrt(1.0 - 0.98**2) * walks[t]
        states = walks.swapaxes(0, 1).reshape(-1, 8)
        batch = Batch(
            observations=states, actions=np.zeros((4000, 1)), lengths=[500] * 8, weights=np.full(4000, 1 / 500)
        )
        slopes = []
        for across in (True, False):
            estimator = NearestNeighbors(across_episodes=across).bind(Box(-np.inf, np.inf, (8,)), Box(-1.0, 1.0, (1,)))
            measure = estimator.fit(batch).measure()
            rewards = Entropy(over="state").derivative(measure, measure.points)
            slopes.append(np.polynomial.Polynomial.fit(0.5 * (states**2).sum(axis=1), rewards, 1).convert().coef[1])
        assert slopes[0] == pytest.approx(1.0, abs=0.2)
        assert slopes[1] < 0.4
