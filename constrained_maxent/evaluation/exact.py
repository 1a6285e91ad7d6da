"""Exact evaluation of a policy in a finite environment: no sampling, no smoothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike

from constrained_maxent.spaces import Environment
from constrained_maxent.errors import InvalidMDP, MissingCost
from constrained_maxent.functionals import Entropy, Functional, KLDivergence, LinearCost
from constrained_maxent.occupancy import Scale
from constrained_maxent.oracle import TabularMDP
from constrained_maxent.oracle.mixtures import Mixture, members
from constrained_maxent.types import FloatArray
from constrained_maxent.wrappers import find_tracker


@dataclass(frozen=True)
class Evaluation:
    """What a policy does, exactly.

    Attributes:
        objective: entropy of its occupancy [nats]; ``None`` without an objective.
        constraints: R by name; satisfied where ≤ 0.
        occupancy: λ, ``(n_states, n_actions)``.
        mass: total mass of λ.
    """

    objective: float | None
    constraints: Mapping[str, float]
    occupancy: FloatArray
    mass: float


@dataclass(frozen=True)
class ExactProblem:
    """The constrained problem of a wrapped environment with everything known: dynamics, costs, functionals.

    Attributes:
        mdp: the dynamics, at the occupancy's discount and horizon.
        scale: of the occupancy.
        objective: without smoothing.
        constraints: functionals of the table λ(s, a), with their limits, without smoothing.
    """

    mdp: TabularMDP
    scale: Scale
    objective: Functional | None
    constraints: Mapping[str, Functional]

    @classmethod
    def from_env(cls, env: Environment) -> ExactProblem:
        """Read the problem off a stack of wrappers around an environment that publishes its dynamics.

        Raises:
            InvalidMDP: the environment does not publish them.
            MissingCost: a cost is reported step by step only, so its table is unknown.
            MissingTracker: no ``TrackOccupancy`` in the stack.
        """
        tracker = find_tracker(env)
        weighting = tracker.weighting
        mdp = TabularMDP.from_env(with_dynamics(env), discount=weighting.discount, horizon=weighting.horizon)
        constraints = {}
        for name, constraint in tracker.problem.constraints.items():
            functional = constraint.functional
            if isinstance(functional, LinearCost) and isinstance(functional.observed, str):
                table = _cost_table(mdp, env, tracker.cost_sources[functional.observed])
                functional = replace(functional, cost=table)
            elif isinstance(functional, KLDivergence):
                functional = replace(functional, smoothing=0.0)
            constraints[name] = functional
        objective = tracker.problem.objective
        if isinstance(objective, Entropy):
            objective = replace(objective, smoothing=0.0)
        return cls(mdp, weighting.scale, objective, constraints)

    def evaluate(self, policy: ArrayLike | Mixture) -> Evaluation:
        """Entropy and constraint values of a policy table ``(n_states, n_actions)``, or of a ``MixturePolicy``.

        Raises:
            InvalidMDP, NonFiniteValue: not a policy of this MDP.
            InvalidData: not made of numbers.
        """
        occupancy = np.zeros((self.mdp.n_states, self.mdp.n_actions))
        for weight, table in members(policy):
            occupancy = occupancy + weight * self.mdp.occupancy(table, scale=self.scale)
        return Evaluation(
            objective=None if self.objective is None else self.objective.value(occupancy),
            constraints=self.values(occupancy),
            occupancy=occupancy,
            mass=float(occupancy.sum()),
        )

    def values(self, occupancy: FloatArray) -> dict[str, float]:
        """R of every constraint at λ, ``(n_states, n_actions)``."""
        return {name: f.value(occupancy) - f.limit for name, f in self.constraints.items()}

    def evaluate_uniform(self) -> Evaluation:
        """The same for the policy that takes all actions alike: what untrained exploration does."""
        return self.evaluate(np.full((self.mdp.n_states, self.mdp.n_actions), 1.0 / self.mdp.n_actions))


def with_dynamics(env: Environment) -> Environment:
    """The environment that publishes ``P``: a sub-environment, where the vector environment only manages them."""
    bare = env.unwrapped
    return bare.envs[0] if isinstance(bare, gym.vector.SyncVectorEnv) else env


def _cost_table(mdp: TabularMDP, env: Environment, source: Any) -> FloatArray:
    if callable(source):
        return mdp.tabulate(source)
    tables = getattr(with_dynamics(env).unwrapped, "cost_tables", {})
    if source not in tables:
        raise MissingCost(
            f"The cost {source!r} is known step by step only. For exact evaluation let the bare environment have "
            f"cost_tables = {{{source!r}: table of shape (n_states, n_actions)}}, or give CostConstraint a function."
        )
    table: FloatArray = np.asarray(tables[source], dtype=np.float64)
    return table


def exact_problem(env: Environment) -> ExactProblem | None:
    """``ExactProblem.from_env``, or ``None`` where the environment or a cost is not known exactly."""
    try:
        return ExactProblem.from_env(env)
    except (InvalidMDP, MissingCost):
        return None
