"""Returns and advantages against numbers worked out by hand and a double loop over times."""

from types import SimpleNamespace

import numpy as np
import pytest

from constrained_maxent.agents.returns import (
    advantages_and_returns,
    generalized_advantages,
    mean_over_trajectories,
    rewards_to_go,
    standardized,
)
from constrained_maxent.agents.rollouts import Rollout
from constrained_maxent.agents.settings import PGPSettings, complete


def double_loop(rewards, gamma, final_value=0.0):
    """G_t = sum_{k >= t} gamma^(k-t) r_k + gamma^(T-t) v."""
    T = len(rewards)
    return [sum(gamma ** (k - t) * rewards[k] for k in range(t, T)) + gamma ** (T - t) * final_value for t in range(T)]


def test_by_hand():
    # 1 + 0.5*2 + 0.25*4 = 3, 2 + 0.5*4 = 4, 4; then a trajectory of one step
    returns = rewards_to_go(np.array([1.0, 2.0, 4.0, 7.0]), np.array([3, 1]), discount=0.5)
    np.testing.assert_array_equal(returns, [3.0, 4.0, 4.0, 7.0])


def test_bootstrap_by_hand():
    # 8 is the value after the first trajectory: 3 + 8/8, 4 + 8/4, 4 + 8/2; nothing comes after the second
    returns = rewards_to_go(
        np.array([1.0, 2.0, 4.0, 7.0]), np.array([3, 1]), discount=0.5, value_T=np.array([8.0, 0.0])
    )
    np.testing.assert_array_equal(returns, [4.0, 6.0, 8.0, 7.0])


