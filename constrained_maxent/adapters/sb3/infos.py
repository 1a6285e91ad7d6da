"""The infos of a vector, one dictionary of arrays, as Stable-Baselines3 has them: one dictionary for each copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from constrained_maxent.errors import InvalidData
from constrained_maxent.wrappers.vector.shared_info import SharedInfo

_OF_LAST_STEPS = ("final_obs", "final_info")


def infos_of(infos: Any, num_envs: int) -> list[dict[str, Any]]:
    """One dictionary for each copy, with what is reported of it: plain numbers, or rows of arrays.

    What belongs to the whole vector, such as ``batch``, is in the first one only, as a plain dictionary.

    Raises:
        InvalidData: infos that are no dictionary of the whole vector.
    """
    if not isinstance(infos, Mapping):
        raise InvalidData(
            f"The infos of a vector environment are one dictionary, not {infos!r:.100}: take DictInfoToList out of the "
            "stack, as this VecEnv makes the list itself."
        )
    names: list[str] = []
    columns: list[list[Any]] = []
    partly: list[tuple[str, list[Any], list[int]]] = []
    shared: dict[str, Any] = {}
    whole = None  # a mask that was found to be of all copies: many keys have the same one
    for name, value in infos.items():
        if name in _OF_LAST_STEPS or (name[:1] == "_" and name[1:] in infos):
            continue
        if isinstance(value, SharedInfo):
            shared[name] = dict(value)
            continue
        mask = infos.get(f"_{name}")
        column = _column(value, num_envs)
        if mask is None or mask is whole or np.all(mask):
            whole = whole if mask is None else mask
            names.append(name)
            columns.append(column)
        else:
            partly.append((name, column, np.flatnonzero(mask).tolist()))
    copies: list[dict[str, Any]]
    if columns:
        copies = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    else:
        copies = [{} for _ in range(num_envs)]
    for name, column, places in partly:
        for i in places:
            copies[i][name] = column[i]
    copies[0].update(shared)
    return copies


def _column(value: Any, num_envs: int) -> list[Any]:
    """What an entry says of each copy."""
    if isinstance(value, np.ndarray) and value.shape[:1] == (num_envs,):
        column: list[Any] = value.tolist() if value.ndim == 1 else list(value)
        return column
    if isinstance(value, Mapping):
        return list(infos_of(value, num_envs))
    return [value] * num_envs
