"""Means, deviations, transitions and the best of a search, with numbers worked out by hand."""

import math

import pytest

from constrained_maxent.reproduction.grid.tables import (
    SHARES,
    best_of,
    last_policies,
    search_table,
    summarize,
    transitions_until_close,
)


def test_summary_by_hand(table, row):
    rows = [
        row(seed=seed, iteration=iteration, entropy=10.0 * seed + iteration, value=value)
        for seed, values in ((0, [9, 9, 9, 9, 1, 3]), (1, [9, 9, 9, 9, -1, -1]))
        for iteration, value in enumerate(values)
    ]
    (line,) = summarize(table(rows)).rows(named=True)
    assert line["seeds"] == 2
    assert line["entropy"] == 10.0  # of 5 and 15
    assert line["entropy_std"] == pytest.approx(50.0**0.5)
    assert (line["least_entropy"], line["largest_value"]) == (5.0, 3.0)
    assert line["value"] == 1.0  # of 3 and -1
    assert line["violation"] == 1.5  # of 3 and 0
    # The last fifth are iterations 4 and 5: deviations 1 and 0.
    assert line["late_std"] == 0.5
    assert line["late_entropy_std"] == 0.5


def test_settings_keep_their_order(table, row):
    rows = [row(beta=beta, seed=seed) for beta in (0.5, 0.1, 1.0) for seed in range(2)]
    assert summarize(table(rows))["beta"].to_list() == [0.5, 0.1, 1.0]


def test_a_run_that_stopped_counts_with_its_last_value(table, row):
    rows = table([row(seed=0, iteration=i, value=i) for i in range(3)] + [row(seed=1, iteration=0, value=8.0)])
    assert last_policies(rows)["value"].to_list() == [2.0, 8.0]
    assert summarize(rows)["value"].to_list() == [5.0]


def test_one_late_policy_has_no_deviation(table, row):
    (line,) = summarize(table([row(iteration=0, value=3.0), row(iteration=60, value=1.0)])).rows(named=True)
    assert math.isnan(line["late_std"])
    assert math.isnan(line["late_entropy_std"])
    assert line["value_std"] == 0.0  # of one seed


@pytest.mark.parametrize(
    ("entropy", "value", "expected"),
    [
        # Optimum 10, violations in shares of 100: 5 % are 9.5 nats and 5, 1 % are 9.9 and 1.
        ([[9.0, 9.6, 9.9, 10.0]], [[0.0, 4.0, 2.0, 1.0]], [200.0, 600.0]),
        ([[9.6, 9.0, 9.6, 9.6]], [[0.0, 0.0, 0.0, 0.0]], [400.0, math.inf]),  # it left again
        ([[9.0, 9.9, 9.9], [9.0, 9.0, 9.9]], [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], [400.0, 400.0]),  # all seeds
        ([[9.9, 9.9, 9.9]], [[6.0, 6.0, 6.0]], [math.inf, math.inf]),
        ([[9.9, 9.9, 9.9], [9.9, 9.9]], [[0.0, 0.0, 0.0], [0.0, 0.0]], [math.inf, math.inf]),  # one diverged
        ([[12.0, 12.0]], [[-3.0, 0.0]], [0.0, 0.0]),
    ],
)
def test_transitions_until_close(table, row, entropy, value, expected):
    rows = [
        row(seed=seed, iteration=iteration, entropy=entropy[seed][iteration], value=value[seed][iteration])
        for seed in range(len(entropy))
        for iteration in range(len(entropy[seed]))
    ]
    found = transitions_until_close(table(rows), optimum=10.0, violation=100.0)
    assert found["share"].to_list() == list(SHARES) == [0.05, 0.01]
    assert found["transitions"].to_list() == expected


def test_transitions_are_means_over_seeds_above_each_limit(table, row):
    rows = [row(limit=5.0, value=6.0, seed=seed, transitions=100 + 50 * seed, entropy=10.0) for seed in range(2)]
    rows += [row(method="free", value=6.0, entropy=10.0)]
    found = transitions_until_close(table(rows), optimum=10.0, violation=100.0)
    assert found["method"].to_list() == ["pgp", "pgp", "free", "free"]
    assert found["transitions"].to_list() == [125.0, 125.0, math.inf, math.inf]


class TestSearch:
    @pytest.fixture
    def search(self, table, row):
        return lambda *settings: search_table(summarize(table([row(method="any", **setting) for setting in settings])))

    def test_most_entropy_at_a_violation_of_at_most_0_05(self, search):
        """34.36 nats at 0.064 do not count, as they exceed 0.05."""
        (line,) = search(
            {"dual_rate": 1.0, "entropy": 34.36, "value": 0.064},
            {"dual_rate": 0.5, "entropy": 34.32, "value": 0.021},
            {"dual_rate": 0.1, "entropy": 34.22, "value": -0.007},
            {"dual_rate": 0.01, "entropy": 32.8, "value": 0.05},  # below 95 % of 34.5415
            {"dual_rate": 0.001, "entropy": 38.0, "value": 6.3},  # above 5 % of 123.87
        ).rows(named=True)
        assert (line["settings"], line["close"], line["keeping"]) == (5, 3, 3)
        assert (line["entropy"], line["dual_rate"]) == (34.32, 0.5)

    def test_least_violation_where_none_keeps_the_limit(self, search):
        (line,) = search({"dual_rate": 1.0, "value": 9.0}, {"dual_rate": 0.5, "value": 3.0, "entropy": 20.0}).rows(
            named=True
        )
        assert (line["keeping"], line["dual_rate"]) == (0, 0.5)

    def test_batch_sizes_and_momenta_are_apart(self, search):
        several = search(
            {"momentum": 0.1, "value": 0.0, "entropy": 31.0},
            {"momentum": 1.0, "value": 0.0, "entropy": 30.0},
            {"momentum": 0.03, "value": 1.0, "entropy": 40.0},
            {"episodes_per_batch": 24, "value": 0.0},
        )
        assert several.select("episodes_per_batch", "momentum").rows() == [(8, 1.0), (8, 0.1), (8, 0.03), (24, 1.0)]
        assert best_of(several)["momentum"] == 0.1
