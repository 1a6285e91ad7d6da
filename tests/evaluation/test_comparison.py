"""Figures of Agarwal et al. by hand, by listing every resample, and by SciPy."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import bootstrap, mannwhitneyu, trim_mean

from constrained_maxent.errors import InvalidData, InvalidSetting, NonFiniteValue
from constrained_maxent.evaluation import (
    Estimate,
    aggregate,
    difference_of_means,
    interquartile_mean,
    probability_of_improvement,
)
from constrained_maxent.evaluation.comparison import aggregate_curve


def bounds(values):
    """2.5th and 97.5th percentile of a listed distribution: the first value by which so much is reached."""
    ordered = np.sort(values)
    return [ordered[int(np.ceil(share * len(ordered))) - 1] for share in (0.025, 0.975)]


def draws(values):
    """Every resample of a few values."""
    return [list(draw) for draw in product(values, repeat=len(values))]


class TestInterquartileMean:
    def test_by_hand(self):
        # Sorted -50 1 | 2 3 4 5 | 6 100: of 8 values 2 at either end are cut off, (2 + 3 + 4 + 5) / 4.
        assert interquartile_mean([100.0, 1.0, 3.0, 4.0, 5.0, 6.0, 2.0, -50.0]) == pytest.approx(3.5)
        # Of 5 values one at either end: (2 + 3 + 7) / 3. Of 3 none.
        assert interquartile_mean([9.0, 2.0, 3.0, 7.0, 1.0]) == pytest.approx(4.0)
        assert interquartile_mean([9.0, 2.0, 1.0]) == pytest.approx(4.0)

    def test_over_environments_they_are_flattened(self):
        # 0 1 2 | 10 20 30 40 50 → cut 2 and 2 of 8: (2 + 10 + 20 + 30) / 4.
        assert aggregate([[0.0, 1.0, 2.0], [10.0, 20.0, 30.0, 40.0, 50.0]], "iqm").mean == pytest.approx(15.5)


class TestIntervals:
    @pytest.mark.parametrize("how", ["mean", "iqm"])
    def test_as_scipys_bootstrap_of_one_environment(self, how):
        samples = np.random.default_rng(0).gamma(2.0, size=12)
        statistic = np.mean if how == "mean" else lambda x, axis: trim_mean(x, 0.25, axis=axis)
        theirs = bootstrap((samples,), statistic, n_resamples=50_000, method="percentile", rng=7).confidence_interval
        ours = aggregate([samples], how)
        # Monte Carlo: the standard error of a 2.5 % quantile of 9,999 draws is below 2 % of the interval.
        assert [ours.low, ours.high] == pytest.approx(list(theirs), abs=0.05 * (theirs.high - theirs.low))

    def test_every_resample_listed(self):
        # 27 resamples of each environment, 729 of both: each keeps three numbers of its own.
        first, second = [0.0, 1.0, 4.0], [10.0, 11.0, 17.0]
        means = [np.mean(a + b) for a, b in product(draws(first), draws(second))]
        iqms = [np.mean(sorted(a + b)[1:5]) for a, b in product(draws(first), draws(second))]
        for how, values, middle in (("mean", means, 43.0 / 6.0), ("iqm", iqms, (1.0 + 4.0 + 10.0 + 11.0) / 4.0)):
            found = aggregate([first, second], how)
            assert found.mean == pytest.approx(middle)
            assert [found.low, found.high] == pytest.approx(bounds(values), abs=0.17)  # a step of the distribution

    def test_strata_keep_their_weight(self):
        # Within each environment all seeds agree. Draws of all eight together would mix the environments.
        strata = [[0.0] * 4, [100.0] * 4]
        assert aggregate(strata, "mean") == Estimate(50.0, 50.0, 50.0)
        together = aggregate([np.concatenate(strata)], "mean")
        # The share of hundreds is Binomial(8, 1/2) / 8: 2.5 % at 1 of 8 (P ≤ 1 = 9/256), 97.5 % at 7 of 8.
        assert (together.low, together.high) == (12.5, 87.5)

    @pytest.mark.parametrize("strata", [[[1.0]], [[1.0, 2.0]], [[1.0, 2.0, 3.0, 4.0], [1.0, 2.0]]])
    def test_none_of_few_seeds(self, strata):
        for how in ("mean", "iqm"):
            found = aggregate(strata, how)
            assert found.low == found.high == found.mean

    def test_seeded(self):
        samples = np.random.default_rng(0).random(30)
        assert aggregate([samples], "iqm", seed=1) == aggregate([samples], "iqm", seed=1)
        assert aggregate([samples], "iqm", seed=1) != aggregate([samples], "iqm", seed=2)

    @pytest.mark.parametrize("strata", [[], [[]], [[[1.0]]], [[1.0], []], 3 * [1.0]])
    def test_no_numbers(self, strata):
        with pytest.raises(InvalidData, match="strata"):
            aggregate(strata, "mean")

    def test_bad_numbers_and_names(self):
        with pytest.raises(NonFiniteValue):
            aggregate([[1.0, np.nan]], "mean")
        with pytest.raises(InvalidSetting, match="median"):
            aggregate([[1.0]], "median")


class TestCurves:
    def test_every_point_is_that_of_its_seeds(self):
        curves = np.random.default_rng(0).random((10, 3)) + np.array([0.0, 5.0, 9.0])
        for how in ("mean", "iqm"):
            middle, low, high = aggregate_curve(curves, how)
            for i in range(3):
                point = aggregate([curves[:, i]], how)
                assert middle[i] == pytest.approx(point.mean)
                width = point.high - point.low
                assert [low[i], high[i]] == pytest.approx([point.low, point.high], abs=0.1 * width)

    def test_few_seeds(self):
        middle, low, high = aggregate_curve([[1.0, 2.0], [3.0, 6.0]], "mean")
        assert middle.tolist() == [2.0, 4.0]
        assert low is high is None

    @pytest.mark.parametrize("curves", [[1.0, 2.0], [[]]])
    def test_no_curves(self, curves):
        with pytest.raises(InvalidData, match="curves"):
            aggregate_curve(curves, "mean")


class TestDifferences:
    def test_pairs_take_out_what_seeds_have_in_common(self):
        # Seeds are worth 0, 100 and 200 to both methods; the first has 1, 2 and 3 more.
        second = np.array([0.0, 100.0, 200.0])
        first = second + np.array([1.0, 2.0, 3.0])
        paired = difference_of_means([first], [second], paired=True)
        assert paired.mean == pytest.approx(2.0)
        # 27 resamples of 1, 2, 3: one has the mean 1, three 4/3. So 2.5 % (0.675 of 27) lie at 1, 97.5 % at 3.
        assert [paired.low, paired.high] == pytest.approx([1.0, 3.0])
        alone = difference_of_means([first], [second], paired=False)
        assert alone.mean == pytest.approx(2.0)
        assert alone.low < -90.0 < 90.0 < alone.high

    def test_without_pairs_every_resample_listed(self):
        first, second = [0.0, 2.0, 7.0], [1.0, 1.5, 9.0]
        found = difference_of_means([first], [second], paired=False)
        values = [np.mean(a) - np.mean(b) for a, b in product(draws(first), draws(second))]
        assert found.mean == pytest.approx(3.0 - 11.5 / 3.0)
        assert [found.low, found.high] == pytest.approx(bounds(values), abs=0.2)

    def test_environments_are_pooled_by_seeds(self):
        # (1 + 2 + 3 + 10 + 20) / 5 - (0 + 0 + 0 + 1 + 1) / 5.
        assert difference_of_means(
            [[1.0, 2.0, 3.0], [10.0, 20.0]], [[0.0, 0.0, 0.0], [1.0, 1.0]], paired=True
        ) == Estimate.exactly(pytest.approx(6.8))

    def test_no_pairs(self):
        with pytest.raises(InvalidData, match="as many seeds"):
            difference_of_means([[1.0, 2.0]], [[1.0]], paired=True)
        with pytest.raises(InvalidData, match="same environments"):
            difference_of_means([[1.0], [2.0]], [[1.0]], paired=False)


class TestProbabilityOfImprovement:
    def test_by_hand(self):
        # 3 beats 1 and 2 and ties with 3; 1 ties with 1; 2 beats 1 and ties with 2: (2½ + ½ + 1½) / 9.
        assert probability_of_improvement([[3.0, 1.0, 2.0]], [[1.0, 2.0, 3.0]]).mean == pytest.approx(0.5)
        # 5 beats all three; 2 beats 1 and ties with 2: (3 + 1½) / 6.
        first = [[5.0, 2.0]]
        assert probability_of_improvement(first, [[1.0, 2.0, 3.0]]).mean == pytest.approx(0.75)

    def test_environments_count_alike(self):
        # Certain in the one, with one pair; never in the other, with nine.
        found = probability_of_improvement([[1.0], [0.0] * 3], [[0.0], [1.0] * 3])
        assert found == Estimate(0.5, 0.5, 0.5)

    def test_is_mann_and_whitneys_statistic(self):
        rng = np.random.default_rng(0)
        first, second = rng.integers(0, 6, 9).astype(float), rng.integers(0, 5, 7).astype(float)
        expected = mannwhitneyu(first, second).statistic / 63
        assert probability_of_improvement([first], [second]).mean == pytest.approx(expected)

    def test_interval_as_scipys_of_that_statistic(self):
        rng = np.random.default_rng(1)
        first, second = rng.normal(0.5, size=8), rng.normal(size=10)

        def share(x, y):
            return mannwhitneyu(x, y, method="asymptotic").statistic / (len(x) * len(y))

        theirs = bootstrap(
            (first, second), share, n_resamples=1000, method="percentile", vectorized=False, rng=3
        ).confidence_interval
        ours = probability_of_improvement([first], [second])
        # Of 1,000 draws, steps of 1/80: the standard error of their bounds is about 0.02.
        assert [ours.low, ours.high] == pytest.approx(list(theirs), abs=0.06)
        assert ours.low < ours.mean < ours.high

    def test_every_resample_listed(self):
        first, second = [1.0, 2.0, 3.0], [0.0, 2.0, 2.5]
        found = probability_of_improvement([first], [second])
        values = [
            np.mean([(x > y) + 0.5 * (x == y) for x in a for y in b]) for a, b in product(draws(first), draws(second))
        ]
        # 1 beats 0; 2 beats 0 and ties with 2; 3 beats all: (1 + 1½ + 3) / 9.
        assert found.mean == pytest.approx(5.5 / 9.0)
        assert [found.low, found.high] == pytest.approx(bounds(values), abs=0.06)

    def test_none_of_few_seeds(self):
        found = probability_of_improvement([[1.0, 2.0]], [[0.0, 1.5, 3.0]])
        assert found.low == found.high == found.mean
