"""Observations and actions as rows of numbers and back; the elements of finite spaces as numbers from 0.

A row is what records keep of one element: an ``int`` for ``Discrete``, a float64 array for ``Box``, the vector of all
components for ``MultiDiscrete``, ``MultiBinary`` and ``Tuple``. Rows keep the values that the environment delivers;
that ``Discrete(start=)`` and its like do not count from 0 is known to :class:`FiniteSpace` alone.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidData, InvalidSetting, UnsupportedSpace
from constrained_maxent.types import FloatArray, IntArray

Environment = gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]
"""A scalar or a vector environment."""

_LARGEST = 2**62

_SMALL = 256  # numbers of an observation that is no picture


def single_spaces(env: Environment) -> tuple[gym.Space[Any], gym.Space[Any]]:
    """Observation and action space of one (sub-)environment.

    Raises:
        InvalidSetting: not an environment.
    """
    if isinstance(env, gym.vector.VectorEnv):
        return env.single_observation_space, env.single_action_space
    if isinstance(env, gym.Env):
        return env.observation_space, env.action_space
    raise InvalidSetting(f"env={env!r} must be an environment, such as gym.make('FrozenLake-PGP-v0').")


def are_alike(first: gym.Space[Any], second: gym.Space[Any]) -> bool:
    """Whether two spaces are one, bounds included; or one picture, with the channels first or last."""
    if isinstance(first, gym.spaces.Box) and isinstance(second, gym.spaces.Box) and len(first.shape) == 3:
        return second.shape in (first.shape, first.shape[-1:] + first.shape[:-1], first.shape[1:] + first.shape[:1])
    return first == second


def require_own_spaces(agent: object, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
    """An agent meets no other spaces than its own, as far as it tells: one of the same shape may be scaled differently.

    Raises:
        UnsupportedSpace: other spaces than the agent's, or than those of the environment that it learnt on.
    """
    env = getattr(agent, "env", None)
    if isinstance(env, gym.Env | gym.vector.VectorEnv):
        spaces: tuple[Any, Any] = single_spaces(env)
    else:
        spaces = getattr(agent, "observation_space", None), getattr(agent, "action_space", None)
    for what, own, here in zip(("observations", "actions"), spaces, (observation_space, action_space), strict=True):
        if isinstance(own, gym.Space) and not are_alike(own, here):
            raise UnsupportedSpace(
                f"The agent was made for {what} in {own}, and here they are in {here}: give an environment with the "
                f"wrappers of its training that change {what}."
            )


class FiniteSpace:
    """Numbers the elements of a finite space from 0 to ``n`` - 1, in mixed radix with the last component fastest.

    Args:
        space: ``Discrete``, ``MultiDiscrete``, ``MultiBinary``, or a ``Tuple`` of them (nested as you like).

    Raises:
        UnsupportedSpace: any other space, or one with more than 2**62 elements.

    >>> space = FiniteSpace(gym.spaces.Tuple((gym.spaces.Discrete(2), gym.spaces.Discrete(3, start=1))))
    >>> space.n, space.encode(np.array([[0, 1], [1, 3]])).tolist()
    (6, [0, 5])
    >>> space.decode(np.array([5])).tolist()
    [[1, 3]]
    """

    def __init__(self, space: gym.Space[Any]) -> None:
        self.space = space
        starts, sizes = _components(space)
        self._starts = np.array(starts, dtype=np.int64)
        self._sizes = np.array(sizes, dtype=np.int64)
        n = math.prod(map(int, sizes))  # of Python's integers, which do not overflow
        if n > _LARGEST:
            raise UnsupportedSpace(
                f"{space} has at least 2^{n.bit_length() - 1} elements, more than can be numbered: "
                "describe it more coarsely."
            )
        self.n = n
        """Number of elements."""
        self.starts, self.sizes = starts, sizes
        """First value and number of values of each component."""
        self._strides = np.append(np.cumprod(self._sizes[:0:-1])[::-1], 1).astype(np.int64)
        self._is_discrete = isinstance(space, gym.spaces.Discrete)

    def encode_one(self, value: Any) -> int:
        """Number of one element, as the environment delivers it. Fast for ``Discrete``."""
        if self._is_discrete:
            index = _whole_number(self.space, value) - int(self._starts[0])
            if not 0 <= index < self.n:
                raise InvalidData(f"{value!r} is not in {self.space}.")
            return index
        return int(self.encode(np.atleast_1d(as_row(self.space, value))[None])[0])

    def encode(self, components: NDArray[Any]) -> IntArray:
        """Numbers ``(n,)`` of many elements: ``(n,)`` for a space of one component, else ``(n, n_components)``.

        Raises:
            InvalidData: an entry outside the space, not whole, or a wrong number of components.
        """
        digits = _whole_numbers(self.space, components)
        if digits.ndim == 0 or math.prod(digits.shape[1:]) != len(self._sizes):
            raise InvalidData(
                f"Elements of {self.space} must have shape (n, {len(self._sizes)}), got shape {digits.shape}."
            )
        digits = digits.reshape(len(digits), len(self._sizes)) - self._starts
        if digits.size and (digits.min() < 0 or (digits >= self._sizes).any()):
            raise InvalidData(f"An entry lies outside {self.space}.")
        result: IntArray = digits[:, 0] if len(self._sizes) == 1 else digits @ self._strides
        return result

    def decode(self, numbers: NDArray[Any]) -> IntArray:
        """Elements of the given numbers ``(n,)``: ``(n,)`` for one ``Discrete``, else ``(n, n_components)``.

        Raises:
            InvalidData: not whole numbers, or out of range.
        """
        numbers = np.asarray(numbers)
        if numbers.dtype.kind not in "iu" or (numbers.size and (numbers.min() < 0 or numbers.max() >= self.n)):
            raise InvalidData(f"numbers must be whole numbers from 0 to {self.n - 1}, one for each element.")
        rows: IntArray = numbers.astype(np.int64)[:, None] // self._strides % self._sizes + self._starts
        return rows[:, 0] if self._is_discrete else rows


def as_row(space: gym.Space[Any], value: Any) -> Any:
    """One element of a space as a record keeps it: an ``int``, or a copied vector of components.

    Raises:
        UnsupportedSpace: neither finite nor a ``Box``.
        InvalidData: not an element, to judge by its type and shape.
    """
    if isinstance(space, gym.spaces.Discrete):
        return _whole_number(space, value)
    if isinstance(space, gym.spaces.Box):
        array = _numbers(space, value)
        return array if array.shape == space.shape else _shaped(space, array, space.shape)
    if isinstance(space, gym.spaces.Tuple):
        return np.concatenate([np.ravel(as_row(part, v)) for part, v in _parts(space, value)])
    _components(space)
    return _whole_numbers(space, value).reshape(-1)


def as_rows(space: gym.Space[Any], values: Any) -> NDArray[Any]:
    """A batch of elements, as vector environments deliver them, as a copied array ``(n, ...)``; see ``as_row``."""
    if isinstance(space, gym.spaces.Discrete):
        return _whole_numbers(space, values).reshape(-1)
    if isinstance(space, gym.spaces.Box):
        array = _numbers(space, values)
        if array.ndim == 0 or array.shape[1:] != space.shape:
            array = _shaped(space, array, (len(array) if array.ndim else 1, *space.shape))
        return array
    if isinstance(space, gym.spaces.Tuple):
        parts = [as_rows(part, v) for part, v in _parts(space, values)]
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)
    _components(space)
    rows = _whole_numbers(space, values)
    return rows.reshape(len(rows), -1)


def kept_rows(space: gym.Space[Any], rows: NDArray[Any], *, are_needed: bool) -> NDArray[Any]:
    """Rows of observations ``(n, ...)`` as they are stored where no functional looks at them.

    Those of many numbers, pictures for example, take the integers or truth values that a ``Box`` has, an eighth of the
    memory; or nothing at all, ``(n, 0)``, if neither cells nor a density need them.
    """
    if rows[:1].size <= _SMALL:
        return rows
    if not are_needed:
        return np.empty((len(rows), 0))
    return rows.astype(space.dtype) if space.dtype is not None and space.dtype.kind in "iub" else rows


def is_single(space: gym.Space[Any], value: Any) -> bool:
    """Whether a value is one element of the space, and not a batch of them, to judge by its shape."""
    if isinstance(space, gym.spaces.Tuple):
        return is_single(space.spaces[0], value[0])
    return np.ndim(value) == len(space.shape or ())


def as_batch(space: gym.Space[Any], value: Any) -> tuple[NDArray[Any], bool]:
    """Rows ``(n, ...)`` of one element or of a batch of them, and whether it was one."""
    if is_single(space, value):
        return np.asarray(as_row(space, value))[None], True
    return as_rows(space, value), False


def from_row(space: gym.Space[Any], row: Any) -> Any:
    """The element of a space that ``as_row`` made a row of: what ``env.step`` takes, and user functions see.

    Raises:
        UnsupportedSpace: neither finite nor a ``Box``.
    """
    if isinstance(space, gym.spaces.Discrete):
        return int(row)
    if isinstance(space, gym.spaces.Tuple):
        elements, at, flat = [], 0, np.ravel(row)
        for part in space.spaces:
            width = _width(part)
            piece = flat[at : at + width]
            elements.append(from_row(part, piece[0] if isinstance(part, gym.spaces.Discrete) else piece))
            at += width
        return tuple(elements)
    if not isinstance(space, gym.spaces.Box):
        _components(space)
    # An array also where the shape is (): of one number, NumPy's reshape makes a scalar.
    return np.array(row, dtype=space.dtype).reshape(space.shape or ())


def from_rows(space: gym.Space[Any], rows: NDArray[Any]) -> Any:
    """A batch of elements from rows ``(n, ...)``, as vector environments take and deliver them; see ``from_row``."""
    if isinstance(space, gym.spaces.Tuple):
        flat, bounds = rows.reshape(len(rows), -1), np.cumsum([0, *map(_width, space.spaces)])
        return tuple(
            from_rows(part, flat[:, a:b]) for part, a, b in zip(space.spaces, bounds, bounds[1:], strict=False)
        )
    if not isinstance(space, gym.spaces.Box):
        _components(space)
    return np.reshape(rows, (len(rows), *(space.shape or ()))).astype(space.dtype)


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
    if array.size != math.prod(shape):
        raise InvalidData(f"An element of {space} has shape {space.shape}, here the numbers have shape {array.shape}.")
    return array.reshape(shape)


def _parts(space: gym.spaces.Tuple[Any], value: Any) -> list[tuple[gym.Space[Any], Any]]:
    if not isinstance(value, (tuple, list, np.ndarray)) or len(value) != len(space.spaces):
        raise InvalidData(f"An element of {space} has {len(space.spaces)} components, got {value!r}.")
    return list(zip(space.spaces, value, strict=True))


def _width(space: gym.Space[Any]) -> int:
    """How many numbers a row has."""
    if isinstance(space, gym.spaces.Tuple):
        return sum(map(_width, space.spaces))
    return math.prod(space.shape) if isinstance(space, gym.spaces.Box) else len(_components(space)[0])


def _whole_number(space: gym.Space[Any], value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidData(f"An element of {space} must be a whole number, got {value!r}.") from None


def _whole_numbers(space: gym.Space[Any], values: Any) -> IntArray:
    """A copy as int64. A number with a fraction is refused: to cut it off would count another cell."""
    try:
        array = np.asarray(values)
    except ValueError:  # lists of unequal length
        array = np.array(None)
    if array.dtype.kind not in "iub":
        raise InvalidData(f"Elements of {space} must be whole numbers, got dtype {array.dtype}: {values!r}.")
    return array.astype(np.int64)


def _components(space: gym.Space[Any]) -> tuple[list[int], list[int]]:
    """First value and number of values of each component."""
    if isinstance(space, gym.spaces.Discrete):
        return [int(space.start)], [int(space.n)]
    if isinstance(space, gym.spaces.MultiDiscrete):
        return np.ravel(space.start).tolist(), np.ravel(space.nvec).tolist()
    if isinstance(space, gym.spaces.MultiBinary):
        count = int(np.prod(space.shape))
        return [0] * count, [2] * count
    if isinstance(space, gym.spaces.Tuple):
        parts = [_components(part) for part in space.spaces]
        return [s for starts, _ in parts for s in starts], [n for _, sizes in parts for n in sizes]
    if isinstance(space, (gym.spaces.Dict, gym.spaces.Sequence, gym.spaces.Graph, gym.spaces.Text, gym.spaces.OneOf)):
        raise UnsupportedSpace(
            f"{type(space).__name__} cannot be counted, and has no rows of numbers: put "
            "gymnasium.wrappers.FlattenObservation, or a wrapper of your own, around the environment."
        )
    raise UnsupportedSpace(
        f"{type(space).__name__} cannot be counted. Counts take Discrete, MultiDiscrete, MultiBinary and Tuple of "
        "them; for continuous observations give estimator=occupancy.GaussianMixture(), and usually state=, the "
        "coordinates that the density is over."
    )
