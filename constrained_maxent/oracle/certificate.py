"""``certify``: how good a given policy is, exactly, and how good any policy could be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals import Entropy, Functional
from constrained_maxent.occupancy.weighting import Scale
from constrained_maxent.oracle.program import OccupancyProgram
from constrained_maxent.oracle.solution import Solution
from constrained_maxent.oracle.solver import Constraints, as_named, run_solver, solve, without_smoothing
from constrained_maxent.oracle.tabular import TabularMDP

STRONG_DUALITY_TOLERANCE = 1e-4
"""Relative duality gap below which strong duality counts as observed."""


@dataclass(frozen=True)
class Certificate:
    """What is certain about a policy.

    Attributes:
        value: objective of the policy, exactly.
        constraints: its R by name.
        violation: largest [R]₊, 0 if all hold.
        optimum: objective of the global optimum.
        gap: optimum minus value; negative for a policy that gains by violating.
        epsilon: the smallest ε for which the policy is (ε, ε)-optimal in the paper's sense: |gap| ≤ ε and [R]₊ ≤ ε.
        dual_bound: no feasible policy has a larger objective; holds whatever the solver did.
        multipliers: ν* by name.
        strong_duality: whether optimum and dual bound agree within 1e-4 relative.
        slater_margin: the largest m for which some policy has all R ≤ -m; Slater's condition holds if it is above 0, is
            not needed if there are no constraints (infinite), and was not observed otherwise.
        is_time_dependent: the optimum is over time-dependent policies, an upper bound for stationary ones.
    """

    value: float
    constraints: Mapping[str, float]
    violation: float
    optimum: float
    gap: float
    epsilon: float
    dual_bound: float
    multipliers: Mapping[str, float]
    strong_duality: bool
    slater_margin: float
    is_time_dependent: bool

    def to_json(self) -> dict[str, Any]:
        """Plain data; an infinite margin becomes ``None``."""
        content = {**self.__dict__, "constraints": dict(self.constraints), "multipliers": dict(self.multipliers)}
        if np.isinf(self.slater_margin):
            content["slater_margin"] = None
        return content


def certify(
    mdp: TabularMDP,
    policy: ArrayLike,
    best: Solution | None = None,
    *,
    objective: Functional | None = None,
    constraints: Constraints = (),
    scale: Scale = "normalised",
) -> Certificate:
    """Hold a policy against the global optimum.

    Args:
        mdp: the MDP.
        policy: π(a|s), ``(n_states, n_actions)``; at finite horizon also time-dependent.
        best: the optimum of the very same problem, if it is solved already; else it is solved here.
        objective: ``Entropy()`` if not given.
        constraints: F(λ) ≤ ``limit``, by name or in order.
        scale: of λ.

    Raises:
        InfeasibleProblem: no policy satisfies the constraints.
        InvalidMDP: the policy is none.
        InvalidSetting: ``best`` has other constraints.
    """
    objective = Entropy() if objective is None else objective
    named = as_named(constraints)
    if best is None:
        best = solve(mdp, objective, named, scale=scale)
    elif best.constraints.keys() != named.keys():
        raise InvalidSetting(
            f"best was solved with the constraints {', '.join(best.constraints) or 'none'}, "
            f"not with {', '.join(named) or 'none'}."
        )
    occupancy = mdp.occupancy(policy, scale=scale)
    value = without_smoothing(objective).value(occupancy)
    residuals = {name: without_smoothing(f).value(occupancy) - f.limit for name, f in named.items()}
    violation = max((*residuals.values(), 0.0))
    gap = best.value - value
    return Certificate(
        value=value,
        constraints=residuals,
        violation=violation,
        optimum=best.value,
        gap=gap,
        epsilon=max(abs(gap), violation),
        dual_bound=best.dual_bound,
        multipliers=best.multipliers,
        strong_duality=bool(abs(best.gap) <= STRONG_DUALITY_TOLERANCE * max(1.0, abs(best.value))),
        slater_margin=slater_margin(mdp, named, scale=scale),
        is_time_dependent=best.is_time_dependent,
    )


def slater_margin(mdp: TabularMDP, constraints: Constraints, *, scale: Scale = "normalised") -> float:
    """The largest m for which some policy has all R ≤ -m; above 0, Slater's condition holds. Infinite without constraints.

    Args:
        mdp: the MDP.
        constraints: F(λ) ≤ ``limit``, by name or in order.
        scale: of λ.
    """
    named = as_named(constraints)
    if not named:
        return float("inf")
    program = OccupancyProgram.of(mdp, scale)
    margin = cp.Variable()
    rules = list(program.flow)
    for functional in named.values():
        value, extra = program.express(functional)
        rules += [value + margin <= functional.limit, *extra]
    run_solver(cp.Problem(cp.Maximize(margin), rules))
    return float(margin.value) if margin.value is not None else float("-inf")
