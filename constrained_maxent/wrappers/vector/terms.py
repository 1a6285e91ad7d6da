"""Objective, constraints and reward for vector stacks: the twins of the scalar wrappers, on the same declarations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
from numpy.typing import ArrayLike

from constrained_maxent.functionals import Entropy, Functional, LinearCost
from constrained_maxent.functionals.entropy import Over
from constrained_maxent.functionals.linear import CostFunction
from constrained_maxent.penalties import Penalty
from constrained_maxent.wrappers.kinds import require_vector
from constrained_maxent.wrappers.terms import Divergence, ImitationReference, as_penalty, find_tracker, imitation

VectorEnv = gym.vector.VectorEnv[Any, Any, Any]


class _Declaration(gym.vector.VectorWrapper):  # in Gymnasium 1.2 not generic
    """A wrapper that only declares; stepping passes it by."""

    def __init__(self, env: VectorEnv) -> None:
        require_vector(env, type(self).__name__)
        super().__init__(env)
        self.tracker = find_tracker(env)


class EntropyObjective(_Declaration):
    """Maximize H(λ); see the scalar :class:`~constrained_maxent.wrappers.EntropyObjective`."""

    def __init__(self, env: VectorEnv, *, over: Over = "state-action", smoothing: float | None = None) -> None:
        super().__init__(env)
        self.tracker.set_objective(Entropy(over=over, smoothing=smoothing))


class CostConstraint(_Declaration):
    """Keep ⟨c, λ⟩ ≤ limit; see the scalar :class:`~constrained_maxent.wrappers.CostConstraint`.

    A cost function is called once for each sub-environment with its own observation and action.
    """

    def __init__(
        self,
        env: VectorEnv,
        cost: str | CostFunction | ArrayLike = "cost",
        *,
        limit: float,
        penalty: Penalty | Mapping[str, Any],
        name: str = "cost",
    ) -> None:
        super().__init__(env)
        self.tracker.add_constraint(name, LinearCost(cost, limit=limit), as_penalty(penalty))


class ImitationConstraint(_Declaration):
    """Stay close to a reference; see the scalar :class:`~constrained_maxent.wrappers.ImitationConstraint`."""

    def __init__(
        self,
        env: VectorEnv,
        reference: ImitationReference,
        *,
        limit: float,
        penalty: Penalty | Mapping[str, Any],
        divergence: Divergence = "kl",
        name: str = "imitation",
    ) -> None:
        super().__init__(env)
        self.tracker.add_constraint(name, imitation(reference, divergence, limit), as_penalty(penalty))


class ConvexConstraint(_Declaration):
    """Keep F(λ) ≤ limit; see the scalar :class:`~constrained_maxent.wrappers.ConvexConstraint`."""

    def __init__(
        self, env: VectorEnv, functional: Functional, *, penalty: Penalty | Mapping[str, Any], name: str = "convex"
    ) -> None:
        super().__init__(env)
        self.tracker.add_constraint(name, functional, as_penalty(penalty))


class PseudoReward(_Declaration):
    """rewards := ``infos["pseudo_reward"]``; see the scalar :class:`~constrained_maxent.wrappers.PseudoReward`."""

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        infos["original_reward"], infos["_original_reward"] = rewards, infos["_pseudo_reward"]
        return observations, infos["pseudo_reward"], terminated, truncated, infos
