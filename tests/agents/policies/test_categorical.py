"""Networks over finitely many actions, against torch's categorical distribution and their own frequencies."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from gymnasium.vector.utils import batch_space, iterate
from scipy.stats import chisquare
from torch.distributions import Categorical

from constrained_maxent.agents.policies import (
    make_policy,
)
from constrained_maxent.errors import UnsupportedSpace
from constrained_maxent.spaces import FiniteSpace, from_rows

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


VECTORS = [
    (MultiDiscrete([2, 3], start=[1, -1]), [2, 3]),
    (MultiDiscrete([[2, 3]]), [2, 3]),
    (MultiBinary(2), [2, 2]),
    (Dict(b=Discrete(2, start=5), a=Tuple((Discrete(3),))), [2, 3]),
]
"""Spaces of actions by components, and the sizes of these."""


@pytest.mark.parametrize(("space", "sizes"), VECTORS, ids=str)
class TestSeveralComponents:
    def test_log_prob_is_the_sum_over_categoricals(self, space, sizes, network_policy):
        policy = network_policy(space)
        rows = np.random.default_rng(0).normal(size=(4, 3))
        raw = np.array([[0, 0], [1, 0], [0, sizes[1] - 1], [1, 1]])
        logits = policy.logits(torch.as_tensor(rows, dtype=torch.float32))
        parts = [Categorical(logits=own) for own in (logits[:, : sizes[0]], logits[:, sizes[0] :])]
        expected = sum(part.log_prob(torch.as_tensor(raw[:, i])) for i, part in enumerate(parts))
        torch.testing.assert_close(policy.log_prob(rows, raw), expected)
        best = torch.stack([part.probs.argmax(dim=1) for part in parts], dim=1)
        assert policy.mode(rows).tolist() == best.tolist()

    def test_sampling_frequencies(self, space, sizes, network_policy):
        policy, row = network_policy(space, scale=1.0), np.array([0.5, -1.0, 2.0])
        every = np.indices(sizes).reshape(2, -1).T
        with torch.no_grad():
            probabilities = policy.log_prob(np.tile(row, (len(every), 1)), every).double().exp().numpy()
        assert probabilities.sum() == pytest.approx(1.0, rel=1e-6)
        actions = policy.sample(np.tile(row, (20_000, 1)), np.random.default_rng(0))
        observed = np.bincount(np.ravel_multi_index(actions.T, sizes), minlength=len(every))
        assert chisquare(observed, 20_000 * probabilities / probabilities.sum()).pvalue > CONFIDENCE

    def test_actions_are_of_the_space(self, space, sizes, network_policy):
        policy = network_policy(space)
        many = from_rows(space, policy.to_env(policy.sample(np.zeros((50, 3)), np.random.default_rng(0))))
        assert all(space.contains(one) for one in iterate(batch_space(space, 50), many))

    def test_its_table_numbers_actions_as_counts_do(self, space, sizes, network_policy):
        policy = network_policy(space, Discrete(2))
        every = FiniteSpace(space).decode(np.arange(FiniteSpace(space).n)) - np.array(FiniteSpace(space).starts)
        with torch.no_grad():
            expected = [policy.log_prob(np.full(len(every), s), every).exp().numpy() for s in range(2)]
        np.testing.assert_allclose(policy.table(), expected, rtol=1e-5)


def test_gradients_by_finite_differences(network_policy):
    policy = network_policy(MultiDiscrete([2, 3])).double()
    rows, raw = np.array([[0.5, -1.0, 2.0], [0.0, 1.0, -0.5]]), np.array([[1, 2], [0, 0]])
    policy.features.forward = lambda rows: rows.double()  # float32 inputs would hide the differences
    factor = np.array([0.7, -1.3])
    policy.ascend(rows, raw, factor)
    for parameter in policy.parameters():
        place = (0,) * parameter.ndim
        values = []
        for step in (1e-6, -1e-6):
            with torch.no_grad():
                parameter[place] += step
                values.append(float(policy.log_prob(rows, raw).numpy() @ factor))
                parameter[place] -= step
        assert -float(parameter.grad[place]) == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5, abs=1e-8)
