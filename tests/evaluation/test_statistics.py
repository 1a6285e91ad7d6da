"""Bootstrap intervals, against the binomial and the normal distribution."""

import tracemalloc

import numpy as np
import pytest
from scipy.stats import binom, norm

from constrained_maxent.errors import InvalidData, InvalidSetting, NonFiniteValue
from constrained_maxent.evaluation import Estimate, bootstrap_mean


def test_zeros_and_ones_are_binomial():
    # A resample of 40 has Binomial(40, 1/4) ones, so the ends of its interval are known quantiles.
    estimate = bootstrap_mean([1.0] * 10 + [0.0] * 30, confidence=0.9)
    assert estimate == Estimate(0.25, *binom.ppf([0.05, 0.95], 40, 0.25) / 40)


@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_many_samples_are_normal(confidence):
    samples = np.random.default_rng(0).gamma(2.0, size=2000)
    estimate = bootstrap_mean(samples, confidence=confidence)
    half = norm.ppf(0.5 + confidence / 2) * samples.std() / 2000**0.5
    assert estimate.mean == samples.mean()
    assert [estimate.low, estimate.high] == pytest.approx([samples.mean() - half, samples.mean() + half], abs=half / 20)


def test_seeded():
    samples = [0.0, 1.0, 5.0, 7.5, 7.7]
    assert bootstrap_mean(samples, seed=1) == bootstrap_mean(samples, seed=1)
    assert bootstrap_mean(range(1000), seed=1) != bootstrap_mean(range(1000), seed=2)


@pytest.mark.parametrize("samples", [[3.0], [3.0, 3.0, 3.0]])
def test_no_interval_without_spread(samples):
    assert bootstrap_mean(samples) == Estimate(3.0, 3.0, 3.0)


def test_resampling_does_not_fill_the_memory():
    bootstrap_mean([0.0, 1.0])  # imports
    tracemalloc.start()
    bootstrap_mean(np.arange(3000.0))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 60e6  # all resamples at once: 240 MB, and as much again for the choice


def test_as_text():
    assert str(Estimate(1.0, 1.0, 1.0)) == "1.0000"
    assert str(Estimate(1.0, 0.5, 1.25)) == "1.0000 [0.5000, 1.2500]"


@pytest.mark.parametrize("samples", [[], [[1.0, 2.0]], 3.0])
def test_no_vector_of_samples(samples):
    with pytest.raises(InvalidData, match="vector of at least one number"):
        bootstrap_mean(samples)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_not_finite(bad):
    with pytest.raises(NonFiniteValue):
        bootstrap_mean([0.0, bad])


@pytest.mark.parametrize("confidence", [0.0, 1.0, -0.5, 95, np.nan])
def test_no_confidence(confidence):
    with pytest.raises(InvalidSetting, match="confidence"):
        bootstrap_mean([0.0, 1.0], confidence=confidence)
