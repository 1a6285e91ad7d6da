"""Gymnasium's half cheetah, ant and humanoid, with costs of going too fast, leaning over and coming too low."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypedDict, Unpack

from gymnasium.vector import AutoresetMode

from constrained_maxent.envs.locomotion import (
    ANT,
    HALF_CHEETAH,
    HUMANOID,
    Robot,
    functions,
)
from constrained_maxent.envs.mujoco_vector import MujocoVectorEnv
from constrained_maxent.envs.single_copy import SingleCopy


class LocomotionSettings(TypedDict, total=False):
    """Arguments of the walking robots, scalar and vector.

    Attributes:
        costs: what costs, of ``"speed"``, ``"tilt"`` and ``"height"``; ``info["cost"]`` is their sum.
        speed_limit: horizontal speed of the torso above which a step costs 1 [m/s].
        tilt_limit: angle between the torso's axis and the vertical above which it does [rad].
        height_limit: height of the torso over the ground below which it does [m].
        terminate_when_unhealthy: whether episodes end where Gymnasium's would, instead of going on.
        exclude_current_positions_from_observation: whether an observation tells the posture alone, as Gymnasium's does
            by default, and not the place.
        time_limit: after which an episode is truncated [s], or ``None``.
        frame_skip: simulation steps for which each action is held.
    """

    costs: Sequence[str]
    speed_limit: float
    tilt_limit: float
    height_limit: float
    terminate_when_unhealthy: bool
    exclude_current_positions_from_observation: bool
    time_limit: float | None
    frame_skip: int


class VectorSettings(LocomotionSettings, total=False):
    """Arguments of the walking robots' vector form.

    Attributes:
        staggered_starts, threads, render_mode, width, height, autoreset_mode: as in
            :class:`~constrained_maxent.envs.MujocoVectorEnv`.
    """

    staggered_starts: bool
    threads: int | None
    render_mode: str | None
    width: int
    height: int
    autoreset_mode: AutoresetMode | str


class _WalkerVector(MujocoVectorEnv):
    robot: ClassVar[Robot]

    def __init__(self, num_envs: int = 1, **settings: Unpack[VectorSettings]) -> None:
        self.limits, arguments = functions(self.robot, **settings)
        super().__init__(num_envs=num_envs, **arguments)


class _Walker(SingleCopy):
    vector_form: ClassVar[type[_WalkerVector]]

    def __init__(
        self,
        *,
        render_mode: str | None = None,
        width: int = 480,
        height: int = 360,
        **settings: Unpack[LocomotionSettings],
    ) -> None:
        vector = self.vector_form(1, threads=1, autoreset_mode=AutoresetMode.DISABLED, **settings)
        self.limits = vector.limits
        super().__init__(vector, render_mode=render_mode, width=width, height=height)


class SafeHalfCheetahVector(_WalkerVector):
    """``num_envs`` copies of :class:`SafeHalfCheetah`, simulated on all cores.

    Args:
        num_envs: number of copies.
        settings: see :class:`~constrained_maxent.envs.walkers.VectorSettings`.

    Attributes:
        limits: thresholds of what costs, by name.
    """

    robot = HALF_CHEETAH


class SafeHalfCheetah(_Walker):
    r"""Gymnasium's ``HalfCheetah-v5``, with costs of going too fast and leaning over.

    Observation, float64: positions and velocities ``(17,)`` as Gymnasium's. Action: six torques, −1 to 1 each. Reward:
    Gymnasium's. An episode of 5 s (100 steps) is truncated, never terminated.

    On every step ``info`` holds

    - ``cost_speed`` and ``cost_tilt``: 1 where the torso is faster than ``speed_limit`` [m/s], or its pitch beyond
      ±``tilt_limit`` [rad]; with ``costs=`` also ``cost_height``, 1 where it is less than ``height_limit`` over the
      ground [m]. They are of the state in which the action was taken; ``cost`` is their sum;
    - ``state`` ``(18,)``: of the state that was reached, :math:`[x, z, \text{pitch}]`, the joints' angles, and the
      velocities of all; and ``torso`` ``(3,)``, the first three. The pitch is in (−π, π]; ``reset`` tells both as well;
    - ``physics_error``: see :class:`~constrained_maxent.envs.MujocoVectorEnv`.

    Args:
        render_mode: ``"human"``, ``"rgb_array"`` or ``None``.
        width, height: of images [pixels].
        settings: see :class:`~constrained_maxent.envs.walkers.LocomotionSettings`.

    Attributes:
        limits: thresholds of what costs, by name.

    Raises:
        InvalidSetting, NonFiniteValue, gymnasium.error.ResetNeeded: see ``SingleCopy``.

    >>> env = SafeHalfCheetah(costs=("speed",), speed_limit=2.0)
    >>> _ = env.reset(options={"qpos": [0.0] * 9, "qvel": [2.5] + [0.0] * 8})
    >>> env.step(env.action_space.low)[4]["cost_speed"]
    np.float64(1.0)
    """

    vector_form = SafeHalfCheetahVector


class SafeAntVector(_WalkerVector):
    """``num_envs`` copies of :class:`SafeAnt`, simulated on all cores.

    Args:
        num_envs: number of copies.
        settings: see :class:`~constrained_maxent.envs.walkers.VectorSettings`.

    Attributes:
        limits: thresholds of what costs, by name.
    """

    robot = ANT


class SafeAnt(_Walker):
    r"""Gymnasium's ``Ant-v5`` without contact forces, with costs of going too fast and leaning over.

    Observation, float64: positions and velocities ``(27,)``, as Gymnasium's with ``include_cfrc_ext_in_observation=
    False``. Action: eight torques, −1 to 1 each. Reward: Gymnasium's without its cost of contacts, and with the way of
    the torso in the very step, where Gymnasium's lags by a sub-step. An episode of 5 s (100 steps) is truncated;
    with ``terminate_when_unhealthy`` it is terminated where Gymnasium's is.

    ``info`` is as in :class:`SafeHalfCheetah`, with ``state`` ``(28,)``, :math:`[x, y, z, \text{yaw}, \text{pitch},
    \text{roll}]`, the joints' angles and 14 velocities, and ``torso``, the first six. Yaw and roll are in (−π, π], the
    pitch within ±π/2. The tilt is the angle between the torso's axis and the vertical, π for an ant on its back.

    Args:
        render_mode, width, height, settings: as in :class:`SafeHalfCheetah`.

    Attributes:
        limits: thresholds of what costs, by name.

    Raises:
        InvalidSetting, NonFiniteValue, gymnasium.error.ResetNeeded: see ``SingleCopy``.

    >>> SafeAnt().reset(seed=0)[1]["torso"].shape
    (6,)
    """

    vector_form = SafeAntVector


class SafeHumanoidVector(_WalkerVector):
    """``num_envs`` copies of :class:`SafeHumanoid`, simulated on all cores.

    Args:
        num_envs: number of copies.
        settings: see :class:`~constrained_maxent.envs.walkers.VectorSettings`.

    Attributes:
        limits: thresholds of what costs, by name.
    """

    robot = HUMANOID


class SafeHumanoid(_Walker):
    r"""Gymnasium's ``Humanoid-v5`` without inertias and forces, with costs of going too fast and leaning over.

    Observation, float64: positions and velocities ``(45,)``, the first of Gymnasium's. Action: 17 torques, −0.4 to 0.4
    each. Reward: Gymnasium's without its cost of contacts, and with the way of the torso instead of the center of mass.
    An episode of 1.5 s (100 steps) is truncated; with ``terminate_when_unhealthy`` it is terminated where
    Gymnasium's is.

    ``info`` is as in :class:`SafeAnt`, with 17 joints and 23 velocities: ``state`` ``(46,)``.

    Args:
        render_mode, width, height, settings: as in :class:`SafeHalfCheetah`.

    Attributes:
        limits: thresholds of what costs, by name.

    Raises:
        InvalidSetting, NonFiniteValue, gymnasium.error.ResetNeeded: see ``SingleCopy``.

    >>> SafeHumanoid().reset(seed=0)[1]["state"].shape
    (46,)
    """

    vector_form = SafeHumanoidVector
