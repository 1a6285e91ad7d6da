"""Observations and actions as rows of numbers and back.

A row is what records keep of one element: an ``int`` for ``Discrete``, a float64 array for ``Box``, the vector of all
components for ``MultiDiscrete``, ``MultiBinary``, ``Tuple`` and ``Dict``, whose parts come in the order that the space
has them in. Rows keep the values that the environment delivers; that ``Discrete(start=)`` and its like do not count
from 0 is known to :class:`~constrained_maxent.spaces.FiniteSpace` alone.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidData, UnsupportedSpace
from constrained_maxent.types import FloatArray, IntArray

_SMALL = 256  # numbers of an observation that is no picture

Composite = gym.spaces.Tuple | gym.spaces.Dict  # type: ignore[type-arg]  # a check of instances takes none
"""Spaces of parts."""


def as_row(space: gym.Space[Any], value: Any) -> Any:
    """One element of a space as a record keeps it: an ``int``, or a copied vector of components.

    Raises:
        UnsupportedSpace: a space without numbers, such as ``Text``, or with one in it.
        InvalidData: not an element, to judge by its type and shape.
    """
    if isinstance(space, gym.spaces.Discrete):
        return whole_number(space, value)
    if isinstance(space, gym.spaces.Box):
        array = _numbers(space, value)
        return array if array.shape == space.shape else _shaped(space, array, space.shape)
    if isinstance(space, Composite):
        return np.concatenate([np.ravel(as_row(part, v)) for part, v in _parts(space, value)])
    components(space)
    row = whole_numbers(space, value).reshape(-1)
    _require_width(space, row)
    return row


def as_rows(space: gym.Space[Any], values: Any) -> NDArray[Any]:
    """A batch of elements, as vector environments deliver them, as a copied array ``(n, ...)``; see ``as_row``."""
    if isinstance(space, gym.spaces.Discrete):
        return whole_numbers(space, values).reshape(-1)
    if isinstance(space, gym.spaces.Box):
        array = _numbers(space, values)
        if array.ndim == 0 or array.shape[1:] != space.shape:
            array = _shaped(space, array, (len(array) if array.ndim else 1, *space.shape))
        return array
    if isinstance(space, Composite):
        parts = [as_rows(part, v) for part, v in _parts(space, values)]
        if len({len(part) for part in parts}) > 1:
            raise InvalidData(f"The parts of elements of {space} are not all of one number: {values!r}.")
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)
    components(space)
    components(space)
    rows = whole_numbers(space, values)
    rows = rows.reshape(len(rows) if rows.ndim else 1, -1)
    _require_width(space, rows)
    return rows


def _require_width(space: gym.Space[Any], rows: IntArray) -> None:
    if rows.shape[-1] != width(space):
        raise InvalidData(f"An element of {space} has {width(space)} numbers, here are {rows.shape[-1]}.")


def narrowed(space: gym.Space[Any], rows: NDArray[Any]) -> NDArray[Any]:
    """Rows of a ``Box`` of integers as these, an eighth of the memory.

    Raises:
        InvalidData: they are not whole numbers of the space's type.
    """
    kept = rows.astype(space.dtype)
    if not np.array_equal(kept, rows):
        raise InvalidData(
            f"Observations are no whole numbers of type {space.dtype}, and their space is {space}: give the wrapper "
            "that scales them the space of what it makes."
        )
    return kept


def kept_rows(space: gym.Space[Any], rows: NDArray[Any], *, are_needed: bool) -> NDArray[Any]:
    """Rows of observations ``(n, ...)`` as they are stored where no functional looks at them.

    Those of many numbers, pictures for example, take the integers or truth values that a ``Box`` has, an eighth of the
    memory; or nothing at all, ``(n, 0)``, if neither cells nor a density need them.
    """
    if rows[:1].size <= _SMALL:
        return rows
    if not are_needed:
        return np.empty((len(rows), 0))
    is_whole = isinstance(space, gym.spaces.Box) and np.dtype(space.dtype).kind in "iub"
    return narrowed(space, rows) if is_whole else rows


def is_single(space: gym.Space[Any], value: Any) -> bool:
    """Whether a value is one element of the space, and not a batch of them, to judge by its shape."""
    if isinstance(space, Composite):
        return is_single(*_parts(space, value)[0])
    return np.ndim(value) == len(space.shape or ())


def as_batch(space: gym.Space[Any], value: Any) -> tuple[NDArray[Any], bool]:
    """Rows ``(n, ...)`` of one element or of a batch of them, and whether it was one."""
    if is_single(space, value):
        return np.asarray(as_row(space, value))[None], True
    return as_rows(space, value), False


def from_row(space: gym.Space[Any], row: Any) -> Any:
    """The element of a space that ``as_row`` made a row of: what ``env.step`` takes, and user functions see.

    Raises:
        UnsupportedSpace: a space without numbers.
    """
    if isinstance(space, gym.spaces.Discrete):
        return int(row)
    if isinstance(space, Composite):
        flat = np.ravel(row)
        pieces = ((part, flat[columns]) for part, columns in _columns(space))
        elements = [from_row(part, p[0] if isinstance(part, gym.spaces.Discrete) else p) for part, p in pieces]
        return _assembled(space, elements)
    if not isinstance(space, gym.spaces.Box):
        components(space)
    # An array also where the shape is (): of one number, NumPy's reshape makes a scalar.
    return np.array(row, dtype=space.dtype).reshape(space.shape or ())


def from_rows(space: gym.Space[Any], rows: NDArray[Any]) -> Any:
    """A batch of elements from rows ``(n, ...)``, as vector environments take and deliver them; see ``from_row``."""
    if isinstance(space, Composite):
        flat = rows.reshape(len(rows), -1)
        return _assembled(space, [from_rows(part, flat[:, columns]) for part, columns in _columns(space)])
    if not isinstance(space, gym.spaces.Box):
        components(space)
    return np.reshape(rows, (len(rows), *(space.shape or ()))).astype(space.dtype)


def element(space: gym.Space[Any], observations: Any, i: int) -> Any:
    """The i-th of a batch, as one environment gives it; faster than to iterate over all."""
    if isinstance(space, gym.spaces.Dict):
        return {key: element(part, observations[key], i) for key, part in space.spaces.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(element(part, observations[k], i) for k, part in enumerate(space.spaces))
    return observations[i]


def parts_of(space: Composite) -> dict[Any, gym.Space[Any]]:
    """The parts of a space by key or, of a ``Tuple``, by number."""
    return dict(space.spaces) if isinstance(space, gym.spaces.Dict) else dict(enumerate(space.spaces))


def _parts(space: Composite, value: Any) -> list[tuple[gym.Space[Any], Any]]:
    if isinstance(space, gym.spaces.Dict):
        if not isinstance(value, Mapping) or space.spaces.keys() - value.keys():
            raise InvalidData(f"An element of {space} is a dictionary with its keys, got {value!r:.500}.")
        return [(part, value[key]) for key, part in space.spaces.items()]
    if not isinstance(value, (tuple, list, np.ndarray)) or len(value) != len(space.spaces):
        raise InvalidData(f"An element of {space} has {len(space.spaces)} components, got {value!r:.500}.")
    return list(zip(space.spaces, value, strict=True))


def _columns(space: Composite) -> list[tuple[gym.Space[Any], slice]]:
    """The parts of a space, each with its columns in a row."""
    found, at = [], 0
    for part in parts_of(space).values():
        found.append((part, slice(at, at := at + width(part))))
    return found


def _assembled(space: Composite, elements: list[Any]) -> Any:
    return dict(zip(space.spaces, elements, strict=True)) if isinstance(space, gym.spaces.Dict) else tuple(elements)


def width(space: gym.Space[Any]) -> int:
    """How many numbers a row has."""
    if isinstance(space, Composite):
        return sum(map(width, parts_of(space).values()))
    return math.prod(space.shape) if isinstance(space, gym.spaces.Box) else len(components(space)[0])


def row_space(space: gym.Space[Any]) -> gym.Space[Any]:
    """What rows are elements of: the space itself if it is finite or a ``Box``, else the ``Box`` of all its numbers.

    Raises:
        UnsupportedSpace: a space without numbers.
    """
    if isinstance(space, gym.spaces.Box) or is_finite(space):
        return space
    n = width(space)
    return gym.spaces.Box(-np.inf, np.inf, (n,), dtype=np.float64)


def is_finite(space: gym.Space[Any]) -> bool:
    """Whether a space has finitely many elements that can be numbered."""
    try:
        components(space)
    except UnsupportedSpace:
        return False
    return True


def components(space: gym.Space[Any]) -> tuple[list[int], list[int]]:
    """First value and number of values of each component of a finite space.

    Raises:
        UnsupportedSpace: any other space.
    """
    if isinstance(space, gym.spaces.Discrete):
        return [int(space.start)], [int(space.n)]
    if isinstance(space, gym.spaces.MultiDiscrete):
        return np.ravel(space.start).tolist(), np.ravel(space.nvec).tolist()
    if isinstance(space, gym.spaces.MultiBinary):
        count = int(np.prod(space.shape))
        return [0] * count, [2] * count
    if isinstance(space, Composite) and space.spaces:
        parts = [components(part) for part in parts_of(space).values()]
        return [s for starts, _ in parts for s in starts], [n for _, sizes in parts for n in sizes]
    if isinstance(space, gym.spaces.Box):
        raise UnsupportedSpace(
            "Box cannot be counted. Counts take Discrete, MultiDiscrete, MultiBinary, and Tuple and Dict of them; for "
            "continuous observations give estimator=occupancy.GaussianMixture(), and usually state=, the coordinates "
            "that the density is over; or state= that gives cells, with cells=, how many there are."
        )
    raise UnsupportedSpace(
        f"{type(space).__name__} cannot be counted, and has no rows of numbers: describe it by numbers, in a wrapper "
        "of your own around the environment."
    )


def _numbers(space: gym.Space[Any], value: Any) -> FloatArray:
    """A copy in float64. What only reads like numbers, a string for example, is refused."""
    try:
        array = np.asarray(value)
    except ValueError:  # lists of unequal length
        array = np.array(None)
    if array.dtype.kind not in "fiub" or (isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value)):
        raise InvalidData(f"An element of {space} must be real numbers, got {value!r}.")
    return np.array(array, dtype=np.float64)


def _shaped(space: gym.Space[Any], array: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    # As many numbers in another layout, such as channels that come first, would mean something else.
    if [size for size in array.shape if size != 1] != [size for size in shape if size != 1]:
        raise InvalidData(f"An element of {space} has shape {space.shape}, here the numbers have shape {array.shape}.")
    return array.reshape(shape)


def whole_number(space: gym.Space[Any], value: Any) -> int:
    """The value, a whole number; ``InvalidData`` if it is something else."""
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidData(f"An element of {space} must be a whole number, got {value!r}.") from None


def whole_numbers(space: gym.Space[Any], values: Any) -> IntArray:
    """A copy as int64. A number with a fraction is refused: to cut it off would count another cell."""
    try:
        array = np.asarray(values)
    except ValueError:  # lists of unequal length
        array = np.array(None)
    if array.dtype.kind not in "iub":
        raise InvalidData(f"Elements of {space} must be whole numbers, got dtype {array.dtype}: {values!r}.")
    return array.astype(np.int64)
