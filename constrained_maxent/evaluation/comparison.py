r"""How methods compare over seeds and environments, by the figures of Agarwal et al.

Agarwal, Schwarzer, Castro, Courville and Bellemare, "Deep Reinforcement Learning at the Edge of the Statistical
Precipice", NeurIPS 2021. An environment is a *stratum*: of each method there is one array per environment, a number per
seed, and resampling draws the seeds of every environment by themselves, so that each keeps its weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from constrained_maxent.errors import InvalidData, InvalidSetting
from constrained_maxent.evaluation.statistics import Estimate, percentile_interval
from constrained_maxent.types import FloatArray, require_finite

LEAST_SEEDS = 3
"""In an environment: of fewer the bootstrap says nothing worth a number, and there is no interval."""
Aggregate = Literal["mean", "iqm"]
_CURVE_RESAMPLES = 1999


def interquartile_mean(values: ArrayLike, *, axis: int = -1) -> Any:
    r"""Mean of what is left when the lowest and the highest quarter of n values, ⌊n/4⌋ each, are cut off.

    SciPy's ``trim_mean`` at 0.25. Less moved by outliers than the mean, and less noisy than the median.

    Args:
        values: of all seeds of all environments together.
        axis: along which.
    """
    # Imported late, as in `statistics`.
    from scipy.stats import trim_mean

    return trim_mean(values, 0.25, axis=axis)


def aggregate(strata: Sequence[ArrayLike], how: Aggregate, *, seed: int = 0) -> Estimate:
    """Mean or interquartile mean over all seeds of all environments, with its 95 % stratified bootstrap interval.

    Args:
        strata: of each environment a number per seed, ``(n_seeds,)``.
        how: ``"mean"`` or ``"iqm"``.
        seed: of the resampling.

    Returns:
        Without an interval where an environment has fewer than :data:`LEAST_SEEDS` seeds.

    Raises:
        InvalidData: no environments, or one without seeds.
        InvalidSetting: another aggregate.
        NonFiniteValue: NaN or infinity among the numbers.
    """
    arrays = _strata("strata", strata)
    statistic = _aggregates(how)
    value = float(statistic(*arrays, axis=-1))
    if _too_few(arrays):
        return Estimate.exactly(value)
    low, high = percentile_interval(arrays, statistic, paired=False, seed=seed)
    return Estimate(value, float(low), float(high))


def aggregate_curve(
    values: ArrayLike, how: Aggregate, *, seed: int = 0
) -> tuple[FloatArray, FloatArray | None, FloatArray | None]:
    """:func:`aggregate` at each point of learning curves in one environment: itself and its bounds, ``(n,)`` each.

    Args:
        values: a curve per seed, ``(n_seeds, n)``. Whole curves are drawn again.
        how, seed: as there. There are 1,999 resamples.

    Returns:
        ``None`` for both bounds where there are fewer than :data:`LEAST_SEEDS` seeds.
    """
    curves = np.asarray(values, dtype=np.float64)
    if curves.ndim != 2 or not curves.size:
        raise InvalidData(f"curves must be of shape (n_seeds, n), not empty, got {curves.shape}.")
    require_finite("curves", curves)
    statistic = _aggregates(how)
    middle = statistic(curves, axis=0)
    if _too_few([curves]):
        return middle, None, None
    low, high = percentile_interval([curves], statistic, paired=False, seed=seed, axis=0, n_resamples=_CURVE_RESAMPLES)
    return middle, low, high


def difference_of_means(
    first: Sequence[ArrayLike], second: Sequence[ArrayLike], *, paired: bool, seed: int = 0
) -> Estimate:
    """Mean of the first method less that of the second over all seeds of all environments, with its 95 % interval.

    Args:
        first, second: of each environment, in one order, a number per seed, ``(n_seeds,)``.
        paired: whether the numbers of an environment are those of the same seeds in the same order. Then seeds are
            drawn again with both their numbers: what a seed does to both methods cancels.
        seed: of the resampling.

    Returns:
        Without an interval where an environment has fewer than :data:`LEAST_SEEDS` seeds of a method.

    Raises:
        InvalidData: other environments, none, or without seeds; pairs of different numbers of seeds.
        NonFiniteValue: NaN or infinity among the numbers.
    """
    x, y = _two_methods(first, second)
    pooled = _aggregates("mean")
    value = float(pooled(*x, axis=-1) - pooled(*y, axis=-1))
    if paired:
        if any(len(a) != len(b) for a, b in zip(x, y, strict=True)):
            raise InvalidData("Pairs need as many seeds of the one method as of the other in every environment.")
        differences = [a - b for a, b in zip(x, y, strict=True)]
        if _too_few(differences):
            return Estimate.exactly(value)
        low, high = percentile_interval(differences, pooled, paired=False, seed=seed)
        return Estimate(value, float(low), float(high))
    if _too_few([*x, *y]):
        return Estimate.exactly(value)

    def difference(*samples: FloatArray, axis: int) -> Any:
        return pooled(*samples[: len(x)], axis=axis) - pooled(*samples[len(x) :], axis=axis)

    low, high = percentile_interval([*x, *y], difference, paired=False, seed=seed)
    return Estimate(value, float(low), float(high))


def probability_of_improvement(first: Sequence[ArrayLike], second: Sequence[ArrayLike], *, seed: int = 0) -> Estimate:
    r"""How probable it is that a run of the first method has a higher number than one of the second, in an environment
    drawn at random; with its 95 % stratified bootstrap interval.

    .. math:: P(X > Y) = \frac1K \sum_{k=1}^K \frac1{n_k m_k} \sum_{i=1}^{n_k} \sum_{j=1}^{m_k}
        \bigl(1\{x_{ki} > y_{kj}\} + \tfrac12 1\{x_{ki} = y_{kj}\}\bigr)

    In each environment that is Mann and Whitney's U over :math:`n_k m_k`. It says nothing of how much higher.

    Args:
        first, second: of each of K environments, in one order, a number per seed, ``(n_k,)`` and ``(m_k,)``.
        seed: of the resampling, in which each method's seeds are drawn by themselves.

    Returns:
        Without an interval where an environment has fewer than :data:`LEAST_SEEDS` seeds of a method.

    Raises:
        InvalidData: other environments, none, or without seeds.
        NonFiniteValue: NaN or infinity among the numbers.
    """
    x, y = _two_methods(first, second)

    def statistic(*samples: FloatArray, axis: int) -> Any:
        pairs = zip(samples[: len(x)], samples[len(x) :], strict=True)
        shares = [(np.sign(a[..., :, None] - b[..., None, :]).mean(axis=(-2, -1)) + 1.0) / 2.0 for a, b in pairs]
        return np.mean(shares, axis=0)

    value = float(statistic(*x, *y, axis=-1))
    if _too_few([*x, *y]):
        return Estimate.exactly(value)
    numbers = sum(len(a) * len(b) for a, b in zip(x, y, strict=True))
    low, high = percentile_interval([*x, *y], statistic, paired=False, seed=seed, numbers=numbers)
    return Estimate(value, float(low), float(high))


def _aggregates(how: str) -> Any:
    """The aggregate of several arrays together, along an axis."""
    if how not in get_args(Aggregate):
        raise InvalidSetting(f"how={how!r} must be one of {', '.join(get_args(Aggregate))}.")
    of_all: Any = np.mean if how == "mean" else interquartile_mean
    return lambda *samples, axis: of_all(np.concatenate(samples, axis=axis), axis=axis)


def _strata(name: str, strata: Sequence[ArrayLike]) -> list[FloatArray]:
    arrays = [np.asarray(stratum, dtype=np.float64) for stratum in strata]
    if not arrays or any(array.ndim != 1 or not len(array) for array in arrays):
        raise InvalidData(
            f"{name} must be a vector of at least one number for each of at least one environment, got shapes "
            f"{[array.shape for array in arrays]}."
        )
    for array in arrays:
        require_finite(name, array)
    return arrays


def _two_methods(first: Sequence[ArrayLike], second: Sequence[ArrayLike]) -> tuple[list[FloatArray], list[FloatArray]]:
    x, y = _strata("first", first), _strata("second", second)
    if len(x) != len(y):
        raise InvalidData(f"Two methods compare in the same environments: the first has {len(x)}, the second {len(y)}.")
    return x, y


def _too_few(arrays: Sequence[FloatArray]) -> bool:
    return min(map(len, arrays)) < LEAST_SEEDS
