"""Means and deviations, with numbers worked out by hand, and the optima."""

import math

import pytest

from constrained_maxent.reproduction.grid.analysis import courses, optimum


def test_summary_by_hand(row):
    rows = [
        row(seed=seed, iteration=iteration, entropy=10.0 * seed + iteration, value=value)
        for seed, values in ((0, [9, 9, 9, 9, 1, 3]), (1, [9, 9, 9, 9, -1, -1]))
        for iteration, value in enumerate(values)
    ]
    (course,) = courses(rows)
    summary = course.summary()
    assert summary.seeds == 2
    assert summary.entropy == 10.0  # of 5 and 15
    assert summary.entropy_std == pytest.approx(50.0**0.5)
    assert summary.value == 1.0  # of 3 and -1
    assert summary.violation == 1.5  # of 3 and 0
    # The last fifth are iterations 4 and 5: deviations 1 and 0.
    assert summary.late_std == 0.5


def test_a_run_that_stopped_counts_with_its_last_value(row):
    rows = [row(seed=0, iteration=i, value=i) for i in range(3)] + [row(seed=1, iteration=0, value=8.0)]
    (course,) = courses(rows)
    assert course.summary().value == 5.0  # of 2 and 8


def test_one_late_policy_has_no_deviation(row):
    (course,) = courses([row(iteration=0, value=3.0), row(iteration=60, value=1.0)])
    assert math.isnan(course.summary().late_std)
    assert math.isnan(course.summary().late_entropy_std)


def test_optimum_of_the_paper_s_grid():
    # The convex program over time-indexed occupancies.
    assert optimum("holes", 0.0) == pytest.approx(36.720, abs=1e-3)
    assert optimum("holes", 0.0, constrained=False) == pytest.approx(40.188, abs=1e-3)
