"""Phase one: loosen the constraints by as little as possible, and report by how much each has to be."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from constrained_maxent.errors import InfeasibleProblem
from constrained_maxent.functionals import KLDivergence
from constrained_maxent.oracle.clarabel import run_solver
from constrained_maxent.oracle.program import OccupancyProgram
from constrained_maxent.oracle.solution import ConvexProblem
from constrained_maxent.oracle.tabular import TabularMDP

SLACK_TOLERANCE = 1e-6
"""Slacks below it are taken for rounding."""


def explain_infeasible(mdp: TabularMDP, asked: ConvexProblem) -> InfeasibleProblem:
    """The error that says which constraints clash, and by how much.

    Args:
        mdp: the MDP.
        asked: the problem that could not be solved.
    """
    enforced = {name: functional for name, functional in asked.constraints.items() if name not in asked.penalties}
    program = OccupancyProgram.of(mdp, asked.scale, asked.support(mdp))
    if blocked := program.is_blocked:
        # Every policy leaves the support of the references: mass there is what clashes.
        program = OccupancyProgram.of(mdp, asked.scale)
    slacks, rules = {}, list(program.flow)
    for name, functional in (asked.constraints if blocked else enforced).items():
        slacks[name] = slack = cp.Variable(nonneg=True)
        if blocked and isinstance(functional, KLDivergence):
            outside = (functional.table == 0.0).reshape(-1)[program.cells].astype(np.float64)
            rules.append(outside @ program.occupancy <= slack)
            continue
        value, extra = program.express(functional)
        rules += [(cp.abs(value - functional.limit) if name in asked.equalities else value - functional.limit) <= slack]
        rules += extra
    status = run_solver(cp.Problem(cp.Minimize(sum(slacks.values())), rules))
    if status in ("infeasible", "failed"):
        return InfeasibleProblem("The solver found no occupancy that satisfies the constraints, and no reason why.")
    needed = {name: max(float(slack.value), 0.0) for name, slack in slacks.items()}
    clashing = {name: slack if slack > SLACK_TOLERANCE else 0.0 for name, slack in needed.items()}
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
