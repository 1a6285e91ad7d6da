"""One occupancy means one number: counts of sampled episodes and the exact occupancy agree at both scales."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Discrete
from scipy.stats import chi2

from constrained_maxent.occupancy import Counts
from constrained_maxent.oracle import TabularMDP
from constrained_maxent.types import Batch, Trajectory

N_EPISODES = 4000
N_STATES, N_ACTIONS, LAST = 5, 2, 4


def chain_with_exit(horizon: int, discount: float) -> tuple[TabularMDP, np.ndarray, np.ndarray]:
    """An MDP whose state 4 ends the episode, its transition probabilities, and a policy."""
    rng = np.random.default_rng(7)
    transition = rng.dirichlet(np.ones(N_STATES), size=(N_STATES, N_ACTIONS))
    policy = rng.dirichlet(np.ones(N_ACTIONS), size=N_STATES)
    initial = np.array([0.6, 0.4, 0.0, 0.0, 0.0])
    mdp = TabularMDP.from_arrays(transition, initial, discount=discount, horizon=horizon, terminal=[LAST])
    return mdp, transition, policy


def sample_episode(
    rng: np.random.Generator, mdp: TabularMDP, transition: np.ndarray, policy: np.ndarray, weights: np.ndarray
) -> Trajectory:
    """A plain rollout that shares nothing with the code under test but the weights of its time steps."""
    state = rng.choice(N_STATES, p=mdp.initial)
    states, actions = [], []
    for _ in range(len(weights)):
        action = rng.choice(N_ACTIONS, p=policy[state])
        states.append(state)
        actions.append(action)
        state = rng.choice(N_STATES, p=transition[state, action])
        if state == LAST:
            break
    return Trajectory(observations=states, actions=actions, weights=weights[: len(states)])


@pytest.mark.parametrize("scale", ["normalized", "truncated"])
@pytest.mark.parametrize(("horizon", "discount"), [(6, 0.8), (4, 1.0)])
def test_counts_estimate_the_exact_occupancy(scale: Any, horizon: int, discount: float) -> None:
    mdp, transition, policy = chain_with_exit(horizon, discount)
    exact = mdp.occupancy(policy, scale=scale)
    weights = mdp.weighting(scale).weights(np.arange(horizon))
    rng = np.random.default_rng(11)
    episodes = [sample_episode(rng, mdp, transition, policy, weights) for _ in range(N_EPISODES)]
    estimator = Counts().bind(Discrete(N_STATES), Discrete(N_ACTIONS))
    estimate = estimator.fit(Batch.from_trajectories(episodes)).occupancy_

    # Each episode is one independent draw of the table, so their mean is asymptotically normal about the exact one:
    # the squared Mahalanobis distance is χ² with one degree of freedom per visited cell. A right estimate fails this
    # test at one seed in a thousand; the seed is fixed.
    single = np.array([np.bincount(2 * e.observations + e.actions, e.weights, 10) for e in episodes])
    visited = exact.ravel() > 0
    deviation = (estimate - exact).ravel()[visited]
    covariance = np.cov(single[:, visited], rowvar=False) / N_EPISODES
    assert visited.sum() == 8
    assert deviation @ np.linalg.solve(covariance, deviation) < chi2.ppf(0.999, df=8)

    # Early ends leave mass below that of a full-length episode, which is never divided out.
    assert estimator.mass_ == pytest.approx(exact.sum(), rel=0.03)
    full = {"normalized": 1.0, "truncated": sum(discount**t for t in range(horizon))}[scale]
    assert estimator.mass_ < 0.9 * full


def test_both_scales_of_one_sample_differ_by_the_constant_alone() -> None:
    mdp, transition, policy = chain_with_exit(6, 0.8)
    tables = {}
    for scale in ("normalized", "truncated"):
        weights = mdp.weighting(scale).weights(np.arange(6))
        rng = np.random.default_rng(0)
        episodes = [sample_episode(rng, mdp, transition, policy, weights) for _ in range(20)]
        estimator = Counts().bind(Discrete(N_STATES), Discrete(N_ACTIONS))
        tables[scale] = estimator.fit(Batch.from_trajectories(episodes)).occupancy_
    np.testing.assert_allclose(tables["normalized"], tables["truncated"] * (1 - 0.8) / (1 - 0.8**6), rtol=1e-12)
