"""What ``--state`` and ``--cells`` name, and what is found out where nothing is said."""

from types import ModuleType

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Text

from constrained_maxent.errors import InvalidSetting, RedundantObservation, UnsupportedSpace
from constrained_maxent.occupancy import Counts, GaussianMixture
from constrained_maxent.runs.environments import make_environment, with_chosen_state
from constrained_maxent.runs.settings import TrainSettings
from constrained_maxent.tracker import find_tracker


class Robot(gym.Env):
    """Time t is everywhere: cosine and sine of t, t² twice, and in ``info`` as (t, 1)."""

    observation_space = Dict(
        observation=Dict(angle=Box(-1, 1, (2,), np.float64), at=Box(0, 99, (1,), np.float64)),
        reached=Box(0, 99, (1,), np.float64),
    )
    action_space = Box(-1, 1, (1,))

    def _observe(self):
        t = self.time
        angle = np.array([np.cos(t), np.sin(t)])
        return {"observation": {"angle": angle, "at": np.full(1, float(t**2))}, "reached": np.full(1, float(t**2))}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._observe(), {"place": (0, 1)}

    def step(self, action):
        self.time += 1
        return self._observe(), 0.0, False, False, {"place": (self.time, 1)}


class Maze(Robot):
    """As MiniGrid's: a direction, a word, and more."""

    observation_space = Dict(direction=Discrete(4), at=MultiDiscrete([30, 3]), word=Text(9))

    def _observe(self):
        return {"direction": self.time % 4, "at": np.array([self.time, 1]), "word": "go"}


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    module = ModuleType("my_states")
    module.third = lambda observation: observation["at"][0] // 3
    module.number = 3
    monkeypatch.setitem(__import__("sys").modules, "my_states", module)
    for kind in (Robot, Maze):
        gym.register(f"{kind.__name__}-v0", entry_point=kind, max_episode_steps=6)
    yield
    for kind in (Robot, Maze):
        del gym.registry[f"{kind.__name__}-v0"]


def play(env_id, **settings):
    """Two copies, one episode of six steps each."""
    env = make_environment(env_id, TrainSettings(num_envs=2, **settings))
    tracker = find_tracker(env)
    if isinstance(tracker.estimator, GaussianMixture):
        tracker.episodes_per_batch, tracker.steps_per_batch = 2, None
    env.reset(seed=0)
    while tracker.iteration == 0:
        env.step(env.action_space.sample())
    return env, tracker


TIMES = np.tile(np.arange(6.0), 2)


@pytest.mark.filterwarnings("ignore::constrained_maxent.errors.DegenerateDensity")
class TestDensities:
    def test_angles_and_copies_in_dictionaries_are_found(self):
        # The parts in the order of the space: angle, at, reached.
        with pytest.warns(RedundantObservation, match=r"0, 1 .* cosine and sine .* \(3 of 2\).*--state 0:1 2"):
            env, tracker = play("Robot-v0")
        assert list(tracker.estimator.periodic) == [0]
        states = tracker.last_batch.states
        np.testing.assert_allclose(states, np.stack([np.angle(np.exp(1j * TIMES)), TIMES**2], axis=1), atol=1e-12)
        assert with_chosen_state(TrainSettings(), env).state == ("0:1", "2")

    @pytest.mark.parametrize(
        ("state", "right"),
        [
            (("observation.at", "reached"), [TIMES**2, TIMES**2]),
            (("3",), [TIMES**2]),
            (("2", "0"), [TIMES**2, np.cos(TIMES)]),
            (("place",), [TIMES, np.ones(12)]),
        ],
    )
    def test_what_is_given(self, state, right):
        _, tracker = play("Robot-v0", state=state)
        np.testing.assert_allclose(tracker.last_batch.states, np.stack(right, axis=1), atol=1e-12)
        assert isinstance(tracker.estimator, GaussianMixture)


class TestCells:
    @pytest.mark.parametrize(
        ("settings", "table"),
        [
            ({"state": ("direction",)}, [2, 2, 1, 1]),
            ({"state": ("place",), "cells": (7, 2)}, [0, 1] * 6 + [0, 0]),
            ({"state": ("my_states:third",), "cells": (2,)}, [3, 3]),
            ({"state": ("at", "direction")}, None),
        ],
    )
    def test_are_counted(self, settings, table):
        _, tracker = play("Maze-v0", episodes_per_batch=2, discount=1.0, **settings)
        assert isinstance(tracker.estimator, Counts)
        counts = 6.0 * tracker.estimator.occupancy_[:, 0]
        if table is None:
            assert np.flatnonzero(counts).tolist() == [((t * 3 + 1) * 4 + t % 4) for t in range(6)]
        else:
            assert counts == pytest.approx(table)

    def test_coordinates_of_what_is_finite(self):
        gym.register("Mazes-v0", entry_point=Maze, max_episode_steps=6)
        maze = gym.wrappers.FilterObservation(gym.make("Mazes-v0"), ["at"])
        gym.register("Filtered-v0", entry_point=lambda: maze, max_episode_steps=6)
        tracker = find_tracker(make_environment("Filtered-v0", TrainSettings(num_envs=1, state=("0",))))
        assert tracker.estimator.table_shape() == (30, 1)
        del gym.registry["Filtered-v0"], gym.registry["Mazes-v0"]


class TestRefuses:
    def test_parts_without_numbers(self):
        with pytest.raises(UnsupportedSpace, match=r"--state .*\(direction, at\)"):
            play("Maze-v0")

    @pytest.mark.parametrize(
        ("settings", "reason"),
        [
            ({"cells": (3,)}, "--cells says"),
            ({"state": ("direction",), "periodic": (0,)}, "cells have no angles"),
            ({"state": ("direction", "speed")}, "no 'speed'"),
            ({"state": ("my_states:nothing",)}, "nothing"),
            ({"state": ("my_states:number",)}, "no function"),
            ({"state": ("nothing_here:third",)}, "cannot be imported"),
        ],
    )
    def test_what_there_is_not(self, settings, reason):
        with pytest.raises(InvalidSetting, match=reason):
            play("Maze-v0", **settings)
