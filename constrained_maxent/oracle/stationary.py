"""Locally best *stationary* policies, for finite horizons, where the convex program's optimum depends on time.

Over stationary policies alone the problem is no longer convex in λ: there may be several local optima, and nothing
certifies the best one found. :func:`~constrained_maxent.oracle.solve` bounds them all from above.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from constrained_maxent.functionals import Entropy, Functional
from constrained_maxent.occupancy.weighting import Scale
from constrained_maxent.oracle.exact_gradient import SoftmaxPoint, SoftmaxProblem
from constrained_maxent.oracle.solution import Constraints, as_named, objective_unit
from constrained_maxent.oracle.tabular import TabularMDP
from constrained_maxent.oracle.theory.arithmetic import check_positive
from constrained_maxent.penalties import AugmentedLagrangian
from constrained_maxent.types import FloatArray, check_count, random_numbers

_LONGEST_SEARCH = 2000
_MOST_UPDATES = 30
_STIFFENING = 10.0


@dataclass(frozen=True, eq=False)
class StationaryOptimum:
    """A locally best stationary policy.

    Attributes:
        value: objective of the policy, exactly.
        constraints: its R by name.
        multipliers: μ by name, at which the policy is a stationary point of the Lagrangian.
        theta: θ, ``(n_states, n_actions)``; ``policy`` is its softmax.
        policy: π(a|s), ``(n_states, n_actions)``.
        slope: norm of the gradient of the augmented Lagrangian; small where the search has converged.
        is_feasible: all R ≤ ``tolerance``, or that share of a limit below 1.
    """

    value: float
    constraints: Mapping[str, float]
    multipliers: Mapping[str, float]
    theta: FloatArray
    policy: FloatArray
    slope: float
    is_feasible: bool


def best_stationary(
    mdp: TabularMDP,
    objective: Functional | None = None,
    constraints: Constraints = (),
    *,
    scale: Scale = "normalized",
    starts: int = 3,
    seed: int | np.random.Generator = 0,
    tolerance: float = 1e-5,
) -> tuple[StationaryOptimum, ...]:
    r"""Search stationary softmax policies by exact gradients, from several random starts.

    Each start descends by L-BFGS on the augmented Lagrangian of
    :class:`~constrained_maxent.penalties.AugmentedLagrangian`, whose multipliers follow
    :math:`\mu \leftarrow [\mu + 2\beta R]_+`, and whose β grows where the violation does not shrink.

    Args:
        mdp: the MDP, usually of finite horizon: at an infinite one ``solve`` gives the global optimum, which is
            stationary.
        objective, constraints, scale: as in :class:`SoftmaxProblem`.
        starts: how many; entries of θ are drawn from a standard normal distribution.
        seed: of the starts.
        tolerance: largest violation at which a policy counts as feasible, in units of each R, or relative to a limit
            that is smaller than 1.

    Returns:
        What each start led to, feasible ones first, best ones first. Equal values mean that starts agree.

    Raises:
        InvalidSetting: no start, or a tolerance not above 0; or as :class:`SoftmaxProblem`.

    >>> mdp = TabularMDP.from_arrays([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]], [1.0, 0.0], discount=0.5)
    >>> [round(optimum.value, 3) for optimum in best_stationary(mdp, starts=2)]
    [1.284, 1.284]
    """
    check_count("starts", starts)
    check_positive(tolerance=tolerance)
    tables = random_numbers(seed).normal(size=(starts, *mdp.shape))
    found = [_search(mdp, objective, as_named(constraints), scale, theta, tolerance) for theta in tables]
    return tuple(sorted(found, key=lambda optimum: (not optimum.is_feasible, -optimum.value)))


def _search(
    mdp: TabularMDP,
    objective: Functional | None,
    constraints: Mapping[str, Functional],
    scale: Scale,
    theta: FloatArray,
    tolerance: float,
) -> StationaryOptimum:
    objective = mdp.with_tables(Entropy() if objective is None else objective)
    unit = objective_unit(mdp, objective, scale)
    if unit != 1.0:
        objective = (1.0 / unit) * objective
    # In units of small limits: R, multipliers and the tolerance are of that size.
    units = {name: min(1.0, abs(functional.limit) or 1.0) for name, functional in constraints.items()}
    constraints = {
        name: functional if units[name] == 1.0 else _in_unit(mdp, functional, units[name])
        for name, functional in constraints.items()
    }
    penalties = {name: AugmentedLagrangian(1.0) for name in constraints}
    start = SoftmaxProblem(mdp, objective, constraints, penalty=penalties, scale=scale).evaluate(theta)
    # A first slope of about 1: steeper, and the softmax saturates before the objective has a say.
    penalties = {name: AugmentedLagrangian(1.0 / max(abs(r), 1.0)) for name, r in start.constraints.items()}
    errors = dict.fromkeys(constraints, np.inf)
    for _ in range(_MOST_UPDATES):
        problem = SoftmaxProblem(mdp, objective, constraints, penalty=penalties, scale=scale)
        point = _descend(problem, theta)
        theta = point.theta
        # R where it is violated or its multiplier is in use; 0 where it is slack and has none.
        remaining = {
            name: abs(max(r, -penalties[name].multiplier / (2.0 * penalties[name].beta)))
            for name, r in point.constraints.items()
        }
        multipliers = {name: penalty.slope(point.constraints[name]) for name, penalty in penalties.items()}
        if max(remaining.values(), default=0.0) <= tolerance:
            break
        penalties = {
            name: replace(
                penalty.updated(point.constraints[name], progress=0.0),
                beta=penalty.beta * (_STIFFENING if remaining[name] > errors[name] / _STIFFENING else 1.0),
            )
            for name, penalty in penalties.items()
        }
        errors = remaining
    return StationaryOptimum(
        value=unit * point.objective,
        constraints={name: units[name] * r for name, r in point.constraints.items()},
        multipliers={name: unit * mu / units[name] for name, mu in multipliers.items()},
        theta=point.theta,
        policy=point.policy,
        slope=unit * float(np.linalg.norm(point.gradient)),
        is_feasible=point.violation <= tolerance,
    )


def _in_unit(mdp: TabularMDP, functional: Functional, unit: float) -> Functional:
    """F(λ) ≤ limit, both divided by the unit."""
    bare = replace(mdp.with_tables(functional), limit=0.0)
    return ((1.0 / unit) * bare).with_limit(functional.limit / unit)


def _descend(problem: SoftmaxProblem, theta: FloatArray) -> SoftmaxPoint:
    def function(flat: FloatArray) -> tuple[float, FloatArray]:
        point = problem.evaluate(flat.reshape(problem.shape))
        return point.value, point.gradient.ravel()

    options = {"maxiter": _LONGEST_SEARCH, "maxfun": 2 * _LONGEST_SEARCH, "maxcor": 30, "ftol": 1e-13, "gtol": 1e-7}
    answer = minimize(function, theta.ravel(), jac=True, method="L-BFGS-B", options=options)
    return problem.evaluate(answer.x.reshape(problem.shape))
