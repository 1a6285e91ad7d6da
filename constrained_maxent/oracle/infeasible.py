"""Why a constrained problem has no solution: which constraints clash, and by how much they must be loosened."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from constrained_maxent.errors import InfeasibleProblem
from constrained_maxent.functionals import Functional
from constrained_maxent.occupancy.weighting import Scale
from constrained_maxent.oracle.planning import best_return
from constrained_maxent.oracle.program import OccupancyProgram, run_solver
from constrained_maxent.oracle.solution import ConvexProblem, largest_of
from constrained_maxent.oracle.tabular import TabularMDP

_SLACK_TOLERANCE = 1e-6  # slacks below it, relative to the limit, are taken for rounding
_NOISE = 1e-9  # and those below it, relative to the largest that F could be made of


def explain(mdp: TabularMDP, asked: ConvexProblem) -> tuple[InfeasibleProblem, bool]:
    """Loosen the constraints by as little as possible: the error that says which clash, and how, and whether any do."""
    enforced = {name: functional for name, functional in asked.constraints.items() if name not in asked.penalties}
    program = OccupancyProgram.of(mdp, asked.scale, asked.support(mdp))
    if blocked := program.is_blocked:
        # Every policy leaves the support of the references: mass there is what clashes.
        program = OccupancyProgram.of(mdp, asked.scale)
    slacks, rules, units = {}, list(program.flow), {}
    for name, functional in (asked.constraints if blocked else enforced).items():
        slacks[name] = slack = cp.Variable(nonneg=True)
        view, outside = program.view(), ~functional.support(*mdp.shape)
        if blocked and outside.any():
            units[name] = program.mass
            rules.append(view.on_cells(outside.astype(np.float64)) @ program.occupancy / program.mass <= slack)
            continue
        units[name] = unit = largest_of(mdp, functional, asked.scale)
        excess = program.express(functional, view) / unit - functional.limit / unit
        rules += [(cp.abs(excess) if name in asked.equalities else excess) <= slack]
        rules += view.definitions.values()
    # Sums of costs in different units would mean nothing.
    status = run_solver(cp.Problem(cp.Minimize(sum(slacks.values())), rules))
    if status in ("infeasible", "failed"):
        return InfeasibleProblem(
            "The solver found no occupancy that satisfies the constraints, and no reason why."
        ), False
    needed = {name: units[name] * max(float(slack.value), 0.0) for name, slack in slacks.items()}
    clashing = dict.fromkeys(needed, 0.0)
    for name, slack in needed.items():
        functional = asked.constraints[name]
        noise = _NOISE * program.mass * (1.0 if blocked else _most_per_mass(functional, mdp))
        if slack > max(_SLACK_TOLERANCE * units[name], noise):
            clashing[name] = slack
        elif name not in asked.equalities:
            clashing[name] = _alone(mdp, functional, asked.scale)
            needed[name] = max(slack, clashing[name])
    if not any(clashing.values()):
        return (
            InfeasibleProblem(
                "The solver found no optimum, though the constraints can be met, or nearly so: loosen them a little. A "
                "discount too close to 1 is another reason.",
                needed,
            ),
            False,
        )
    reasons = ", ".join(f"{name} by {slack:.4g}" for name, slack in clashing.items() if slack > 0.0)
    where = " (for a divergence: mass where its reference has none)" if blocked else ""
    return (
        InfeasibleProblem(
            "No policy satisfies all constraints. The least loosening, in all and relative to the limits, is: "
            f"{reasons}{where}.",
            clashing,
        ),
        True,
    )


def _most_per_mass(functional: Functional, mdp: TabularMDP) -> float:
    """What a unit of mass adds to F at most; 1 [nat] where it is curved."""
    if functional.curvature != "affine":
        return 1.0
    return float(np.abs(functional.coefficients(*mdp.shape)).max())


def _alone(mdp: TabularMDP, functional: Functional, scale: Scale) -> float:
    """How much more than the limit an affine F is at least, by planning, which sees less than the solver's noise."""
    if functional.curvature != "affine":
        return 0.0
    constant = functional(np.zeros(mdp.shape))
    least = constant - best_return(mdp, -functional.coefficients(*mdp.shape), scale=scale)
    steps = mdp.horizon or 1.0 / (1.0 - mdp.discount)
    rounding = 1e-15 * steps * _most_per_mass(functional, mdp) * mdp.weighting(scale).full_mass
    missing = least - functional.limit
    return missing if missing > rounding + 1e-9 * abs(functional.limit) else 0.0
