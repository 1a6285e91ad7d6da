"""When a method is near the optimum, by hand."""

import numpy as np
import pytest

from constrained_maxent.reproduction.grid.analysis import Course
from constrained_maxent.reproduction.grid.reach import SHARES, reaches
from constrained_maxent.reproduction.grid.run import Row

NAN = float("nan")


def course(entropy, value):
    first = Row("methods", "pgp", 8, 0.01, 0.0, 0.0, 1.0, 0.0, 0, 0, 0, 0.0, 0.0)
    iterations = np.arange(len(entropy[0]))
    return Course(first, iterations, 200.0 * iterations, np.array(entropy), np.array(value))


@pytest.mark.parametrize(
    ("entropy", "value", "expected"),
    [
        # Optimum 10, violations in shares of 100: 5 % are 9.5 nats and 5, 1 % are 9.9 and 1.
        ([[9.0, 9.6, 9.9, 10.0]], [[0.0, 4.0, 2.0, 1.0]], [200.0, 600.0]),
        ([[9.6, 9.0, 9.6, 9.6]], [[0.0, 0.0, 0.0, 0.0]], [400.0, np.inf]),  # it left again
        ([[9.0, 9.9, 9.9], [9.0, 9.0, 9.9]], [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], [400.0, 400.0]),  # all seeds
        ([[9.9, 9.9, 9.9]], [[6.0, 6.0, 6.0]], [np.inf, np.inf]),
        ([[9.9, 9.9, NAN]], [[0.0, 0.0, NAN]], [np.inf, np.inf]),  # it diverged
        ([[12.0, 12.0]], [[-3.0, 0.0]], [0.0, 0.0]),
    ],
)
def test_reach(entropy, value, expected):
    found = reaches([course(entropy, value)], optimum=10.0, scale=100.0)
    assert [reach.share for reach in found] == list(SHARES) == [0.05, 0.01]
    assert [reach.transitions for reach in found] == expected
