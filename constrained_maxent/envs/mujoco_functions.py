"""What a step means, given by functions of states: their kinds, and what they return checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from constrained_maxent.envs.mujoco_simulation import MujocoStates
from constrained_maxent.errors import InvalidData
from constrained_maxent.types import FloatArray

ObservationFunction = Callable[[MujocoStates], ArrayLike]
"""Observations of ``n`` states, ``(n, ...)``."""
StartFunction = Callable[[np.random.Generator], tuple[ArrayLike, ArrayLike]]
"""A first state: positions ``(nq,)`` and velocities ``(nv,)``."""
CostFunction = Callable[[MujocoStates, FloatArray], "ArrayLike | Mapping[str, ArrayLike]"]
"""Costs ``(n,)`` of ``n`` states and the controls ``(n, nu)`` chosen there; or several entries of info by name."""
RewardFunction = Callable[[MujocoStates, FloatArray, MujocoStates], ArrayLike]
"""Rewards ``(n,)`` of states, controls and next states."""
StateFunction = Callable[[MujocoStates], ArrayLike]
"""Physical states ``(n, dimensions)``, over which a density can be fitted."""
TerminationFunction = Callable[[MujocoStates], ArrayLike]
"""Whether entering each of ``n`` states ends the episode, bool ``(n,)``."""


@dataclass(frozen=True, kw_only=True, eq=False)
class StateFunctions:
    """The functions that make an environment of a model; each is called once for all copies.

    Every method returns a copy that the caller may change, and raises ``InvalidData`` for arrays of the wrong shape.

    Args:
        observation_space: the space of one observation.
        observation, state: of states.
        reward, cost, terminated: of steps; ``None`` means no reward, no cost, and no end.
    """

    observation_space: gym.spaces.Box
    observation: ObservationFunction
    state: StateFunction
    reward: RewardFunction | None = None
    cost: CostFunction | None = None
    terminated: TerminationFunction | None = None

    def observe(self, states: MujocoStates) -> NDArray[Any]:
        """Observations ``(n, ...)`` of the space's dtype."""
        space = self.observation_space
        observations = np.array(self.observation(states), dtype=space.dtype)
        if observations.shape != (len(states.time), *(space.shape or ())):
            raise InvalidData(
                f"observation(states) must be of shape {(len(states.time), *(space.shape or ()))}, one row for each "
                f"state and as observation_space says; not {observations.shape}."
            )
        return observations

    def physical(self, states: MujocoStates) -> FloatArray:
        """Physical states, float64 ``(n, dimensions)``."""
        state = np.array(self.state(states), dtype=np.float64)
        if state.ndim != 2 or len(state) != len(states.time):
            raise InvalidData(f"state(states) must be of shape ({len(states.time)}, dimensions), not {state.shape}.")
        return state

    def costs(self, states: MujocoStates, controls: FloatArray) -> dict[str, NDArray[Any]]:
        """Entries of infos, float64 ``(n,)`` each: ``cost``, and what is reported beside it."""
        if self.cost is None:
            return {}
        costs = self.cost(states, controls)
        if not isinstance(costs, Mapping):
            return {"cost": _column("cost", costs, states)}
        if "cost" not in costs:
            raise InvalidData(f"cost(states, controls) must have the key 'cost', the sum of all; has {list(costs)}.")
        return {name: _column(f"cost[{name!r}]", values, states) for name, values in costs.items()}

    def rewards(self, states: MujocoStates, controls: FloatArray, next_states: MujocoStates) -> FloatArray:
        """Rewards of steps, float64 ``(n,)``."""
        if self.reward is None:
            return np.zeros(len(states.time))
        return _column("reward", self.reward(states, controls, next_states), states)

    def ends(self, next_states: MujocoStates) -> NDArray[np.bool_]:
        """Which episodes end by entering these states, bool ``(n,)``."""
        if self.terminated is None:
            return np.zeros(len(next_states.time), dtype=np.bool_)
        return _column("terminated", self.terminated(next_states), next_states, np.bool_)


def _column(name: str, values: ArrayLike, states: MujocoStates, dtype: Any = np.float64) -> NDArray[Any]:
    """A copy of one value per copy of the model."""
    column, n = np.array(values, dtype=dtype), len(states.time)
    if column.shape != (n,):
        raise InvalidData(f"{name} must be of shape ({n},), one entry per copy; not {column.shape}.")
    return column
