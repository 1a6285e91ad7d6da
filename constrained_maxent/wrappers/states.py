"""What λ̂ is over where that is not the whole observation: read off observations and infos, one or many at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import iterate
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidData, InvalidSetting, MissingState
from constrained_maxent.spaces import Selection, as_row
from constrained_maxent.types import FloatArray, check_count
from constrained_maxent.wrappers.observed import own, require_usable

StateSource = str | Callable[[Any], Any] | Sequence[str] | Sequence[int]
"""The name of a key of ``info``; a function of one observation; keys of a ``Dict`` observation, such as
``("position", "arm.angle")``; or numbers of coordinates of the flattened observation, such as ``[0, 1]``."""

Cells = int | Sequence[int]
"""How many cells there are, or how many in each coordinate of a state that is a cell."""

STATE_SPACE = gym.spaces.Box(-np.inf, np.inf, ())
"""Stands for states whose number of coordinates the first batch will tell."""


def plain_source(source: Any) -> Any:
    """A source of states as plain data, where it lists keys or numbers; JSON has no tuples.

    Raises:
        InvalidSetting: it is none.
    """
    if source is None or isinstance(source, str) or callable(source):
        return source
    if isinstance(source, (Sequence, np.ndarray)) and len(source):
        return [
            entry if isinstance(entry, str) else check_count("a coordinate of state", entry, least=0)
            for entry in source
        ]
    raise InvalidSetting(
        f"state={source!r} must be the name of a key of info, a function of the observation, or a list of keys of a "
        "Dict observation or of numbers of coordinates."
    )


def plain_cells(cells: Any) -> Any:
    """Numbers of cells as plain data. Raises ``InvalidSetting`` where they are none."""
    if cells is None:
        return None
    if isinstance(cells, (Sequence, np.ndarray)) and not isinstance(cells, str) and len(cells):
        return [check_count("cells", cell) for cell in cells]
    return check_count("cells", cells)


class StateReader:
    """Reads states, and asks for nothing else of an observation.

    Args:
        source: of the states.
        observation_space: of one observation.
        cells: numbers of cells, where a state is a cell: a whole number from 0, or a vector of them.

    Raises:
        InvalidSetting, UnsupportedSpace: observations do not have what is asked for.

    Attributes:
        space: what states are elements of: :data:`STATE_SPACE` where only the first batch will tell.
        key: of ``info``, where the states are there; else ``None``.
        are_cells: whether states are cells.
    """

    def __init__(self, source: StateSource, observation_space: gym.Space[Any], cells: Cells | None = None) -> None:
        plain, number = plain_source(source), plain_cells(cells)
        self.key: str | None = plain if isinstance(plain, str) else None
        self._function: Callable[[Any], Any] = plain
        self._selection = Selection(observation_space, plain) if isinstance(plain, list) else None
        self.space: gym.Space[Any] = STATE_SPACE if self._selection is None else self._selection.space
        self._cells: gym.Space[Any] | None = None
        if number is not None:
            self._cells = gym.spaces.Discrete(number) if isinstance(number, int) else gym.spaces.MultiDiscrete(number)
            self.space = self._cells
        self.are_cells = cells is not None
        self._keys = list(observation_space.spaces) if isinstance(observation_space, gym.spaces.Dict) else []
        self._name = f"info[{source!r}]" if self.key is not None else f"The state {source!r}"

    def one(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """The state of one environment: coordinates ``(n_states,)``, or an element of a finite space as a row; copied.

        Raises:
            MissingState: ``info`` has no such key.
            InvalidData: not numbers, too large, or no cell.
            NonFiniteValue: NaN or infinite.
        """
        if self._selection is not None:
            value = self._selection.row(observation)
        elif self.key is not None:
            if self.key not in info:
                raise MissingState(_missing(self.key, info, self._keys))
            value = info[self.key]
        else:
            value = self._function(own(observation))
        return self._row(value)

    def _row(self, value: Any) -> Any:
        if self._cells is not None:
            row = np.asarray(as_row(self._cells, _whole(self._name, value)))
            if not self._cells.contains(row if row.ndim else int(row)):
                raise InvalidData(
                    f"{self._name} is cell {row.tolist()}, and {self._cells} are all there are: cells= says how many, "
                    "numbered from 0."
                )
            return row
        if self._selection is not None and not isinstance(self.space, gym.spaces.Box):
            return value
        return _coordinates(self._name, value).reshape(-1)

    def many(
        self, space: gym.Space[Any], observations: Any, infos: Mapping[str, Any], needed: NDArray[np.bool_]
    ) -> NDArray[Any]:
        """The states of the sub-environments of a mask, ``(needed.sum(), ...)``; checked like those of :meth:`one`.

        Args:
            space: of all observations together.
            observations: of the vector environment; only functions and lists look at them.
            infos: of the vector environment.
            needed: the mask, ``(num_envs,)``.
        """
        if self._selection is not None:
            rows = self._selection.rows(observations)
            if len(rows) != len(needed):
                raise InvalidData(f"There are {len(rows)} observations of {len(needed)} sub-environments.")
            rows = rows[needed]
            if self._cells is None:
                flat = rows if rows.ndim == 1 and rows.dtype.kind == "i" else rows.reshape(len(rows), -1)
                require_usable(self._name, flat)
                return flat
            return np.array([self._row(row) for row in rows])
        if self.key is None:
            ones = list(iterate(space, observations))
            return self._of_equal_length([self.one(ones[i], {}) for i in np.flatnonzero(needed).tolist()])
        if self.key not in infos or not np.all(np.asarray(infos.get(f"_{self.key}", needed))[needed]):
            raise MissingState(_missing(self.key, infos, self._keys))
        reported = infos[self.key]
        # Copies may report lists, of which Gymnasium makes arrays of objects.
        if self._cells is not None or (isinstance(reported, np.ndarray) and reported.dtype == object):
            return self._of_equal_length([self._row(reported[i]) for i in np.flatnonzero(needed).tolist()])
        try:
            column = np.asarray(reported).reshape(len(needed), -1)
        except ValueError as error:
            raise InvalidData(f"{self._name} must be one row of numbers per sub-environment.") from error
        return _coordinates(self._name, column[needed])

    def _of_equal_length(self, rows: list[Any]) -> NDArray[Any]:
        if len({np.shape(row) for row in rows}) > 1:
            raise InvalidData(f"{self._name} has not always the same length.")
        return np.array(rows)


def _whole(name: str, value: Any) -> Any:
    """A cell that was computed in floats is one if they are whole."""
    array = np.asarray(value)
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.rint(array)).all():
        array = array.astype(np.int64)
    if array.dtype.kind not in "iub" or np.ma.is_masked(value):
        raise InvalidData(
            f"{name} must be a cell, a whole number or several, got {value!r}: take np.digitize(...), or int(...)."
        )
    return array.item() if array.size == 1 else array


def _coordinates(name: str, values: Any) -> FloatArray:
    try:
        array = np.asarray(values)
        if values is None or array.dtype.kind not in "fiubO" or np.ma.is_masked(values):
            raise ValueError(array.dtype)
        state = np.array(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidData(f"{name} must be numbers, got {values!r}.") from error
    if not state.size:
        raise InvalidData(f"{name} has no coordinates.")
    require_usable(name, state)
    return state


def _missing(key: str, info: Mapping[str, Any], keys: Sequence[str]) -> str:
    known = ", ".join(sorted(name for name in info if not name.startswith("_"))) or "nothing"
    return (
        f"info has no {key!r} (it has: {known}). The state must be there after reset and on every step; give state= "
        "another key, or a function of the observation."
    ) + (f" Keys of the observation ({', '.join(keys)}) go in a list, such as state=[{keys[0]!r}]." if keys else "")
