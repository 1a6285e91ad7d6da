"""The best of a search, and how many are good, counted by hand."""

from constrained_maxent.reproduction.grid.analysis import courses
from constrained_maxent.reproduction.grid.search import best_of, search_results


def found(row, *settings):
    rows = [row(study="primal-dual-search", method="any", **setting) for setting in settings]
    return search_results([course.summary() for course in courses(rows)])


def test_most_entropy_at_a_violation_of_at_most_0_05(row):
    """34.36 nats at 0.064 do not count, as they exceed 0.05."""
    (one,) = found(
        row,
        {"dual_rate": 1.0, "entropy": 34.36, "value": 0.064},
        {"dual_rate": 0.5, "entropy": 34.32, "value": 0.021},
        {"dual_rate": 0.1, "entropy": 34.22, "value": -0.007},
        {"dual_rate": 0.01, "entropy": 32.8, "value": 0.05},  # below 95 % of 34.5415
        {"dual_rate": 0.001, "entropy": 38.0, "value": 6.3},  # above 5 % of 123.87
    )
    assert (one.settings, one.close, one.keeping) == (5, 3, 3)
    assert (one.entropy, one.dual_rate, one.keeps) == (34.32, 0.5, True)


def test_least_violation_where_none_keeps_the_limit(row):
    (one,) = found(row, {"dual_rate": 1.0, "value": 9.0}, {"dual_rate": 0.5, "value": 3.0, "entropy": 20.0})
    assert (one.keeping, one.dual_rate, one.keeps) == (0, 0.5, False)


def test_batch_sizes_and_momenta_are_apart(row):
    several = found(
        row,
        {"momentum": 0.1, "value": 0.0, "entropy": 31.0},
        {"momentum": 1.0, "value": 0.0, "entropy": 30.0},
        {"momentum": 0.03, "value": 1.0, "entropy": 40.0},
        {"episodes_per_batch": 24, "value": 0.0},
    )
    assert [(one.episodes_per_batch, one.momentum) for one in several] == [(8, 1.0), (8, 0.1), (8, 0.03), (24, 1.0)]
    assert best_of(several).momentum == 0.1
