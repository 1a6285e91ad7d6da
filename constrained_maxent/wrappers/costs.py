"""What a step cost, from ``info`` or from a function: checked, for one environment and for several at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidData, MissingCost, NonFiniteValue
from constrained_maxent.functionals.linear import CostFunction
from constrained_maxent.types import FloatArray


def observed_cost(
    source: str | CostFunction, observation: Any, action: Any, next_observation: Any, info: Mapping[str, Any]
) -> float:
    """The cost of one step, from ``info`` or from a function; checked.

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
