"""Where the dynamics are known: exact values, the global optimum, and certificates of how close a policy comes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from constrained_maxent.oracle.tabular import TabularMDP

if TYPE_CHECKING:
    from constrained_maxent.oracle.certificate import Certificate, certify, slater_margin
    from constrained_maxent.oracle.descent import descend, proximal_point
    from constrained_maxent.oracle.descent_result import DescentResult, History
    from constrained_maxent.oracle.exact_gradient import SoftmaxPoint, SoftmaxProblem
    from constrained_maxent.oracle.guarantees import Guarantees, check_guarantees
    from constrained_maxent.oracle.solution import Solution
    from constrained_maxent.oracle.solver import solve
    from constrained_maxent.oracle.stationary import StationaryOptimum, best_stationary
    from constrained_maxent.oracle.step_sizes import BacktrackingStep, ConstantStep, DiminishingStep, StepRule

__all__ = [
    "BacktrackingStep",
    "Certificate",
    "ConstantStep",
    "DescentResult",
    "DiminishingStep",
    "Guarantees",
    "History",
    "SoftmaxPoint",
    "SoftmaxProblem",
    "Solution",
    "StationaryOptimum",
    "StepRule",
    "TabularMDP",
    "best_stationary",
    "certify",
    "check_guarantees",
    "descend",
    "proximal_point",
    "slater_margin",
    "solve",
]

# The rest comes when it is asked for: the convex solver takes a second to import, and most runs solve nothing.
_LATE = {
    "certificate": ("Certificate", "certify", "slater_margin"),
    "descent": ("descend", "proximal_point"),
    "descent_result": ("DescentResult", "History"),
    "exact_gradient": ("SoftmaxPoint", "SoftmaxProblem"),
    "guarantees": ("Guarantees", "check_guarantees"),
    "solution": ("Solution",),
    "solver": ("solve",),
    "stationary": ("StationaryOptimum", "best_stationary"),
    "step_sizes": ("BacktrackingStep", "ConstantStep", "DiminishingStep", "StepRule"),
}


def __getattr__(name: str) -> Any:
    for module, names in _LATE.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
