"""Runs Clarabel on a convex program, several times if it stalls."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import cvxpy as cp

# Tighter than Clarabel's own 1e-8: policies are quotients of small masses.
_TIGHT = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}

ATTEMPTS: tuple[dict[str, float | bool], ...] = (
    _TIGHT,
    # Where exponential and second-order cones meet, full steps sometimes stall close to the optimum.
    {**_TIGHT, "max_step_fraction": 0.95},
    {**_TIGHT, "linesearch_backtrack_step": 0.5},
    {},
    {"static_regularization_constant": 1e-7},
    {"max_step_fraction": 0.9},
    {"equilibrate_enable": False},
)
"""Options to try, one after the other."""


def run_solver(problem: Any) -> str:
    """Solve by Clarabel: ``optimal``, ``inaccurate``, ``infeasible`` or ``failed``."""
    for options in ATTEMPTS:
        status = attempt(problem, options)
        if status != "failed":
            return status
    return "failed"


def attempt(problem: Any, options: Mapping[str, float | bool]) -> str:
    """One solve with the given options of Clarabel, its status as :func:`run_solver` gives it."""
    known = {
        cp.OPTIMAL: "optimal",
        cp.OPTIMAL_INACCURATE: "inaccurate",
        cp.INFEASIBLE: "infeasible",
        cp.INFEASIBLE_INACCURATE: "infeasible",
    }
    with warnings.catch_warnings():
        # Inaccurate solves are told by the status; the dual bound says how inaccurate.
        warnings.simplefilter("ignore", UserWarning)
        try:
            # With a warm start CVXPY would keep the options of the attempts before.
            problem.solve(solver=cp.CLARABEL, warm_start=False, **options)
        except cp.error.SolverError:
            return "failed"
    return known.get(problem.status, "failed")
