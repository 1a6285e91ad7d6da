"""Finds out how long the episodes of an environment can be."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import gymnasium as gym

from constrained_maxent.types import is_number

_REPEATS = {
    "RepeatAction": "num_repeats",
    "MaxAndSkipObservation": "_skip",
    "AtariPreprocessing": "frame_skip",
    "MaxAndSkipEnv": "_skip",
}
"""Layers that take several steps in one, by name, as not every version of Gymnasium has all and Stable-Baselines3 has
its own: the attribute that says how many."""


def find_horizon(env: gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]) -> int | None:
    """Steps of the longest possible episode as they are taken here: its least time limit; ``None`` if it has none.

    Asks ``TimeLimit`` wrappers, the spec's ``max_episode_steps`` and an attribute ``horizon`` of the bare environment.
    A limit below a layer that repeats actions or skips frames is so many steps fewer above it. Copies in a vector
    that differ have the longest of their horizons.
    """
    if isinstance(env, gym.vector.VectorEnv):
        bare = env.unwrapped
        if isinstance(bare, gym.vector.SyncVectorEnv):
            return _greatest([find_horizon(copy) for copy in bare.envs])
        if isinstance(bare, gym.vector.AsyncVectorEnv):
            # The sub-environments live in other processes; a copy here can be asked safely.
            with closing(bare.env_fns[0]()) as probe:
                return find_horizon(probe)
        # A native vector keeps its time limit itself, and the spec only says what is usual.
        own = getattr(bare, "horizon", None), getattr(bare, "max_episode_steps", None)
        return _least(*own, bare.spec.max_episode_steps if bare.spec else None)
    layers: list[Any] = []
    layer: Any = env
    while isinstance(layer, gym.Wrapper):
        layers.append(layer)
        layer = layer.env
    horizon = _least(getattr(layer, "horizon", None))
    for layer in reversed(layers):
        if isinstance(layer, gym.wrappers.TimeLimit):
            horizon = _least(horizon, layer._max_episode_steps)
        repeats = next((_REPEATS[base.__name__] for base in type(layer).__mro__ if base.__name__ in _REPEATS), None)
        if repeats is not None and horizon is not None:
            horizon = -(-horizon // int(getattr(layer, repeats)))
    return horizon


def _least(*limits: Any) -> int | None:
    """The least of those that are numbers of steps; what else an environment calls its horizon is none."""
    return min((int(limit) for limit in limits if is_number(limit) and limit >= 1 and limit % 1 == 0), default=None)


def _greatest(limits: list[int | None]) -> int | None:
    known = [limit for limit in limits if limit is not None]
    return max(known) if len(known) == len(limits) else None
