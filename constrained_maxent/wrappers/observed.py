"""What is read off a step besides observation and action: costs, rewards and states; checked, one or many at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidData, InvalidSetting, MissingCost, MissingState, NonFiniteValue
from constrained_maxent.functionals.base import OWN_REWARD, Source
from constrained_maxent.types import FloatArray

StateSource = str | Callable[[Any], Any]
"""The name of a key of ``info``, or a function of one observation."""


def observed_cost(
    source: Source, observation: Any, action: Any, next_observation: Any, reward: Any, info: Mapping[str, Any]
) -> float:
    """The cost of one step, from ``info``, from a function, or the environment's own reward; checked.

    Raises:
        MissingCost: ``info`` has no such key.
        InvalidData: not a number.
        NonFiniteValue: NaN or infinite.
    """
    if isinstance(source, str):
        if source not in info:
            raise MissingCost(
                f"The environment reported no info[{source!r}] (it reported: {', '.join(sorted(info)) or 'nothing'}). "
                "A cost must be there on every step; give cost= another key or a function "
                "(observation, action, next_observation)."
            )
        cost = info[source]
    elif source is OWN_REWARD:
        cost = reward
    else:
        cost = source(observation, action, next_observation)
    try:
        value = float(cost)
    except (TypeError, ValueError) as error:
        raise InvalidData(f"The cost {source!r} must be a number, got {cost!r}.") from error
    if not math.isfinite(value):
        raise NonFiniteValue(f"The cost {source!r} is {value}.")
    return value


def reported_costs(key: str, infos: Mapping[str, Any], mask: NDArray[np.bool_]) -> FloatArray:
    """Costs that the sub-environments of the mask reported, ``(mask.sum(),)``; checked like ``observed_cost``."""
    if not mask.any():
        return np.empty(0)
    if key not in infos or not np.all(np.asarray(infos.get(f"_{key}", mask))[mask]):
        known = ", ".join(sorted(name for name in infos if not name.startswith("_"))) or "nothing"
        raise MissingCost(
            f"Not every sub-environment reported info[{key!r}] (reported: {known}). A cost must be there on every "
            "step; give cost= another key or a function (observation, action, next_observation)."
        )
    try:
        costs = np.asarray(infos[key], dtype=np.float64).reshape(mask.shape)[mask]
    except (TypeError, ValueError) as error:
        raise InvalidData(f"infos[{key!r}] must be one number per sub-environment, got {infos[key]!r}.") from error
    if not np.isfinite(costs).all():
        raise NonFiniteValue(f"The cost {key!r} is not finite.")
    return costs


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
