"""Means over episodes and over seeds, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from constrained_maxent.errors import InvalidData
from constrained_maxent.functionals import Functional
from constrained_maxent.types import Batch, FloatArray, Measure, Points, check_seed, require_finite

_RESAMPLED_AT_ONCE = 1_000_000
"""Numbers that resampling holds in memory (8 MB); all 9,999 resamples of many samples would not fit."""


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval.

    Attributes:
        mean: of the samples.
        low, high: bounds of its interval; equal to the mean where there is none.
    """

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        is_small = 0.0 < max(abs(self.mean), abs(self.low), abs(self.high)) < 0.01
        mean, low, high = (f"{figure:.4{'g' if is_small else 'f'}}" for figure in (self.mean, self.low, self.high))
        return mean if self.low == self.high else f"{mean} [{low}, {high}]"

    @classmethod
    def exactly(cls, value: float) -> Self:
        """A figure without an interval."""
        return cls(value, value, value)


def as_given(value: float) -> str:
    """A number as it was given: none of its digits is rounded away."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def bootstrap_mean(samples: ArrayLike, *, seed: int = 0) -> Estimate:
    """Mean of samples ``(n,)``, at least one, with its 95 % percentile bootstrap interval.

    Raises:
        InvalidData: no samples.
        NonFiniteValue: NaN or infinity among them.
    """
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim != 1 or not len(values):
        raise InvalidData(f"samples must be a vector of at least one number, got shape {values.shape}.")
    require_finite("samples", values)
    mean = float(values.mean())
    return Estimate.exactly(mean) if np.ptp(values) == 0.0 else _interval((values,), np.mean, mean, seed)


def bootstrap_ratio(totals: ArrayLike, sizes: ArrayLike, *, seed: int = 0) -> Estimate:
    """Σ totals / Σ sizes, ``(n,)`` each, with its 95 % percentile bootstrap interval, the pairs resampled together.

    A mean over all steps of episodes that differ in length: the episodes are independent, their steps are not.

    Raises:
        InvalidData: no totals, as many sizes as totals are not given, or sizes that are not positive.
        NonFiniteValue: NaN or infinity among them.
    """
    numerators, denominators = (np.asarray(values, dtype=np.float64) for values in (totals, sizes))
    require_finite("sizes", denominators)
    if numerators.ndim != 1 or denominators.shape != numerators.shape or (denominators <= 0.0).any():
        raise InvalidData(
            f"totals and sizes must be vectors of one length, sizes positive, got shapes {numerators.shape} and "
            f"{denominators.shape}."
        )
    ratios = numerators / denominators
    if not len(ratios) or np.ptp(denominators) == 0.0 or np.ptp(ratios) == 0.0:
        return bootstrap_mean(ratios, seed=seed)
    require_finite("totals", numerators)
    mean = float(numerators.sum() / denominators.sum())
    return _interval((numerators, denominators), _ratio, mean, seed)


def estimate_of(functional: Functional, measure: Measure, batch: Batch, points: Points, *, seed: int) -> Estimate:
    r"""F(λ̂) − limit, with a 95 % interval over episodes where F is an expectation under λ, :math:`E_\lambda[f(s,a)]`.

    Where *f* depends on λ̂, as that of entropy and KL divergence, the interval holds λ̂ as it is, and tells nothing of
    its own error.

    Args:
        functional, measure: F and λ̂.
        batch, points: the episodes, or fragments, that λ̂ was estimated from, and λ̂ at their steps.
        seed: of the resampling.
    """
    f = functional.integrand(measure, points)
    if f is None:
        return Estimate.exactly(functional.excess(functional.value(measure)))
    # Where the weight is 0, f may be infinite.
    weighted = batch.weights * np.where(batch.weights > 0.0, f, 0.0)
    share = len(batch) / batch.n_episodes  # 1 where they are whole
    return bootstrap_mean([functional.excess(share * part.sum()) for part in batch.split(weighted)], seed=seed)


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

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """The statistics that ``dataclasses.asdict`` described."""
        return cls(Estimate(**content["mean"]), content["maximum"], Estimate(**content["violated"]))


def cost_statistics(batch: Batch, name: str, *, seed: int) -> CostStatistics:
    """Measure the cost of that name in whole episodes; ``seed`` is of the intervals."""
    cost = batch.costs[name]
    parts = batch.split(cost)
    return CostStatistics(
        mean=bootstrap_ratio([part.sum() for part in parts], batch.lengths, seed=seed),
        maximum=float(cost.max()),
        violated=bootstrap_mean([float((part > 0.0).any()) for part in parts], seed=seed),
    )


def over_seeds(runs: Sequence[Mapping[str, Estimate]], *, seed: int = 0) -> dict[str, Estimate]:
    """Mean over runs of what all of them measured, with its 95 % bootstrap interval over runs.

    Args:
        runs: figures by name, such as those of :meth:`~constrained_maxent.evaluation.RolloutEvaluation.figures`.
        seed: of the resampling.

    Raises:
        InvalidData: no runs.
    """
    if not runs:
        raise InvalidData("A mean over seeds takes at least one run.")
    shared = [name for name in runs[0] if all(name in run for run in runs)]
    return {name: bootstrap_mean([run[name].mean for run in runs], seed=seed) for name in shared}


def _ratio(totals: FloatArray, sizes: FloatArray, axis: int) -> Any:
    return totals.sum(axis=axis) / sizes.sum(axis=axis)


def percentile_interval(
    samples: Sequence[FloatArray],
    statistic: Callable[..., Any],
    *,
    paired: bool,
    seed: int,
    axis: int = -1,
    n_resamples: int = 9999,
    numbers: int | None = None,
) -> tuple[Any, Any]:
    """Bounds of a statistic's 95 % percentile bootstrap interval, by SciPy.

    Args:
        samples: arrays whose entries along ``axis`` are drawn again with replacement, each array by itself.
        statistic: of such arrays, and of an ``axis``.
        paired: whether the arrays are of one length, and their entries drawn together.
        seed: of the resampling.
        axis: of the samples.
        n_resamples: how often they are drawn.
        numbers: that the statistic of one resample has to hold; those of the samples, if not given.
    """
    # Imported late: it takes longer than everything else here, and most commands never come this far.
    from scipy.stats import bootstrap

    interval = bootstrap(
        tuple(samples),
        statistic,
        paired=paired,
        axis=axis,
        vectorized=True,
        n_resamples=n_resamples,
        confidence_level=0.95,
        method="percentile",
        batch=max(1, _RESAMPLED_AT_ONCE // (numbers or sum(sample.size for sample in samples))),
        rng=np.random.default_rng(check_seed("seed", seed)),
    ).confidence_interval
    return interval.low, interval.high


def _interval(columns: tuple[FloatArray, ...], statistic: Callable[..., Any], mean: float, seed: int) -> Estimate:
    low, high = percentile_interval(columns, statistic, paired=True, seed=seed)
    return Estimate(mean, float(low), float(high))
