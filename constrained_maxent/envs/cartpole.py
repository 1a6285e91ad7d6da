"""Swing up a pole on a cart that must not leave its part of the rail: the paper's SafeCartpole."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from constrained_maxent.envs.dm_control_env import DmControlEnv, cartpole
from constrained_maxent.envs.mujoco_model import MujocoStates, folded
from constrained_maxent.envs.mujoco_vector import MujocoVectorEnv
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.types import FloatArray, is_number

LOG_TENTH = math.log(0.1)
"""dm_control's tolerances fall like a Gaussian to a tenth at their margin."""

CartpoleStart = Literal["hanging", "upright", "uniform"]

OBSERVATION_SPACE = gym.spaces.Box(
    np.array([-np.inf, -1.0, -1.0, -np.inf, -np.inf], dtype=np.float32),
    np.array([np.inf, 1.0, 1.0, np.inf, np.inf], dtype=np.float32),
)


class SafeCartpole(DmControlEnv):
    r"""dm_control's cartpole swing-up, with a cost for leaving :math:`|x| \leq` ``slider_limit``.

    Observation, float32, in dm_control's order: :math:`[x, \cos\omega, \sin\omega, \dot x, \dot\omega]`, with the
    cart's position *x* [m] and the pole's angle ω [rad], 0 when it is up. Action: the force on the cart, ±1 for ±10 N.
    Reward: dm_control's, for a pole that is up, still, and near the middle.

    An episode of 10 s (1000 steps) is truncated, never terminated. On every step ``info`` holds

    - ``cost``, max(|x| − slider_limit, 0) [m] of the state in which the action was taken, and
      ``margin``, |x| − slider_limit, of the same state;
    - ``state``, float64: :math:`[x, \dot x, \omega, \dot\omega]` of the state that was reached, with ω in (−π, π]; also
      after ``reset``;
    - ``physics_error``: the simulation became unstable, see
      :class:`~constrained_maxent.envs.dm_control_env.DmControlEnv`.

    Args:
        slider_limit: where the cost begins [m]. dm_control's rail lets a careless cart reach 2.08 at most.
        rail: where the soft stop of the rail begins [m].
        time_limit: after which an episode is truncated [s], or ``None``.
        frame_skip: simulation steps of 0.01 s for which each action is held.
        start: the pole hangs down (``"hanging"``) or stands up (``"upright"``) in the middle of the rail; or position
            and angle are uniform, within the limit and the rail (``"uniform"``).
        start_noise: standard deviation of the normal noise on all first positions and velocities that are not
            uniform [m, rad, m/s, rad/s].
        render_mode: ``"human"``, ``"rgb_array"`` or ``None``.
        width: of images [pixels].
        height: of images [pixels].

    Raises:
        InvalidSetting, NonFiniteValue, gymnasium.error.ResetNeeded: as in ``DmControlEnv``.

    >>> env = SafeCartpole(slider_limit=1.0)
    >>> observation, info = env.reset(options={"qpos": [1.5, np.pi], "qvel": [0.0, 0.0]})
    >>> observation, reward, terminated, truncated, info = env.step(np.array([1.0], dtype=np.float32))
    >>> info["cost"], info["margin"]
    (0.5, 0.5)
    """

    def __init__(
        self,
        *,
        slider_limit: float = 2.0,
        rail: float = 1.8,
        time_limit: float | None = 10.0,
        frame_skip: int = 1,
        start: CartpoleStart = "hanging",
        start_noise: float = 0.01,
        render_mode: str | None = None,
        width: int = 480,
        height: int = 360,
    ) -> None:
        self.formulas = CartpoleFormulas(slider_limit=slider_limit, rail=rail, start=start, start_noise=start_noise)
        super().__init__(
            cartpole_physics(rail),
            cartpole.Balance(swing_up=True, sparse=False),
            observation_space=OBSERVATION_SPACE,
            start=self.formulas.draw_start,
            cost=self.formulas.cost,
            state=self.formulas.state,
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
        slider_limit, rail, time_limit, frame_skip, start, start_noise: as in :class:`SafeCartpole`.
        staggered_starts, threads, autoreset_mode: as in :class:`~constrained_maxent.envs.MujocoVectorEnv`.
        render_mode: ``"rgb_array"`` or ``None``.
        width: of images [pixels].
        height: of images [pixels].
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        slider_limit: float = 2.0,
        rail: float = 1.8,
        time_limit: float | None = 10.0,
        frame_skip: int = 1,
        start: CartpoleStart = "hanging",
        start_noise: float = 0.01,
        staggered_starts: bool = False,
        threads: int | None = None,
        render_mode: str | None = None,
        width: int = 480,
        height: int = 360,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ) -> None:
        self.formulas = CartpoleFormulas(slider_limit=slider_limit, rail=rail, start=start, start_noise=start_noise)
        super().__init__(
            cartpole_physics(rail),
            num_envs,
            observation=self.formulas.observation,
            observation_space=OBSERVATION_SPACE,
            start=self.formulas.draw_start,
            reward=self.formulas.reward,
            cost=self.formulas.cost,
            state=self.formulas.state,
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
class CartpoleFormulas:
    """Observation, cost, reward and start of the cartpole, for ``n`` states at once; see :class:`SafeCartpole`."""

    slider_limit: float = 2.0
    rail: float = 1.8
    start: CartpoleStart = "hanging"
    start_noise: float = 0.01

    def __post_init__(self) -> None:
        for name in ("slider_limit", "rail"):
            if not (is_number(length := getattr(self, name)) and 0.0 < length < math.inf):
                raise InvalidSetting(f"{name}={length!r} must be a positive length [m].")
        if not isinstance(self.start, str) or self.start not in get_args(CartpoleStart):
            raise InvalidSetting(f"start={self.start!r} must be 'hanging', 'upright' or 'uniform'.")
        if not (is_number(self.start_noise) and 0.0 <= self.start_noise < math.inf):
            raise InvalidSetting(f"start_noise={self.start_noise!r} must be a standard deviation of at least 0.")

    def observation(self, states: MujocoStates) -> FloatArray:
        """``(n, 5)``: position, cosine and sine of the angle, both velocities."""
        angle = states.qpos[:, 1]
        observations = np.empty((len(angle), 5))
        observations[:, 0] = states.qpos[:, 0]
        np.cos(angle, out=observations[:, 1])
        np.sin(angle, out=observations[:, 2])
        observations[:, 3:] = states.qvel
        return observations

    def state(self, states: MujocoStates) -> FloatArray:
        """``(n, 4)``: position, its velocity, the angle in (−π, π], its velocity."""
        state = np.empty((len(states.qpos), 4))
        state[:, 0], state[:, 2] = states.qpos[:, 0], folded(states.qpos[:, 1])
        state[:, 1], state[:, 3] = states.qvel.T
        return state

    def cost(self, states: MujocoStates, controls: FloatArray) -> dict[str, FloatArray]:
        """By how much each cart is beyond the limit, and how far it is from it, signed."""
        margin = np.abs(states.qpos[:, 0]) - self.slider_limit
        return {"cost": np.maximum(margin, 0.0), "margin": margin}

    def reward(self, states: MujocoStates, controls: FloatArray, next_states: MujocoStates) -> FloatArray:
        """dm_control's smooth reward: upright × centered × little control × low angular velocity, ``(n,)``."""
        upright = 0.5 * (np.cos(next_states.qpos[:, 1]) + 1.0)
        centered = 0.5 * (1.0 + np.exp(LOG_TENTH * np.square(next_states.qpos[:, 0] / 2.0)))
        gentle = 0.2 * (4.0 + np.maximum(1.0 - np.square(controls[:, 0]), 0.0))
        slow = 0.5 * (1.0 + np.exp(LOG_TENTH * np.square(next_states.qvel[:, 1] / 5.0)))
        reward: FloatArray = upright * centered * gentle * slow
        return reward

    def draw_start(self, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """A first state."""
        qpos, qvel = self.start_noise * generator.standard_normal((2, 2))
        if self.start == "hanging":
            qpos[1] += math.pi
        elif self.start == "uniform":
            reach = min(self.slider_limit, self.rail)
            qpos = generator.uniform([-reach, -math.pi], [reach, math.pi])
        return qpos, qvel


def cartpole_physics(rail: float) -> Any:
    """dm_control's cartpole with its soft stops at ±``rail`` [m]."""
    physics = cartpole.Physics.from_xml_string(*cartpole.get_model_and_assets())
    model = physics.named.model
    # What is drawn of the rail goes 0.2 m beyond the stop.
    model.geom_size[["rail1", "rail2"], 1] += rail - model.jnt_range["slider"][1]
    model.jnt_range["slider"] = -rail, rail
    return physics
