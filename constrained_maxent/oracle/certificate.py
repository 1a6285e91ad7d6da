"""``certify``: how good a given policy is, exactly, and how good any policy could be."""

from __future__ import annotations

import math

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals import Functional
from constrained_maxent.occupancy.weighting import Scale
from constrained_maxent.oracle.mixtures import MixturePolicy, members
from constrained_maxent.oracle.program import OccupancyProgram, exact_occupancy, run_solver
from constrained_maxent.oracle.solution import Certificate, Constraints, ConvexProblem, Solution, largest_of
from constrained_maxent.oracle.solver import solve
from constrained_maxent.oracle.tabular import TabularMDP

_SLATER = 1e-7  # a margin above it, in units of the smallest limit, is one


def certify(
    mdp: TabularMDP,
    policy: ArrayLike | MixturePolicy,
    best: Solution | None = None,
    *,
    objective: Functional | None = None,
    constraints: Constraints | None = None,
    scale: Scale | None = None,
) -> Certificate:
    """Hold a policy against the global optimum.

    Args:
        policy: π(a|s), ``(n_states, n_actions)``; at finite horizon also time-dependent. Or a ``MixturePolicy``, whose
            occupancy is the mean of its policies'.
        best: the optimum, if it is solved already; it knows its problem, so the other arguments must not be given.
        objective: F; ``Entropy()`` if not given.
        constraints: F(λ) ≤ ``limit``, by name or in order.
        scale: of λ; ``"normalized"`` if not given.

    Raises:
        InfeasibleProblem: no policy satisfies the constraints.
        InvalidMDP: the policy is none.
        InvalidSetting: ``best`` belongs to another MDP or to a problem with penalties, or is given beside a problem.

    >>> mdp = TabularMDP.from_arrays([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]], [1.0, 0.0], discount=0.5)
    >>> round(certify(mdp, [[0.5, 0.5], [0.5, 0.5]], solve(mdp)).gap, 3)
    0.028
    """
    if best is None:
        best = solve(mdp, objective, constraints or (), scale=scale or "normalized")
    elif any(given is not None for given in (objective, constraints, scale)):
        raise InvalidSetting("best knows its problem: give either it, or objective, constraints and scale.")
    else:
        _require_optimum_of(mdp, best)
    problem = best.problem
    occupancy = np.zeros(mdp.shape)
    for weight, table in members(policy):
        occupancy = occupancy + weight * exact_occupancy(mdp, table, problem.scale)
    value, residuals = problem.objective(occupancy), problem.residuals(occupancy)
    violations = problem.violations(residuals)
    violation = max((*violations.values(), 0.0))
    units = {name: largest_of(mdp, problem.constraints[name], problem.scale) for name in violations}
    margin = slater_margin(mdp, problem)
    gap = best.value - value
    return Certificate(
        value=value,
        constraints=residuals,
        violation=violation,
        breach=max((*(violations[name] / unit for name, unit in units.items()), 0.0)),
        optimum=best.value,
        gap=gap,
        epsilon=max(abs(gap), violation),
        dual_bound=best.dual_bound,
        multipliers=best.multipliers,
        strong_duality=best.strong_duality,
        slater_margin=margin,
        slater=margin > _SLATER * min((units[name] for name in problem.inequalities), default=1.0),
        is_time_dependent=best.is_time_dependent,
    )


def slater_margin(mdp: TabularMDP, problem: ConvexProblem) -> float:
    """The largest m for which some policy has all R ≤ -m; Slater's condition holds if it is above 0.

    It is infinite without inequalities, and -inf if no policy was found that holds the equalities and stays in the
    support of all divergences.
    """
    if not problem.inequalities:
        return math.inf
    program = OccupancyProgram.of(mdp, problem.scale, problem.support(mdp))
    if program.is_blocked:
        return -math.inf
    units = {name: largest_of(mdp, functional, problem.scale) for name, functional in problem.constraints.items()}
    least = min(units[name] for name in problem.inequalities)
    margin = cp.Variable()  # in units of the smallest limit
    rules = list(program.flow)
    for name, functional in problem.constraints.items():
        view, unit = program.view(), units[name]
        excess = program.express(functional, view) / unit - functional.limit / unit
        rules += [excess == 0.0 if name in problem.equalities else excess + least / unit * margin <= 0.0]
        rules += view.definitions.values()
    run_solver(cp.Problem(cp.Maximize(margin), rules))
    return float(margin.value) * least if margin.value is not None else -math.inf


def _require_optimum_of(mdp: TabularMDP, best: Solution) -> None:
    """Raise ``InvalidSetting`` unless this is the optimum of a constrained problem of this MDP."""
    if best.problem.penalties:
        raise InvalidSetting("best has penalties: a certificate needs the optimum of the constrained problem itself.")
    if (
        best.occupancy.shape != mdp.shape
        or best.policy.shape[:-2] != (() if mdp.horizon is None else (mdp.horizon,))
        or not np.allclose(mdp.occupancy(best.policy, scale=best.problem.scale), best.occupancy, rtol=1e-6, atol=1e-15)
    ):
        raise InvalidSetting("best is the optimum of another MDP.")
