"""Where the dynamics are known: exact values, the global optimum, and certificates of how close a policy comes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from constrained_maxent.oracle.descent import descend, proximal_point
from constrained_maxent.oracle.descent_result import DescentResult
from constrained_maxent.oracle.exact_gradient import SoftmaxPoint, SoftmaxProblem
from constrained_maxent.oracle.mixtures import FrankWolfeResult, MixturePolicy, frank_wolfe
from constrained_maxent.oracle.planning import plan
from constrained_maxent.oracle.solution import Certificate, Solution
from constrained_maxent.oracle.stationary import StationaryOptimum, best_stationary
from constrained_maxent.oracle.step_sizes import BacktrackingStep, ConstantStep, DiminishingStep, StepRule
from constrained_maxent.oracle.tabular import TabularMDP

if TYPE_CHECKING:
    from constrained_maxent.oracle.certificate import certify
    from constrained_maxent.oracle.solver import solve

__all__ = [
    "BacktrackingStep",
    "Certificate",
    "ConstantStep",
    "DescentResult",
    "DiminishingStep",
    "FrankWolfeResult",
    "MixturePolicy",
    "SoftmaxPoint",
    "SoftmaxProblem",
    "Solution",
    "StationaryOptimum",
    "StepRule",
    "TabularMDP",
    "best_stationary",
    "certify",
    "descend",
    "frank_wolfe",
    "plan",
    "proximal_point",
    "solve",
]

# What needs the convex solver comes when it is asked for: CVXPY takes a second to import, and most runs solve nothing.
_LATE = {"certify": "certificate", "solve": "solver"}


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(f"{__name__}.{_LATE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
