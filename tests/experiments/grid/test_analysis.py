"""Means, deviations and claims, with numbers worked out by hand."""

import pytest

from constrained_maxent.experiments.grid.analysis import claims, courses, optimum
from constrained_maxent.experiments.grid.run import Row


def row(*, study="fig1", method="pgp", beta=0.005, limit=0.0, seed=0, iteration=0, entropy=30.0, value=1.0, **other):
    settings = {"episodes_per_batch": 8, "learning_rate": 0.01, "dual_rate": 0.0, "momentum": 1.0} | other
    return Row(
        study=study, method=method, beta=beta, limit=limit, seed=seed, iteration=iteration,
        transitions=200 * iteration, entropy=entropy, value=value, **settings,
    )  # fmt: skip


def test_summary_by_hand():
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


def test_a_run_that_stopped_counts_with_its_last_value():
    rows = [row(seed=0, iteration=i, value=i) for i in range(3)] + [row(seed=1, iteration=0, value=8.0)]
    (course,) = courses(rows)
    assert course.summary().value == 5.0  # of 2 and 8


def course_rows(values, **settings):
    return [row(iteration=i, value=value, **settings) for i, value in enumerate(values)]


@pytest.mark.parametrize(("dual", "oscillates"), [([0, 0, 0, 0, -9, 9], True), ([0, 0, 0, 0, 0, 0], False)])
def test_oscillation(dual, oscillates):
    rows = [
        *course_rows([1, 1, 1, 1, 1, 2]),
        *course_rows([99] * 6, method="unconstrained", beta=0.0, entropy=31.0),
        *course_rows(dual, method="primal-dual", beta=0.0, dual_rate=0.001, entropy=29.0),
    ]
    found = {claim.text: claim.holds for claim in claims([course.summary() for course in courses(rows)])}
    assert found == {
        "PGP's entropy is slightly below the unconstrained one": True,
        "PGP violates the constraint far less than the unconstrained policy": True,
        "primal-dual oscillates, PGP does not": oscillates,
        "primal-dual explores less than PGP": True,
    }


@pytest.mark.parametrize(("costs", "falls"), [((9.0, 3.0, 0.0), True), ((3.0, 9.0, 0.0), False)])
def test_violation_over_beta(costs, falls):
    rows = [row(study="ablation", beta=beta, value=cost) for beta, cost in zip((0.1, 1, 10), costs, strict=True)]
    violation, entropy = claims([course.summary() for course in courses(rows)])
    assert (violation.holds, entropy.holds) == (falls, True)


@pytest.mark.parametrize("name", ["norm", "norm-beta"])
def test_distances(name):
    rows = [
        row(study=name, beta=10.0, limit=limit, entropy=entropy, value=value)
        for limit, entropy, value in ((0.0, 1.0, 0.0), (0.2, 0.5, 0.3))
    ]
    within, increasing = claims([course.summary() for course in courses(rows)])
    assert (within.holds, increasing.holds) == (False, False)
    assert "b = 0.2: 0.300" in within.numbers


@pytest.mark.parametrize(("reduced", "improves"), [(31.0, True), (29.0, False)])
def test_search(reduced, improves):
    rows = [
        *course_rows([0, 0, 0, 0, 0, 0], study="primal-dual-search", method="primal-dual", dual_rate=0.1),
        *course_rows(
            [0, 0, 0, 0, 9, -9], study="primal-dual-search", method="primal-dual", dual_rate=0.5, entropy=28.0
        ),
        *course_rows([0] * 6, study="primal-dual-search", method="vr-pdpg", momentum=0.1, entropy=reduced),
        # More entropy, but it does not keep the limit.
        *course_rows([5] * 6, study="primal-dual-search", method="vr-pdpg", momentum=0.5, entropy=39.0),
        *course_rows([5] * 6, study="primal-dual-search", method="primal-dual", dual_rate=1.0, entropy=41.0),
    ]
    no_use, oscillates = claims([course.summary() for course in courses(rows)])
    assert no_use.holds is not improves
    assert not oscillates.holds
    assert "1 of 3 pairs" in oscillates.numbers


def test_optimum_of_the_paper_s_grid():
    # The convex program over time-indexed occupancies.
    assert optimum("holes", 0.0) == pytest.approx(36.720, abs=1e-3)
    assert optimum("holes", 0.0, constrained=False) == pytest.approx(40.188, abs=1e-3)


def test_claims_of_the_defaults_are_about_the_worst_seed():
    """34.5415 less 0.1 % is 34.50696."""

    def holds(entropies, values):
        rows = [
            row(study="defaults", method="defaults", seed=seed, entropy=entropy, value=value)
            for seed, (entropy, value) in enumerate(zip(entropies, values, strict=True))
        ]
        return [claim.holds for claim in claims([course.summary() for course in courses(rows)])]

    assert holds([34.507, 34.6], [0.0, 0.05]) == [True, True]
    assert holds([34.506, 34.6], [0.0, 0.051]) == [False, False]
