"""Exact evaluation of a policy in a finite environment, and the best that any policy can do: nothing is sampled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from constrained_maxent.errors import InvalidMDP, MissingCost, UnknownProcess
from constrained_maxent.functionals import Functional
from constrained_maxent.occupancy import Scale
from constrained_maxent.occupancy.horizon import find_horizon
from constrained_maxent.oracle import Certificate, MixturePolicy, Solution, TabularMDP
from constrained_maxent.oracle.mixtures import members
from constrained_maxent.oracle.published import published, publishes
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
        cost_tables: of the reward and the keys of ``info`` that objective and constraints observe, by the name under
            which they are recorded, ``(n_states, n_actions)`` each: what steps can be held against.
    """

    mdp: TabularMDP
    scale: Scale
    objective: Functional | None
    constraints: Mapping[str, Functional]
    cost_tables: Mapping[str, FloatArray] = field(default_factory=dict)

    @classmethod
    def from_env(cls, env: Environment) -> ExactProblem:
        """Read the problem off a stack of wrappers around an environment that publishes its dynamics.

        The values hold for the process that is stepped, or there are none. Dynamics that are known otherwise make
        ``ExactProblem(mdp, scale, objective, constraints)``, with functionals of tables.

        Raises:
            InvalidMDP: the environment does not publish them.
            UnknownProcess: what is stepped need not be what is published: see ``TabularMDP.from_env``; or λ̂ is not over
                the observations; or a time limit
                above ``TrackOccupancy`` ends episodes before its horizon, or numbers of states or actions disagree.
            MissingCost: a cost is reported step by step only, so its table is unknown; or a wrapper changes the reward.
            MissingTracker: no ``TrackOccupancy`` in the stack.
        """
        tracker = find_tracker(env)
        if not tracker.is_over_observations:
            raise UnknownProcess(
                "λ̂ is over what state= makes of the observations, and the published dynamics are of the observations: "
                "exact values need a TrackOccupancy without state=."
            )
        weighting = tracker.weighting
        mdp = TabularMDP.from_env(env, discount=weighting.discount, horizon=weighting.horizon)
        if mdp.elements is None:
            raise UnknownProcess(
                f"P has {mdp.n_states} states and {mdp.n_actions} actions, and the spaces have other numbers of "
                "elements or are not finite: which state is which observation is not known."
            )
        limit = find_horizon(env)
        if limit is not None and (weighting.horizon is None or limit < weighting.horizon):
            raise UnknownProcess(
                f"A time limit ends episodes after {limit} steps, and the occupancy is one of horizon "
                f"{weighting.horizon}: put TimeLimit below TrackOccupancy, or give it horizon={limit}."
            )
        reported = _alike([getattr(bare, "cost_tables", {}) for bare in published(env).copies])
        tables = {name: mdp.table_of(source, reported) for name, source in tracker.sources.items()}

        def exactly(functional: Functional) -> Functional:
            return functional.tabulated(tables.__getitem__).exact()

        problem = tracker.problem
        return cls(
            mdp,
            weighting.scale,
            None if problem.objective is None else exactly(problem.objective),
            {name: exactly(constraint.functional) for name, constraint in problem.constraints.items()},
            {name: tables[name] for name, source in tracker.sources.items() if not callable(source)},
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
        return {name: functional.excess(functional(occupancy)) for name, functional in self.constraints.items()}

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


def exact_problem(env: Environment) -> tuple[ExactProblem | None, str | None]:
    """``ExactProblem.from_env``, or ``None`` and why; without a reason where no dynamics are published at all."""
    try:
        return ExactProblem.from_env(env), None
    except (InvalidMDP, MissingCost) as error:
        return None, str(error) if publishes(env) else None


def _alike(tables: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The cost tables of all copies."""
    first = tables[0]
    for i, other in enumerate(tables):
        if first.keys() != other.keys() or any(not np.array_equal(first[name], other[name]) for name in first):
            raise UnknownProcess(
                f"The cost_tables of sub-environment {i} are not those of sub-environment 0: what is stepped is a "
                "mixture of several processes, and no single one."
            )
    return first
