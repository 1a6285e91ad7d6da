"""Where the dynamics are known: exact values, the global optimum, and certificates of how close a policy comes."""

from typing import TYPE_CHECKING

from constrained_maxent.lazy import lazy
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
__getattr__, __dir__ = lazy(__name__, certificate=["certify"], solver=["solve"])
