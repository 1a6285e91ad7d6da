"""The softmax table against torch's distributions, finite differences and the frequencies of its own samples."""

import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete, MultiBinary, MultiDiscrete, Tuple
from scipy.stats import chisquare
from torch.distributions import Categorical

from constrained_maxent.agents.policies import (
    Policy,
    TabularSoftmax,
)
from constrained_maxent.errors import InvalidData, NonFiniteValue, UnsupportedSpace

CONFIDENCE = 1e-6
"""A right sampler fails a test of this level once in a million seeds; the seed is fixed."""


class TestTabularSoftmax:
    def test_starts_uniform(self):
        policy = TabularSoftmax(Discrete(3), Discrete(4))
        np.testing.assert_array_equal(policy.table(), np.full((3, 4), 0.25))

    def test_log_prob_is_that_of_a_categorical(self, table_policy):
        policy = table_policy()
        rows, actions = np.array([0, 2, 1, 2]), np.array([3, 0, 1, 0])
        expected = Categorical(logits=policy.theta[torch.as_tensor(rows)]).log_prob(torch.as_tensor(actions))
        np.testing.assert_allclose(policy.log_prob(rows, actions).detach(), expected.detach(), rtol=1e-13)

    def test_gradient_of_log_prob_by_finite_differences(self, table_policy):
        policy = table_policy()
        rows, actions = np.array([0, 2, 2]), np.array([3, 0, 1])
        factors = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
        (factors * policy.log_prob(rows, actions)).sum().backward()
        step = 1e-6
        for cell in np.ndindex(3, 4):
            values = []
            for sign in (1.0, -1.0):
                with torch.no_grad():
                    policy.theta[cell] += sign * step
                    values.append((factors * policy.log_prob(rows, actions)).sum().item())
                    policy.theta[cell] -= sign * step
            assert policy.theta.grad[cell].item() == pytest.approx((values[0] - values[1]) / (2 * step), abs=1e-8)

    def test_ascend_is_the_gradient_by_automatic_differentiation(self, table_policy):
        rows, actions, factors = np.array([0, 2, 2, 2]), np.array([3, 0, 1, 0]), np.array([1.0, -2.0, 0.5, 0.25])
        closed, automatic = table_policy(), table_policy()
        automatic.load_state_dict(closed.state_dict())
        for _ in range(2):  # gradients add up, as those of automatic differentiation do
            closed.ascend(rows, actions, factors)
            Policy.ascend(automatic, rows, actions, factors)
        np.testing.assert_allclose(closed.theta.grad, automatic.theta.grad, atol=1e-14)

    def test_gradient_of_log_prob_is_indicator_minus_policy(self, table_policy):
        policy = table_policy()
        policy.log_prob(np.array([1]), np.array([2])).sum().backward()
        expected = np.zeros((3, 4))
        expected[1] = -policy.table()[1]
        expected[1, 2] += 1.0
        np.testing.assert_allclose(policy.theta.grad, expected, atol=1e-15)

    def test_sampling_frequencies(self, table_policy):
        policy = table_policy()
        rng = np.random.default_rng(0)
        for state, row in enumerate(policy.table()):
            actions = policy.sample(np.full(20_000, state), rng)
            assert chisquare(np.bincount(actions, minlength=4), 20_000 * row).pvalue > CONFIDENCE

    def test_samples_follow_the_parameters_once_they_changed(self, table_policy):
        policy = table_policy()
        rows, rng = np.zeros(100, dtype=int), np.random.default_rng(0)
        policy.sample(rows, rng)
        with torch.no_grad():
            policy.theta[0] = torch.tensor([-100.0, -100.0, 0.0, -100.0])
        policy.changed()
        assert set(policy.sample(rows, rng).tolist()) == {2}

    def test_certain_actions_and_the_end_of_the_unit_interval(self, table_policy):
        """The sum of a row may miss 1 by rounding: the largest number below 1 must still give a legal action."""
        policy = table_policy(n_actions=7)

        class Last:
            def random(self, n):
                return np.full(n, np.nextafter(1.0, 0.0))

        assert policy.sample(np.arange(3), Last()).max() <= 6

    def test_mode(self, table_policy):
        policy = table_policy()
        assert policy.mode(np.arange(3)).tolist() == policy.table().argmax(axis=1).tolist()

    def test_actions_that_start_elsewhere(self):
        policy = TabularSoftmax(Discrete(2, start=5), Discrete(3, start=-1))
        raw = policy.sample(np.array([5, 6, 6]), np.random.default_rng(0))
        assert set(raw.tolist()) <= {0, 1, 2}
        assert (policy.to_env(raw) == raw - 1).all()
        assert policy.log_prob(np.array([5, 6]), np.array([0, 2])).exp().tolist() == pytest.approx([1 / 3, 1 / 3])
        with pytest.raises(InvalidData):
            policy.sample(np.array([0]), np.random.default_rng(0))

    @pytest.mark.parametrize(
        ("space", "row", "state"),
        [
            (MultiDiscrete([2, 3]), [1, 2], 5),
            (MultiBinary(3), [1, 0, 1], 5),
            (Tuple((Discrete(2), Discrete(3, start=1))), [1, 2], 4),
        ],
    )
    def test_composite_observations(self, space, row, state, randomized):
        """Numbered in mixed radix with the last component fastest."""
        policy = randomized(TabularSoftmax(space, Discrete(2)))
        raw = np.array([1])
        expected = Categorical(logits=policy.theta[state]).log_prob(torch.tensor(1))
        assert policy.log_prob(np.array([row]), raw).item() == pytest.approx(expected.item(), rel=1e-13)
        assert policy.sample(np.array([row] * 4), np.random.default_rng(0)).shape == (4,)

    def test_diverged_parameters_are_named(self, table_policy):
        policy = table_policy()
        with torch.no_grad():
            policy.theta[0, 0] = math.nan
        policy.changed()
        for act in (lambda: policy.sample(np.array([1]), np.random.default_rng(0)), lambda: policy.mode(np.array([1]))):
            with pytest.raises(NonFiniteValue, match="lower the learning rate"):
                act()

    def test_a_table_that_fits_nowhere(self):
        with pytest.raises(UnsupportedSpace, match="mlp"):
            TabularSoftmax(Discrete(10**9), Discrete(4))
