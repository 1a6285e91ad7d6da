"""Swing up a pole on a cart that must not leave its part of the rail: the paper's SafeCartpole."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from constrained_maxent.envs.dm_control_env import DmControlEnv, cartpole
from constrained_maxent.envs.mujoco_model import MujocoStates, checked_length, folded
from constrained_maxent.envs.mujoco_vector import MujocoVectorEnv
from constrained_maxent.types import FloatArray

LOG_TENTH = math.log(0.1)
"""dm_control's tolerances fall like a Gaussian to a tenth at their margin."""

OBSERVATION_SPACE = gym.spaces.Box(
    np.array([-np.inf, -1.0, -1.0, -np.inf, -np.inf], dtype=np.float32),
    np.array([np.inf, 1.0, 1.0, np.inf, np.inf], dtype=np.float32),
)


class SafeCartpole(DmControlEnv):
    r"""dm_control's cartpole swing-up, with a cost for leaving :math:`|x| \leq` ``slider_limit``.

    Observation, float32, in dm_control's order: :math:`[x, \cos\omega, \sin\omega, \dot x, \dot\omega]`, with the
    cart's position *x* [m] and the pole's angle ω [rad], 0 when it is up. Action: the force on the cart, ±1 for ±10 N.
    Reward: dm_control's, for a pole that is up, still, and near the middle.

    At first the pole hangs down in the middle of the rail, with normal noise of 0.01 m, rad, m/s and rad/s. An episode
    of 10 s (1000 steps) is truncated, never terminated. On every step ``info`` holds

    - ``cost``, max(|x| − slider_limit, 0) [m] of the state in which the action was taken, and
      ``margin``, |x| − slider_limit, of the same state;
    - ``state``, float64: :math:`[x, \dot x, \omega, \dot\omega]` of the state that was reached, with ω in (−π, π]; also
      after ``reset``;
    - ``physics_error``: the simulation became unstable, as in :class:`~constrained_maxent.envs.MujocoVectorEnv`.

    Args:
        slider_limit: where the cost begins [m]. dm_control's rail lets a careless cart reach 2.08 at most.
        rail: where the soft stop of the rail begins [m].
        time_limit: after which an episode is truncated [s], or ``None``.
        frame_skip: simulation steps of 0.01 s for which each action is held.
        render_mode: ``"human"``, ``"rgb_array"`` or ``None``.
        width, height: of images [pixels].

    Raises:
        InvalidSetting, NonFiniteValue, gymnasium.error.ResetNeeded: see ``DmControlEnv``.

    >>> env = SafeCartpole(slider_limit=1.0)
    >>> observation, info = env.reset(options={"qpos": [1.5, np.pi], "qvel": [0.0, 0.0]})
    >>> observation, reward, terminated, truncated, info = env.step(np.array([1.0], dtype=np.float32))
    >>> info["cost"], info["margin"]
    (np.float64(0.5), np.float64(0.5))
    """

    def __init__(
        self,
        *,
        slider_limit: float = 2.0,
        rail: float = 1.8,
        time_limit: float | None = 10.0,
        frame_skip: int = 1,
        render_mode: str | None = None,
        width: int = 480,
        height: int = 360,
    ) -> None:
        self.slider_limit = checked_length("slider_limit", slider_limit)
        super().__init__(
            cartpole_physics(rail),
            cartpole.Balance(swing_up=True, sparse=False),
            observation_space=OBSERVATION_SPACE,
            start=draw_start,
            cost=partial(cost, slider_limit=self.slider_limit),
            state=physical_state,
            time_limit=time_limit,
            frame_skip=frame_skip,
            render_mode=render_mode,
            width=width,
            height=height,
        )


class SafeCartpoleVector(MujocoVectorEnv):
    """``num_envs`` copies of :class:`SafeCartpole`, simulated on all cores.

    Args:
        num_envs: number of copies.
        slider_limit, rail, time_limit, frame_skip, width, height: as in :class:`SafeCartpole`.
        staggered_starts, threads, render_mode, autoreset_mode: as in :class:`~constrained_maxent.envs.MujocoVectorEnv`.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        slider_limit: float = 2.0,
        rail: float = 1.8,
        time_limit: float | None = 10.0,
        frame_skip: int = 1,
        staggered_starts: bool = False,
        threads: int | None = None,
        render_mode: str | None = None,
        width: int = 480,
        height: int = 360,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ) -> None:
        self.slider_limit = checked_length("slider_limit", slider_limit)
        super().__init__(
            cartpole_physics(rail),
            num_envs,
            observation=observation,
            observation_space=OBSERVATION_SPACE,
            start=draw_start,
            reward=reward,
            cost=partial(cost, slider_limit=self.slider_limit),
            state=physical_state,
            time_limit=time_limit,
            frame_skip=frame_skip,
            staggered_starts=staggered_starts,
            threads=threads,
            render_mode=render_mode,
            width=width,
            height=height,
            autoreset_mode=autoreset_mode,
        )


def observation(states: MujocoStates) -> FloatArray:
    """Position, cosine and sine of the angle, both velocities, ``(n, 5)``."""
    angle = states.qpos[:, 1]
    observations = np.empty((len(angle), 5))
    observations[:, 0] = states.qpos[:, 0]
    np.cos(angle, out=observations[:, 1])
    np.sin(angle, out=observations[:, 2])
    observations[:, 3:] = states.qvel
    return observations


def physical_state(states: MujocoStates) -> FloatArray:
    """Position, its velocity, the angle in (−π, π], its velocity, ``(n, 4)``."""
    state = np.empty((len(states.qpos), 4))
    state[:, 0], state[:, 2] = states.qpos[:, 0], folded(states.qpos[:, 1])
    state[:, 1], state[:, 3] = states.qvel.T
    return state


def cost(states: MujocoStates, controls: FloatArray, *, slider_limit: float) -> dict[str, FloatArray]:
    """By how much each cart is beyond the limit, and how far it is from it, signed; ``(n,)`` each."""
    margin = np.abs(states.qpos[:, 0]) - slider_limit
    return {"cost": np.maximum(margin, 0.0), "margin": margin}


def reward(states: MujocoStates, controls: FloatArray, next_states: MujocoStates) -> FloatArray:
    """dm_control's smooth reward: upright × centered × little control × low angular velocity, ``(n,)``."""
    upright = 0.5 * (np.cos(next_states.qpos[:, 1]) + 1.0)
    centered = 0.5 * (1.0 + np.exp(LOG_TENTH * np.square(next_states.qpos[:, 0] / 2.0)))
    gentle = 0.2 * (4.0 + np.maximum(1.0 - np.square(controls[:, 0]), 0.0))
    slow = 0.5 * (1.0 + np.exp(LOG_TENTH * np.square(next_states.qvel[:, 1] / 5.0)))
    product: FloatArray = upright * centered * gentle * slow
    return product


def draw_start(generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """dm_control's first state: the pole hangs down in the middle of the rail."""
    qpos, qvel = 0.01 * generator.standard_normal((2, 2))
    qpos[1] += math.pi
    return qpos, qvel


def cartpole_physics(rail: float) -> Any:
    """dm_control's cartpole with its soft stops at ±``rail`` [m]."""
    rail = checked_length("rail", rail)
    physics = cartpole.Physics.from_xml_string(*cartpole.get_model_and_assets())
    model = physics.named.model
    # What is drawn of the rail: the soft stop gives way by 0.3 m, and half a cart is 0.2 m.
    model.geom_size[["rail1", "rail2"], 1] = rail + 0.5
    model.jnt_range["slider"] = -rail, rail
    return physics
