"""Hyperparameters: defaults, refusals, and the way through JSON."""

import json
import math
from dataclasses import asdict

import gymnasium as gym
import numpy as np
import pytest
import torch

from constrained_maxent.agents import PGP, PGPSettings
from constrained_maxent.errors import InvalidSetting

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("policy", "table"),
        ("policy", None),
        ("optimizer", "rmsprop"),
        ("baseline", "mean"),
        *[
            (name, value)
            for name in ("learning_rate", "projection_radius", "max_gradient_norm", "critic_learning_rate")
            for value in (0.0, -1.0, NAN, INF, "0.1", True)
        ],
        ("critic_learning_rate", None),
        *[("return_discount", value) for value in (0.0, -0.5, 1.1, NAN, "1", True)],
        *[(name, value) for name in ("critic_steps", "critic_batch_size") for value in (0, -1, 1.5, None, True)],
        *[("hidden_sizes", value) for value in ((0,), (64, -1), (2.5,), 64, "64", (True,))],
    ],
)
def test_refused(name, value):
    with pytest.raises(InvalidSetting, match=name):
        PGPSettings(**{name: value})
    with pytest.raises(InvalidSetting, match=name):
        PGP(gym.make("FrozenLake-PGP-v0"), **{name: value})


def test_accepted_at_the_edges():
    PGPSettings(return_discount=1.0, hidden_sizes=(), critic_steps=1, learning_rate=1, projection_radius=1e-9)


def test_json_round_trip():
    settings = PGPSettings(policy="mlp", hidden_sizes=(8, 4), learning_rate=0.1, return_discount=0.9)
    again = PGPSettings(**json.loads(json.dumps(asdict(settings))))
    assert again == settings
    assert again.hidden_sizes == (8, 4)


def test_frozen():
    with pytest.raises(AttributeError):
        PGPSettings().learning_rate = 0.5


class TestPGP:
    """How PGP resolves and refuses settings."""

    def test_defaults_of_a_table(self):
        agent = PGP(gym.make("FrozenLake-PGP-v0"))
        assert type(agent.optimizer) is torch.optim.SGD
        assert agent.optimizer.param_groups[0]["lr"] == 0.01
        assert agent.is_tabular
        assert agent.critic is None

    def test_defaults_of_networks(self):
        agent = PGP(gym.make("FrozenLake-PGP-v0"), policy="mlp", hidden_sizes=(4,))
        assert type(agent.optimizer) is torch.optim.Adam
        assert agent.optimizer.param_groups[0]["lr"] == 3e-4
        assert not agent.is_tabular

    def test_optimizer_of_choice(self):
        env = gym.make("FrozenLake-PGP-v0")
        assert type(PGP(env, optimizer="adam", learning_rate=0.5).optimizer) is torch.optim.Adam
        agent = PGP(env, policy="mlp", optimizer="sgd", hidden_sizes=(4,))
        assert type(agent.optimizer) is torch.optim.SGD

    def test_unknown_hyperparameter(self):
        with pytest.raises(InvalidSetting, match=r"no hyperparameter lr\. It has: policy, learning_rate"):
            PGP(gym.make("FrozenLake-PGP-v0"), lr=0.1)

    def test_settings_or_keywords(self):
        with pytest.raises(InvalidSetting, match="not both"):
            PGP(gym.make("FrozenLake-PGP-v0"), PGPSettings(), learning_rate=0.1)

    def test_projection_is_for_tables(self):
        with pytest.raises(InvalidSetting, match="projection_radius"):
            PGP(gym.make("FrozenLake-PGP-v0"), policy="mlp", projection_radius=1.0, hidden_sizes=(4,))

    @pytest.mark.parametrize("device", ["gpu", "cuda:99", "cpu:x"])
    def test_unknown_device(self, device):
        with pytest.raises(InvalidSetting, match="device"):
            PGP(gym.make("FrozenLake-PGP-v0"), device=device)

    @pytest.mark.parametrize("seed", [-1, 1.5, None, "0", True])
    def test_seed(self, seed):
        with pytest.raises(InvalidSetting, match="seed"):
            PGP(gym.make("FrozenLake-PGP-v0"), seed=seed)

    def test_numpy_seed(self):
        assert PGP(gym.make("FrozenLake-PGP-v0"), seed=np.int64(3)).seed == 3

    @pytest.mark.parametrize("env", ["FrozenLake-PGP-v0", None])
    def test_no_environment(self, env):
        with pytest.raises(InvalidSetting, match=r"gym\.make"):
            PGP(env)
