"""Rewards of the tasks, by hand."""

import math

import numpy as np
import pytest

from constrained_maxent.reproduction.explore_then_learn.tasks import WORLDS


def observation(x=0.0, angle=0.0, speed=0.0):
    return np.array([x, math.cos(angle), math.sin(angle), 0.0, speed])


@pytest.mark.parametrize(
    ("task", "state", "reward"),
    [
        ("swing up", {}, 1.0),
        ("swing up", {"angle": math.pi}, 0.0),
        ("swing up", {"angle": math.pi / 2}, 0.5),
        ("swing up", {"x": -1.0}, 0.1),
        ("swing up", {"speed": -5.0}, 0.5 * (1.0 + 0.1)),
        ("swing up", {"x": 1.0, "angle": math.pi / 2, "speed": 5.0}, 0.1 * 0.5 * 0.55),
        ("stay at 1 m", {"x": 1.0, "angle": math.pi}, 1.0),
        ("stay at 1 m", {"x": 1.0}, 0.0),
        ("stay at 1 m", {"x": 1.5, "angle": math.pi}, 0.1),
        ("stay at 1 m", {"angle": math.pi}, 1e-4),  # where episodes begin
        ("keep turning", {}, 0.0),
        ("keep turning", {"speed": -5.0}, 0.5),
        ("keep turning", {"speed": 12.0}, 1.0),
    ],
)
def test_rewards_of_the_cartpole(task, state, reward):
    rows = np.stack([observation(**state)] * 2)
    np.testing.assert_allclose(WORLDS["cartpole"].tasks[task](rows), [reward] * 2, atol=1e-12)
