"""From an observation, or a batch of them, to the action of a policy."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from constrained_maxent.agents.policies import Policy
from constrained_maxent.spaces import as_row, as_rows


def as_batch(space: gym.Space[Any], observation: Any) -> tuple[NDArray[Any], bool]:
    """Rows ``(n, ...)``, and whether they are of one observation of the space instead of a batch."""
    if is_single(space, observation):
        return np.asarray(as_row(space, observation))[None], True
    return as_rows(space, observation), False


def choose(policy: Policy, rows: NDArray[Any], rng: np.random.Generator | None) -> NDArray[Any]:
    """Actions as the environment takes them, one for each row: samples, or without ``rng`` the most probable ones."""
    return policy.to_env(policy.mode(rows) if rng is None else policy.sample(rows, rng))


def is_single(space: gym.Space[Any], observation: Any) -> bool:
    """Whether this is one observation of the space, and not a batch of them, to judge by its shape."""
    if isinstance(space, gym.spaces.Tuple):
        return is_single(space.spaces[0], observation[0])
    return np.ndim(observation) == len(space.shape or ())


def one_action(space: gym.Space[Any], actions: NDArray[Any]) -> Any:
    """The only action of a batch of one, as scalar environments take it."""
    return int(actions[0]) if isinstance(space, gym.spaces.Discrete) else np.asarray(actions[0])
