"""The proximal term of PGP: what it reduces to, by hand, and over a checkpoint."""

import math

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete

from constrained_maxent.agents import PGP
from constrained_maxent.errors import InvalidSetting

TABLE = {"learning_rate": 0.3}
NETWORK = {"policy": "mlp", "hidden_sizes": (8,), "critic_steps": 2, "learning_rate": 0.01}


def grid():
    return gym.make_vec("FrozenLake-PGP-v0", num_envs=4, preset="paper", episodes_per_batch=4)


def train(iterations=5, **settings):
    return PGP(grid(), seed=1, **settings).learn(iterations=iterations)


def parameters(agent):
    return torch.cat([parameter.detach().flatten() for parameter in agent.policy.parameters()]).numpy()


@pytest.mark.parametrize("settings", [TABLE, NETWORK], ids=["table", "networks"])
class TestBothKindsOfPolicy:
    def test_weight_0_is_plain(self, settings):
        plain = parameters(train(**settings))
        np.testing.assert_array_equal(parameters(train(proximal_weight=0.0, **settings)), plain)
        assert (parameters(train(proximal_weight=0.5, inner_iterations=3, **settings)) != plain).any()

    def test_a_centre_that_always_moves_is_plain(self, settings):
        """With one step from each center the pull is always 0."""
        one = {"epochs": 1, "minibatch_size": 0, **settings}
        np.testing.assert_array_equal(
            parameters(train(proximal_weight=9.0, inner_iterations=1, **one)), parameters(train(**one))
        )

    @pytest.mark.parametrize("saved_at", [2, 3, 4])
    def test_going_on_from_a_checkpoint(self, settings, saved_at, tmp_path):
        """The center moves before the fourth batch and stands before the others."""
        settings = {"proximal_weight": 2.0, "inner_iterations": 3, **settings}
        train(iterations=saved_at, **settings).save(tmp_path / "agent.pt")
        agent = PGP.load(tmp_path / "agent.pt", grid()).learn(iterations=7 - saved_at)
        np.testing.assert_array_equal(parameters(agent), parameters(train(iterations=7, **settings)))


def test_two_steps_by_hand(reporter):
    """One state, two actions, reward 2 for action 1, four episodes of one step, η = 0.1, ρ̂ = 5, center (0, 0).

    A step is θ ← θ + η (ĝ - ρ̂ θ), and ĝ₁ = Σ 2·1{a=1} (1 - π₁) / 4 - Σ 0 = n (1 - π₁) / 2 for n times action 1.
    """
    env = reporter(Discrete(1), Discrete(2), reward=lambda s, a: 2.0 * a, episodes=4, horizon=1)
    agent = PGP(env, policy="tabular", learning_rate=0.1, proximal_weight=5.0, inner_iterations=2, seed=0)
    theta = 0.0  # of action 1; that of action 0 is its negative
    for _ in range(2):
        agent.learn(iterations=1)
        n = sum(action for _, action, _ in env.last)
        theta += 0.1 * (n * (1.0 - 1.0 / (1.0 + math.exp(-2.0 * theta))) / 2.0 - 5.0 * theta)
    assert theta > 0.01
    np.testing.assert_allclose(agent.policy.theta.detach(), [[-theta, theta]], rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "value"),
    [*[("proximal_weight", v) for v in (-1.0, math.nan, math.inf, "1", True)]]
    + [("inner_iterations", v) for v in (0, -1, 1.5, "2", True)],
)
def test_refused(name, value):
    with pytest.raises(InvalidSetting, match=name):
        PGP(grid(), **{name: value})
