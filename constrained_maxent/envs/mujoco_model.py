"""What an environment takes from a MuJoCo model: its state as one row, its controls, and time in steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from constrained_maxent.envs.mujoco_simulation import MujocoStates, as_model
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.types import FloatArray, is_number


def positions_and_velocities(states: MujocoStates) -> FloatArray:
    """The state of a model without angles: ``(n, nq + nv)``."""
    return np.concatenate((states.qpos, states.qvel), axis=1)


def folded(angles: FloatArray) -> FloatArray:
    """Angles in (−π, π].

    >>> folded(np.array([0.5, -np.pi, 1.5 * np.pi])) / np.pi
    array([ 0.15915494,  1.        , -0.5       ])
    """
    turns = np.ceil((angles - np.pi) / (2.0 * np.pi))
    nearest: FloatArray = np.minimum(angles - 2.0 * np.pi * turns, np.pi)
    return nearest


def control_space(model: Any) -> gym.spaces.Box:
    """The controls of a model, float32 ``(nu,)``, within the range where they have one."""
    limited = as_model(model).actuator_ctrllimited.astype(bool)
    low, high = as_model(model).actuator_ctrlrange.T
    return gym.spaces.Box(
        np.where(limited, low, -np.inf).astype(np.float32), np.where(limited, high, np.inf).astype(np.float32)
    )


def horizon_steps(time_limit: float | None, timestep: float) -> int | None:
    """The step in which a time limit is reached [steps]; ``None`` without one.

    >>> horizon_steps(10.0, 0.01)
    1000

    Raises:
        InvalidSetting: less than one step, or not finite.
    """
    if time_limit is None:
        return None
    if not (is_number(time_limit) and timestep <= time_limit < math.inf):
        raise InvalidSetting(f"time_limit={time_limit!r} must be at least one step of {timestep:g} s, or None (never).")
    return math.ceil(time_limit / timestep - 1e-6)


def frame_rate(timestep: float) -> int:
    """Pictures per second that show motion at its true speed."""
    return max(1, round(1.0 / timestep))


def check_render_mode(render_mode: str | None, modes: Sequence[str]) -> None:
    """Raise ``InvalidSetting`` for an unknown mode."""
    if render_mode is not None and render_mode not in modes:
        raise InvalidSetting(f"render_mode={render_mode!r} must be None or one of {', '.join(modes)}.")
