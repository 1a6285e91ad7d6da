"""Costs from booleans, for vector environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from constrained_maxent.wrappers.boolean_costs import named_costs, satisfied
from constrained_maxent.wrappers.layers import require_vector
from constrained_maxent.wrappers.replies import copied_info, five


class BooleanCosts(gym.vector.VectorWrapper):  # in Gymnasium 1.2 not generic
    """``infos["constraints"]`` as costs; see the scalar :class:`~constrained_maxent.wrappers.BooleanCosts`.

    ``infos["constraints"]`` holds one array per name, ``(num_envs, ...)``, as Gymnasium's vector environments stack
    them. Sub-environments that report nothing, because they are being reset, get no cost either. In autoreset mode
    ``SAME_STEP`` the last step's costs are in ``final_info``.
    """

    def __init__(
        self, env: gym.vector.VectorEnv[Any, Any, Any], *, key: str = "constraints", cost: str = "cost"
    ) -> None:
        require_vector(env, "BooleanCosts")
        super().__init__(env)
        self._key, self._cost = key, cost
        self._resetting = np.zeros(env.num_envs, dtype=np.bool_)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._resetting[:] = False
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        observations, rewards, terminated, truncated, reported = five(self.env.step(actions))
        infos = copied_info(reported)
        every = np.ones(self.num_envs, dtype=np.bool_)
        # Where all are being reset, Gymnasium leaves the key out: that is not a missing cost.
        silent = self._resetting
        final = infos.get("final_info")
        if final is not None:
            silent = np.asarray(infos["_final_info"], dtype=np.bool_)
            infos = {**infos, "final_info": self._with_costs(final, silent)}
        if self._key in infos or not silent.all():
            infos = self._with_costs(infos, np.asarray(infos.get(f"_{self._key}", every), dtype=np.bool_))
        if self.metadata.get("autoreset_mode") is AutoresetMode.NEXT_STEP:
            self._resetting = np.logical_or(terminated, truncated)
        return observations, rewards, terminated, truncated, infos

    def _with_costs(self, infos: dict[str, Any], reporting: NDArray[np.bool_]) -> dict[str, Any]:
        held = satisfied(infos, self._key, n_rows=self.num_envs)
        stated = infos[self._key] if isinstance(infos[self._key], Mapping) else {}  # an array has one mask for all
        masks: dict[str, NDArray[np.bool_]] = {
            name: np.asarray(stated.get(f"_{name}", reporting), dtype=np.bool_) for name in held
        }
        violated = {name: np.where(masks[name] & ~holds, 1.0, 0.0) for name, holds in held.items()}
        total: NDArray[np.float64] = sum(violated.values(), np.zeros(self.num_envs))
        costs = named_costs(infos, violated, total, self._cost)
        costs |= {f"_{self._cost}_{name}": mask for name, mask in masks.items()}
        # A sub-environment that misses one of the names has no sum: a missing cost is never 0.
        costs[f"_{self._cost}"] = np.logical_and.reduce(list(masks.values()))
        return infos | costs
