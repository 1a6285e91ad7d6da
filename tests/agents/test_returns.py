"""Returns against numbers worked out by hand and a double loop over times."""

import numpy as np
import pytest

from constrained_maxent.agents.returns import mean_over_trajectories, rewards_to_go


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
