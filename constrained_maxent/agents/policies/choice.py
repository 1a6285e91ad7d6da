"""Which policy a pair of spaces gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from constrained_maxent.agents.policies.categorical import CategoricalMLP
from constrained_maxent.agents.policies.gaussian import GaussianMLP
from constrained_maxent.agents.policies.networks import Network
from constrained_maxent.agents.policies.policy import Policy
from constrained_maxent.agents.policies.tabular_softmax import TabularSoftmax
from constrained_maxent.agents.settings import PolicyKind, is_table
from constrained_maxent.errors import UnsupportedSpace
from constrained_maxent.spaces import is_finite


def make_policy(
    observation_space: gym.Space[Any],
    action_space: gym.Space[Any],
    *,
    kind: PolicyKind = "auto",
    hidden_sizes: Sequence[int] | Network,
    normalize: bool = False,
) -> Policy:
    """The policy for a pair of spaces; networks have ``hidden_sizes``, or are of one's own, and see observations
    normalized if wanted.

    Raises:
        UnsupportedSpace: the action space is neither finite nor a ``Box`` of floats, or a table is asked for and
            impossible.
    """
    if isinstance(action_space, gym.spaces.Discrete) and is_table(observation_space, action_space, kind=kind):
        return TabularSoftmax(observation_space, action_space)
    if kind == "tabular":
        raise UnsupportedSpace("A tabular policy needs Discrete actions: take policy='mlp'.")
    if is_finite(action_space):
        return CategoricalMLP(observation_space, action_space, hidden_sizes, normalize=normalize)
    if not isinstance(action_space, gym.spaces.Box):
        raise UnsupportedSpace(
            f"{action_space} is neither finite nor a Box: PGP has no policy for it. Make its actions of those of one "
            "Box in a gymnasium.ActionWrapper."
        )
    return GaussianMLP(observation_space, action_space, hidden_sizes, normalize=normalize)
