"""A point mass that is pushed over a table: the paper's imitation experiment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from constrained_maxent.envs.dm_control_env import DmControlEnv, point_mass
from constrained_maxent.envs.mujoco_model import MujocoStates, positions_and_velocities
from constrained_maxent.envs.mujoco_vector import MujocoVectorEnv
from constrained_maxent.types import FloatArray

REACH = 0.29
"""Distance from the middle where dm_control's soft stops begin, in both directions [m]."""
TARGET_SIZE = 0.015
"""Radius of dm_control's target, in the middle of the table [m]."""

OBSERVATION_SPACE = gym.spaces.Box(-np.inf, np.inf, (4,), dtype=np.float32)


class PointMass(DmControlEnv):
    r"""dm_control's point mass (easy): a force in the plane moves a mass on a table with a target in its middle.

    Observation, float32: position and velocity, :math:`[x, y, \dot x, \dot y]` [m, m/s]. Action: the force in both
    directions, −1 to 1 each. Reward: dm_control's, for a mass on the target and little control.

    At first the mass rests anywhere on the table. An episode of 20 s (1000 steps) is truncated, never terminated. On
    every step ``info`` holds

    - ``cost``, always 0.0: the task forbids nothing, but every environment of this package reports a cost;
    - ``state``, float64: the same four numbers as the observation; also after ``reset``;
    - ``physics_error``: the simulation became unstable, as in :class:`~constrained_maxent.envs.MujocoVectorEnv`.

    Args:
        time_limit: after which an episode is truncated [s], or ``None``.
        frame_skip: simulation steps of 0.02 s for which each action is held.
        render_mode: ``"human"``, ``"rgb_array"`` or ``None``.
        width, height: of images [pixels].

    Raises:
        InvalidSetting, NonFiniteValue, gymnasium.error.ResetNeeded: see ``DmControlEnv``.

    >>> PointMass().reset(options={"qpos": [0.1, -0.2], "qvel": [0.0, 0.0]})[1]["state"]
    array([ 0.1, -0.2,  0. ,  0. ])
    """

    def __init__(
        self,
        *,
        time_limit: float | None = 20.0,
        frame_skip: int = 1,
        render_mode: str | None = None,
        width: int = 480,
        height: int = 360,
    ) -> None:
        super().__init__(
            point_mass_physics(),
            point_mass.PointMass(randomize_gains=False),
            observation_space=OBSERVATION_SPACE,
            start=draw_start,
            cost=no_cost,
            state=positions_and_velocities,
            time_limit=time_limit,
            frame_skip=frame_skip,
            render_mode=render_mode,
            width=width,
            height=height,
        )


class PointMassVector(MujocoVectorEnv):
    """``num_envs`` copies of :class:`PointMass`, simulated on all cores.

    Args:
        num_envs: number of copies.
        time_limit, frame_skip, width, height: as in :class:`PointMass`.
        staggered_starts, threads, render_mode, autoreset_mode: as in :class:`~constrained_maxent.envs.MujocoVectorEnv`.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        time_limit: float | None = 20.0,
        frame_skip: int = 1,
        staggered_starts: bool = False,
        threads: int | None = None,
        render_mode: str | None = None,
        width: int = 480,
        height: int = 360,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ) -> None:
        super().__init__(
            point_mass_physics(),
            num_envs,
            observation=positions_and_velocities,
            observation_space=OBSERVATION_SPACE,
            start=draw_start,
            reward=reward,
            cost=no_cost,
            time_limit=time_limit,
            frame_skip=frame_skip,
            staggered_starts=staggered_starts,
            threads=threads,
            render_mode=render_mode,
            width=width,
            height=height,
            autoreset_mode=autoreset_mode,
        )


def no_cost(states: MujocoStates, controls: FloatArray) -> FloatArray:
    """The task forbids nothing: zeros ``(n,)``."""
    return np.zeros(len(states.qpos))


def reward(states: MujocoStates, controls: FloatArray, next_states: MujocoStates) -> FloatArray:
    """dm_control's reward: near the target × little control, ``(n,)``."""
    beyond = np.maximum(np.hypot(*next_states.qpos.T) - TARGET_SIZE, 0.0) / TARGET_SIZE
    gentle = np.maximum(1.0 - np.square(controls), 0.0).mean(axis=1)
    product: FloatArray = 0.1 ** np.square(beyond) * (4.0 + gentle) / 5.0
    return product


def draw_start(generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """A first state: anywhere on the table, at rest."""
    return generator.uniform(-REACH, REACH, size=2), np.zeros(2)


def point_mass_physics() -> Any:
    """dm_control's point mass."""
    return point_mass.Physics.from_xml_string(*point_mass.get_model_and_assets())
