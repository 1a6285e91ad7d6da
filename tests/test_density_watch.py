"""What is said of batches whose estimate means little."""

import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import constrained_maxent as cmx
from constrained_maxent.errors import PartialEpisodes


class Clock(gym.Env[Any, Any]):
    """Its observation is the time; an episode lasts as long as was drawn."""

    def __init__(self, draw: Callable[[np.random.Generator], int], age: int = 0) -> None:
        self.observation_space, self.action_space = gym.spaces.Discrete(200), gym.spaces.Discrete(1)
        self._draw, self._age = draw, age

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        # The first episode alone is cut short by the age.
        self._time, self._left, self._age = 0, self._draw(self.np_random) - self._age, 0
        return 0, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._time += 1
        return self._time, 0.0, self._time >= self._left, False, {}


def said(copies: list[Clock], steps_per_batch: int, n_steps: int, **estimator: Any) -> list[str]:
    """The warnings of a run of so many steps of each copy."""
    env = cmx.wrappers.constrain(
        gym.vector.SyncVectorEnv([lambda copy=copy: copy for copy in copies]),
        cmx.functionals.Entropy(over="state"),
        estimator=cmx.occupancy.Counts(**estimator),
        steps_per_batch=steps_per_batch,
        discount=0.99,
        horizon=200,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env.reset(seed=0)
        for _ in range(n_steps):
            env.step(np.zeros(len(copies), dtype=np.int64))
    return [str(warning.message) for warning in caught if warning.category is PartialEpisodes]


def fifty(rng: np.random.Generator) -> int:
    return 50


class TestPartialEpisodes:
    @pytest.mark.parametrize("n_copies", [1, 4])
    def test_copies_in_step(self, n_copies):
        """Batches of a fifth of an episode each; said once, when each copy has had an episode."""
        copies = [Clock(fifty) for _ in range(n_copies)]
        assert said(copies, 10 * n_copies, 40) == []
        (message,) = said(copies, 10 * n_copies, 500)
        assert f"of {n_copies} copies show 10 times" in message
        assert said(copies, 50 * n_copies, 500) == []

    def test_an_estimate_of_several_batches_holds_all_times(self):
        assert said([Clock(fifty) for _ in range(4)], 40, 500, memory=0.9) == []

    def test_copies_out_of_step(self):
        assert said([Clock(fifty, age) for age in range(0, 50, 5)], 100, 500) == []

    def test_episodes_of_many_lengths_fall_out_of_step(self):
        assert said([Clock(lambda rng: int(rng.integers(2, 60))) for _ in range(8)], 80, 1000) == []
