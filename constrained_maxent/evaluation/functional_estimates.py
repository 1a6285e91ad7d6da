"""Functionals of λ with intervals over episodes, where they are expectations."""

from __future__ import annotations

import numpy as np

from constrained_maxent.evaluation.statistics import Estimate, bootstrap_mean
from constrained_maxent.functionals import Functional
from constrained_maxent.types import Batch, Measure, Points


def estimate_of(functional: Functional, measure: Measure, batch: Batch, points: Points, *, seed: int) -> Estimate:
    r"""F(λ̂) − limit, with a 95 % interval over episodes where F is an expectation under λ.

    Linear costs are one: :math:`E_\lambda[c]`. Entropy and KL divergence are :math:`E_\lambda[f(s,a)]` with an *f* that
    depends on λ̂; their intervals hold λ̂ as it is, and tell nothing of its own error. Others have no interval.

    Args:
        functional: F.
        measure: λ̂.
        batch: the whole episodes that it was estimated from.
        points: λ̂ at their steps.
        seed: of the resampling.
    """
    f = functional.integrand(measure, points)
    if f is None:
        return Estimate.exactly(functional.value(measure) - functional.limit)
    # Where the weight is 0, f may be infinite.
    weighted = batch.weights * np.where(batch.weights > 0.0, f, 0.0)
    return bootstrap_mean([part.sum() - functional.limit for part in batch.split(weighted)], seed=seed)
