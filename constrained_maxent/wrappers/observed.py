"""What is read off a step besides observation and action: costs, rewards and states; checked, one or many at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidData, InvalidSetting, MissingCost, MissingState, NonFiniteValue
from constrained_maxent.functionals.base import OWN_REWARD, Source
from constrained_maxent.types import FloatArray, require_finite

StateSource = str | Callable[[Any], Any]
"""The name of a key of ``info``, or a function of one observation."""


LARGEST = 1e100
"""What is larger than this cannot be squared and summed in double precision."""


_WATCHED = (
    "What a constraint or the objective watches must be there on every step: name another key, or give a function "
    "(observation, action, next_observation)."
)


def own(value: Any) -> Any:
    """A copy for a function of the user's, which may write into what it is given."""
    if isinstance(value, np.ndarray):
        return value.copy()
    return value if isinstance(value, (int, float, np.generic)) else deepcopy(value)


def as_number(name: str, value: Any) -> float:
    """One real number, given as such, as a truth value, or as an array of one entry.

    Raises:
        InvalidData: something else, or a number beyond ``LARGEST``.
        NonFiniteValue: NaN or infinite.
    """
    if type(value) in (float, int) and -LARGEST <= value <= LARGEST:  # as good as always, and on every step
        return float(value)
    given = value
    if isinstance(value, np.ndarray) and value.size == 1 and not np.ma.is_masked(value):
        value = value.item()
    if isinstance(value, (str, bytes, bytearray, memoryview, np.void, complex, np.ma.MaskedArray)):
        raise InvalidData(f"{name} must be a number, got {given!r}.")
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise InvalidData(f"{name} must be a number, got {given!r}.") from error
    except OverflowError:
        raise NonFiniteValue(f"{name} is a whole number beyond all floats.") from None
    if -LARGEST <= number <= LARGEST:
        return number
    if math.isfinite(number):
        raise _too_large(name, number)
    raise NonFiniteValue(f"{name} is {number}.")


def _too_large(name: str, value: float) -> InvalidData:
    return InvalidData(f"{name} is {value:g}: beyond {LARGEST:g} squares and sums overflow, so take a larger unit.")


def require_usable(name: str, rows: NDArray[Any]) -> None:
    """Raise ``NonFiniteValue`` where numbers are NaN or infinite, and ``InvalidData`` where they exceed ``LARGEST``."""
    if rows.dtype.kind != "f":
        return
    flat = rows.reshape(-1)
    with np.errstate(over="ignore"):
        if np.dot(flat, flat) < LARGEST:  # as good as always, and a NaN is not: faster than to look at each
            return
    require_finite(name, rows)
    if (largest := float(np.abs(flat).max(initial=0.0))) > LARGEST:
        raise _too_large(f"An entry of {name[0].lower()}{name[1:]}", largest)


def observed_cost(
    source: Source, observation: Any, action: Any, next_observation: Any, reward: Any, info: Mapping[str, Any]
) -> float:
    """The cost of one step, from ``info``, from a function, or the environment's own reward; checked.

    Raises:
        MissingCost: ``info`` has no such key.
        InvalidData: not a number, or too large.
        NonFiniteValue: NaN or infinite.
    """
    if isinstance(source, str):
        if source not in info:
            raise MissingCost(
                f"The environment reported no info[{source!r}] (it reported: {', '.join(sorted(info)) or 'nothing'}). "
                f"{_WATCHED}"
            )
        cost = info[source]
    elif source is OWN_REWARD:
        cost = reward
    else:
        cost = source(own(observation), own(action), own(next_observation))
    if type(cost) is np.float64:
        cost = float(cost)
    if type(cost) is float and -LARGEST <= cost <= LARGEST:
        return cost
    if isinstance(source, str):
        return as_number(f"info[{source!r}]", cost)
    return as_number("The environment's reward" if source is OWN_REWARD else f"The cost {source!r}", cost)


