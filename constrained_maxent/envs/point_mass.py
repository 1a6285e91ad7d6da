"""A point mass that is pushed over a table: the paper's imitation experiment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from constrained_maxent.envs.dm_control_env import DmControlEnv, point_mass
from constrained_maxent.envs.mujoco_model import MujocoStates, positions_and_velocities
from constrained_maxent.envs.mujoco_vector import MujocoVectorEnv
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.types import FloatArray, is_number

PointMassStart = Literal["uniform"] | Sequence[float]

REACH = 0.29
"""Where dm_control's soft stops begin in both directions [m]."""
TARGET_SIZE = 0.015
"""Radius of dm_control's target, in the middle of the table [m]."""

OBSERVATION_SPACE = gym.spaces.Box(-np.inf, np.inf, (4,), dtype=np.float32)


class PointMass(DmControlEnv):
    r"""dm_control's point mass (easy): a force in the plane moves a mass on a table with a target in its middle.

    Observation, float32: position and velocity, :math:`[x, y, \dot x, \dot y]` [m, m/s]. Action: the force in both
    directions, −1 to 1 each. Reward: dm_control's, for a mass on the target and little control.

    An episode of 20 s (1000 steps) is truncated, never terminated. On every step ``info`` holds

    - ``cost``, always 0.0: the task forbids nothing, but every environment of this package reports a cost;
    - ``state``, float64: the same four numbers as the observation; also after ``reset``;
    - ``physics_error``: the simulation became unstable, see
      :class:`~constrained_maxent.envs.dm_control_env.DmControlEnv`.

    Args:
        time_limit: after which an episode is truncated [s], or ``None``.
        frame_skip: simulation steps of 0.02 s for which each action is held.
        start: the first position is uniform over the table (``"uniform"``), or always at ``(x, y)`` [m]. The mass is
            at rest.
        render_mode: ``"human"``, ``"rgb_array"`` or ``None``.
        width: of images [pixels].
        height: of images [pixels].

    Raises:
        InvalidSetting, NonFiniteValue, gymnasium.error.ResetNeeded: as in ``DmControlEnv``.

    >>> env = PointMass(start=(0.1, -0.2))
    >>> env.reset(seed=0)[1]["state"]
    array([ 0.1, -0.2,  0. ,  0. ])
    """

    def __init__(
        self,
        *,
        time_limit: float | None = 20.0,
        frame_skip: int = 1,
        start: PointMassStart = "uniform",
        render_mode: str | None = None,
        width: int = 480,
        height: int = 360,
    ) -> None:
        self.formulas = PointMassFormulas(start=start)
        super().__init__(
            point_mass_physics(),
            point_mass.PointMass(randomize_gains=False),
            observation_space=OBSERVATION_SPACE,
            start=self.formulas.draw_start,
            cost=self.formulas.cost,
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
        time_limit, frame_skip, start: as in :class:`PointMass`.
        staggered_starts, threads, autoreset_mode: as in :class:`~constrained_maxent.envs.MujocoVectorEnv`.
        render_mode: ``"rgb_array"`` or ``None``.
        width: of images [pixels].
        height: of images [pixels].
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        time_limit: float | None = 20.0,
        frame_skip: int = 1,
        start: PointMassStart = "uniform",
        staggered_starts: bool = False,
        threads: int | None = None,
        render_mode: str | None = None,
        width: int = 480,
        height: int = 360,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ) -> None:
        self.formulas = PointMassFormulas(start=start)
        super().__init__(
            point_mass_physics(),
            num_envs,
            observation=positions_and_velocities,
            observation_space=OBSERVATION_SPACE,
            start=self.formulas.draw_start,
            reward=self.formulas.reward,
            cost=self.formulas.cost,
            time_limit=time_limit,
            frame_skip=frame_skip,
            staggered_starts=staggered_starts,
            threads=threads,
            render_mode=render_mode,
            width=width,
            height=height,
            autoreset_mode=autoreset_mode,
        )


@dataclass(frozen=True, kw_only=True)
class PointMassFormulas:
    """What a step of the point mass means, for ``n`` states at once; arguments as in :class:`PointMass`."""

    start: PointMassStart = "uniform"

    def __post_init__(self) -> None:
        valid = self.start == "uniform" if isinstance(self.start, str) else _is_place(self.start)
        if not valid:
            raise InvalidSetting(f"start={self.start!r} must be 'uniform', or (x, y) within ±{REACH} m.")

    def cost(self, states: MujocoStates, controls: FloatArray) -> FloatArray:
        """Zeros ``(n,)``."""
        return np.zeros(len(states.qpos))

    def reward(self, states: MujocoStates, controls: FloatArray, next_states: MujocoStates) -> FloatArray:
        """dm_control's reward: near the target × little control, ``(n,)``."""
        beyond = np.maximum(np.hypot(*next_states.qpos.T) - TARGET_SIZE, 0.0) / TARGET_SIZE
        gentle = np.maximum(1.0 - np.square(controls), 0.0).mean(axis=1)
        reward: FloatArray = 0.1 ** np.square(beyond) * (4.0 + gentle) / 5.0
        return reward

    def draw_start(self, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """A first state."""
        if isinstance(self.start, str):
            return generator.uniform(-REACH, REACH, size=2), np.zeros(2)
        return np.array(self.start, dtype=np.float64), np.zeros(2)


def _is_place(start: Any) -> bool:
    """Whether it is a pair of numbers on the table."""
    is_row = isinstance(start, Sequence) or (isinstance(start, np.ndarray) and start.ndim == 1)
    return is_row and len(start) == 2 and all(is_number(place) and abs(place) <= REACH for place in start)


def point_mass_physics() -> Any:
    """dm_control's point mass."""
    return point_mass.Physics.from_xml_string(*point_mass.get_model_and_assets())
