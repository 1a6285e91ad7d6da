"""Numbers the elements of finite Gymnasium spaces."""

from __future__ import annotations

import math
import operator
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidData, InvalidSetting, UnsupportedSpace
from constrained_maxent.types import IntArray

Environment = gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]

_LARGEST = 2**62


class FiniteSpace:
    """Numbers the elements of a finite space from 0 to ``n`` - 1, in mixed radix with the last component fastest.

    Args:
        space: ``Discrete``, ``MultiDiscrete``, ``MultiBinary``, or a ``Tuple`` of them (nested as you like).

    Raises:
        UnsupportedSpace: any other space, or one with more than 2**62 elements.

    >>> space = FiniteSpace(gym.spaces.Tuple((gym.spaces.Discrete(2), gym.spaces.Discrete(3, start=1))))
    >>> space.n, space.encode(np.array([[0, 1], [1, 3]])).tolist()
    (6, [0, 5])
    """

    def __init__(self, space: gym.Space[Any]) -> None:
        self.space = space
        starts, sizes = _components(space)
        self._starts = np.array(starts, dtype=np.int64)
        self._sizes = np.array(sizes, dtype=np.int64)
        n = 1
        for size in sizes:
            n *= int(size)
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
        """Numbers of many elements.

        Args:
            components: ``(n,)`` for a space of one component, else ``(n, n_components)``.

        Returns:
            int64 array ``(n,)``.

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


def as_row(space: gym.Space[Any], value: Any) -> Any:
    """One element of a space as a record keeps it: an ``int``, or a copied vector of components.

    Raises:
        UnsupportedSpace: neither finite nor a ``Box``.
    """
    if isinstance(space, gym.spaces.Discrete):
        return _whole_number(space, value)
    if isinstance(space, gym.spaces.Box):
        return np.array(value, dtype=np.float64)
    if isinstance(space, gym.spaces.Tuple):
        return np.concatenate([np.ravel(as_row(part, v)) for part, v in zip(space.spaces, value, strict=True)])
    _components(space)
    return _whole_numbers(space, value).reshape(-1)


def as_rows(space: gym.Space[Any], values: Any) -> NDArray[Any]:
    """A batch of elements, as vector environments deliver them, as a copied array ``(n, ...)``; see ``as_row``."""
    if isinstance(space, gym.spaces.Discrete):
        return _whole_numbers(space, values).reshape(-1)
    if isinstance(space, gym.spaces.Box):
        return np.array(values, dtype=np.float64)
    if isinstance(space, gym.spaces.Tuple):
        parts = [as_rows(part, v) for part, v in zip(space.spaces, values, strict=True)]
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)
    _components(space)
    rows = _whole_numbers(space, values)
    return rows.reshape(len(rows), -1)


def _whole_number(space: gym.Space[Any], value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidData(f"An element of {space} must be a whole number, got {value!r}.") from None


def _whole_numbers(space: gym.Space[Any], values: Any) -> IntArray:
    """A copy as int64. A number with a fraction is refused: to cut it off would count another cell."""
    array = np.asarray(values)
    if array.dtype.kind not in "iub":
        raise InvalidData(f"Elements of {space} must be whole numbers, got dtype {array.dtype}.")
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
    raise UnsupportedSpace(
        f"{type(space).__name__} cannot be counted. Counts take Discrete, MultiDiscrete, MultiBinary and Tuple of "
        "them; for continuous observations give estimator=occupancy.GaussianMixture(), and usually state=, the "
        "coordinates that the density is over."
    )


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


def as_batch(space: gym.Space[Any], observation: Any) -> tuple[NDArray[Any], bool]:
    """Rows ``(n, ...)``, and whether they are of one observation of the space instead of a batch."""
    if is_single(space, observation):
        return np.asarray(as_row(space, observation))[None], True
    return as_rows(space, observation), False


def is_single(space: gym.Space[Any], observation: Any) -> bool:
    """Whether this is one observation of the space, and not a batch of them, to judge by its shape."""
    if isinstance(space, gym.spaces.Tuple):
        return is_single(space.spaces[0], observation[0])
    return np.ndim(observation) == len(space.shape or ())


def one_action(space: gym.Space[Any], actions: NDArray[Any]) -> Any:
    """The only action of a batch of one, as scalar environments take it."""
    return int(actions[0]) if isinstance(space, gym.spaces.Discrete) else np.asarray(actions[0])
