"""The small worlds of MEPOL: walls by hand, the car against Gymnasium's."""

import math

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from constrained_maxent.reproduction.mepol.worlds import EndlessMountainCar, FourRooms

ROOMS = FourRooms()


@pytest.mark.parametrize(
    ("x", "y", "is_wall"),
    [
        (-5.0, -5.0, False),  # where episodes begin
        (0.0, 0.0, True),
        (1.0, 2.4, True),  # arms of the cross
        (2.4, 1.0, True),
        (2.0, 2.0, False),  # between its arms
        (0.0, 3.0, False),  # doors: between cross and stubs
        (-3.0, 0.5, False),
        (0.5, 3.6, True),  # stubs
        (-3.6, -1.2, True),
        (-3.6, -1.3, False),
        (6.0, 3.0, True),  # the border
    ],
)
def test_walls(x, y, is_wall):
    assert ROOMS._is_wall(abs(x), abs(y)) == is_wall


def test_moves_are_bounded_and_those_into_walls_do_nothing():
    env = FourRooms()
    start, _ = env.reset(seed=0)
    assert ((start >= -6.0) & (start <= -4.0)).all()
    moved, *_ = env.step(np.array([3.0, 0.1]))
    np.testing.assert_allclose(moved - start, [0.2, 0.1], atol=1e-6)
    env._x, env._y = -1.3, -5.0
    np.testing.assert_allclose(env.step(np.array([0.1, 0.1]))[0], [-1.3, -5.0], atol=1e-6)


def test_a_random_walk_stays_out_of_the_walls():
    env = FourRooms()
    env.reset(seed=1)
    env.action_space.seed(1)
    for _ in range(2000):
        x, y = np.abs(env.step(env.action_space.sample())[0])
        assert max(x, y) <= 6.0
        assert not (min(x, y) < 1.24 and (max(x, y) < 2.49 or max(x, y) > 3.51))


def test_the_car_is_gymnasiums_until_the_goal_which_stops_it():
    ours, theirs = EndlessMountainCar(), gym.make("MountainCarContinuous-v0").unwrapped
    first, _ = ours.reset(seed=0)
    np.testing.assert_array_equal(first, theirs.reset(seed=0)[0])
    for _ in range(500):
        push = np.array([math.copysign(1.0, ours.state[1])], dtype=np.float32)
        mine, _, terminated, truncated, _ = ours.step(push)
        other, _, reached, *_ = theirs.step(push)
        assert not terminated
        assert not truncated
        if reached:
            np.testing.assert_array_equal(mine, np.array([0.45, 0.0], dtype=np.float32))
            return
        np.testing.assert_allclose(mine, other, atol=1e-6)
    pytest.fail("the car never reached the goal")


@pytest.mark.filterwarnings("ignore:.*(render|spec).*")
def test_gymnasiums_checks():
    check_env(FourRooms(), skip_render_check=True)
