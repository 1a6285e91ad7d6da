"""Where the dynamics are known: exact values, the global optimum, and certificates of how close a policy comes."""

from constrained_maxent.oracle.certificate import Certificate, certify, slater_margin
from constrained_maxent.oracle.descent import descend, proximal_point
from constrained_maxent.oracle.descent_result import DescentResult, History
from constrained_maxent.oracle.exact_gradient import SoftmaxPoint, SoftmaxProblem
from constrained_maxent.oracle.guarantees import Guarantees, check_guarantees
from constrained_maxent.oracle.solution import Solution
from constrained_maxent.oracle.solver import solve
from constrained_maxent.oracle.stationary import StationaryOptimum, best_stationary
from constrained_maxent.oracle.step_sizes import BacktrackingStep, ConstantStep, DiminishingStep, StepRule
from constrained_maxent.oracle.tabular import TabularMDP

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
