"""The same keys in every ``info``, for what stacks infos of many steps: replay buffers, recorders of data sets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from constrained_maxent.tracker import find_tracker
from constrained_maxent.wrappers.layers import require_scalar

_NUMBERS = ("iteration", "episodes", "steps", "objective", "objective_fresh", "penalty")
_BY_CONSTRAINT = ("constraints", "constraints_fresh", "multipliers")


class SteadyInfo(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """``info`` has the same keys after every step and reset, with values of the same type and shape.

    Elsewhere ``batch`` is there on the last step of a batch alone, and costs are not in the ``info`` of ``reset``; but
    Minari's ``DataCollector(record_infos=True)`` and Tianshou's replay buffers want all infos alike. Here ``info`` has

    - what the first reset reports;
    - pseudo-rewards, ``original_reward``, and the costs that objective and constraints observe by name;
    - in the place of ``batch`` its numbers, ``batch_objective`` or ``batch_constraints_<name>`` for example;
    - what ``keys`` names besides, one number each.

    Numbers and arrays of them are float64, and ``missing`` where there is nothing to say; truth values are NumPy's, and
    then ``False``. All else is left out. ``find_tracker(env).last_report`` has the whole report of a batch.

    Args:
        env: a stack with ``TrackOccupancy`` in it; this wrapper belongs on top.
        keys: further keys of ``info`` to keep, which only steps report.
        missing: stands for numbers that are not there. Tianshou's algorithms refuse NaN: there take 0.0, and
            ``batch_steps`` above 0 tells where a batch has ended.

    Raises:
        InvalidSetting: a vector environment.
        MissingTracker: no ``TrackOccupancy`` below.

    >>> env = SteadyInfo(gym.make("constrained_maxent:FrozenLake-PGP-v0", episodes_per_batch=1, iterations=100))
    >>> before = env.reset(seed=0)[1]
    >>> after = [env.step(0)[-1] for _ in range(25)]
    >>> [list(info) == list(before) for info in (after[0], after[-1])]
    [True, True]
    >>> after[0]["batch_constraints_cost"], after[-1]["batch_constraints_cost"]
    (np.float64(nan), np.float64(-0.0222178...))
    """

    def __init__(self, env: gym.Env[Any, Any], *, keys: Sequence[str] = (), missing: float = math.nan) -> None:
        RecordConstructorArgs.__init__(self, keys=list(keys), missing=missing)
        require_scalar(env, "SteadyInfo")
        gym.Wrapper.__init__(self, env)
        self.tracker = find_tracker(env)
        self._keys, self._missing = tuple(keys), np.float64(missing)
        self._absent: dict[str, Any] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        if not self._absent:
            self._absent = {key: self._instead_of(value) for key, value in _as_arrays(info).items()} | self._known()
        return observation, self._steady(info)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, self._steady(info)

    def _known(self) -> dict[str, Any]:
        """What only steps report, and not all of them."""
        sources = [source for source in self.tracker.sources.values() if isinstance(source, str)]
        batch = [f"batch_{name}" for name in _NUMBERS]
        batch += [f"batch_{part}_{name}" for part in _BY_CONSTRAINT for name in self.tracker.problem.constraints]
        return dict.fromkeys((*sources, *batch, *self._keys), self._missing)

    def _instead_of(self, value: Any) -> Any:
        return np.zeros_like(value)[()] if value.dtype.kind == "b" else np.full_like(value, self._missing)[()]

    def _steady(self, info: Mapping[str, Any]) -> dict[str, Any]:
        present = _as_arrays(info)
        if "batch" in info:
            present |= _as_arrays(_flat(info["batch"]))
        return {key: present.get(key, absent) for key, absent in self._absent.items()}


def _flat(batch: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {f"batch_{name}": batch[name] for name in _NUMBERS}
    return numbers | {f"batch_{part}_{name}": value for part in _BY_CONSTRAINT for name, value in batch[part].items()}


def _as_arrays(info: Mapping[str, Any]) -> dict[str, Any]:
    """Those values of an info that are numbers, truth values, or arrays of them, with NumPy's types."""
    columns = {
        key: np.asarray(value)
        for key, value in info.items()
        if isinstance(value, (bool, int, float, np.ndarray, np.generic))
    }
    kinds = {key: np.bool_ if column.dtype.kind == "b" else np.float64 for key, column in columns.items()}
    return {key: column.astype(kinds[key])[()] for key, column in columns.items() if column.dtype.kind in "fiub"}
