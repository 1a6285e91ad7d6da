"""Finds out how long the episodes of an environment can be."""

from __future__ import annotations

from typing import Any

import gymnasium as gym


def find_horizon(env: gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]) -> int | None:
    """Steps of the longest possible episode: the least of its time limits; ``None`` if it has none.

    Asks ``TimeLimit`` wrappers, the spec's ``max_episode_steps`` and an attribute ``horizon`` of the bare environment.
    """
    if isinstance(env, gym.vector.VectorEnv):
        bare = env.unwrapped
        if isinstance(bare, gym.vector.SyncVectorEnv):
            return find_horizon(bare.envs[0])
        if isinstance(bare, gym.vector.AsyncVectorEnv):
            # The sub-environments live in other processes; a copy here can be asked safely.
            probe = bare.env_fns[0]()
            try:
                return find_horizon(probe)
            finally:
                probe.close()
        return _least(getattr(bare, "horizon", None), bare.spec.max_episode_steps if bare.spec else None)
    limits: list[int | None] = [getattr(env.unwrapped, "horizon", None)]
    layer: Any = env
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, gym.wrappers.TimeLimit):
            limits.append(layer._max_episode_steps)
        layer = layer.env
    return _least(*limits)


def _least(*limits: int | None) -> int | None:
    return min((int(limit) for limit in limits if limit is not None), default=None)
