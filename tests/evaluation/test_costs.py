"""Costs by hand."""

import numpy as np
import pytest

from constrained_maxent.evaluation import Estimate
from constrained_maxent.evaluation.costs import cost_statistics
from constrained_maxent.types import Batch


def charged(*episodes):
    lengths = [len(costs) for costs in episodes]
    n = sum(lengths)
    return Batch(observations=np.zeros(n), actions=np.zeros(n), lengths=lengths, costs={"c": np.concatenate(episodes)})


def test_by_hand():
    found = cost_statistics(charged([0.0, 0.5], [0.0] * 6, [-1.0, 0.0], [0.25, 2.0]), "c", seed=0)
    assert found.mean.mean == pytest.approx(1.75 / 12)
    assert found.maximum == 2.0
    assert found.violated.mean == 0.5
    assert (found.violated.low, found.violated.high) == (0.0, 1.0)


def test_nothing_charged():
    found = cost_statistics(charged([0.0, -0.5], [0.0]), "c", seed=0)
    assert (found.maximum, found.violated) == (0.0, Estimate(0.0, 0.0, 0.0))
