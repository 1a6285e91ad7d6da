"""Advantages of three steps, worked out by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from constrained_maxent.agents.advantages import advantages_and_returns
from constrained_maxent.agents.rollouts import Rollout
from constrained_maxent.agents.settings import PGPSettings, complete

# Trajectories 0 1 (ends in 3) and 2 (ends in 3), with rewards 1 4 and 4. The occupancy's discount is 1/2.
VALUES = SimpleNamespace(values=lambda rows: np.array([1.0, 2.0, 3.0, 8.0])[rows])


def rollout(terminated=(True, False)):
    return Rollout(
        rows=np.array([0, 1, 2]),
        actions=np.zeros(3, dtype=np.int64),
        rewards=np.array([1.0, 4.0, 4.0]),
        weights=np.array([1.0, 0.5, 1.0]),
        lengths=np.array([2, 1]),
        times=np.array([0, 1, 0]),
        final_rows=np.array([3, 3]),
        terminated=np.array(terminated),
        report={"discount": 0.5},
        n_steps=3,
        n_episodes=2.0,
    )


def found(critic=None, terminated=(True, False), **settings):
    chosen = complete(PGPSettings(**settings), {}, is_table=True)
    return [column.tolist() for column in advantages_and_returns(rollout(terminated), critic, chosen)]


def test_without_baseline():
    # 1 + 4/2, 4 and 4
    assert found(baseline="none") == [[3.0, 4.0, 4.0]] * 2


def test_a_discount_of_the_agents_own():
    assert found(baseline="none", return_discount=1.0) == [[5.0, 4.0, 4.0]] * 2


def test_mean_of_the_batch():
    # At time 0 the returns 3 and 4 have the mean 3.5; at time 1 there is one only.
    assert found(baseline="batch-mean") == [[-0.5, 0.0, 0.5], [3.0, 4.0, 4.0]]


@pytest.mark.parametrize(
    ("terminated", "advantages", "returns"),
    [
        # Differences: 1 + 2/2 - 1 = 1; 4 - 2 = 2, for nothing comes after; 4 + 8/2 - 3 = 5. And 1 + 2/4 = 1.5.
        ((True, False), [1.5, 2.0, 5.0], [2.5, 4.0, 8.0]),
        # The first one goes on, so 4 + 8/2 - 2 = 6, and 1 + 6/4 = 2.5; the second ends: 4 - 3 = 1.
        ((False, True), [2.5, 6.0, 1.0], [3.5, 8.0, 4.0]),
    ],
)
def test_critic(terminated, advantages, returns):
    assert found(VALUES, terminated, baseline="critic", gae_lambda=0.5) == [advantages, returns]
