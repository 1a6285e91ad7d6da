"""What is read off a step besides observation and action: costs and rewards; checked, one or many at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import iterate
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidData, MissingCost, NonFiniteValue
from constrained_maxent.functionals.base import OWN_REWARD, Source
from constrained_maxent.types import FloatArray, require_finite

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


def costs_of_functions(
    sources: Mapping[str, Source],
    spaces: tuple[gym.Space[Any], gym.Space[Any]],
    before: Any,
    actions: Any,
    after: Any,
    *,
    finals: Mapping[int, Any],
    active: NDArray[np.bool_],
) -> dict[str, FloatArray]:
    """Costs of the sources that are functions, of a step of sub-environments, ``(num_envs,)`` each; 0 where none acted.

    Args:
        sources: by name; others than functions are left out.
        spaces: of all observations, and of all actions, together.
        before, actions, after: of the vector environment.
        finals: the observations that episodes ended with, by sub-environment, where ``after`` has those of the next.
        active: who took the step.

    Raises:
        InvalidData, NonFiniteValue: as ``observed_cost``.
    """
    functions = {key: source for key, source in sources.items() if callable(source)}
    costs = {key: np.zeros(len(active)) for key in functions}
    if functions:
        befores, afters = (list(iterate(spaces[0], observations)) for observations in (before, after))
        for i, action in enumerate(iterate(spaces[1], actions)):
            if active[i]:
                for key, function in functions.items():
                    costs[key][i] = observed_cost(function, befores[i], action, finals.get(i, afters[i]), 0.0, {})
    return costs


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
