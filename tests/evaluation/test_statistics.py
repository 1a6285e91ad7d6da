"""Bootstrap intervals, against the binomial and the normal distribution; costs by hand."""

import tracemalloc

import numpy as np
import pytest
from scipy.stats import binom, norm

from constrained_maxent.errors import InvalidData, NonFiniteValue
from constrained_maxent.evaluation import Estimate, bootstrap_mean, bootstrap_ratio, over_seeds
from constrained_maxent.evaluation.statistics import cost_statistics
from constrained_maxent.types import Batch


def test_zeros_and_ones_are_binomial():
    # A resample of 40 has Binomial(40, 1/4) ones, so the ends of its interval are known quantiles.
    estimate = bootstrap_mean([1.0] * 10 + [0.0] * 30)
    assert estimate == Estimate(0.25, *binom.ppf([0.025, 0.975], 40, 0.25) / 40)


def test_many_samples_are_normal():
    samples = np.random.default_rng(0).gamma(2.0, size=2000)
    estimate = bootstrap_mean(samples)
    half = norm.ppf(0.975) * samples.std() / 2000**0.5
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
    assert str(Estimate(0.0, 0.0, 0.0)) == "0.0000"
    assert str(Estimate(4.5e-12, 0.0, 6e-12)) == "4.5e-12 [0, 6e-12]"


@pytest.mark.parametrize("samples", [[], [[1.0, 2.0]], 3.0])
def test_no_vector_of_samples(samples):
    with pytest.raises(InvalidData, match="samples"):
        bootstrap_mean(samples)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_not_finite(bad):
    with pytest.raises(NonFiniteValue):
        bootstrap_mean([0.0, bad])


class TestRatio:
    def test_by_hand(self):
        # Two pairs drawn again: 1/1 in a quarter of the draws, 2/4 in another, 3/5 in half of them.
        estimate = bootstrap_ratio([1.0, 2.0], [1.0, 4.0])
        assert estimate.mean == 3.0 / 5.0
        assert (estimate.low, estimate.high) == (0.5, 1.0)

    def test_sizes_that_are_equal_make_a_mean(self):
        totals = np.random.default_rng(0).random(30)
        assert bootstrap_ratio(totals, np.full(30, 4.0), seed=3) == bootstrap_mean(totals / 4.0, seed=3)

    def test_many_are_normal(self):
        rng = np.random.default_rng(0)
        sizes = rng.integers(1, 20, 2000)
        totals = rng.poisson(0.3 * sizes)
        estimate = bootstrap_ratio(totals, sizes)
        # The delta method: residuals of the ratio over the mean size.
        residuals = (totals - totals.sum() / sizes.sum() * sizes) / sizes.mean()
        half = norm.ppf(0.975) * residuals.std() / 2000**0.5
        assert estimate.mean == totals.sum() / sizes.sum()
        assert [estimate.low, estimate.high] == pytest.approx(
            [estimate.mean - half, estimate.mean + half], abs=half / 20
        )

    def test_no_interval_without_spread(self):
        assert bootstrap_ratio([1.0, 2.0], [2.0, 4.0]) == Estimate(0.5, 0.5, 0.5)

    @pytest.mark.parametrize(
        ("totals", "sizes"), [([], []), ([1.0], [0.0]), ([1.0, 2.0], [1.0]), ([[1.0]], [[1.0]]), ([1.0], [-1.0])]
    )
    def test_no_pairs(self, totals, sizes):
        with pytest.raises(InvalidData):
            bootstrap_ratio(totals, sizes)

    @pytest.mark.parametrize(("totals", "sizes"), [([1.0, np.nan], [1.0, 2.0]), ([1.0, 2.0], [1.0, np.inf])])
    def test_not_finite(self, totals, sizes):
        with pytest.raises(NonFiniteValue):
            bootstrap_ratio(totals, sizes)


class TestOverSeeds:
    def test_what_all_runs_measured(self):
        runs = [{"a": Estimate.exactly(x), "b": Estimate(x, 0.0, 9.0)} for x in (1.0, 2.0, 3.0)]
        del runs[1]["b"]
        assert over_seeds(runs, seed=4) == {"a": bootstrap_mean([1.0, 2.0, 3.0], seed=4)}

    def test_no_runs(self):
        with pytest.raises(InvalidData, match="run"):
            over_seeds([])


def charged(*episodes):
    lengths = [len(costs) for costs in episodes]
    n = sum(lengths)
    return Batch(observations=np.zeros(n), actions=np.zeros(n), lengths=lengths, costs={"c": np.concatenate(episodes)})


def test_costs_by_hand():
    found = cost_statistics(charged([0.0, 0.5], [0.0] * 6, [-1.0, 0.0], [0.25, 2.0]), "c", seed=0)
    assert found.mean.mean == pytest.approx(1.75 / 12)
    assert found.maximum == 2.0
    assert found.violated.mean == 0.5
    assert (found.violated.low, found.violated.high) == (0.0, 1.0)


def test_nothing_charged():
    found = cost_statistics(charged([0.0, -0.5], [0.0]), "c", seed=0)
    assert (found.maximum, found.violated) == (0.0, Estimate(0.0, 0.0, 0.0))
