"""Rows of runs that never were."""

import polars as pl
import pytest

from constrained_maxent.reproduction.grid.run import ROWS


def make_row(**given):
    iteration = given.get("iteration", 0)
    usual = {
        "study": "fig1", "method": "pgp", "episodes_per_batch": 8, "learning_rate": 0.01, "beta": 0.005,
        "dual_rate": 0.0, "momentum": 1.0, "limit": 0.0, "seed": 0, "iteration": iteration,
        "transitions": 200 * iteration, "entropy": 30.0, "value": 1.0,
    }  # fmt: skip
    return usual | given


@pytest.fixture
def row():
    """One row, from what is unusual about it."""
    return make_row


@pytest.fixture
def run_rows():
    """Rows of one run, from the values of its iterations."""
    return lambda values, **given: [make_row(iteration=i, value=value, **given) for i, value in enumerate(values)]


@pytest.fixture
def table():
    """Rows as the table of a study."""
    return lambda rows: pl.DataFrame(rows, schema=ROWS)
