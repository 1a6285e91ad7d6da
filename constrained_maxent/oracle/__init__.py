"""Where the dynamics are known: exact values, the global optimum, and certificates of how close a policy comes."""

from constrained_maxent.oracle.certificate import Certificate, certify, slater_margin
from constrained_maxent.oracle.solution import Solution
from constrained_maxent.oracle.solver import solve
from constrained_maxent.oracle.tabular import TabularMDP

__all__ = ["Certificate", "Solution", "TabularMDP", "certify", "slater_margin", "solve"]
