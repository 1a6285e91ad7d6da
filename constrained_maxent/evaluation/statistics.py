"""Means with bootstrap intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from constrained_maxent.errors import InvalidData, InvalidSetting
from constrained_maxent.types import require_finite

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
        if self.low == self.high:
            return f"{self.mean:.4f}"
        return f"{self.mean:.4f} [{self.low:.4f}, {self.high:.4f}]"


def bootstrap_mean(samples: ArrayLike, *, seed: int = 0, confidence: float = 0.95) -> Estimate:
    """Mean of samples with its percentile bootstrap interval.

    Args:
        samples: ``(n,)``, at least one.
        seed: of the resampling.
        confidence: of the interval.

    Raises:
        InvalidData: no samples.
        NonFiniteValue: NaN or infinity among them.
        InvalidSetting: confidence outside (0, 1).
    """
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim != 1 or not len(values):
        raise InvalidData(f"samples must be a vector of at least one number, got shape {values.shape}.")
    require_finite("samples", values)
    if not 0.0 < confidence < 1.0:
        raise InvalidSetting(f"confidence={confidence!r} must lie in (0, 1).")
    mean = float(values.mean())
    if np.ptp(values) == 0.0:
        return Estimate(mean, mean, mean)
    # Imported late: it takes longer than everything else here, and most commands never come this far.
    from scipy.stats import bootstrap

    interval = bootstrap(
        (values,),
        np.mean,
        confidence_level=confidence,
        method="percentile",
        batch=max(1, _RESAMPLED_AT_ONCE // len(values)),
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Estimate(mean, float(interval.low), float(interval.high))
