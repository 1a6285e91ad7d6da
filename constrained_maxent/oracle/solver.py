"""``solve``: the global optimum of a constrained problem, by a convex program over occupancy measures."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import cvxpy as cp
import numpy as np

from constrained_maxent.errors import DuplicateName, InvalidSetting
from constrained_maxent.functionals import Entropy, Functional, KLDivergence, LinearCost
from constrained_maxent.occupancy.weighting import Scale
from constrained_maxent.oracle.bound import majorant
from constrained_maxent.oracle.clarabel import ATTEMPTS, attempt
from constrained_maxent.oracle.flow import exact_occupancy
from constrained_maxent.oracle.infeasible import SLACK_TOLERANCE, explain_infeasible
from constrained_maxent.oracle.program import OccupancyProgram
from constrained_maxent.oracle.solution import ConvexProblem, Solution
from constrained_maxent.oracle.tabular import TabularMDP
from constrained_maxent.penalties import Exact, Penalty, Quadratic

Constraints = Mapping[str, Functional] | Sequence[Functional]

_TOLERANCE = 1e-6  # of a status "optimal"
_WANTED = 1e-8  # other attempts are made to come as close as this


def solve(
    mdp: TabularMDP,
    objective: Functional | None = None,
    constraints: Constraints = (),
    *,
    equalities: Constraints = (),
    penalties: Mapping[str, Penalty] | None = None,
    scale: Scale = "normalized",
) -> Solution:
    r"""Maximize a concave functional of λ under convex constraints, over all policies (paper eq. CME).

    At infinite horizon stationary policies are enough and the answer is one. At finite horizon the optimum is over
    time-dependent policies, an upper bound for stationary ones. Smoothing of entropies and divergences is taken as 0:
    no policy may leave the support of a divergence's reference, however small β of its penalty is.

    Args:
        mdp: the MDP.
        objective: to be maximized: ``Entropy`` or ``LinearCost`` with a table; ``Entropy()`` if not given.
        constraints: F(λ) ≤ ``limit``, by name, or in order (then named by kind and position).
        equalities: linear ones, F(λ) = ``limit``.
        penalties: by name of a constraint: instead of being enforced, it is penalized by ``Quadratic`` or ``Exact``,
            so that one sees what a given β costs.
        scale: of λ; limits and β are in its units.

    Raises:
        InfeasibleProblem: no occupancy satisfies the constraints; tells which clash and by how much.
        InvalidSetting: a functional or penalty without convex formulation.
        InvalidData: a functional's table has another size than the MDP.
        DuplicateName: a name used twice.

    >>> mdp = TabularMDP.from_arrays([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]], [1.0, 0.0], discount=0.5)
    >>> round(solve(mdp).value, 3)
    1.284
    """
    begun = time.perf_counter()
    problem = convex_problem(objective, constraints, equalities, penalties, scale)
    model = _Model.of(mdp, problem)
    best: Solution | None = None
    if not model.program.is_blocked:
        for options in ATTEMPTS:
            status = attempt(model.problem, options)
            if status == "infeasible":
                break
            if status == "failed":
                continue
            solution = model.solution(begun)
            if best is None or _inaccuracy(solution) < _inaccuracy(best):
                best = solution
            if _inaccuracy(best) <= _WANTED:
                break
    if best is None or best.status == "inaccurate":
        reason = explain_infeasible(mdp, problem)
        if best is None or any(slack > SLACK_TOLERANCE for slack in reason.slacks.values()):
            raise reason
    return best


def as_named(constraints: Constraints) -> dict[str, Functional]:
    """Constraints by name; those without one are named by kind and position."""
    if isinstance(constraints, Mapping):
        return dict(constraints)
    return {f"{type(functional).__name__}_{i}": functional for i, functional in enumerate(constraints)}


def without_smoothing(functional: Functional) -> Functional:
    """The functional without smoothing."""
    return replace(functional, smoothing=0.0) if isinstance(functional, (Entropy, KLDivergence)) else functional


def convex_problem(
    objective: Functional | None = None,
    constraints: Constraints = (),
    equalities: Constraints = (),
    penalties: Mapping[str, Penalty] | None = None,
    scale: Scale = "normalized",
) -> ConvexProblem:
    """The arguments of :func:`solve`, checked and brought into one form."""
    inequalities, equal, penalties = as_named(constraints), as_named(equalities), dict(penalties or {})
    if twice := inequalities.keys() & equal.keys():
        raise DuplicateName(f"Used twice: {', '.join(sorted(twice))}. Give the constraints names.")
    if any(not isinstance(functional, LinearCost) for functional in equal.values()):
        raise InvalidSetting("Only linear functionals can be equalities: give LinearCost with a table.")
    if unknown := penalties.keys() - inequalities.keys():
        raise InvalidSetting(f"There is no constraint {', '.join(sorted(unknown))} to penalize.")
    return ConvexProblem(
        objective=without_smoothing(Entropy() if objective is None else objective),
        inequalities={name: without_smoothing(functional) for name, functional in inequalities.items()},
        equalities=equal,
        penalties=penalties,
        scale=scale,
    )


@dataclass(frozen=True, eq=False)
class _Model:
    """A problem as CVXPY sees it: ``bounds`` by constraint, ``definitions`` of norms."""

    asked: ConvexProblem
    program: OccupancyProgram
    problem: Any
    bounds: Mapping[str, Any]
    definitions: Mapping[str, Any]

    @classmethod
    def of(cls, mdp: TabularMDP, asked: ConvexProblem) -> _Model:
        program = OccupancyProgram.of(mdp, asked.scale, asked.support(mdp))
        goal = program.goal(asked.objective)
        bounds: dict[str, Any] = {}
        definitions: dict[str, Any] = {}
        for name, functional in asked.constraints.items():
            value, extra = program.express(functional)
            if extra:
                definitions[name] = extra[0]
            if name in asked.penalties:
                # The dual of its definition is the slope of the penalty, also at the kink of an exact one.
                violation = cp.Variable()
                goal = goal - _penalty_expression(asked.penalties[name], violation)
                bounds[name] = value - functional.limit <= violation
            elif name in asked.equalities:
                bounds[name] = value == functional.limit
            else:
                bounds[name] = value <= functional.limit
        rules = [*program.flow, *definitions.values(), *bounds.values()]
        # Per unit of mass, so that tolerances mean the same at both scales.
        return cls(asked, program, cp.Problem(cp.Maximize(goal / program.mass), rules), bounds, definitions)

    def solution(self, begun: float) -> Solution:
        """What the solver found, measured on the exact occupancy of its policy."""
        asked, mdp = self.asked, self.program.mdp
        policy = self.program.policy()
        occupancy = exact_occupancy(mdp, policy, asked.scale)
        residuals = asked.residuals(occupancy)
        value = asked.objective.value(occupancy)
        prices = {name: self.program.mass * np.asarray(rule.dual_value).item() for name, rule in self.bounds.items()}
        multipliers = {name: nu if name in asked.equalities else max(nu, 0.0) for name, nu in prices.items()}
        mismatch = float(np.abs(self.program.table(self.program.occupancy.value) - occupancy).max())
        enforced = asked.violations(residuals)
        solution = Solution(
            problem=asked,
            status="optimal",
            value=value,
            penalized_value=value - sum(penalty.value(residuals[name]) for name, penalty in asked.penalties.items()),
            occupancy=occupancy,
            policy=policy,
            constraints=residuals,
            multipliers=multipliers,
            dual_bound=self._dual_bound(multipliers),
            primal_residual=max(mismatch, *enforced.values(), 0.0),
            dual_residual=float(sum(abs(multipliers[name] * residuals[name]) for name in enforced)),
            seconds=time.perf_counter() - begun,
            is_time_dependent=mdp.horizon is not None,
        )
        return solution if _inaccuracy(solution) <= _TOLERANCE else replace(solution, status="inaccurate")

    def _dual_bound(self, multipliers: Mapping[str, float]) -> float:
        """The upper bound that the dual values found give."""
        asked, mdp = self.asked, self.program.mdp
        shape = (mdp.n_states, mdp.n_actions)
        per_unit = self.program.mass / self.program.unit
        directions = {
            name: -per_unit * np.asarray(definition.dual_value).reshape(shape) / max(multipliers[name], 1e-300)
            for name, definition in self.definitions.items()
        }
        bound = majorant(
            asked.objective, asked.constraints, multipliers, shape, penalties=asked.penalties, directions=directions
        )
        return self.program.bound(bound, objective_unit=self.program.mass)


def _inaccuracy(solution: Solution) -> float:
    """The larger of gap and primal residual, relative to what is compared where that is above 1."""
    if not math.isfinite(solution.gap):
        return math.inf
    gap = abs(solution.gap) / max(1.0, abs(solution.penalized_value))
    return max(gap, solution.primal_residual / max(1.0, float(solution.occupancy.sum())))


def _penalty_expression(penalty: Penalty, violation: Any) -> Any:
    if isinstance(penalty, Quadratic):
        return penalty.beta * cp.square(cp.pos(violation))
    if isinstance(penalty, Exact):
        return penalty.beta * cp.pos(violation)
    raise InvalidSetting(f"{type(penalty).__name__} changes during training: penalize by Quadratic or Exact.")
