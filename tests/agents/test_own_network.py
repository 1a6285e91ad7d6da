"""Networks of one's own in PGP."""

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

from constrained_maxent.agents import PGP
from constrained_maxent.errors import CheckpointMismatch, InvalidSetting, UnsupportedPolicy
from constrained_maxent.references.gaussian_network import GaussianNetwork

BOX = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
SETTINGS = {"epochs": 2, "minibatch_size": 4, "critic_steps": 3}


def layers(n_inputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(n_inputs, 16), nn.ReLU())


class Normed(nn.Module):
    """Something that hidden_sizes cannot say."""

    def __init__(self, n_inputs: int) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(n_inputs, 8), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.norm(self.first(x)))


def make_env(reporter, actions: gym.Space):
    return reporter(BOX, actions, reward=lambda s, a: float(s[0]) - float(np.sum(np.square(a))))


@pytest.mark.parametrize("actions", [BOX, gym.spaces.Discrete(3)])
def test_the_layers_of_hidden_sizes_learn_the_same_as_ones_own(reporter, actions: gym.Space) -> None:
    """Bit for bit: policy, critic and how they start are those of the built-in networks."""
    own = PGP(make_env(reporter, actions), seed=3, network=layers, **SETTINGS).learn(iterations=3)
    built_in = PGP(make_env(reporter, actions), seed=3, hidden_sizes=(16,), **SETTINGS).learn(iterations=3)
    for mine, theirs in zip(own.learner.parameters(), built_in.learner.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert own.critic is not None
    assert built_in.critic is not None
    for mine, theirs in zip(own.critic.parameters(), built_in.critic.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_saved_agent_goes_on_with_the_same_network_and_with_no_other(reporter, tmp_path: Path) -> None:
    once = PGP(make_env(reporter, BOX), seed=0, network=Normed, **SETTINGS)
    start = [parameter.clone() for parameter in once.learner.parameters()]
    once.learn(iterations=2, planned=4).save(tmp_path / "agent.pt")
    assert all(not torch.equal(a, b) for a, b in zip(start, once.learner.parameters(), strict=True))  # all of it learns
    loaded = PGP.load(tmp_path / "agent.pt", make_env(reporter, BOX), network=Normed)
    assert loaded.hyperparameters == once.hyperparameters
    observation = np.array([0.5, -0.5, 0.25], np.float32)
    for agent in (once, loaded):
        agent.learn(iterations=2)
    np.testing.assert_array_equal(
        once.predict(observation, deterministic=True)[0], loaded.predict(observation, deterministic=True)[0]
    )
    for network, named in ((None, "no network="), (layers, "test_own_network:layers")):
        with pytest.raises(CheckpointMismatch, match=rf"test_own_network:Normed, and here is .*{named}"):
            PGP.load(tmp_path / "agent.pt", make_env(reporter, BOX), network=network)
    PGP(make_env(reporter, BOX), seed=0, **SETTINGS).save(tmp_path / "usual.pt")
    with pytest.raises(CheckpointMismatch, match="made by hidden_sizes"):
        PGP.load(tmp_path / "usual.pt", make_env(reporter, BOX), network=Normed)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (lambda n: 3, "made a int"),
        (lambda n: nn.Linear(n + 1, 4), "cannot take 3 inputs"),
        (lambda n: nn.Sequential(nn.Linear(n, 4), nn.Unflatten(1, (2, 2))), r"must map \(n, n_inputs\)"),
        (lambda n: nn.Sequential(nn.Linear(n, 64), nn.Dropout()), "another time"),
        (lambda n: nn.Sequential(nn.Linear(n, 4), nn.BatchNorm1d(4)), "batch normalization"),
        (lambda n: nn.Softmax(dim=0), "another batch"),
    ],
)
def test_what_is_no_function_of_a_row_is_refused(reporter, network, message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        PGP(make_env(reporter, BOX), network=network)


def test_where_there_is_no_network_none_is_taken(reporter) -> None:
    table = reporter(gym.spaces.Discrete(4), gym.spaces.Discrete(2), reward=lambda s, a: 0.0)
    with pytest.raises(InvalidSetting, match="policy is a table"):
        PGP(table, network=layers)
    PGP(table, policy="mlp", network=layers)
    with pytest.raises(InvalidSetting, match="hidden_sizes= is given too"):
        PGP(make_env(reporter, BOX), network=layers, hidden_sizes=(8,))


def test_it_is_exported_and_no_reference_as_plain_data(reporter, tmp_path: Path) -> None:
    agent = PGP(make_env(reporter, BOX), seed=0, network=Normed, **SETTINGS).learn(iterations=1)
    agent.export(tmp_path / "policy.pt2")
    observation = np.array([[0.5, -0.5, 0.25]], np.float32)
    action = torch.export.load(tmp_path / "policy.pt2").module()(torch.as_tensor(observation))["action"].numpy()
    np.testing.assert_allclose(action[0], agent.predict(observation[0], deterministic=True)[0], rtol=1e-6)
    with pytest.raises(UnsupportedPolicy):
        GaussianNetwork.from_policy(agent.policy)
