"""Rows of runs that never were."""

import pytest

from constrained_maxent.reproduction.grid.run import Row


def make_row(
    *, study="fig1", method="pgp", beta=0.005, limit=0.0, seed=0, iteration=0, entropy=30.0, value=1.0, **other
):
    settings = {"episodes_per_batch": 8, "learning_rate": 0.01, "dual_rate": 0.0, "momentum": 1.0} | other
    return Row(
        study=study, method=method, beta=beta, limit=limit, seed=seed, iteration=iteration,
        transitions=200 * iteration, entropy=entropy, value=value, **settings,
    )  # fmt: skip


@pytest.fixture
def row():
    return make_row


@pytest.fixture
def course_rows():
    """Rows of one run, from the values of its iterations."""
    return lambda values, **settings: [make_row(iteration=i, value=value, **settings) for i, value in enumerate(values)]
