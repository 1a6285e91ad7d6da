"""The critic: it learns a known value function and follows the scale of the returns."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from constrained_maxent.agents.critic import Critic
from constrained_maxent.agents.settings import PGPSettings, complete


def make(space=None, **settings):
    torch.manual_seed(0)
    settings = {"hidden_sizes": (32,), "critic_steps": 300, "critic_learning_rate": 0.01} | settings
    return Critic(space or Discrete(3), complete(PGPSettings(**settings), {}, is_table=False))


def test_starts_near_zero():
    assert np.abs(make().values(np.arange(3))).max() < 0.2


def test_takes_the_observations_that_policies_take():
    for space, rows in [(Discrete(3, start=1), [1, 3]), (Box(-1.0, 1.0, (2, 2)), np.zeros((2, 2, 2)))]:
        assert make(space).values(np.array(rows)).shape == (2,)


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1.0), (1e4, 500.0), (-3.0, 1e-3)])
def test_learns_values_of_any_scale(shift, scale):
    critic, rng = make(), np.random.default_rng(0)
    states = rng.integers(3, size=900)
    values = shift + scale * np.array([-1.0, 0.5, 2.0])
    loss = critic.fit(states, values[states], rng)
    assert loss < 1e-3  # in standardized units, where the returns have variance 1
    np.testing.assert_allclose(critic.values(np.arange(3)), values, atol=0.1 * scale)


def test_learns_the_mean_of_noisy_returns():
    critic, rng = make(critic_steps=500), np.random.default_rng(0)
    states = rng.integers(3, size=6_000)
    means = np.array([1.0, 2.0, 3.0])
    critic.fit(states, means[states] + rng.normal(size=6_000), rng)
    # standard error of a state's mean 1 / sqrt(2000) = 0.022; the rest is what the last minibatches did
    np.testing.assert_allclose(critic.values(np.arange(3)), means, atol=0.3)


def test_equal_returns_are_no_division_by_zero():
    critic, rng = make(), np.random.default_rng(0)
    critic.fit(np.array([0, 1, 2]), np.full(3, 7.0), rng)
    np.testing.assert_allclose(critic.values(np.arange(3)), 7.0, atol=1e-6)


def test_units_are_part_of_the_state():
    critic, rng = make(), np.random.default_rng(0)
    critic.fit(np.array([0, 1, 2]), np.array([10.0, 20.0, 40.0]), rng)
    other = make()
    other.load_state_dict(critic.state_dict())
    np.testing.assert_array_equal(other.values(np.arange(3)), critic.values(np.arange(3)))


def test_fewer_rows_than_a_minibatch_and_one_row():
    critic, rng = make(critic_steps=2), np.random.default_rng(0)
    assert np.isfinite(critic.fit(np.array([1]), np.array([3.0]), rng))


def test_continuous_observations():
    critic, rng = make(Box(-1.0, 1.0, (2,)), critic_steps=600), np.random.default_rng(0)
    rows = rng.uniform(-1.0, 1.0, size=(2_000, 2))
    critic.fit(rows, 5.0 + rows[:, 0] - 2.0 * rows[:, 1], rng)
    test = rng.uniform(-0.8, 0.8, size=(100, 2))
    np.testing.assert_allclose(critic.values(test), 5.0 + test[:, 0] - 2.0 * test[:, 1], atol=0.2)


def test_sees_far_away_observations_once_they_are_normalized():
    """Positions around 1000 that differ by 0.01: a network learns nothing from them as they are."""
    space, rng = Box(-np.inf, np.inf, (1,), dtype=np.float64), np.random.default_rng(0)
    rows = 1_000.0 + 0.01 * rng.uniform(-1.0, 1.0, size=(2_000, 1))
    returns = 100.0 * (rows[:, 0] - 1_000.0)
    errors = {}
    for normalize in (False, True):
        critic = make(space, normalize_observations=normalize, critic_steps=200)
        critic.observe(rows)
        critic.fit(rows, returns, rng)
        errors[normalize] = np.abs(critic.values(rows) - returns).mean()
    assert errors[True] < 0.1 < 0.3 < errors[False]  # 0.5 if it says 0


def test_normalization_is_part_of_the_state():
    space, rng = Box(-np.inf, np.inf, (2,), dtype=np.float64), np.random.default_rng(0)
    critic, other = make(space, critic_steps=3), make(space)
    rows = rng.normal(size=(100, 2)) * [1.0, 50.0] + [3.0, -20.0]
    critic.observe(rows)
    critic.fit(rows, rows[:, 0], rng)
    assert (other.values(rows) != critic.values(rows)).any()
    other.load_state_dict(critic.state_dict())
    np.testing.assert_array_equal(other.values(rows), critic.values(rows))
