"""Natural gradient steps of PGP: the formula by hand and by linear algebra, and the batched engine's own steps."""

import math
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete

from constrained_maxent.agents import PGP
from constrained_maxent.agents.natural import NaturalGradient, estimated_visits
from constrained_maxent.agents.policies import TabularSoftmax
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.types import Measure, Points
from constrained_maxent.wrappers import find_tracker

N_STATES, N_ACTIONS = 4, 3
RNG = np.random.default_rng(3)


def stepped(theta, gradient, visits, *, lr, damping, full_mass=1.0):
    policy = TabularSoftmax(Discrete(len(theta)), Discrete(len(theta[0])))
    with torch.no_grad():
        policy.theta.copy_(torch.as_tensor(np.array(theta, dtype=np.float64)))
    optimizer = NaturalGradient(policy, lr=lr, damping=damping)
    optimizer.visits, optimizer.full_mass = np.array(visits, dtype=np.float64), full_mass
    policy.theta.grad = -torch.as_tensor(np.array(gradient, dtype=np.float64))
    optimizer.step()
    return policy.theta.detach().numpy()


def test_is_the_inverse_fisher_matrix_times_the_gradient():
    """(d (diag π - π πᵀ) + δ M I)⁻¹ g, solved in every state."""
    theta, visits = RNG.normal(size=(N_STATES, N_ACTIONS)), RNG.random(N_STATES)
    gradient = RNG.normal(size=(N_STATES, N_ACTIONS))
    gradient -= gradient.mean(axis=1, keepdims=True)  # scores sum to 0 over the actions
    expected = theta.copy()
    for s in range(N_STATES):
        pi = np.exp(theta[s]) / np.exp(theta[s]).sum()
        fisher = visits[s] * (np.diag(pi) - np.outer(pi, pi)) + 0.05 * 22.0 * np.eye(N_ACTIONS)
        expected[s] += 0.3 * np.linalg.solve(fisher, gradient[s])
    found = stepped(theta, gradient, visits, lr=0.3, damping=0.05, full_mass=22.0)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_by_hand_on_a_bandit():
    """One state, two actions, rewards r: ĝ = π₀π₁(r₀ - r₁)(1, -1) = (r₀ - r₁)/4 (1, -1) under the uniform policy.

    The Fisher matrix has the eigenvalue 2π₀π₁ = 1/2 along (1, -1), so that the step is η (r₀ - r₁)/4 / (1/2 + δ) each
    way: with r = (3, 1), δ = 1/2 and η = 1 it is 1/2.
    """
    found = stepped([[0.0, 0.0]], [[0.5, -0.5]], [1.0], lr=1.0, damping=0.5)
    np.testing.assert_allclose(found, [[0.5, -0.5]], rtol=1e-12)


def test_an_agent_steps_by_hand(reporter):
    """An environment of its own, without the wrappers' estimate: one state, two actions, reward 2 for action 1.

    Four episodes of one step, of which n take action 1: ĝ₁ = Σ r (1{a=1} - 1/2) / 4 = 2n / 8 = n/4, d = 1, δ = 1/2.
    """
    env = reporter(Discrete(1), Discrete(2), reward=lambda s, a: 2.0 * a, episodes=4, horizon=1)
    agent = PGP(env, policy="tabular", optimizer="natural", damping=0.5, learning_rate=0.1, seed=0).learn(iterations=1)
    n = sum(action for _, action, _ in env.last)
    assert n > 0
    step = 0.1 * (n / 4) / (0.5 + 0.5)
    np.testing.assert_allclose(agent.policy.theta.detach().numpy(), [[-step, step]], rtol=1e-12)


def grid(**settings):
    """The grid, a vector of four, with the paper's settings."""
    return gym.make_vec("FrozenLake-PGP-v0", num_envs=4, preset="paper", episodes_per_batch=4, **settings)


class TestVisits:
    """d(s): the estimate's marginal, of the estimate that the rewards belong to."""

    def test_same(self):
        env = grid(memory=0.9)
        agent = PGP(env, optimizer="natural", seed=0).learn(iterations=3)
        marginal = find_tracker(env).estimator.occupancy_.sum(axis=1)
        np.testing.assert_array_equal(agent.optimizer.visits, marginal)
        assert agent.optimizer.full_mass == pytest.approx((1 - 0.99**25) / 0.01)

    def test_previous(self):
        env = grid(memory=0.9, pairing="previous")
        agent = PGP(env, optimizer="natural", seed=0).learn(iterations=2)
        marginal = find_tracker(env).estimator.occupancy_.sum(axis=1)
        agent.learn(iterations=1)
        np.testing.assert_array_equal(agent.optimizer.visits, marginal)

    def test_of_a_sparse_estimate(self):
        """As the dense one's, in which the same numbers stand between zeros."""
        env = grid(memory=0.5)
        agent = PGP(env, optimizer="natural", seed=0).learn(iterations=2)
        dense = estimated_visits(find_tracker(env), agent.policy)
        measure = find_tracker(env).estimator.measure()
        cells = np.flatnonzero(measure.weights)
        sparse = Measure(
            points=Points(
                density=measure.weights.reshape(-1)[cells],
                state_density=measure.points.state_density.reshape(-1)[cells],
                cells=cells,
            ),
            weights=measure.weights.reshape(-1)[cells],
        )
        estimator = SimpleNamespace(is_fitted=True, table_shape=lambda: (36, 4), measure=lambda: sparse)
        found = estimated_visits(SimpleNamespace(estimator=estimator), agent.policy)
        np.testing.assert_allclose(found, dense, rtol=1e-15)


def test_epochs_of_minibatches():
    """Each is a step of its own: more of them go further."""
    moved = [
        np.abs(PGP(grid(), optimizer="natural", seed=0, epochs=n).learn(iterations=1).policy_table() - 0.25).sum()
        for n in (1, 4)
    ]
    assert moved[1] > 2.0 * moved[0]


def test_networks_are_refused():
    with pytest.raises(InvalidSetting, match="'natural' is for tabular policies"):
        PGP(grid(), optimizer="natural", policy="mlp", hidden_sizes=(4,))


@pytest.mark.parametrize("damping", [0.0, -1.0, math.nan, math.inf, "0.1", True])
def test_damping_out_of_range(damping):
    with pytest.raises(InvalidSetting, match="damping"):
        PGP(grid(), damping=damping)


def test_going_on_from_a_checkpoint(tmp_path):
    whole = PGP(grid(memory=0.5), optimizer="natural", seed=2).learn(iterations=5)
    PGP(grid(memory=0.5), optimizer="natural", seed=2).learn(iterations=2).save(tmp_path / "agent.pt")
    agent = PGP.load(tmp_path / "agent.pt", grid(memory=0.5)).learn(iterations=3)
    np.testing.assert_array_equal(agent.policy_table(), whole.policy_table())
