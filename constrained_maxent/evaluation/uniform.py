"""The policy that draws every action alike: what the figures of another are held against."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np

from constrained_maxent.spaces import Environment, FiniteSpace, single_spaces
from constrained_maxent.tracker import LogProb


class UniformActions:
    """Draws actions as the space's own ``sample`` does; ``evaluate_rollouts`` takes it as an agent.

    Args:
        env: whose actions.
        seed: of the draws, which are not those of ``env.action_space``.

    Attributes:
        log_prob: log π [nats], ``(n,)``: minus the logarithm of the volume of a ``Box``, or of the number of actions.
            ``None`` for a ``Box`` without bounds, which has no uniform density.

    >>> agent = UniformActions(gym.make("Pendulum-v1"), seed=0)  # a torque in [-2, 2]
    >>> agent.log_prob(np.zeros((2, 3)), np.zeros((2, 1))).round(4)
    array([-1.3863, -1.3863])
    """

    def __init__(self, env: Environment, *, seed: int) -> None:
        self._space = deepcopy(env.action_space)
        self._space.seed(seed)
        volume = _log_volume(single_spaces(env)[1])
        self.log_prob: LogProb | None = None
        if volume is not None:
            self.log_prob = lambda observations, actions: np.full(len(actions), -volume)

    def predict(self, observation: Any, /, *, deterministic: bool) -> tuple[Any, None]:
        """Actions for one observation or, in a vector environment, for each copy."""
        return self._space.sample(), None


def _log_volume(space: gym.Space[Any]) -> float | None:
    if not isinstance(space, gym.spaces.Box):
        return math.log(FiniteSpace(space).n)
    extent = space.high.astype(np.float64) - space.low.astype(np.float64)
    if not (space.is_bounded() and (extent > 0.0).all()):
        return None
    return float(np.log(extent).sum())