def reported_costs(key: str, infos: Mapping[str, Any], mask: NDArray[np.bool_]) -> FloatArray:
    """Costs that the sub-environments of the mask reported, ``(mask.sum(),)``; checked like ``observed_cost``."""
    if not mask.any():
        return np.empty(0)
    if key not in infos or not np.all(np.asarray(infos.get(f"_{key}", mask))[mask]):
        known = ", ".join(sorted(name for name in infos if not name.startswith("_"))) or "nothing"
        raise MissingCost(f"Not every sub-environment reported info[{key!r}] (reported: {known}). {_WATCHED}")
    return numbers_of(f"infos[{key!r}]", infos[key], mask)


def numbers_of(name: str, values: Any, mask: NDArray[np.bool_]) -> FloatArray:
    """Those numbers that the mask says, ``(mask.sum(),)``, of one for each sub-environment; checked like ``as_number``.

    A copy that reports nothing has no number, whatever stands in its place.
    """
    try:
        column = np.asarray(values)
        if column.dtype.kind not in "fiubO":
            raise ValueError(column.dtype)
        rows = column.reshape(mask.shape)[mask]
    except (TypeError, ValueError) as error:
        raise InvalidData(f"{name} must be one number per sub-environment, got {values!r}.") from error
    if rows.dtype == object:
        return np.array([as_number(name, value) for value in rows])
    numbers: FloatArray = rows.astype(np.float64)
    require_usable(name, numbers)
    return numbers


def check_source(source: StateSource | None) -> None:
    """Raise ``InvalidSetting`` unless the source of states is a name, a function or ``None``."""
    if not (source is None or isinstance(source, str) or callable(source)):
        raise InvalidSetting(f"state={source!r} must be the name of a key of info, or a function of the observation.")


def state_of(source: StateSource, observation: Any, info: Mapping[str, Any]) -> FloatArray:
    """The state of one environment, ``(n_states,)``, copied and checked.

    Raises:
        MissingState: ``info`` has no such key.
        InvalidData: not numbers, or too large.
        NonFiniteValue: NaN or infinite.
    """
    if isinstance(source, str):
        if source not in info:
            raise MissingState(_missing(source, info))
        value = info[source]
    else:
        value = source(own(observation))
    return _coordinates(f"The state {source!r}", value).reshape(-1)


def _coordinates(name: str, values: Any) -> FloatArray:
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "fiubO" or np.ma.is_masked(values):
            raise ValueError(array.dtype)
        state = np.array(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidData(f"{name} must be numbers, got {values!r}.") from error
    if not state.size:
        raise InvalidData(f"{name} has no coordinates.")
    require_usable(name, state)
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
        return _of_equal_length(source, rows)
    if source not in infos or not np.all(np.asarray(infos.get(f"_{source}", needed))[needed]):
        raise MissingState(_missing(source, infos))
    reported = infos[source]
    if isinstance(reported, np.ndarray) and reported.dtype == object:  # of copies that report lists
        rows = [_coordinates(f"infos[{source!r}]", row).reshape(-1) for row in reported[needed]]
        return _of_equal_length(source, rows)
    try:
        column = np.asarray(reported).reshape(len(needed), -1)
    except ValueError as error:
        raise InvalidData(f"infos[{source!r}] must be one row of numbers per sub-environment.") from error
    return _coordinates(f"infos[{source!r}]", column[needed])


def _of_equal_length(source: StateSource, rows: list[FloatArray]) -> FloatArray:
    if len({len(row) for row in rows}) > 1:
        raise InvalidData(f"The state {source!r} has not always the same length.")
    return np.array(rows)


def _missing(key: str, info: Mapping[str, Any]) -> str:
    known = ", ".join(sorted(name for name in info if not name.startswith("_"))) or "nothing"
    return (
        f"info has no {key!r} (it has: {known}). The state must be there after reset and on every step; give state= "
        "another key, or a function of the observation."
    )
