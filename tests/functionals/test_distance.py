"""Euclidean distance against NumPy's norm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained_maxent.errors import InvalidData, NonFiniteValue
from constrained_maxent.functionals import L2Distance
from constrained_maxent.types import Measure, Points

REFERENCE = [[1.0, 0.0], [0.0, 2.0]]


def test_value_and_derivative_by_hand() -> None:
    # Differences 3 and 4: a distance of 5.
    occupancy = [[4.0, 0.0], [4.0, 2.0]]
    assert L2Distance(REFERENCE)(occupancy) == 5.0
    np.testing.assert_allclose(L2Distance(REFERENCE).gradient(occupancy), [[0.6, 0.0], [0.8, 0.0]], rtol=1e-15)


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_is_numpys_norm_and_its_derivative_a_unit_vector(seed: int) -> None:
    occupancy, reference = np.random.default_rng(seed).exponential(size=(2, 4, 3))
    distance = L2Distance(reference)
    assert distance(occupancy) == pytest.approx(np.linalg.norm(occupancy - reference), rel=1e-12)
    assert np.linalg.norm(distance.gradient(occupancy)) == pytest.approx(1.0, rel=1e-12)


def test_at_the_reference_the_derivative_is_the_subgradient_zero() -> None:
    assert L2Distance(REFERENCE)(REFERENCE) == 0.0
    np.testing.assert_array_equal(L2Distance(REFERENCE).gradient(REFERENCE), 0.0)


def test_the_reference_counts_in_cells_that_a_sparse_measure_does_not_list() -> None:
    # Cell 1 only, with mass 2; the reference has 1 and 2 elsewhere: √(4 + 1 + 4).
    points = Points(density=np.array([2.0]), state_density=np.array([2.0]), cells=np.array([1]))
    sparse = Measure(points=points, weights=np.array([2.0]))
    assert L2Distance(REFERENCE)(sparse) == 3.0
    np.testing.assert_allclose(L2Distance(REFERENCE).gradient(sparse), [2 / 3], rtol=1e-15)


@pytest.mark.parametrize(
    ("reference", "error", "message"),
    [
        ([[math.nan]], NonFiniteValue, "reference must be finite"),
        ([[math.inf]], NonFiniteValue, "reference must be finite"),
        ([1.0], InvalidData, "reference must be a table"),
    ],
)
def test_refuses_a_reference_that_is_no_table(reference: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        L2Distance(reference)


def test_refuses_a_reference_of_another_size() -> None:
    with pytest.raises(InvalidData, match="3 states and 2 actions"):
        L2Distance(REFERENCE).check(3, 2)
    with pytest.raises(InvalidData, match="does not fit"):
        L2Distance(REFERENCE)(np.ones((4, 1)))
    beyond = Points(density=np.ones(1), state_density=np.ones(1), cells=np.array([4]))
    with pytest.raises(InvalidData, match="4 cells does not fit: the occupancy has a cell 4"):
        L2Distance(REFERENCE)(Measure(points=beyond, weights=np.ones(1)))
