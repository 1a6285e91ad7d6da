"""One copy of a ``MujocoVectorEnv`` as a scalar environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.core import RenderFrame
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from constrained_maxent.envs.episodes import can_render, check_render_mode
from constrained_maxent.envs.mujoco_model import checked_controls, given_state, mujoco
from constrained_maxent.envs.mujoco_painter import MujocoPainter
from constrained_maxent.envs.mujoco_vector import MujocoVectorEnv


class SingleCopy(gym.Env[NDArray[Any], NDArray[np.float32]]):
    """Steps a vector environment of one copy, so that both forms of an environment are one implementation.

    Observations, ``info`` and refusals are those of :class:`~constrained_maxent.envs.MujocoVectorEnv`, for one copy.

    Args:
        vector: of one copy, with autoreset disabled.
        render_mode: ``"human"``, ``"rgb_array"`` or ``None``.
        width, height: of images [pixels].

    Attributes:
        timestep: time that one step takes, frame skip included [s].
        horizon: steps after which an episode is truncated, or ``None``.

    Raises:
        InvalidSetting: an argument or an action makes no sense.
        NonFiniteValue: an action or a given state is NaN or infinite.
        gymnasium.error.ResetNeeded: ``step`` without a running episode, or ``render`` before the first ``reset``.
    """

    metadata: dict[str, Any] = {"render_modes": ["human", "rgb_array"]}

    def __init__(
        self,
        vector: MujocoVectorEnv,
        *,
        render_mode: str | None = None,
        width: int = 480,
        height: int = 360,
    ) -> None:
        assert (vector.num_envs, vector.autoreset_mode) == (1, AutoresetMode.DISABLED)
        check_render_mode(render_mode, self.metadata["render_modes"])
        self._vector = vector
        self.render_mode = render_mode
        self.timestep, self.horizon = vector.timestep, vector.horizon
        self.metadata = {**self.metadata, "render_fps": vector.metadata["render_fps"]}
        self.observation_space: gym.spaces.Box = vector.single_observation_space  # type: ignore[assignment]
        self.action_space: gym.spaces.Box = vector.single_action_space  # type: ignore[assignment]
        self._painter = MujocoPainter(vector.model, width=width, height=height)
        self._drawn: Any = None
        self._started = self._running = False

    @property
    def model(self) -> Any:
        """The ``mujoco.MjModel``. Change it before the first step only."""
        return self._vector.model

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Start an episode.

        Args:
            seed: of the environment's random numbers.
            options: ``{"qpos": (nq,), "qvel": (nv,)}`` gives the first state instead of drawing it.

        Returns:
            The observation, and what ``info`` says of the state: no action, no cost.
        """
        super().reset(seed=seed)
        qpos, qvel = given_state(options, (self.model.nq,), (self.model.nv,)) or self._vector._start(self.np_random)
        first = {"qpos": np.asarray(qpos)[None], "qvel": np.asarray(qvel)[None]}
        observations, infos = self._vector.reset(options=first)
        self._started = self._running = True
        if self.render_mode == "human":
            self.render()
        return observations[0], _of_one(infos)

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Take one action; beyond its range, MuJoCo clips it."""
        if not self._running:
            raise ResetNeeded("No episode is running: call reset() before the first step() and after an episode's end.")
        control = checked_controls(action, self.action_space.shape or ())
        observations, rewards, terminated, truncated, infos = self._vector.step(control[None])
        self._running = not (terminated[0] or truncated[0])
        if self.render_mode == "human":
            self.render()
        return observations[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), _of_one(infos)

    def render(self) -> RenderFrame | list[RenderFrame] | None:
        """Draw the model: uint8 (height, width, 3) (``"rgb_array"``), or into a window (``"human"``)."""
        if not can_render(self, started=self._started):
            return None
        if self._drawn is None:
            self._drawn = mujoco.MjData(self.model)
        states, data = self._vector.states, self._drawn
        data.qpos[:], data.qvel[:], data.act[:] = states.qpos[0], states.qvel[0], states.act[0]
        mujoco.mj_forward(self.model, data)
        if self.render_mode == "human":
            self._painter.show(data)
            return None
        return self._painter.image(data)

    def close(self) -> None:
        """Release what drawing holds."""
        if hasattr(self, "_painter"):  # Gymnasium closes even what its constructor refused to make
            self._painter.close()
            self._vector.close()


def _of_one(infos: dict[str, Any]) -> dict[str, Any]:
    """The entries of the only copy, without masks."""
    info = {name: column[0] for name, column in infos.items() if not name.startswith("_")}
    return {name: bool(value) if isinstance(value, np.bool_) else value for name, value in info.items()}
