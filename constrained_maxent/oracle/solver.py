"""``solve``: the global optimum of a constrained problem, by a convex program over occupancy measures."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import cvxpy as cp
import numpy as np

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals import ConicOccupancy, Functional
from constrained_maxent.occupancy.weighting import Scale
from constrained_maxent.oracle.bound import lagrangian_majorant
from constrained_maxent.oracle.infeasible import explain
from constrained_maxent.oracle.program import ATTEMPTS, OccupancyProgram, attempt, exact_occupancy
from constrained_maxent.oracle.solution import (
    Constraints,
    ConvexProblem,
    Solution,
    convex_problem,
    largest_of,
    objective_unit,
    size_of,
)
from constrained_maxent.oracle.tabular import TabularMDP
from constrained_maxent.penalties import Penalty, Quadratic
from constrained_maxent.types import FloatArray

_TOLERANCE = 1e-6  # of a status "optimal"
_WANTED = 1e-8  # other attempts are made to come as close as this
_GUESSED = (1e-2, 1e-5, 1e-8)  # shares of the uniform policy in the guesses whose masses are the units
_ASKED_BACK = 0.1  # a violation below it, relative to what is compared, is asked back from the limit


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
        InvalidSetting: a penalty that changes during training, or of no constraint, or too steep for the solver.
        InvalidData: a functional's table has another size than the MDP.
        DuplicateName: a name used twice.

    >>> mdp = TabularMDP.from_arrays([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]], [1.0, 0.0], discount=0.5)
    >>> round(solve(mdp).value, 3)
    1.284
    """
    problem = convex_problem(mdp, objective, constraints, equalities, penalties, scale)
    unit = objective_unit(mdp, problem.objective, scale)
    if unit == 1.0:
        return _solve(mdp, problem)
    found = _solve(mdp, problem.in_units_of(unit))
    return replace(
        found,
        problem=problem,
        value=problem.objective(found.occupancy),
        penalized_value=unit * found.penalized_value,
        multipliers={name: unit * nu for name, nu in found.multipliers.items()},
        dual_bound=unit * found.dual_bound,
        unit=unit,
    )


def _solve(mdp: TabularMDP, problem: ConvexProblem) -> Solution:
    begun = time.perf_counter()
    model = _Model.of(mdp, problem)
    best: _Found | None = None
    if not model.program.is_blocked:
        best = _attempts(model, begun, None, enough=_WANTED)
        for share in _GUESSED:
            if best is not None and best.is_optimal:
                break
            better = _attempts(model.rescaled(best, share), begun, best, enough=_TOLERANCE)
            if better is best:
                break
            best = better
    if best is None or not best.is_optimal:
        reason, clash = explain(mdp, problem)
        if best is None and not clash and problem.penalties:
            steepest = max(penalty.beta for penalty in problem.penalties.values())
            raise InvalidSetting(
                f"The solver found no optimum with beta={steepest!r}. So steep a penalty is as good as the constraint "
                "itself: solve without it, or with a smaller beta."
            )
        if best is None or clash:
            raise reason
    return best.solution


class _Found(NamedTuple):
    """A solution, what gap and λ say against it, and what its violations say, relative to the limits and in value."""

    solution: Solution
    error: float
    breach: float

    @property
    def is_optimal(self) -> bool:
        return max(self.error, self.breach) <= _TOLERANCE


def _attempts(model: _Model, begun: float, best: _Found | None, *, enough: float) -> _Found | None:
    """The most accurate of the solution given and of those that are found until one is accurate enough."""
    for options in ATTEMPTS:
        status = attempt(model.problem, options)
        if status == "infeasible":
            break
        if status == "failed":
            continue
        found = model.found(begun)
        if best is None or max(found[1:]) < max(best[1:]):
            best = found
        if best.error <= enough and best.breach <= _TOLERANCE:
            break
    return best


