"""Exact evaluation of a policy in a finite environment, and the best that any policy can do: nothing is sampled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike

from constrained_maxent.errors import InvalidMDP, MissingCost
from constrained_maxent.functionals import Functional
from constrained_maxent.occupancy import Scale
from constrained_maxent.oracle import Certificate, MixturePolicy, Solution, TabularMDP
from constrained_maxent.oracle.mixtures import members
from constrained_maxent.penalties import Quadratic
from constrained_maxent.spaces import Environment
from constrained_maxent.types import FloatArray
from constrained_maxent.wrappers import find_tracker

QUICK_VARIABLES = 20_000
"""Up to this many variables of the convex program the optimum takes seconds, and training ends with a certificate."""


@dataclass(frozen=True)
class ExactEvaluation:
    """What a policy does, exactly.

    Attributes:
        objective: F of its occupancy; ``None`` without an objective.
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
        weighting, bare = tracker.weighting, with_dynamics(env)
        mdp = TabularMDP.from_env(bare, discount=weighting.discount, horizon=weighting.horizon)
        tables = getattr(bare.unwrapped, "cost_tables", {})

        def exactly(functional: Functional) -> Functional:
            return functional.tabulated(lambda name: mdp.table_of(tracker.sources[name], tables)).exact()

        problem = tracker.problem
        return cls(
            mdp,
            weighting.scale,
            None if problem.objective is None else exactly(problem.objective),
            {name: exactly(constraint.functional) for name, constraint in problem.constraints.items()},
        )

    def evaluate(self, policy: ArrayLike | MixturePolicy) -> ExactEvaluation:
        """Objective and constraint values of a policy table ``(n_states, n_actions)``, or of a mixture of policies.

        Raises:
            InvalidMDP, InvalidData, NonFiniteValue: not a policy of this MDP.
        """
        occupancy = np.zeros(self.mdp.shape)
        for weight, table in members(policy):
            occupancy = occupancy + weight * self.mdp.occupancy(table, scale=self.scale)
        return ExactEvaluation(
            objective=None if self.objective is None else self.objective(occupancy),
            constraints=self.values(occupancy),
            occupancy=occupancy,
            mass=float(occupancy.sum()),
        )

    def values(self, occupancy: FloatArray) -> dict[str, float]:
        """R of every constraint at λ, ``(n_states, n_actions)``."""
        return {name: functional(occupancy) - functional.limit for name, functional in self.constraints.items()}

    def evaluate_uniform(self) -> ExactEvaluation:
        """:meth:`evaluate` of untrained exploration, the policy that takes all actions alike."""
        return self.evaluate(np.full(self.mdp.shape, 1.0 / self.mdp.n_actions))

    def optimum(self, *, constrained: bool = True, beta: float | None = None) -> Solution:
        """The best that any policy can do.

        Args:
            constrained: whether the constraints hold; without them one sees what they cost.
            beta: penalize the constraints by β[R]₊² instead of enforcing them.

        Raises:
            InfeasibleProblem: no policy satisfies the constraints.
            UnsupportedFunctional: the objective is not concave, a constraint not convex, or one of them has no conic
                form, such as ``Autograd``.
        """
        from constrained_maxent.oracle.solver import solve

        constraints = self.constraints if constrained else {}
        penalties = {} if beta is None else {name: Quadratic(beta) for name in constraints}
        return solve(self.mdp, self.objective, constraints, penalties=penalties, scale=self.scale)

    def certify(self, policy: ArrayLike | MixturePolicy) -> Certificate:
        """Hold a policy against the optimum; raises what :meth:`optimum` raises."""
        from constrained_maxent.oracle.certificate import certify

        return certify(self.mdp, policy, objective=self.objective, constraints=self.constraints, scale=self.scale)

    @property
    def n_variables(self) -> int:
        """Variables of the convex program: reachable state-action pairs, times the horizon if it is finite."""
        pairs = int(self.mdp.reachable.sum()) * self.mdp.n_actions
        return pairs * (self.mdp.horizon or 1)


def with_dynamics(env: Environment) -> Environment:
    """The environment that publishes ``P``: a sub-environment, where the vector environment only manages them."""
    bare = env.unwrapped
    return bare.envs[0] if isinstance(bare, gym.vector.SyncVectorEnv) else env


def exact_problem(env: Environment) -> ExactProblem | None:
    """``ExactProblem.from_env``, or ``None`` where the environment or a cost is not known exactly."""
    try:
        return ExactProblem.from_env(env)
    except (InvalidMDP, MissingCost):
        return None
