"""``solve``: the global optimum of a constrained problem, by a convex program over occupancy measures."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import cvxpy as cp
import numpy as np

from constrained_maxent.errors import InfeasibleProblem
from constrained_maxent.functionals import ConicOccupancy, Functional
from constrained_maxent.occupancy.weighting import Scale
from constrained_maxent.oracle.bound import lagrangian_majorant
from constrained_maxent.oracle.program import ATTEMPTS, OccupancyProgram, attempt, exact_occupancy, run_solver
from constrained_maxent.oracle.solution import Constraints, ConvexProblem, Solution, convex_problem
from constrained_maxent.oracle.tabular import TabularMDP
from constrained_maxent.penalties import Penalty, Quadratic
from constrained_maxent.types import FloatArray

_TOLERANCE = 1e-6  # of a status "optimal"
_WANTED = 1e-8  # other attempts are made to come as close as this
_SLACK_TOLERANCE = 1e-6  # slacks below it are taken for rounding


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
        objective: to be maximized, concave, such as ``0.1 * Entropy() + Reward()``; ``Entropy()`` if not given.
        constraints: F(λ) ≤ ``limit``, convex, by name, or in order (then named by kind and position).
        equalities: affine ones, F(λ) = ``limit``.
        penalties: by name of a constraint: instead of being enforced, it is penalized by ``Quadratic`` or ``Exact``,
            so that one sees what a given β costs.
        scale: of λ; limits and β are in its units.

    Raises:
        InfeasibleProblem: no occupancy satisfies the constraints; tells which clash and by how much.
        UnsupportedFunctional: a functional of another curvature, or without conic form.
        MissingCost: a cost or reward that is observed step by step, and has no table here.
        InvalidSetting: a penalty that changes during training, or of no constraint.
        InvalidData: a functional's table has another size than the MDP.
        DuplicateName: a name used twice.

    >>> mdp = TabularMDP.from_arrays([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]], [1.0, 0.0], discount=0.5)
    >>> round(solve(mdp).value, 3)
    1.284
    """
    begun = time.perf_counter()
    problem = convex_problem(mdp, objective, constraints, equalities, penalties, scale)
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
        reason = _explain_infeasible(mdp, problem)
        if best is None or any(slack > _SLACK_TOLERANCE for slack in reason.slacks.values()):
            raise reason
    return best


@dataclass(frozen=True, eq=False)
class _Model:
    """A problem as CVXPY sees it: bounds by constraint; views of λ by constraint, the objective's by ``None``."""

    asked: ConvexProblem
    program: OccupancyProgram
    problem: cp.Problem
    bounds: Mapping[str, cp.Constraint]
    views: Mapping[str | None, ConicOccupancy]

    @classmethod
    def of(cls, mdp: TabularMDP, asked: ConvexProblem) -> _Model:
        program = OccupancyProgram.of(mdp, asked.scale, asked.support(mdp))
        views: dict[str | None, ConicOccupancy] = {name: program.view() for name in (None, *asked.constraints)}
        goal = program.express(asked.objective, views[None])
        bounds: dict[str, cp.Constraint] = {}
        for name, functional in asked.constraints.items():
            value = program.express(functional, views[name])
            if name in asked.penalties:
                # The dual of its definition is the slope of the penalty, also at the kink of an exact one.
                violation = cp.Variable()
                penalty, positive = asked.penalties[name], cp.pos(violation)
                goal = goal - penalty.beta * (cp.square(positive) if isinstance(penalty, Quadratic) else positive)
                bounds[name] = value - functional.limit <= violation
            elif name in asked.equalities:
                bounds[name] = value == functional.limit
            else:
                bounds[name] = value <= functional.limit
        definitions = [definition for view in views.values() for definition in view.definitions.values()]
        rules = [*program.flow, *definitions, *bounds.values()]
        # Per unit of mass, so that tolerances mean the same at both scales.
        return cls(asked, program, cp.Problem(cp.Maximize(goal / program.mass), rules), bounds, views)

    def solution(self, begun: float) -> Solution:
        """What the solver found, measured on the exact occupancy of its policy."""
        asked, mdp = self.asked, self.program.mdp
        policy = self.program.policy()
        occupancy = exact_occupancy(mdp, policy, asked.scale)
        residuals = asked.residuals(occupancy)
        value = asked.objective(occupancy)
        prices = {name: self.program.mass * np.asarray(rule.dual_value).item() for name, rule in self.bounds.items()}
        multipliers = {name: nu if name in asked.equalities else max(nu, 0.0) for name, nu in prices.items()}
        mismatch = float(np.abs(self.program.table(self.program.occupancy.value) - occupancy).max())
        solution = Solution(
            problem=asked,
            status="optimal",
            value=value,
            penalized_value=value - sum(penalty.value(residuals[name]) for name, penalty in asked.penalties.items()),
            occupancy=occupancy,
            policy=policy,
            constraints=residuals,
            multipliers=multipliers,
            dual_bound=self._dual_bound(multipliers, occupancy),
            primal_residual=max(mismatch, *asked.violations(residuals).values(), 0.0),
            seconds=time.perf_counter() - begun,
            is_time_dependent=mdp.horizon is not None,
        )
        return solution if _inaccuracy(solution) <= _TOLERANCE else replace(solution, status="inaccurate")

    def _dual_bound(self, multipliers: Mapping[str, float], occupancy: FloatArray) -> float:
        asked, per_unit = self.asked, self.program.mass / self.program.unit
        # The factors of the functionals in the Lagrangian.
        factors = {None: 1.0} | {name: -max(nu, 1e-300) for name, nu in multipliers.items()}
        subgradients = {
            name: {
                owner: per_unit * np.asarray(definition.dual_value) / factors[name]
                for owner, definition in view.definitions.items()
            }
            for name, view in self.views.items()
        }
        bound = lagrangian_majorant(
            asked.objective,
            asked.constraints,
            multipliers,
            occupancy,
            penalties=asked.penalties,
            subgradients=subgradients,
        )
        return self.program.bound(bound, objective_unit=self.program.mass)


