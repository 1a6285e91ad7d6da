"""The pseudo-reward as the reward, for agents that optimize rewards and know nothing else."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from constrained_maxent.wrappers.kinds import require_scalar
from constrained_maxent.wrappers.terms import find_tracker


class PseudoReward(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """reward := ``info["pseudo_reward"]``; the environment's own is kept as ``info["original_reward"]``.

    A third-party agent that updates when it likes wants ``TrackOccupancy(pairing="previous")``, whose rewards are live.

    Args:
        env: a stack with ``TrackOccupancy`` in it.

    Raises:
        InvalidSetting: a vector environment.
        MissingTracker: no ``TrackOccupancy`` below.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        require_scalar(env, "PseudoReward")
        gym.Wrapper.__init__(self, env)
        self.tracker = find_tracker(env)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        info["original_reward"] = reward
        return observation, info["pseudo_reward"], terminated, truncated, info
