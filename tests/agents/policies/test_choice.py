"""Which policy spaces get, and what all of them have in common."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Text

from constrained_maxent.agents.policies import (
    CategoricalMLP,
    GaussianMLP,
    TabularSoftmax,
    make_policy,
)
from constrained_maxent.errors import UnsupportedSpace


class TestMakePolicy:
    @pytest.mark.parametrize(
        ("observations", "actions", "kind", "expected"),
        [
            (Discrete(5), Discrete(2), "auto", TabularSoftmax),
            (Discrete(5), Discrete(2), "mlp", CategoricalMLP),
            (Box(0.0, 1.0, (2,)), Discrete(2), "auto", CategoricalMLP),
            # 800,000 cells are a table by default, 1,200,000 are not
            (Discrete(400_000), Discrete(2), "auto", TabularSoftmax),
            (Discrete(600_000), Discrete(2), "auto", CategoricalMLP),
            (Discrete(600_000), Discrete(2), "tabular", TabularSoftmax),
            (Discrete(5), Box(0.0, 1.0, (2,)), "auto", GaussianMLP),
            (Discrete(5), MultiDiscrete([2, 2]), "auto", CategoricalMLP),
            (Dict({"a": Discrete(2)}), Discrete(2), "auto", TabularSoftmax),
        ],
    )
    def test_kinds(self, observations, actions, kind, expected):
        assert type(make_policy(observations, actions, kind=kind, hidden_sizes=(4,))) is expected

    @pytest.mark.parametrize(
        ("observations", "actions", "kind", "message"),
        [
            (Discrete(2), Dict({"a": Box(0.0, 1.0)}), "auto", "neither finite nor a Box"),
            (Discrete(2), Box(0, 2, (1,), np.int64), "auto", "are whole numbers"),
            (Discrete(2), Box(0, 1, (1,), bool), "auto", "are whole numbers"),
            (Discrete(2), Box(0.0, 1.0), "tabular", "policy='mlp'"),
            (Discrete(2), MultiDiscrete([2, 2]), "tabular", "policy='mlp'"),
            (Box(0.0, 1.0), Discrete(2), "tabular", "Box"),
            (Dict({"a": Text(2)}), Discrete(2), "auto", "Text"),
            (Discrete(10**9), Discrete(2), "auto", "coarsely"),
            (Discrete(10**9), Discrete(2), "tabular", "coarsely"),
        ],
    )
    def test_unsupported(self, observations, actions, kind, message):
        with pytest.raises(UnsupportedSpace, match=message):
            make_policy(observations, actions, kind=kind, hidden_sizes=(4,))


def test_every_policy_has_the_same_shapes():
    observations = MultiDiscrete([2, 2])
    for actions, shape in [(Discrete(3), ()), (Box(-1.0, 1.0, (2,)), (2,)), (Box(-1.0, 1.0, (2, 2)), (4,))]:
        for kind in ("tabular", "mlp") if isinstance(actions, gym.spaces.Discrete) else ("mlp",):
            policy = make_policy(observations, actions, kind=kind, hidden_sizes=(4,))
            rows = np.array([[0, 1], [1, 1], [1, 0]])
            raw = policy.sample(rows, np.random.default_rng(0))
            assert raw.shape == policy.mode(rows).shape == (3, *shape)
            assert policy.log_prob(rows, raw).shape == (3,)
            assert all(actions.contains(action) for action in policy.to_env(raw))


@pytest.mark.parametrize(
    ("observations", "actions", "kind"),
    [
        (Discrete(3), Discrete(4), "tabular"),
        (Box(-1.0, 1.0, (3,)), Discrete(4), "mlp"),
        (Box(-1.0, 1.0, (3,)), Box(-1.0, 2.0, (2,)), "mlp"),
    ],
)
def test_samples_come_with_their_log_prob(observations, actions, kind, randomized):
    policy = randomized(make_policy(observations, actions, kind=kind, hidden_sizes=(8,), normalize=True), 0.3)
    rng = np.random.default_rng(0)
    rows = rng.integers(3, size=40) if kind == "tabular" else rng.normal(2.0, 5.0, size=(40, 3))
    policy.observe(rows)
    raw, log_prob = policy.sample_with_log_prob(rows, np.random.default_rng(1))
    # the very samples that sample() draws
    np.testing.assert_array_equal(raw, policy.sample(rows, np.random.default_rng(1)))
    assert (log_prob.shape, log_prob.dtype) == ((40,), np.float64)
    np.testing.assert_allclose(log_prob, policy.log_prob(rows, raw).detach().double(), rtol=1e-6)
    assert len(set(log_prob.tolist())) > 3


def test_normalized_observations_are_those_of_another_scale(network_policy):
    """After it has observed rows, a policy says of them what its twin says of standardized ones."""
    rows = np.random.default_rng(0).normal(7.0, 30.0, size=(60, 3))
    standard = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    for actions in (Discrete(3), Box(-1.0, 1.0, (2,))):
        plain = network_policy(actions)
        policy = make_policy(Box(-1.0, 1.0, (3,)), actions, kind="mlp", hidden_sizes=(8,), normalize=True)
        policy.load_state_dict(policy.state_dict() | plain.state_dict())
        policy.observe(rows)
        raw = plain.sample(standard, np.random.default_rng(0))
        torch.testing.assert_close(policy.log_prob(rows, raw), plain.log_prob(standard, raw), rtol=1e-4, atol=1e-4)
