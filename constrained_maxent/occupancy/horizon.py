"""Finds out how long the episodes of an environment can be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import gymnasium as gym
import numpy as np

from constrained_maxent.types import is_number

_LIMITS = (
    *("max_episode_steps", "_max_episode_steps", "max_steps", "_max_steps", "max_timesteps", "_step_limit"),
    *("max_episode_length", "_max_episode_length", "max_path_length", "CTRL_STEPS"),
)
"""What environments and layers call the number of steps after which they end an episode: Gymnasium's ``TimeLimit``,
MiniGrid, dm_control and Acme, Meta-World, safe-control-gym."""

_REPEATS = (
    *("num_repeats", "_num_repeats", "action_repeat", "_action_repeat"),
    *("frame_skip", "_frame_skip", "frameskip", "_frameskip", "_skip"),
)
"""What layers that take several steps in one call their number: of Gymnasium, Stable-Baselines3, Acme and others'."""

_INNER = ("env", "_env", "gym_env", "_environment", "environment")
"""Where layers and adapters keep the environment that they are around."""

_MOST_TICKS = 10_000_000


def find_horizon(env: gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]) -> int | None:
    """Steps of the longest possible episode as they are taken here: its least time limit; ``None`` if it has none.

    Asks all layers, also those below an adapter (Shimmy's around dm_control), for limits in steps, such as
    ``TimeLimit`` has; the bare environment also for an attribute ``horizon``, and for a limit of its own in seconds or
    frames (dm_control, highway-env, Atari). A limit below a layer that repeats actions or skips frames is so many steps
    fewer above it. Copies in a ``SyncVectorEnv`` that differ have the longest of their horizons; of an
    ``AsyncVectorEnv``, whose copies are elsewhere, the first is made again and asked.
    """
    if isinstance(env, gym.vector.SyncVectorEnv):
        return _greatest([find_horizon(copy) for copy in env.envs])
    if isinstance(env, gym.vector.AsyncVectorEnv):
        # The sub-environments live in other processes; a copy here can be asked safely.
        with closing(env.env_fns[0]()) as probe:
            return find_horizon(probe)
    inner = inner_of(env)
    if inner is None:
        # A native vector keeps its time limit itself, and the spec only says what is usual.
        spec = env.spec if isinstance(env, gym.vector.VectorEnv) else None
        usual = spec.max_episode_steps if spec else None
        return _least(_own(env, "horizon"), usual, step_limit(env), _by_the_clock(env), _by_frames(env))
    horizon = find_horizon(inner)
    if horizon is not None:
        horizon = -(-horizon // repeats_of(env))
    return _least(horizon, step_limit(env))


def inner_of(layer: Any) -> Any:
    """What a layer or an adapter is around, if it is one."""
    for name in _INNER:
        inner = _own(layer, name)
        if inner is not layer and callable(getattr(inner, "step", None)) and callable(getattr(inner, "reset", None)):
            return inner
    return None


def repeats_of(layer: Any) -> int:
    """How many steps of what is below it a layer takes in one."""
    return _least(*(_own(layer, name) for name in _REPEATS)) or 1


def step_limit(layer: Any) -> int | None:
    """After how many of its steps a layer, or a bare environment, ends an episode by itself; ``None`` if it does not.

    Only attributes of its own count, not those that it hands on from what is below it.
    """
    if _own(layer, "fixed_max_steps") is False:  # of BabyAI, whose every episode has another
        return None
    found = [_own(layer, name) for name in _LIMITS]
    # They count up to it: of a limit with a fraction, as of seconds divided by a time step, the next one is the last.
    return _least(*(math.ceil(limit) for limit in found if is_number(limit) and math.isfinite(limit)))


def _own(layer: Any, name: str) -> Any:
    """An attribute of an object or its class; ``None`` where it would be another object's, by ``__getattr__``."""
    if name in getattr(layer, "__dict__", {}) or any(name in vars(kind) for kind in type(layer).__mro__):
        return getattr(layer, name, None)
    return None


def _by_the_clock(env: Any) -> int | None:
    """Steps until the time of a bare environment is up, if it counts in seconds."""
    if is_number(limit := _own(env, "_time_limit")) and _own(env, "_n_sub_steps") is not None:  # dm_control's composer
        return _ticks(limit, env.physics.timestep(), env._n_sub_steps)
    config = _own(env, "config")
    if isinstance(config, Mapping) and {"duration", "policy_frequency"} <= config.keys():  # highway-env
        return _ticks(config["duration"], 1 / config["policy_frequency"], 1)
    return None


def _ticks(seconds: float, timestep: float, n_each: int) -> int | None:
    """After how many steps of ``n_each`` time steps a clock shows so many seconds."""
    n_ticks = seconds / timestep
    if n_ticks <= _MOST_TICKS:
        # Clocks add up, and their rounding decides which is the last.
        clock = np.cumsum(np.full(int(n_ticks) + 2, timestep))
        n_ticks = int(np.searchsorted(clock, seconds)) + 1
    return math.ceil(n_ticks / n_each) if math.isfinite(n_ticks) else None


def _by_frames(env: Any) -> int | None:
    """Steps until the frames of an Atari game are up."""
    if (ale := _own(env, "ale")) is None:
        return None
    if isinstance(env, gym.vector.VectorEnv):  # which remembers no settings
        given = env.spec.kwargs if env.spec else {}
        limit, skip = given.get("max_num_frames_per_episode", 0), given.get("frameskip", 0)
    else:
        limit, skip = ale.getInt("max_num_frames_per_episode"), env._frameskip
    fewest = skip[0] if isinstance(skip, tuple) else skip  # the frames of a step may be drawn anew each time
    return -(-limit // fewest) if limit and fewest else None


def _least(*limits: Any) -> int | None:
    """The least of those that are numbers of steps; what else an environment calls its horizon is none."""
    return min((int(limit) for limit in limits if is_number(limit) and limit >= 1 and limit % 1 == 0), default=None)


def _greatest(limits: list[int | None]) -> int | None:
    known = [limit for limit in limits if limit is not None]
    return max(known) if len(known) == len(limits) else None
