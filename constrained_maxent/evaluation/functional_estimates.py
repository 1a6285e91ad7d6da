"""Functionals of λ with intervals over episodes, where they are expectations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from constrained_maxent.evaluation.statistics import Estimate, bootstrap_mean
from constrained_maxent.functionals import Entropy, Functional, KLDivergence, LinearCost
from constrained_maxent.types import Batch, FloatArray, Measure, Points


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
    if isinstance(functional, LinearCost):
        parts = [part.sum() for part in batch.split(batch.weights * functional.derivative(measure, points))]
    elif isinstance(functional, (Entropy, KLDivergence)):
        parts = _by_episode(functional, batch, points)
    else:
        return Estimate.exactly(functional.value(measure) - functional.limit)
    return bootstrap_mean([part - functional.limit for part in parts], seed=seed)


def _by_episode(functional: Entropy | KLDivergence, batch: Batch, points: Points) -> list[float]:
    ends = np.cumsum(batch.lengths)
    return [
        functional.value(Measure(points=_cut(points, slice(end - length, end)), weights=weights))
        for end, length, weights in zip(ends.tolist(), batch.lengths.tolist(), batch.split(batch.weights), strict=True)
    ]


def _cut(points: Points, steps: slice) -> Points:
    def part(column: FloatArray | None) -> FloatArray | None:
        return None if column is None else column[steps]

    return replace(
        points,
        density=points.density[steps],
        state_density=points.state_density[steps],
        cells=None if points.cells is None else points.cells[steps],
        observations=part(points.observations),
        actions=part(points.actions),
        states=part(points.states),
        costs={name: cost[steps] for name, cost in points.costs.items()},
    )
