"""Where the state comes from that λ is a density over: the observation, a function of it, or a key of ``info``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidData, InvalidSetting, MissingState, NonFiniteValue
from constrained_maxent.types import FloatArray

StateSource = str | Callable[[Any], Any]
"""The name of a key of ``info``, or a function of one observation."""

LogProb = Callable[[NDArray[Any], NDArray[Any]], Any]
"""log π(a|s) [nats], ``(n,)``, of recorded observations and actions, ``(n, ...)`` each."""

STATE_SPACE = gym.spaces.Box(-np.inf, np.inf, ())
"""Stands for states whose number of coordinates the first batch will tell."""


def check_source(source: StateSource | None) -> None:
    """Raise ``InvalidSetting`` unless the source of states is a name, a function or ``None``."""
    if not (source is None or isinstance(source, str) or callable(source)):
        raise InvalidSetting(f"state={source!r} must be the name of a key of info, or a function of the observation.")


def state_of(source: StateSource, observation: Any, info: Mapping[str, Any]) -> FloatArray:
    """The state of one environment, ``(n_states,)``, copied and checked.

    Raises:
        MissingState: ``info`` has no such key.
        InvalidData: not numbers.
        NonFiniteValue: NaN or infinite.
    """
    if isinstance(source, str):
        if source not in info:
            raise MissingState(_missing(source, info))
        value = info[source]
    else:
        value = source(observation)
    try:
        state = np.array(value, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError) as error:
        raise InvalidData(f"The state {source!r} must be numbers, got {value!r}.") from error
    if not np.isfinite(state).all():
        raise NonFiniteValue(f"The state {source!r} is {state}.")
    return state


def states_of(
    source: StateSource, observations: list[Any], infos: Mapping[str, Any], needed: NDArray[np.bool_]
) -> FloatArray:
    """The states of the sub-environments of a mask, ``(needed.sum(), n_states)``; checked like ``state_of``.

    Args:
        source: a key of ``infos``, or a function of one observation.
        observations: one per sub-environment; only functions look at them.
        infos: of the vector environment.
        needed: the mask, ``(num_envs,)``.
    """
    if not isinstance(source, str):
        rows = [state_of(source, observations[i], {}) for i in np.flatnonzero(needed).tolist()]
        if len({len(row) for row in rows}) > 1:
            raise InvalidData(f"The state {source!r} has not always the same length.")
        return np.array(rows)
    if source not in infos or not np.all(np.asarray(infos.get(f"_{source}", needed))[needed]):
        raise MissingState(_missing(source, infos))
    try:
        states: FloatArray = np.array(infos[source], dtype=np.float64).reshape(len(needed), -1)[needed]
    except (TypeError, ValueError) as error:
        raise InvalidData(f"infos[{source!r}] must be one row of numbers per sub-environment.") from error
    if not np.isfinite(states).all():
        raise NonFiniteValue(f"The state {source!r} is not finite.")
    return states


def _missing(key: str, info: Mapping[str, Any]) -> str:
    known = ", ".join(sorted(name for name in info if not name.startswith("_"))) or "nothing"
    return (
        f"info has no {key!r} (it has: {known}). The state must be there after reset and on every step; give state= "
        "another key, or a function of the observation."
    )
