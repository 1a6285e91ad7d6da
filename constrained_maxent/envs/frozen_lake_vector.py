"""Many frozen lakes at once: the dynamics of ``SafeFrozenLake`` for a batch of copies, stepped in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.core import RenderFrame
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from constrained_maxent.envs.episodes import as_mode, can_render, check_render_mode, require_running, reset_mask
from constrained_maxent.envs.frozen_lake import SafeFrozenLake
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.types import check_count

_NO_ACTION = -1


class SafeFrozenLakeVector(VectorEnv[NDArray[np.int64], ArrayLike, NDArray[Any]]):
    """``num_envs`` copies of :class:`SafeFrozenLake`, with the autoreset semantics of Gymnasium's ``SyncVectorEnv``.

    ``infos["cost"]`` is float64 (num_envs,), and ``infos["_cost"]`` tells whose it is. In a step that only resets a
    copy (next-step autoreset) that copy has no cost; with same-step autoreset, the cost of an episode's last step is
    in ``infos["final_info"]``. All copies draw from one random generator, seeded by an int.

    Args:
        num_envs: number of copies.
        map_name, desc, slippery, horizon, hole_cost, base_cost: as in :class:`SafeFrozenLake`.
        render_mode: ``"ansi"``, ``"rgb_array"`` or ``None``.
        autoreset_mode: an ``AutoresetMode`` or its value: ``"NextStep"``, ``"SameStep"`` or ``"Disabled"``.

    Attributes:
        P, initial_state_distrib, cost_tables, desc, horizon: those of each copy, as in :class:`SafeFrozenLake`.

    Raises:
        InvalidSetting: an argument, an action or a reset mask makes no sense.
        gymnasium.error.ResetNeeded: ``step`` before ``reset``, or of a finished copy if autoreset is disabled.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}

    def __init__(
        self,
        num_envs: int = 1,
        *,
        map_name: str = "6x6",
        desc: Sequence[str] | None = None,
        slippery: bool = False,
        horizon: int | None = 25,
        hole_cost: float = 50.0,
        base_cost: float = -0.001,
        render_mode: str | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ) -> None:
        self.num_envs = n = check_count("num_envs", num_envs)
        check_render_mode(render_mode, self.metadata["render_modes"])
        self.autoreset_mode = as_mode(autoreset_mode)

        # One scalar lake checks the other arguments, holds the tables and draws the copies one after the other.
        self._lake = SafeFrozenLake(
            map_name=map_name,
            desc=desc,
            slippery=slippery,
            horizon=horizon,
            hole_cost=hole_cost,
            base_cost=base_cost,
            render_mode=render_mode,
        )
        self.horizon = horizon
        self.desc, self.cost_tables = self._lake.desc, self._lake.cost_tables
        self.P, self.initial_state_distrib = self._lake.P, self._lake.initial_state_distrib
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.single_observation_space = self._lake.observation_space
        self.single_action_space = self._lake.action_space
        self.observation_space = batch_space(self.single_observation_space, n)
        self.action_space = batch_space(self.single_action_space, n)

        self._last_step = np.iinfo(np.int64).max if horizon is None else int(horizon)
        self._started = False
        self._states, self._elapsed = np.zeros((2, n), dtype=np.int64)
        self._ended = np.zeros(n, dtype=np.bool_)
        self._last_actions = np.full(n, _NO_ACTION)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.int64], dict[str, Any]]:
        """Start an episode in every copy, or in those of a mask.

        Args:
            seed: of the one generator that all copies share.
            options: ``{"reset_mask": bool (num_envs,)}`` restarts the copies marked True and leaves the others alone.

        Returns:
            All current states, int64 (num_envs,), and an empty info: no action, no cost.
        """
        mask = reset_mask(options, self.num_envs, started=self._started)
        super().reset(seed=seed)
        self._started = True
        self._restart(mask)
        return self._states.copy(), {}

    def step(
        self, actions: ArrayLike
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Take one action in every copy.

        Args:
            actions: whole numbers (num_envs,): 0 left, 1 down, 2 right, 3 up.

        Returns:
            Next states int64, rewards float64, terminated and truncated bool, each (num_envs,), and infos.
        """
        require_running(self._ended, started=self._started, mode=self.autoreset_mode)
        moves = np.asarray(actions)
        if moves.shape != (self.num_envs,) or moves.dtype.kind not in "iu" or moves.min() < 0 or moves.max() > 3:
            raise InvalidSetting(
                f"actions must be {self.num_envs} whole numbers, shape ({self.num_envs},): "
                f"0 left, 1 down, 2 right, 3 up; not {actions!r}."
            )
        self._last_actions = moves.astype(np.int64)
        tables = self._lake.tables
        costs = tables.costs.take(self._states)
        _, n_actions, n_outcomes = tables.successors.shape
        cells = (self._states * n_actions + self._last_actions) * n_outcomes
        if n_outcomes > 1:
            cells += self.np_random.integers(n_outcomes, size=self.num_envs)
        self._states = tables.successors.take(cells)
        self._elapsed += 1
        rewards = tables.rewards.take(self._states)
        terminated = tables.terminal.take(self._states)
        truncated = self._elapsed >= self._last_step
        infos: dict[str, Any] = {"cost": costs, "_cost": np.ones(self.num_envs, dtype=np.bool_)}

        if self.autoreset_mode is AutoresetMode.NEXT_STEP and self._ended.any():
            reset = self._ended
            for values in (rewards, terminated, truncated, costs):
                values[reset] = 0
            infos["_cost"] = ~reset
            self._restart(reset)
        self._ended = terminated | truncated

        if self.autoreset_mode is AutoresetMode.SAME_STEP and self._ended.any():
            infos = self._final_infos(costs)
            self._restart(self._ended)
        return self._states.copy(), rewards, terminated, truncated, infos

    def render(self) -> tuple[RenderFrame, ...] | None:
        """Draw every copy: a tuple of ``num_envs`` strings (``"ansi"``) or uint8 images (``"rgb_array"``)."""
        if not can_render(self, started=self._started):
            return None
        frames: list[Any] = []
        for state, action in zip(self._states.tolist(), self._last_actions.tolist(), strict=True):
            self._lake.s = state
            self._lake.lastaction = None if action == _NO_ACTION else action
            frames.append(self._lake.render())
        return tuple(frames)

    def close_extras(self, **kwargs: Any) -> None:
        """Release what drawing holds."""
        if hasattr(self, "_lake"):  # Gymnasium closes even what its constructor refused to make
            self._lake.close()  # type: ignore[no-untyped-call]

    def _restart(self, mask: NDArray[np.bool_]) -> None:
        starts = self._lake.tables.starts
        copies = np.flatnonzero(mask)
        self._states[copies] = starts[self.np_random.integers(starts.size, size=copies.size)]
        self._elapsed[copies] = 0
        self._last_actions[copies] = _NO_ACTION
        self._ended = self._ended & ~mask

    def _final_infos(self, costs: NDArray[np.float64]) -> dict[str, Any]:
        """The infos of a step in which episodes end and new ones start at once; these have no cost yet."""
        ended = self._ended
        final_obs = np.full(self.num_envs, None, dtype=object)
        final_obs[ended] = self._states[ended]
        return {
            "final_obs": final_obs,
            "_final_obs": ended.copy(),
            "final_info": {"cost": np.where(ended, costs, 0.0), "_cost": ended.copy()},
            "_final_info": ended.copy(),
            "cost": np.where(ended, 0.0, costs),
            "_cost": ~ended,
        }
