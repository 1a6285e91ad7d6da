"""Tells scalar and vector environments apart, before Gymnasium refuses the wrong kind without saying what to do."""

from __future__ import annotations

import gymnasium as gym

from constrained_maxent.errors import InvalidSetting


def require_scalar(env: object, wrapper: str) -> None:
    """Check what a scalar wrapper, given by its name, is put around.

    Raises:
        InvalidSetting: a vector environment, or no environment at all.
    """
    if isinstance(env, gym.vector.VectorEnv):
        raise _other_kind(f"This is a vector environment, {env}", f"wrappers.vector.{wrapper}")
    _require_environment(env, wrapper)


def require_vector(env: object, wrapper: str) -> None:
    """Check what a vector wrapper, given by its name, is put around.

    Raises:
        InvalidSetting: a scalar environment, or no environment at all.
    """
    if isinstance(env, gym.Env):
        raise _other_kind(f"This is a scalar environment, {env}", f"wrappers.{wrapper}")
    _require_environment(env, wrapper)


def _other_kind(what: str, twin: str) -> InvalidSetting:
    return InvalidSetting(f"{what}: take {twin}, or wrappers.constrain, which takes both kinds.")


def _require_environment(env: object, wrapper: str) -> None:
    if not isinstance(env, (gym.Env, gym.vector.VectorEnv)):
        raise InvalidSetting(f"{wrapper} wraps an environment, such as gym.make('FrozenLake-v1'), not {env!r}.")
