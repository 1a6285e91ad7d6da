"""The two small worlds of Mutti et al. (2021), after their description; their two large ones are Gymnasium's."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.classic_control.continuous_mountain_car import Continuous_MountainCarEnv
from numpy.typing import NDArray


class EndlessMountainCar(Continuous_MountainCarEnv):
    """Gymnasium's car, whom the goal stops instead of ending the episode."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        position, velocity = map(float, self.state)
        force = min(max(float(action[0]), self.min_action), self.max_action)
        velocity += force * self.power - 0.0025 * math.cos(3.0 * position)
        velocity = min(max(velocity, -self.max_speed), self.max_speed)
        position = min(max(position + velocity, self.min_position), self.max_position)
        if position == self.min_position and velocity < 0.0:
            velocity = 0.0
        if position > self.goal_position:
            position, velocity = self.goal_position, 0.0
        self.state = np.array([position, velocity], dtype=np.float32)
        return self.state, 0.0, False, False, {}


class FourRooms(gym.Env[Any, Any]):
    """A point in a square of 12 by 12 with four rooms, that moves by up to 0.2 along each axis, and not into walls."""

    HALF = 6.0
    STEP = 0.2
    STUB, THICK = 2.5, 1.25
    """Length of what reaches into the square from the middles of its borders, and of the arms of the cross in its
    middle; half of what both are thick."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-self.HALF, self.HALF, (2,), dtype=np.float32)
        self.action_space = gym.spaces.Box(-self.STEP, self.STEP, (2,), dtype=np.float32)
        self._x = self._y = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._x, self._y = self.np_random.uniform(-self.HALF, -self.HALF + 2.0, 2)
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        dx, dy = (min(max(float(part), -self.STEP), self.STEP) for part in action)
        x, y = self._x + dx, self._y + dy
        if not self._is_wall(abs(x), abs(y)):
            self._x, self._y = x, y
        return self._observation(), 0.0, False, False, {}

    def _is_wall(self, x: float, y: float) -> bool:
        """Of absolute coordinates: all four rooms are alike."""
        least, most = min(x, y), max(x, y)
        return most >= self.HALF or (least <= self.THICK and (most <= self.STUB or most >= self.HALF - self.STUB))

    def _observation(self) -> NDArray[np.float32]:
        return np.array([self._x, self._y], dtype=np.float32)
