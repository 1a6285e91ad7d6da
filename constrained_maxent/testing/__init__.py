"""Contract checks for parts of your own: an estimator, a functional, an environment or a stack of wrappers.

Each raises ``AssertionError`` that says what is wrong, and returns nothing if all is well. Call them from your tests.
``examine`` lists what there is to know of an environment, as ``cmaxent check`` prints it.
"""

from constrained_maxent.testing.alone import Finding
from constrained_maxent.testing.constrained_env import check_constrained_env
from constrained_maxent.testing.estimator import check_estimator
from constrained_maxent.testing.examination import examine
from constrained_maxent.testing.functional import check_functional

__all__ = ["Finding", "check_constrained_env", "check_estimator", "check_functional", "examine"]
