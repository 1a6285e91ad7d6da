"""Rewards of the tasks, by hand."""

import math

import gymnasium as gym
import mujoco
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


@pytest.mark.parametrize(
    ("task", "pitch", "velocity", "reward"),
    [
        ("walk forward", 0.0, 0.6, 1.0),
        ("walk forward", 0.0, 0.0, 0.1),
        ("walk forward", 0.0, -0.6, 1e-4),
        ("walk backward", 0.0, -0.6, 1.0),
        ("rear up", -math.pi / 4, 0.0, 1.0),
        ("rear up", 0.0, 0.0, 0.1),
        ("rear up", 2 * math.pi - math.pi / 4, 0.0, 1.0),  # after a somersault
    ],
)
def test_rewards_of_the_half_cheetah(task, pitch, velocity, reward):
    row = np.zeros((1, 18))
    row[0, 2], row[0, 9] = pitch, velocity
    np.testing.assert_allclose(WORLDS["half-cheetah"].tasks[task](row), [reward], atol=1e-12)


def test_a_cheetah_with_its_nose_up_has_a_negative_pitch_and_walks_along_x():
    """Read off the simulation: where the head is, and how far the torso has come."""
    env = gym.make("SafeHalfCheetah-v0", **WORLDS["half-cheetah"].arguments)
    observation, info = env.reset(options={"qpos": [0.0, 0.5, -0.7, *[0.0] * 6], "qvel": [0.6, *[0.0] * 8]})
    task = WORLDS["half-cheetah"].tasks
    assert task["rear up"](observation) > 0.9
    assert task["walk forward"](observation) == pytest.approx(1.0)
    model = env.unwrapped.model
    simulated = mujoco.MjData(model)
    simulated.qpos[:3] = info["torso"]
    mujoco.mj_forward(model, simulated)
    assert simulated.geom("head").xpos[2] > simulated.body("torso").xpos[2] + 0.3
