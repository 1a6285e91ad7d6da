"""``solve``: the global optimum of a constrained problem, by a convex program over occupancy measures."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np

from constrained_maxent.errors import DuplicateName, InfeasibleProblem, InvalidSetting
from constrained_maxent.functionals import Entropy, Functional, KLDivergence, LinearCost
from constrained_maxent.occupancy.weighting import Scale
from constrained_maxent.oracle.bound import best_return, majorant
from constrained_maxent.oracle.program import OccupancyProgram
from constrained_maxent.oracle.solution import Solution
from constrained_maxent.oracle.tabular import TabularMDP
from constrained_maxent.penalties import Exact, Penalty, Quadratic
from constrained_maxent.types import FloatArray

Constraints = Mapping[str, Functional] | Sequence[Functional]

_SLACK_TOLERANCE = 1e-6

_ATTEMPTS: tuple[dict[str, float], ...] = (
    {},
    # Where exponential and second-order cones meet, full steps sometimes stall close to the optimum.
    {"max_step_fraction": 0.95},
    {"static_regularization_constant": 1e-7},
    {"linesearch_backtrack_step": 0.5},
)


def solve(
    mdp: TabularMDP,
    objective: Functional | None = None,
    constraints: Constraints = (),
    *,
    equalities: Constraints = (),
    penalties: Mapping[str, Penalty] | None = None,
    scale: Scale = "normalised",
) -> Solution:
    r"""Maximise a concave functional of λ under convex constraints, over all policies (paper eq. CME).

    At infinite horizon stationary policies are enough and the answer is one. At finite horizon the optimum is over
    time-dependent policies, an upper bound for stationary ones. Smoothing of entropies and divergences is taken as 0.

    Args:
        mdp: the MDP.
        objective: to be maximised: ``Entropy`` or ``LinearCost`` with a table; ``Entropy()`` if not given.
        constraints: F(λ) ≤ ``limit``, by name, or in order (then named by kind and position).
        equalities: linear ones, F(λ) = ``limit``.
        penalties: by name of a constraint: instead of being enforced, it is penalised by ``Quadratic`` or ``Exact``,
            so that one sees what a given β costs.
        scale: of λ; limits and β are in its units.

    Raises:
        InfeasibleProblem: no occupancy satisfies the constraints; tells which clash and by how much.
        InvalidSetting: a functional or penalty without convex formulation, or of another size.
        DuplicateName: a name used twice.

    >>> mdp = TabularMDP.from_arrays([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]], [1.0, 0.0], discount=0.5)
    >>> round(solve(mdp).value, 3)
    1.373
    """
    begun = time.perf_counter()
    objective = Entropy() if objective is None else objective
    inequalities, equal = as_named(constraints), as_named(equalities)
    if inequalities.keys() & equal.keys():
        raise DuplicateName(f"Used twice: {', '.join(sorted(inequalities.keys() & equal.keys()))}.")
    if any(not isinstance(functional, LinearCost) for functional in equal.values()):
        raise InvalidSetting("Only linear functionals can be equalities: give LinearCost with a table.")
    if not isinstance(objective, (Entropy, LinearCost)):
        raise InvalidSetting(
            f"{type(objective).__name__} is not concave: maximise Entropy or a LinearCost with a table."
        )
    penalties = dict(penalties or {})
    if unknown := penalties.keys() - inequalities.keys():
        raise InvalidSetting(f"There is no constraint {', '.join(sorted(unknown))} to penalise.")

    program = OccupancyProgram.of(mdp, scale)
    goal, rules = program.express(objective)
    bounded: dict[str, Any] = {}
    for name, functional in inequalities.items():
        value, extra = program.express(functional)
        rules = rules + extra
        if name in penalties:
            # The dual of its definition is the slope of the penalty, also at the kink of an exact one.
            violation = cp.Variable()
            goal = goal - _penalty_expression(penalties[name], violation)
            bounded[name] = value - functional.limit <= violation
        else:
            bounded[name] = value <= functional.limit
    bounded |= {name: program.express(functional)[0] == functional.limit for name, functional in equal.items()}
    problem = cp.Problem(cp.Maximize(goal), program.flow + rules + list(bounded.values()))
    status = run_solver(problem)
    if status in ("infeasible", "failed"):
        raise _infeasible(program, {**inequalities}, equal, penalties.keys())

    own = np.maximum(program.extend(np.asarray(program.occupancy.value)), 0.0)
    policy = _policy(program)
    occupancy = mdp.occupancy(policy, scale=scale)
    exactly = {name: without_smoothing(functional) for name, functional in {**inequalities, **equal}.items()}
    residuals = {name: functional.value(occupancy) - functional.limit for name, functional in exactly.items()}
    value = without_smoothing(objective).value(occupancy)
    multipliers = {name: float(np.asarray(rule.dual_value).item()) for name, rule in bounded.items()}
    multipliers = {name: nu if name in equal else max(nu, 0.0) for name, nu in multipliers.items()}
    enforced = bounded.keys() - penalties.keys()
    return Solution(
        status=status,
        value=value,
        penalised_value=value - sum(penalty.value(residuals[name]) for name, penalty in penalties.items()),
        occupancy=occupancy,
        policy=policy,
        constraints=residuals,
        multipliers=multipliers,
        dual_bound=_dual_bound(program, without_smoothing(objective), exactly, multipliers, own, penalties),
        primal_residual=max(
            float(np.abs(own - occupancy).max()),
            *(abs(residuals[name]) if name in equal else max(residuals[name], 0.0) for name in enforced),
        )
        if enforced
        else float(np.abs(own - occupancy).max()),
        dual_residual=float(sum(abs(multipliers[name] * residuals[name]) for name in enforced)),
        seconds=time.perf_counter() - begun,
        is_time_dependent=mdp.horizon is not None,
    )


def _dual_bound(
    program: OccupancyProgram,
    objective: Functional,
    constraints: Mapping[str, Functional],
    multipliers: Mapping[str, float],
    occupancy: FloatArray,
    penalties: Mapping[str, Penalty],
) -> float:
    """The least upper bound that the dual values found give."""
    bound = majorant(objective, constraints, multipliers, occupancy, penalties=penalties)
    if bound.temperature + bound.state_temperature == 0.0:
        # All linear: the Lagrangian is an ordinary MDP.
        return bound.constant + best_return(program.mdp, bound.reward, scale=program.scale)
    return program.bound(bound)


def as_named(constraints: Constraints) -> dict[str, Functional]:
    """Constraints by name; those without one are named by kind and position."""
    if isinstance(constraints, Mapping):
        return dict(constraints)
    return {f"{type(functional).__name__}_{i}": functional for i, functional in enumerate(constraints)}


def without_smoothing(functional: Functional) -> Functional:
    """The functional without smoothing."""
    return replace(functional, smoothing=0.0) if isinstance(functional, (Entropy, KLDivergence)) else functional


def _penalty_expression(penalty: Penalty, violation: Any) -> Any:
    if isinstance(penalty, Quadratic):
        return penalty.beta * cp.square(cp.pos(violation))
    if isinstance(penalty, Exact):
        return penalty.beta * cp.pos(violation)
    raise InvalidSetting(f"{type(penalty).__name__} changes during training: penalise by Quadratic or Exact.")


def run_solver(problem: Any) -> str:
    """Solve by Clarabel: ``optimal``, ``inaccurate``, ``infeasible`` or ``failed``."""
    known = {
        cp.OPTIMAL: "optimal",
        cp.OPTIMAL_INACCURATE: "inaccurate",
        cp.INFEASIBLE: "infeasible",
        cp.INFEASIBLE_INACCURATE: "infeasible",
    }
    for options in _ATTEMPTS:
        with warnings.catch_warnings():
            # Inaccurate solves are told by the status; the dual bound says how inaccurate.
            warnings.simplefilter("ignore", UserWarning)
            try:
                problem.solve(solver=cp.CLARABEL, **options)
            except cp.error.SolverError:
                continue
        if problem.status in known:
            return known[problem.status]
    return "failed"


def _policy(program: OccupancyProgram) -> FloatArray:
    """π(a|s) = λ(s,a)/d(s), for each time step if there are any; uniform where nothing is."""
    values = np.array([step.value for step in program.steps]) if program.steps else np.asarray(program.occupancy.value)
    mass = program.extend(np.maximum(values, 0.0))
    total = mass.sum(axis=-1, keepdims=True)
    policy: FloatArray = np.divide(
        mass,
        total,
        out=np.full_like(mass, 1.0 / program.mdp.n_actions),
        where=np.broadcast_to(total > 1e-12, mass.shape),
    )
    policy /= policy.sum(axis=-1, keepdims=True)
    return policy


def _infeasible(
    program: OccupancyProgram, inequalities: Mapping[str, Functional], equal: Mapping[str, Functional], free: Any
) -> InfeasibleProblem:
    """Phase one: loosen every constraint by as little as possible, and report by how much each has to be."""
    slacks, rules = {}, list(program.flow)
    for name, functional in {**inequalities, **equal}.items():
        if name in free:
            continue
        value, extra = program.express(functional)
        slack = cp.Variable(nonneg=True)
        if extra:
            # A divergence is infinite outside the reference's support: mass there is what clashes.
            outside = cp.sum(program.occupancy) - cp.sum(program.occupancy[program.restrict(functional.table) > 0.0])  # type: ignore[attr-defined]
            rules.append(outside <= slack)
        elif name in equal:
            rules.append(cp.abs(value - functional.limit) <= slack)
        else:
            rules.append(value - functional.limit <= slack)
        slacks[name] = slack
    status = run_solver(cp.Problem(cp.Minimize(sum(slacks.values())), rules))
    if status in ("infeasible", "failed"):
        return InfeasibleProblem("The solver found no occupancy that satisfies the constraints, and no reason why.")
    needed = {name: max(float(slack.value), 0.0) for name, slack in slacks.items()}
    clashing = {name: slack for name, slack in needed.items() if slack > _SLACK_TOLERANCE}
    if not clashing:
        return InfeasibleProblem(
            "The constraints can be met only in the limit, if at all: loosen them a little.", needed
        )
    reasons = ", ".join(f"{name} by {slack:.4g}" for name, slack in clashing.items())
    return InfeasibleProblem(
        f"No policy satisfies all constraints. The least total loosening is: {reasons}.",
        {name: clashing.get(name, 0.0) for name in needed},
    )