def _inaccuracy(solution: Solution) -> float:
    """The larger of gap and primal residual, relative to what is compared where that is above 1."""
    if not math.isfinite(solution.gap):
        return math.inf
    gap = abs(solution.gap) / max(1.0, abs(solution.penalized_value))
    return max(gap, solution.primal_residual / max(1.0, float(solution.occupancy.sum())))


def _explain_infeasible(mdp: TabularMDP, asked: ConvexProblem) -> InfeasibleProblem:
    """Loosen the constraints by as little as possible: the error that says which clash, and by how much each does."""
    enforced = {name: functional for name, functional in asked.constraints.items() if name not in asked.penalties}
    program = OccupancyProgram.of(mdp, asked.scale, asked.support(mdp))
    if blocked := program.is_blocked:
        # Every policy leaves the support of the references: mass there is what clashes.
        program = OccupancyProgram.of(mdp, asked.scale)
    slacks, rules = {}, list(program.flow)
    for name, functional in (asked.constraints if blocked else enforced).items():
        slacks[name] = slack = cp.Variable(nonneg=True)
        view, outside = program.view(), ~functional.support(*mdp.shape)
        if blocked and outside.any():
            rules.append(view.on_cells(outside.astype(np.float64)) @ program.occupancy <= slack)
            continue
        value = program.express(functional, view)
        rules += [(cp.abs(value - functional.limit) if name in asked.equalities else value - functional.limit) <= slack]
        rules += view.definitions.values()
    status = run_solver(cp.Problem(cp.Minimize(sum(slacks.values())), rules))
    if status in ("infeasible", "failed"):
        return InfeasibleProblem("The solver found no occupancy that satisfies the constraints, and no reason why.")
    needed = {name: max(float(slack.value), 0.0) for name, slack in slacks.items()}
    clashing = {name: slack if slack > _SLACK_TOLERANCE else 0.0 for name, slack in needed.items()}
    if not any(clashing.values()):
        return InfeasibleProblem(
            "The solver found no optimum, though the constraints can be met, or nearly so: loosen them a little. A "
            "discount too close to 1 is another reason.",
            needed,
        )
    reasons = ", ".join(f"{name} by {slack:.4g}" for name, slack in clashing.items() if slack > 0.0)
    where = " (for a divergence: mass where its reference has none)" if blocked else ""
    return InfeasibleProblem(
        f"No policy satisfies all constraints. The least total loosening is: {reasons}{where}.", clashing
    )
