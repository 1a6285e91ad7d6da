"""Numbers of ``info`` as floats, so that a vector of copies does not cut them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from constrained_maxent.wrappers.layers import require_scalar


class FloatInfo(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Numbers, truth values and arrays of them in ``info`` become float64; for the copies in a vector environment.

    Gymnasium's vector environments make one array of what the copies report, of the type of the first: where it reports
    ``0`` and another ``0.7``, that is cut to 0.

    Raises:
        InvalidSetting: a vector environment.

    >>> env = gym.make_vec("FrozenLake-v1", num_envs=2, vectorization_mode="sync", wrappers=[FloatInfo])
    >>> env.reset(seed=0)[1]["prob"].dtype
    dtype('float64')
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        require_scalar(env, "FloatInfo")
        gym.Wrapper.__init__(self, env)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, _as_floats(info)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, _as_floats(info)


def _as_floats(info: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _as_float(value) for key, value in info.items()}


def _as_float(value: Any) -> Any:
    if isinstance(value, (int, float, np.integer, np.floating, np.bool_)):
        try:
            return np.float64(value)
        except OverflowError:  # a whole number beyond all floats
            return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        return value.astype(np.float64)
    return value
