"""The elements of finite spaces as numbers from 0."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidData, UnsupportedSpace
from constrained_maxent.spaces.rows import as_row, components, whole_number, whole_numbers
from constrained_maxent.types import IntArray

_LARGEST = 2**62


class FiniteSpace:
    """Numbers the elements of a finite space from 0 to ``n`` - 1, in mixed radix with the last component fastest.

    Args:
        space: ``Discrete``, ``MultiDiscrete``, ``MultiBinary``, or ``Tuple`` and ``Dict`` of them (nested as you like).

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
        starts, sizes = components(space)
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
            index = whole_number(self.space, value) - int(self._starts[0])
            if not 0 <= index < self.n:
                raise InvalidData(f"{value!r} is not in {self.space}.")
            return index
        return int(self.encode(np.atleast_1d(as_row(self.space, value))[None])[0])

    def encode(self, components: NDArray[Any]) -> IntArray:
        """Numbers ``(n,)`` of many elements: ``(n,)`` for a space of one component, else ``(n, n_components)``.

        Raises:
            InvalidData: an entry outside the space, not whole, or a wrong number of components.
        """
        digits = whole_numbers(self.space, components)
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
