"""Coordinates of observations as the state: angles by hand, circles and copies among columns that were made."""

import pickle

import numpy as np
import pytest

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.runs.coordinates import Coordinates, circles, copies, without_redundancy

ANGLES = np.random.default_rng(0).uniform(-np.pi, np.pi, (2, 20))


def test_numbers_and_angles():
    state = Coordinates(("2", "1:0"))
    # The angle with cosine 0.6 and sine -0.8.
    np.testing.assert_allclose(state(np.array([-0.8, 0.6, 7.0])), [7.0, -0.9272952180016122])
    assert state.angles == (1,)
    assert pickle.loads(pickle.dumps(state)) == state


@pytest.mark.parametrize("entries", [(), ("x",), ("-1",), ("1:",), ("0:1:2",), ("0,1",), ("1.0",), ("",)])
def test_what_is_no_coordinate(entries):
    with pytest.raises(InvalidSetting, match="state"):
        Coordinates(entries)


def test_coordinates_that_are_not_there():
    Coordinates(("0:2",)).check(3)
    with pytest.raises(InvalidSetting, match="only 2 coordinates"):
        Coordinates(("0:2",)).check(2)


class TestCircles:
    def test_two_angles_and_others(self):
        first, second = ANGLES
        rows = np.stack([np.cos(first), np.cos(second), np.sin(first), first, np.sin(second)], axis=1)
        assert circles(rows) == [(0, 2), (1, 4)]
        assert circles(rows.astype(np.float32).astype(float)) == [(0, 2), (1, 4)]
        assert without_redundancy(5, circles(rows)).entries == ("0:2", "1:4", "3")

    def test_what_is_none(self):
        first, _ = ANGLES
        # 1 and 0 that never change, and a circle of another radius.
        rows = np.stack([np.ones(20), np.zeros(20), 2.0 * np.cos(first), 2.0 * np.sin(first)], axis=1)
        assert circles(rows) == []


def test_copies_are_told_with_what_they_are_of():
    first, second = ANGLES
    rows = np.stack([first, np.zeros(20), second, first, np.zeros(20), first, second + 1e-9], axis=1)
    assert copies(rows) == [(3, 0), (5, 0)]
    assert without_redundancy(7, [(2, 6)], [3, 5]).entries == ("0", "1", "2:6", "4")
