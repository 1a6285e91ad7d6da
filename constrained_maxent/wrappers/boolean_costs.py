"""Costs from booleans: environments that report which of their constraints hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from constrained_maxent.errors import DuplicateName, InvalidData, MissingCost
from constrained_maxent.wrappers.layers import require_scalar
from constrained_maxent.wrappers.replies import copied_info, five


class BooleanCosts(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """``info["constraints"]``, True where satisfied, as costs: 1.0 where violated, else 0.0.

    The Real-World RL Suite reports its constraints so, in an entry of its observation. Below ``TrackOccupancy``; a
    limit on the cost is then one on the share of steps with a violation.

    Every step's ``info`` gets ``cost_<name>`` for each constraint, and their sum in ``cost``. A constraint of several
    entries is satisfied where all of them are.

    Args:
        env: reports ``info[key] = {name: bool, or an array of them}`` on every step, or ``info[key]``, an array of
            constraints that have the names 0, 1 and so on; or has either in an observation that is a dictionary.
        key: of ``info``, or else of the observation.
        cost: the key of the sum, and what the others begin with.

    Raises:
        InvalidSetting: a vector environment.
        MissingCost: from ``step``, if there is no such entry.
        InvalidData: from ``step``, if it is not made of booleans, or is empty.
        DuplicateName: from ``step``, if ``info`` has such a cost already.

    >>> from constrained_maxent.penalties import Quadratic
    >>> from constrained_maxent.wrappers import CostConstraint, TrackOccupancy
    >>> env = TrackOccupancy(BooleanCosts(gym.make("FrozenLake-v1")), episodes_per_batch=8)
    >>> env = CostConstraint(env, "cost_speed", limit=0.01, penalty=Quadratic(beta=10.0), name="speed")
    """

    def __init__(self, env: gym.Env[Any, Any], *, key: str = "constraints", cost: str = "cost") -> None:
        RecordConstructorArgs.__init__(self, key=key, cost=cost)
        require_scalar(env, "BooleanCosts")
        gym.Wrapper.__init__(self, env)
        self._key, self._cost = key, cost

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, reported = five(self.env.step(action))
        info = copied_info(reported)
        is_observed = self._key not in info and isinstance(observation, Mapping) and self._key in observation
        held_by_name = satisfied(observation if is_observed else info, self._key)
        violated = {name: np.float64(not held) for name, held in held_by_name.items()}
        costs = named_costs(info, violated, sum(violated.values(), np.float64(0.0)), self._cost)
        return observation, reward, terminated, truncated, info | costs


def satisfied(info: Mapping[str, Any], key: str, *, n_rows: int | None = None) -> dict[str, Any]:
    """Which constraints hold: a truth value each, or one per row.

    Args:
        info: of a step.
        key: where they are.
        n_rows: for vector environments, the number of sub-environments: the first axis of every entry.

    Raises:
        MissingCost, InvalidData: as in :class:`BooleanCosts`.
    """
    if key not in info:
        known = ", ".join(sorted(name for name in info if not name.startswith("_"))) or "nothing"
        raise MissingCost(
            f"The environment reported no info[{key!r}] (it reported: {known}). The constraints must be there on every "
            "step; give key= another name."
        )
    reported = info[key]
    is_array = isinstance(reported, (np.ndarray, list, tuple)) and np.asarray(reported).dtype == np.bool_
    if is_array and np.ndim(reported) > (n_rows is not None):
        columns = np.asarray(reported).reshape(1 if n_rows is None else n_rows, -1).T
        reported = {str(i): column if n_rows is not None else column[0] for i, column in enumerate(columns)}
    if not isinstance(reported, Mapping) or not reported:
        raise InvalidData(
            f"info[{key!r}] must be a mapping of names to booleans, or an array of them, got {reported!r}."
        )
    held: dict[str, Any] = {}
    for name, value in reported.items():
        if n_rows is not None and name.startswith("_"):
            continue  # the mask of another entry
        entries = np.asarray(value)
        if n_rows is not None and entries.dtype == object and entries.shape == (n_rows,):
            entries = _held_by_row(entries, np.asarray(reported.get(f"_{name}", np.ones(n_rows, dtype=np.bool_))))
        if entries.dtype != np.bool_ or entries.size == 0 or (n_rows is not None and entries.shape[:1] != (n_rows,)):
            raise InvalidData(
                f"info[{key!r}][{name!r}] must be True where the constraint is satisfied, or an array of such; got "
                f"{value!r}."
            )
        held[name] = bool(entries.all()) if n_rows is None else entries.reshape(n_rows, -1).all(axis=1)
    return held


def _held_by_row(entries: NDArray[Any], reporting: NDArray[Any]) -> NDArray[Any]:
    """Truth values that Gymnasium stacked as objects, as NumPy's are; as they were, if there is something else."""
    rows = [np.asarray(entry) if reports else np.True_ for entry, reports in zip(entries, reporting, strict=True)]
    if all(row.dtype == np.bool_ and row.size for row in rows):
        return np.array([row.all() for row in rows])
    return entries


def named_costs(info: Mapping[str, Any], violated: Mapping[str, Any], total: Any, cost: str) -> dict[str, Any]:
    """Costs and their sum by the keys under which they go into ``info``.

    Raises:
        DuplicateName: one of the keys is there.
    """
    costs = {f"{cost}_{name}": value for name, value in violated.items()} | {cost: total}
    if taken := costs.keys() & info.keys():
        raise DuplicateName(
            f"The environment reports {', '.join(sorted(taken))} of its own: give another cost=, for example "
            "cost='violations'."
        )
    return costs
