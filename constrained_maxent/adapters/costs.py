"""Costs as other people's environments report them, as ``info["cost"]`` and ``info["cost_<name>"]``.

What OmniSafe and FSRL wrap reports ``info["cost"]`` itself; truth values become costs by ``wrappers.BooleanCosts``. All
of these belong around each copy, below ``TrackOccupancy``, and with ``wrappers.FloatInfo`` above them in a vector:
``gym.make_vec(id, wrappers=[TerminationCost, FloatInfo], ...)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from constrained_maxent.errors import DuplicateName, InvalidData, MissingCost
from constrained_maxent.wrappers.boolean_costs import named_costs
from constrained_maxent.wrappers.layers import require_scalar
from constrained_maxent.wrappers.observed import as_number
from constrained_maxent.wrappers.replies import copied_info, five

_Reply = tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]


class CostInStep(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Safety-Gymnasium's ``step``, (observation, reward, cost, terminated, truncated, info), as Gymnasium has it.

    The cost becomes ``info["cost"]``; ``info["cost_<name>"]``, its parts, and ``info["cost_sum"]`` stay. It belongs
    around the bare environment: layers of Gymnasium's, such as ``TimeLimit``, expect five values.

    Raises:
        InvalidSetting: a vector environment.
        InvalidData, NonFiniteValue: from ``step``, if it does not return six values, or the cost is no finite number.
        DuplicateName: from ``step``, if ``info["cost"]`` is there and is another.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        require_scalar(env, "CostInStep")
        gym.Wrapper.__init__(self, env)

    def step(self, action: Any) -> _Reply:
        reply: Any = self.env.step(action)
        if not isinstance(reply, (tuple, list)) or len(reply) != 6:
            raise InvalidData(
                "CostInStep is for environments whose step() returns six values, the third of them the cost, got "
                f"{reply!r:.200}."
            )
        observation, reward, cost, terminated, truncated, reported = reply
        info = copied_info(reported)
        number = np.float64(as_number("The cost", cost))
        if "cost" in info and as_number("info['cost']", info["cost"]) != number:
            raise DuplicateName(f"The step costs {number}, and info['cost'] is {info['cost']!r}: which one is meant?")
        return observation, reward, terminated, truncated, info | {"cost": number}


class ConstraintValues(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """``info["constraint_values"]``, satisfied where they are at most 0, as costs: by how much each is exceeded.

    safe-control-gym reports its constraints so. Every step's ``info`` gets ``cost_<name>``, max(value, 0) in the
    constraint's own units, and their sum in ``cost``; the names of an array's entries are 0, 1 and so on. Slack in one
    step pays for nothing in another. Whether any is violated it says itself, in ``info["constraint_violation"]``.

    Args:
        env: reports ``info[key]`` on every step, an array of numbers or a mapping of names to numbers.
        key: of ``info``.
        cost: the key of the sum, and what the others begin with.

    Raises:
        InvalidSetting: a vector environment.
        MissingCost: from ``step``, if there is no ``info[key]``.
        InvalidData, NonFiniteValue: from ``step``, if it has no entries, or one that is no finite number.
        DuplicateName: from ``step``, if ``info`` has such a cost already.
    """

    def __init__(self, env: gym.Env[Any, Any], *, key: str = "constraint_values", cost: str = "cost") -> None:
        RecordConstructorArgs.__init__(self, key=key, cost=cost)
        require_scalar(env, "ConstraintValues")
        gym.Wrapper.__init__(self, env)
        self._key, self._cost = key, cost

    def step(self, action: Any) -> _Reply:
        observation, reward, terminated, truncated, reported = five(self.env.step(action))
        info = copied_info(reported)
        if self._key not in info:
            known = ", ".join(sorted(info)) or "nothing"
            raise MissingCost(
                f"The environment reported no info[{self._key!r}] (it reported: {known}): give another key=."
            )
        values = info[self._key]
        if not isinstance(values, Mapping):
            values = {str(i): value for i, value in enumerate(np.ravel(values).tolist())}
        if not values:
            raise InvalidData(f"info[{self._key!r}] has no entries.")
        exceeded = {
            name: np.float64(max(as_number(f"info[{self._key!r}][{name!r}]", value), 0.0))
            for name, value in values.items()
        }
        costs = named_costs(info, exceeded, sum(exceeded.values(), np.float64(0.0)), self._cost)
        return observation, reward, terminated, truncated, info | costs


class TerminationCost(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Each end that the environment makes, ``terminated``, as a cost of 1 in ``info["terminated"]``: falls and crashes.

    ``CostConstraint(env, "terminated", limit=...)`` then bounds how often a step ends its episode so; time limits cost
    nothing.

    Raises:
        InvalidSetting: a vector environment.
        DuplicateName: from ``step``, if ``info`` has this key already.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        require_scalar(env, "TerminationCost")
        gym.Wrapper.__init__(self, env)

    def step(self, action: Any) -> _Reply:
        observation, reward, terminated, truncated, reported = five(self.env.step(action))
        info = copied_info(reported)
        if TERMINATED in info:
            raise DuplicateName(f"The environment reports info[{TERMINATED!r}] of its own: constrain that.")
        return observation, reward, terminated, truncated, info | {TERMINATED: np.float64(bool(terminated))}


TERMINATED = "terminated"
"""The key of :class:`TerminationCost`."""
