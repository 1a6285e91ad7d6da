"""Objective, constraints and reward for vector stacks: the scalar wrappers' arguments on the other kind of layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from constrained_maxent.wrappers.declarations import (
    DeclaresConstraint,
    DeclaresCost,
    DeclaresEntropy,
    DeclaresImitation,
    DeclaresObjective,
    DeclaresReward,
)
from constrained_maxent.wrappers.layers import VectorLayer
from constrained_maxent.wrappers.replies import with_pseudo_reward


class Objective(DeclaresObjective, VectorLayer):
    """Maximize a concave functional of λ; see the scalar :class:`~constrained_maxent.wrappers.Objective`."""


class EntropyObjective(DeclaresEntropy, VectorLayer):
    """Maximize H(λ); see the scalar :class:`~constrained_maxent.wrappers.EntropyObjective`."""


class ConvexConstraint(DeclaresConstraint, VectorLayer):
    """Keep F(λ) ≤ limit; see the scalar :class:`~constrained_maxent.wrappers.ConvexConstraint`."""


class CostConstraint(DeclaresCost, VectorLayer):
    """Keep ⟨c, λ⟩ ≤ limit; see the scalar :class:`~constrained_maxent.wrappers.CostConstraint`.

    A cost function is called once for each sub-environment with its own observation and action.
    """


class ImitationConstraint(DeclaresImitation, VectorLayer):
    """Stay close to a reference; see the scalar :class:`~constrained_maxent.wrappers.ImitationConstraint`."""


class PseudoReward(DeclaresReward, VectorLayer):
    """rewards := ``infos["pseudo_reward"]``; see the scalar :class:`~constrained_maxent.wrappers.PseudoReward`."""

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observations, infos = self.env.reset(seed=seed, options=options)
        infos = with_pseudo_reward(infos)
        infos["original_reward"] = np.zeros(self.num_envs)
        infos["_original_reward"] = infos["_pseudo_reward"]
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        scale = self.tracker.reward_scale  # before the step, which may end the batch that it belongs to
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        infos = with_pseudo_reward(infos)
        # Copies: Gymnasium's own wrappers of rewards write into the array. What is divided is one.
        infos["original_reward"], infos["_original_reward"] = np.array(rewards), infos["_pseudo_reward"]
        return observations, infos["pseudo_reward"] / scale, terminated, truncated, infos
