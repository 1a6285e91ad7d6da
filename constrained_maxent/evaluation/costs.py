"""What was charged: mean, worst step, and how many episodes were charged at all."""

from __future__ import annotations

from dataclasses import dataclass

from constrained_maxent.evaluation.statistics import Estimate, bootstrap_mean, bootstrap_ratio
from constrained_maxent.types import Batch


@dataclass(frozen=True)
class CostStatistics:
    """One recorded cost over fresh episodes, unweighted.

    Attributes:
        mean: per step, with a 95 % interval over episodes.
        maximum: of a single step.
        violated: share of episodes with a cost above 0 in any step. Without any, the bootstrap gives no interval:
            of n clean episodes the 95 % upper bound is about 3/n.
    """

    mean: Estimate
    maximum: float
    violated: Estimate


def cost_statistics(batch: Batch, name: str, *, seed: int) -> CostStatistics:
    """Measure the cost of that name in whole episodes; ``seed`` is of the intervals."""
    cost = batch.costs[name]
    parts = batch.split(cost)
    return CostStatistics(
        mean=bootstrap_ratio([part.sum() for part in parts], batch.lengths, seed=seed),
        maximum=float(cost.max()),
        violated=bootstrap_mean([float((part > 0.0).any()) for part in parts], seed=seed),
    )
