"""An entry of ``infos`` that belongs to the whole vector, in a form that Gymnasium's wrappers let through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


class SharedInfo(dict[str, Any]):
    """An entry of ``infos`` that belongs to the whole vector: one dictionary, the same for all copies.

    Who goes through the ``items`` of such an entry, as Gymnasium's ``DictInfoToList`` and loggers do, wants arrays with
    one place for each copy: there every value is shown as an array that repeats it, of numbers where it is a number,
    and a mapping as an entry like this one. All else is as in any dictionary; ``dict(entry)`` is a plain one, for JSON
    for example.
    """

    def __init__(self, content: Mapping[str, Any], num_envs: int) -> None:
        super().__init__(content)
        self._num_envs = num_envs

    def __reduce__(self) -> tuple[Any, ...]:
        # By default copies would be made of the items.
        return SharedInfo, (dict(self), self._num_envs)

    def items(self) -> Any:
        return [(name, self._repeated(self[name])) for name in self]

    def _repeated(self, value: Any) -> SharedInfo | NDArray[Any]:
        if isinstance(value, dict):
            return SharedInfo(value, self._num_envs)
        if isinstance(value, (bool, int, float)):
            return np.full(self._num_envs, value)
        repeated = np.empty(self._num_envs, dtype=object)
        for i in range(self._num_envs):
            repeated[i] = value
        return repeated
