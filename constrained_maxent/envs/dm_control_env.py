"""A task of the DeepMind Control Suite as a Gymnasium environment with costs and physical states."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.core import RenderFrame
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from constrained_maxent.envs.episodes import can_render, check_render_mode
from constrained_maxent.envs.mujoco_model import (
    CostFunction,
    MujocoStates,
    StartFunction,
    checked_controls,
    control_space,
    given_state,
    horizon_steps,
    unusable,
)
from constrained_maxent.envs.mujoco_painter import MujocoPainter
from constrained_maxent.types import FloatArray, check_count

try:
    with warnings.catch_warnings():
        # dm_control looks for a window system as it is imported, and GLFW warns if there is none.
        warnings.simplefilter("ignore")
        from dm_control.rl.control import PhysicsError
        from dm_control.suite import cartpole, point_mass
# As for MuJoCo: what an OpenGL that is not there raises differs by backend.
except Exception as error:
    raise unusable("dm_control", error) from error

__all__ = ["DmControlEnv", "cartpole", "point_mass"]


class DmControlEnv(gym.Env[NDArray[np.float32], NDArray[np.float32]]):
    """Steps dm_control's physics; observation and reward are the task's own, cost, state and start are given.

    The constraint solver starts each step cold, not from the accelerations of the step before, so that a step is a
    function of state and action alone, and equal to one of :class:`~constrained_maxent.envs.MujocoVectorEnv`. The
    difference to dm_control is below the solver's tolerance in every step.

    A ``step`` reports ``info["cost"]`` of the state in which the action was taken; ``info["state"]``, the physical
    state (float64) that belongs to the observation returned; and ``info["physics_error"]``, whether the simulation
    became unstable. Such a step has no result: the episode is truncated with reward 0 and the observation before.

    Args:
        physics: a dm_control ``Physics``.
        task: a dm_control ``Task``.
        observation_space: float32, of the task's observation, flattened in its own order.
        start, cost, state, time_limit, frame_skip, width, height: as in
            :class:`~constrained_maxent.envs.MujocoVectorEnv`.
        render_mode: ``"human"``, ``"rgb_array"`` or ``None``.

    Attributes:
        horizon: steps after which an episode is truncated, or ``None``.

    Raises:
        InvalidSetting: an argument or an action makes no sense.
        NonFiniteValue: an action or a given state is NaN or infinite.
        gymnasium.error.ResetNeeded: ``step`` without a running episode, or ``render`` before the first ``reset``.
    """

    metadata: dict[str, Any] = {"render_modes": ["human", "rgb_array"]}

    def __init__(
        self,
        physics: Any,
        task: Any,
        *,
        observation_space: gym.spaces.Box,
        start: StartFunction,
        cost: CostFunction,
        state: Callable[[MujocoStates], FloatArray],
        time_limit: float | None,
        frame_skip: int = 1,
        render_mode: str | None = None,
        width: int = 480,
        height: int = 360,
    ) -> None:
        check_render_mode(render_mode, self.metadata["render_modes"])
        self.physics, self.task = physics, task
        self.frame_skip = check_count("frame_skip", frame_skip)
        self.timestep = physics.timestep() * self.frame_skip
        self.horizon = horizon_steps(time_limit, self.timestep)
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "render_fps": max(1, round(1.0 / self.timestep))}
        self.observation_space: gym.spaces.Box = observation_space  # type: ignore[assignment]
        self.action_space: gym.spaces.Box = control_space(physics)  # type: ignore[assignment]

        self._start, self._cost, self._state = start, cost, state
        self._painter = MujocoPainter(physics.model.ptr, width=width, height=height)
        self._last: tuple[NDArray[np.float32], FloatArray] | None = None
        self._running = False
        self._elapsed = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start an episode.

        Args:
            seed: of the environment's random numbers.
            options: ``{"qpos": (nq,), "qvel": (nv,)}`` gives the first state instead of drawing it.

        Returns:
            The observation, and ``{"state": ...}``: no action, no cost.
        """
        super().reset(seed=seed)
        model, data = self.physics.model, self.physics.data
        qpos, qvel = given_state(options, (model.nq,), (model.nv,)) or self._start(self.np_random)
        with self.physics.reset_context():
            data.qpos[:], data.qvel[:] = qpos, qvel
        self._running = True
        self._elapsed = 0
        observation, state = self._observe()
        if self.render_mode == "human":
            self.render()
        return observation, {"state": state}

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Take one action; beyond its range, MuJoCo clips it.

        Returns:
            Observation, reward, False (never terminated), truncated, and info.
        """
        if not self._running:
            raise ResetNeeded("No episode is running: call reset() before the first step() and after an episode's end.")
        control = checked_controls(action, self.action_space.shape or ())
        costs = self._cost(self._states(), control[None])
        costs = costs if isinstance(costs, Mapping) else {"cost": costs}
        info: dict[str, Any] = {name: np.float64(np.asarray(values)[0]) for name, values in costs.items()}
        self._elapsed += 1
        try:
            self.task.before_step(control, self.physics)
            self.physics.data.qacc_warmstart[:] = 0.0
            self.physics.step(self.frame_skip)
            self.task.after_step(self.physics)
        except PhysicsError:
            failed, reward = True, 0.0
            assert self._last is not None
            observation, state = self._last[0].copy(), self._last[1].copy()
        else:
            failed, reward = False, float(self.task.get_reward(self.physics))
            observation, state = self._observe()
        truncated = failed or self._elapsed == self.horizon
        self._running = not truncated
        if self.render_mode == "human":
            self.render()
        return observation, reward, False, truncated, info | {"state": state, "physics_error": failed}

    def render(self) -> RenderFrame | list[RenderFrame] | None:
        """Draw the model: uint8 (height, width, 3) (``"rgb_array"``), or into a window (``"human"``)."""
        if not can_render(self, started=self._last is not None):
            return None
        if self.render_mode == "human":
            self._painter.show(self.physics.data.ptr)
            return None
        return self._painter.image(self.physics.data.ptr)

    def close(self) -> None:
        """Release what drawing holds."""
        if hasattr(self, "_painter"):
            self._painter.close()

    def _states(self) -> MujocoStates:
        data = self.physics.data
        return MujocoStates(
            qpos=data.qpos[None],
            qvel=data.qvel[None],
            act=data.act[None],
            time=np.array([self._elapsed * self.timestep]),
        )

    def _observe(self) -> tuple[NDArray[np.float32], FloatArray]:
        """The task's observation and the physical state; copies of both are kept."""
        parts = [np.ravel(part) for part in self.task.get_observation(self.physics).values()]
        observation = np.concatenate(parts).astype(np.float32)
        state = np.array(self._state(self._states()), dtype=np.float64)[0]
        self._last = observation.copy(), state.copy()
        return observation, state
