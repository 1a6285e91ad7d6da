"""Means with bootstrap intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import bootstrap

from constrained_maxent.errors import InvalidData
from constrained_maxent.types import require_finite


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval.

    Attributes:
        mean: of the samples.
        low, high: bounds of the 95 % bootstrap interval of the mean; equal to it where it cannot be had.
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
        InvalidData: no samples. NonFiniteValue: NaN or infinity among them.
    """
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim != 1 or not len(values):
        raise InvalidData(f"samples must be a vector of at least one number, got shape {values.shape}.")
    require_finite("samples", values)
    mean = float(values.mean())
    if np.ptp(values) == 0.0:
        return Estimate(mean, mean, mean)
    interval = bootstrap(
        (values,), np.mean, confidence_level=confidence, method="percentile", rng=np.random.default_rng(seed)
    ).confidence_interval
    return Estimate(mean, float(interval.low), float(interval.high))