@dataclass(frozen=True, eq=False)
class _Model:
    """A problem as CVXPY sees it.

    Attributes:
        bounds: by constraint, each in its unit.
        units: of the constraints' bounds.
        views: of λ by constraint, the objective's by ``None``.
    """

    asked: ConvexProblem
    program: OccupancyProgram
    problem: cp.Problem
    bounds: Mapping[str, cp.Constraint]
    units: Mapping[str, float]
    views: Mapping[str | None, ConicOccupancy]

    @classmethod
    def of(
        cls,
        mdp: TabularMDP,
        asked: ConvexProblem,
        guess: FloatArray | None = None,
        margins: Mapping[str, float] | None = None,
    ) -> _Model:
        """The model in usual units, or in those of a policy that is nearly right, with limits lower by the margins."""
        program = OccupancyProgram.of(mdp, asked.scale, asked.support(mdp), guess)
        views: dict[str | None, ConicOccupancy] = {name: program.view() for name in (None, *asked.constraints)}
        goal = program.express(asked.objective, views[None])
        bounds: dict[str, cp.Constraint] = {}
        units = dict.fromkeys(asked.constraints, 1.0)
        if guess is not None:
            occupancy = mdp.occupancy(guess, scale=asked.scale)
            units = {name: size_of(functional, occupancy) for name, functional in asked.constraints.items()}
        for name, functional in asked.constraints.items():
            # Multiplied out, so that the solver sees numbers near 1.
            unit, limit = units[name], functional.limit - (margins or {}).get(name, 0.0)
            value = program.express(functional, views[name])
            excess = value - limit if unit == 1.0 else value / unit - limit / unit
            if name in asked.penalties:
                # The dual of its definition is the slope of the penalty, also at the kink of an exact one.
                violation = cp.Variable()
                penalty, positive = asked.penalties[name], cp.pos(violation)
                is_quadratic = isinstance(penalty, Quadratic)
                beta = penalty.beta * (unit**2 if is_quadratic else unit)
                goal = goal - beta * (cp.square(positive) if is_quadratic else positive)
                bounds[name] = excess <= violation
            elif name in asked.equalities:
                bounds[name] = excess == 0.0
            else:
                bounds[name] = excess <= 0.0
        definitions = [definition for view in views.values() for definition in view.definitions.values()]
        rules = [*program.flow, *definitions, *bounds.values()]
        # Per unit of mass, so that tolerances mean the same at both scales.
        return cls(asked, program, cp.Problem(cp.Maximize(goal / program.mass), rules), bounds, units, views)

    def rescaled(self, best: _Found | None, share: float) -> _Model:
        """The model in the units of the best solution so far, mixed with a share of the uniform policy."""
        asked, mdp, allowed = self.asked, self.program.mdp, self.program.possible.astype(np.float64)
        allowed[~self.program.possible.any(axis=-1)] = 1.0
        uniform = allowed / allowed.sum(axis=-1, keepdims=True)
        uniform = uniform[0] if mdp.horizon is None else uniform
        if best is None:
            return self.of(mdp, asked, uniform)
        near = best.solution
        margins = {
            name: 2.0 * violation
            for name, violation in asked.violations(near.constraints).items()
            if name in asked.inequalities
            and violation <= _ASKED_BACK * size_of(asked.constraints[name], near.occupancy)
        }
        return self.of(mdp, asked, (1.0 - share) * near.policy + share * uniform, margins)

    def found(self, begun: float) -> _Found:
        """What the solver found, measured on the exact occupancy of its policy."""
        asked, mdp = self.asked, self.program.mdp
        policy = self.program.policy()
        occupancy = exact_occupancy(mdp, policy, asked.scale)
        residuals = asked.residuals(occupancy)
        value = asked.objective(occupancy)
        prices = {
            name: self.program.mass / self.units[name] * np.asarray(rule.dual_value).item()
            for name, rule in self.bounds.items()
        }
        multipliers = {name: nu if name in asked.equalities else max(nu, 0.0) for name, nu in prices.items()}
        table = self.program.table(self.program.occupancy.value)
        mismatch = float(np.abs(table - occupancy).max()) / max(1.0, float(occupancy.sum()))
        violations = {name: violation for name, violation in asked.violations(residuals).items() if violation > 0.0}
        broken = [
            violation / largest_of(mdp, asked.constraints[name], asked.scale) for name, violation in violations.items()
        ]
        penalized = value - sum(penalty.value(residuals[name]) for name, penalty in asked.penalties.items())
        bound = self._dual_bound(multipliers, occupancy)
        unit = max(1.0, abs(penalized))
        error = max(abs(bound - penalized) / unit, mismatch) if math.isfinite(bound) else math.inf
        breach = max(
            [*broken, *(abs(multipliers[name]) * violation / unit for name, violation in violations.items()), 0.0]
        )
        solution = Solution(
            problem=asked,
            status="optimal" if max(error, breach) <= _TOLERANCE else "inaccurate",
            value=value,
            penalized_value=penalized,
            occupancy=occupancy,
            policy=policy,
            constraints=residuals,
            multipliers=multipliers,
            dual_bound=bound,
            primal_residual=max([mismatch, *broken]),
            seconds=time.perf_counter() - begun,
            is_time_dependent=mdp.horizon is not None,
        )
        return _Found(solution, error, breach)

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
