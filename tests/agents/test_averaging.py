"""The average of a policy's iterates: by hand, as what the agent shows, and over a checkpoint."""

import math

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from constrained_maxent.agents import PGP
from constrained_maxent.errors import InvalidSetting

TABLE = {"learning_rate": 0.3}
NETWORK = {"policy": "mlp", "hidden_sizes": (8,), "critic_steps": 2, "learning_rate": 0.01}


def grid():
    return gym.make_vec("FrozenLake-PGP-v0", num_envs=4, preset="paper", episodes_per_batch=4)


def parameters(policy):
    return torch.cat([parameter.detach().flatten() for parameter in policy.parameters()]).double().numpy()


@pytest.mark.parametrize("settings", [TABLE, NETWORK], ids=["table", "networks"])
class TestBothKindsOfPolicy:
    def test_the_average_by_hand(self, settings):
        """With d = 0.7 the plain mean of up to three iterates; from the fourth on 0.7 of what was."""
        iterates, shown = [], []

        def record(agent, report):
            iterates.append(parameters(agent.learner))
            shown.append(parameters(agent.policy))

        PGP(grid(), seed=1, averaging=0.7, **settings).learn(iterations=5, callback=record)
        expected = [iterates[0], np.mean(iterates[:2], axis=0), np.mean(iterates[:3], axis=0)]
        expected.append(0.7 * expected[2] + 0.3 * iterates[3])
        expected.append(0.7 * expected[3] + 0.3 * iterates[4])
        np.testing.assert_allclose(shown, expected, rtol=0.0, atol=1e-7)
        assert (shown[-1] != iterates[-1]).any()

    def test_learning_does_not_see_it(self, settings):
        one = PGP(grid(), seed=1, averaging=0.9, **settings).learn(iterations=3)
        other = PGP(grid(), seed=1, **settings).learn(iterations=3)
        np.testing.assert_array_equal(parameters(one.learner), parameters(other.policy))
        assert other.policy is other.learner

    def test_it_is_what_the_agent_shows(self, settings):
        agent = PGP(grid(), seed=1, averaging=0.9, **settings).learn(iterations=3)
        rows = np.arange(36)
        with torch.no_grad():
            log_probs = [agent.policy.log_prob(rows, np.full(36, action)).double().numpy() for action in range(4)]
        np.testing.assert_allclose(agent.policy_table(), np.exp(log_probs).T, atol=1e-6)
        assert (agent.policy_table() != agent.learner.table()).any()
        draws = [int(agent.predict(0)[0]) for _ in range(2000)]
        # Four standard errors of a frequency from 2000 draws are at most 0.045.
        np.testing.assert_allclose(np.bincount(draws, minlength=4) / 2000, agent.policy_table()[0], atol=0.045)

    def test_going_on_from_a_checkpoint(self, settings, tmp_path):
        whole = PGP(grid(), seed=1, averaging=0.8, **settings).learn(iterations=6)
        PGP(grid(), seed=1, averaging=0.8, **settings).learn(iterations=2).save(tmp_path / "agent.pt")
        agent = PGP.load(tmp_path / "agent.pt", grid())
        assert agent.hyperparameters.averaging == 0.8
        agent.learn(iterations=4)
        np.testing.assert_array_equal(parameters(agent.policy), parameters(whole.policy))
        np.testing.assert_array_equal(parameters(agent.learner), parameters(whole.learner))


def test_observations_are_normalized_as_the_learner_does(reporter):
    env = reporter(
        Box(-1.0, 1.0, (3,)), Box(-1.0, 1.0, (2,)), reward=lambda s, a: float(a @ s[:2]), episodes=3, horizon=5
    )
    agent = PGP(env, averaging=0.5, hidden_sizes=(8,), critic_steps=1, seed=0).learn(iterations=2)
    assert agent.learner.features.count == 30
    for name, buffer in agent.learner.named_buffers():
        np.testing.assert_array_equal(dict(agent.policy.named_buffers())[name], buffer)


@pytest.mark.parametrize("averaging", [-0.1, 1.0, math.nan, "0.9", True])
def test_refused(averaging):
    with pytest.raises(InvalidSetting, match="averaging"):
        PGP(grid(), averaging=averaging)
