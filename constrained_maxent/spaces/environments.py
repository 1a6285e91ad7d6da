"""The spaces of an environment, and whether an agent was made for them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import gymnasium as gym

from constrained_maxent.errors import InvalidSetting, UnsupportedSpace

Environment = gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]
"""A scalar or a vector environment."""

Space = gym.Space[Any]
"""Of observations, states or actions."""


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
    if not isinstance(first, gym.spaces.Box) or not isinstance(second, gym.spaces.Box):
        return first == second
    if len(first.shape) == 3 and _scale(first) == _scale(second):
        return second.shape in (first.shape, first.shape[-1:] + first.shape[:-1], first.shape[1:] + first.shape[:1])
    return first == second


def _scale(space: gym.spaces.Box) -> tuple[Any, float, float]:
    return space.dtype, float(space.low.min()), float(space.high.max())


def require_own_spaces(agent: object, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
    """An agent meets no other spaces than its own, as far as it tells: one of the same shape may be scaled differently.

    Raises:
        UnsupportedSpace: other spaces than the agent's, or than those of the environment that it learnt on.
    """
    env = getattr(agent, "env", None)
    same: Callable[[Any, Any], bool]
    if isinstance(env, gym.Env | gym.vector.VectorEnv):
        spaces: tuple[Any, Any] = single_spaces(env)
        same = operator.eq  # nothing would move the channels of a picture
    else:
        same = are_alike
        spaces = getattr(agent, "observation_space", None), getattr(agent, "action_space", None)
    for what, own, here in zip(("observations", "actions"), spaces, (observation_space, action_space), strict=True):
        if isinstance(own, gym.Space) and not same(own, here):
            raise UnsupportedSpace(
                f"The agent was made for {what} in {own}, and here they are in {here}: give an environment with the "
                f"wrappers of its training that change {what}."
            )
