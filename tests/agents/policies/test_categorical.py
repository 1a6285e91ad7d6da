"""Networks over finitely many actions, against torch's categorical distribution and their own frequencies."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Tuple
from scipy.stats import chisquare
from torch.distributions import Categorical

from constrained_maxent.agents.policies import (
    make_policy,
)
from constrained_maxent.errors import UnsupportedSpace

CONFIDENCE = 1e-6
"""A right sampler fails a test of this level once in a million seeds; the seed is fixed."""


class TestCategoricalMLP:
    def test_log_prob_is_that_of_a_categorical(self, network_policy):
        policy = network_policy(Discrete(4, start=2))
        rows = np.random.default_rng(0).normal(size=(5, 3))
        raw = np.array([0, 1, 2, 3, 0])
        logits = policy.logits(torch.as_tensor(rows, dtype=torch.float32))
        expected = Categorical(logits=logits).log_prob(torch.as_tensor(raw))
        torch.testing.assert_close(policy.log_prob(rows, raw), expected)
        assert policy.to_env(raw).tolist() == [2, 3, 4, 5, 2]

    def test_sampling_frequencies(self, network_policy):
        policy = network_policy(Discrete(4), scale=1.0)
        row = np.array([0.5, -1.0, 2.0])
        with torch.no_grad():
            probabilities = policy.log_prob(np.tile(row, (4, 1)), np.arange(4)).double().exp().numpy()
        actions = policy.sample(np.tile(row, (20_000, 1)), np.random.default_rng(0))
        observed = np.bincount(actions, minlength=4)
        assert chisquare(observed, 20_000 * probabilities / probabilities.sum()).pvalue > CONFIDENCE

    def test_mode_is_the_most_probable_action(self, network_policy):
        policy = network_policy(Discrete(4), scale=1.0)
        rows = np.random.default_rng(0).normal(size=(6, 3))
        log_probs = torch.stack([policy.log_prob(rows, np.full(6, a)) for a in range(4)], dim=1)
        assert policy.mode(rows).tolist() == log_probs.argmax(dim=1).tolist()

    def test_first_policy_is_nearly_uniform(self):
        policy = make_policy(Box(-1.0, 1.0, (3,)), Discrete(4), kind="mlp", hidden_sizes=(64, 64))
        rows = np.random.default_rng(0).uniform(-1.0, 1.0, size=(50, 3))
        for a in range(4):
            np.testing.assert_allclose(policy.log_prob(rows, np.full(50, a)).detach().exp(), 0.25, atol=0.03)

    @pytest.mark.parametrize(
        ("space", "rows"),
        [
            (Discrete(4, start=-1), [-1, 0, 1, 2]),
            (MultiDiscrete([2, 2]), [[0, 0], [0, 1], [1, 0], [1, 1]]),
            (MultiBinary(2), [[0, 0], [0, 1], [1, 0], [1, 1]]),
            (Tuple((Discrete(2), Discrete(2, start=1))), [[0, 1], [0, 2], [1, 1], [1, 2]]),
        ],
    )
    def test_table_of_finite_observations(self, space, rows, network_policy):
        policy = network_policy(Discrete(3), space)
        expected = np.stack([policy.log_prob(np.array(rows), np.full(4, a)).detach().exp() for a in range(3)], axis=1)
        np.testing.assert_allclose(policy.table(), expected, rtol=1e-5)
        np.testing.assert_allclose(policy.table().sum(axis=1), 1.0, rtol=1e-6)

    def test_no_table_of_continuous_observations(self, network_policy):
        with pytest.raises(UnsupportedSpace, match="Box"):
            network_policy(Discrete(3)).table()

    def test_one_hot_inputs(self, randomized):
        """A one-layer network on one-hot inputs is a table: states do not share parameters."""
        policy = make_policy(MultiDiscrete([2, 3]), Discrete(2), kind="mlp", hidden_sizes=())
        assert policy.logits[-1].in_features == 5
        randomized(policy)
        weight, bias = policy.logits[-1].weight, policy.logits[-1].bias
        logits = weight[:, 1] + weight[:, 2 + 2] + bias
        expected = Categorical(logits=logits).log_prob(torch.tensor(0))
        torch.testing.assert_close(policy.log_prob(np.array([[1, 2]]), np.array([0]))[0], expected)