@pytest.mark.parametrize("gamma", [0.01, 0.9, 1.0])
@pytest.mark.parametrize("lengths", [[1], [5], [1, 1, 1], [4, 1, 7, 2], [50, 3]])
def test_double_loop(gamma, lengths):
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=sum(lengths)), rng.normal(size=len(lengths))
    parts = np.split(rewards, np.cumsum(lengths)[:-1])
    expected = np.concatenate([double_loop(part, gamma, value) for part, value in zip(parts, values, strict=True)])
    returns = rewards_to_go(rewards, np.array(lengths), discount=gamma, value_T=values)
    np.testing.assert_allclose(returns, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("constant", [1.0, 0.1])
def test_weighted_returns_are_the_factor_of_the_papers_gradient(constant):
    """w_t G_t = sum_{k >= t} w_k r_k with w_t = constant * gamma^t."""
    rng = np.random.default_rng(1)
    gamma, lengths = 0.97, np.array([6, 25, 1])
    rewards = rng.normal(size=lengths.sum())
    weights = np.concatenate([constant * gamma ** np.arange(n) for n in lengths])
    factors = weights * rewards_to_go(rewards, lengths, discount=gamma)
    begin = 0
    for n in lengths:
        for t in range(n):
            expected = sum(weights[begin + k] * rewards[begin + k] for k in range(t, n))
            assert factors[begin + t] == pytest.approx(expected, rel=1e-12, abs=1e-12)
        begin += n


def test_arguments_are_left_alone():
    rewards, lengths, values = np.array([1.0, 2.0]), np.array([2]), np.array([3.0])
    rewards_to_go(rewards, lengths, discount=0.5, value_T=values)
    assert (rewards.tolist(), lengths.tolist(), values.tolist()) == ([1.0, 2.0], [2], [3.0])


def test_no_trajectories():
    assert rewards_to_go(np.zeros(0), np.zeros(0, dtype=np.int64), discount=0.9).shape == (0,)


def test_batch_mean_by_hand():
    # trajectories (1, 2, 6) and (3, 4): means 2, 3, and 6 alone at time 2
    means = mean_over_trajectories(np.array([1.0, 2.0, 6.0, 3.0, 4.0]), np.array([0, 1, 2, 0, 1]))
    np.testing.assert_array_equal(means, [2.0, 3.0, 6.0, 2.0, 3.0])


class TestGeneralisedAdvantages:
    LENGTHS = np.array([4, 1, 7, 2])
    RNG = np.random.default_rng(3)
    REWARDS, VALUES = RNG.normal(size=14), RNG.normal(size=14)
    # The second and the last were terminated: nothing comes after them.
    FINAL = np.array([0.7, 0.0, -1.3, 0.0])

    def advantages(self, gamma, gae_lambda):
        return generalized_advantages(
            self.REWARDS, self.VALUES, self.LENGTHS, discount=gamma, gae_lambda=gae_lambda, value_T=self.FINAL
        )

    def trajectories(self):
        cuts = np.cumsum(self.LENGTHS)[:-1]
        return zip(np.split(self.REWARDS, cuts), np.split(self.VALUES, cuts), self.FINAL, strict=True)

    @pytest.mark.parametrize("gamma", [0.5, 0.99, 1.0])
    @pytest.mark.parametrize("gae_lambda", [0.0, 0.3, 0.95, 1.0])
    def test_definition(self, gamma, gae_lambda):
        """Schulman et al. 2016: eq. 16, that is delta_t + (gamma lambda) delta_(t+1) + ..."""
        expected = []
        for rewards, values, final in self.trajectories():
            following = [*values[1:], final]
            deltas = [r + gamma * after - v for r, v, after in zip(rewards, values, following, strict=True)]
            for t in range(len(rewards)):
                expected.append(sum((gamma * gae_lambda) ** (k - t) * deltas[k] for k in range(t, len(rewards))))
        np.testing.assert_allclose(self.advantages(gamma, gae_lambda), expected, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("gamma", [0.5, 1.0])
    def test_mean_over_lookaheads(self, gamma):
        """Eqs. 11 to 16: (1 - lambda) times the sum of lambda^(k-1) A^(k), all further A^(k) alike at the end."""
        gae_lambda, expected = 0.6, []
        for rewards, values, final in self.trajectories():
            T, after = len(rewards), [*values, final]
            for t in range(T):
                looks = [
                    sum(gamma**i * rewards[t + i] for i in range(k)) + gamma**k * after[t + k] - values[t]
                    for k in range(1, T - t + 1)
                ]
                weights = [(1.0 - gae_lambda) * gae_lambda ** (k - 1) for k in range(1, T - t)] + [
                    gae_lambda ** (T - t - 1)
                ]
                expected.append(np.dot(weights, looks))
        np.testing.assert_allclose(self.advantages(gamma, gae_lambda), expected, rtol=1e-12, atol=1e-12)

    def test_lambda_1_takes_whole_returns(self):
        expected = [
            g - v
            for rewards, values, final in self.trajectories()
            for g, v in zip(double_loop(rewards, 0.9, final), values, strict=True)
        ]
        np.testing.assert_allclose(self.advantages(0.9, 1.0), expected, rtol=1e-12, atol=1e-12)

    def test_lambda_0_takes_temporal_differences(self):
        expected = [
            r + 0.9 * after - v
            for rewards, values, final in self.trajectories()
            for r, v, after in zip(rewards, values, [*values[1:], final], strict=True)
        ]
        np.testing.assert_allclose(self.advantages(0.9, 0.0), expected, rtol=1e-12, atol=1e-12)

    def test_by_hand(self):
        # deltas 1 + 0.5*4 - 2 = 1 and 3 + 0.5*8 - 4 = 3, so 1 + 0.25*3; terminated instead: 3 - 4 = -1, 1 - 0.25
        rewards, values, length = np.array([1.0, 3.0]), np.array([2.0, 4.0]), np.array([2])
        kind = {"discount": 0.5, "gae_lambda": 0.5}
        truncated = generalized_advantages(rewards, values, length, value_T=np.array([8.0]), **kind)
        terminated = generalized_advantages(rewards, values, length, value_T=np.array([0.0]), **kind)
        assert truncated.tolist() == [1.75, 3.0]
        assert terminated.tolist() == [0.75, -1.0]

    def test_right_values_leave_no_advantage(self):
        """Values that satisfy Bellman's equation, whatever lambda is."""
        rewards = np.array([1.0, -2.0, 4.0])
        values = np.array(double_loop(rewards, 0.9, 5.0))
        for gae_lambda in (0.0, 0.5, 1.0):
            advantages = generalized_advantages(
                rewards, values, np.array([3]), discount=0.9, gae_lambda=gae_lambda, value_T=np.array([5.0])
            )
            np.testing.assert_allclose(advantages, 0.0, atol=1e-14)

    def test_arguments_are_left_alone(self):
        before = self.REWARDS.copy(), self.VALUES.copy(), self.FINAL.copy()
        self.advantages(0.9, 0.5)
        for array, copy in zip((self.REWARDS, self.VALUES, self.FINAL), before, strict=True):
            np.testing.assert_array_equal(array, copy)


class TestStandardized:
    def test_by_hand(self):
        # mean (1*1 + 3*5) / 4 = 4, variance (1*9 + 3*1) / 4 = 3
        expected = np.array([-3.0, 1.0]) / np.sqrt(3.0)
        np.testing.assert_allclose(standardized(np.array([1.0, 5.0]), np.array([1.0, 3.0])), expected, rtol=1e-14)

    def test_units_do_not_matter(self):
        rng = np.random.default_rng(0)
        values, weights = rng.normal(size=50), rng.uniform(0.1, 1.0, 50)
        one = standardized(values, weights)
        np.testing.assert_allclose(standardized(1e4 * values - 3.0, 0.01 * weights), one, rtol=1e-9, atol=1e-9)
        assert np.average(one, weights=weights) == pytest.approx(0.0, abs=1e-12)
        assert np.average(one**2, weights=weights) == pytest.approx(1.0, rel=1e-12)

    @pytest.mark.parametrize("weights", [[1.0, 0.5, 0.25], [0.0, 0.0, 0.0]])
    def test_all_alike_or_of_no_weight(self, weights):
        assert standardized(np.full(3, 0.1), np.array(weights)).tolist() == [0.0] * 3
        assert standardized(np.array([1.0, 2.0, 3.0]), np.zeros(3)).tolist() == [0.0] * 3


class TestAdvantagesOfABatch:
    """Trajectories 0 1 (ends in 3) and 2 (ends in 3), with rewards 1 4 and 4. The occupancy's discount is 1/2."""

    VALUES = SimpleNamespace(values=lambda rows: np.array([1.0, 2.0, 3.0, 8.0])[rows])

    def found(self, critic=None, terminated=(True, False), **settings):
        rollout = Rollout(
            rows=np.array([0, 1, 2]),
            actions=np.zeros(3, dtype=np.int64),
            rewards=np.array([1.0, 4.0, 4.0]),
            weights=np.array([1.0, 0.5, 1.0]),
            lengths=np.array([2, 1]),
            times=np.array([0, 1, 0]),
            final_rows=np.array([3, 3]),
            terminated=np.array(terminated),
            report=SimpleNamespace(discount=0.5),
            n_steps=3,
            n_episodes=2.0,
        )
        chosen = complete(PGPSettings(**settings), {}, is_table=True)
        return [column.tolist() for column in advantages_and_returns(rollout, critic, chosen)]

    def test_without_baseline(self):
        # 1 + 4/2, 4 and 4
        assert self.found(baseline="none") == [[3.0, 4.0, 4.0]] * 2

    def test_a_discount_of_the_agents_own(self):
        assert self.found(baseline="none", return_discount=1.0) == [[5.0, 4.0, 4.0]] * 2

    def test_mean_of_the_batch(self):
        # At time 0 the returns 3 and 4 have the mean 3.5; at time 1 there is one only.
        assert self.found(baseline="batch-mean") == [[-0.5, 0.0, 0.5], [3.0, 4.0, 4.0]]

    @pytest.mark.parametrize(
        ("terminated", "advantages", "returns"),
        [
            # Differences: 1 + 2/2 - 1 = 1; 4 - 2 = 2, for nothing comes after; 4 + 8/2 - 3 = 5. And 1 + 2/4 = 1.5.
            ((True, False), [1.5, 2.0, 5.0], [2.5, 4.0, 8.0]),
            # The first one goes on, so 4 + 8/2 - 2 = 6, and 1 + 6/4 = 2.5; the second ends: 4 - 3 = 1.
            ((False, True), [2.5, 6.0, 1.0], [3.5, 8.0, 4.0]),
        ],
    )
    def test_critic(self, terminated, advantages, returns):
        assert self.found(self.VALUES, terminated, baseline="critic", gae_lambda=0.5) == [advantages, returns]
