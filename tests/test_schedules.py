"""Schedules against powers worked out by hand."""

import math

import pytest

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.schedules import Geometric, value_at


@pytest.mark.parametrize(
    ("iteration", "value"),
    [(0, 1.0), (1, 10.0), (2, 100.0), (3, 1_000.0), (4, 1_000.0), (10**9, 1_000.0)],
)
def test_by_hand(iteration, value):
    assert Geometric(1.0, 1_000.0, 3).at(iteration) == pytest.approx(value, rel=1e-14)


def test_downwards():
    # 0.08 * (1/16)^(k/4): halved each time
    assert [Geometric(0.08, 0.005, 4).at(k) for k in range(6)] == pytest.approx([0.08, 0.04, 0.02, 0.01, 0.005, 0.005])


def test_begins_exactly():
    assert Geometric(0.3, 0.7, 9).at(0) == 0.3


def test_one_iteration_and_no_change():
    assert [Geometric(2.0, 3.0, 1).at(k) for k in range(3)] == pytest.approx([2.0, 3.0, 3.0])
    assert [Geometric(2.0, 2.0, 5).at(k) for k in range(7)] == [2.0] * 7


def test_value_of_a_constant():
    assert [value_at(3, k) for k in (0, 7)] == [3.0, 3.0]
    assert value_at(Geometric(1.0, 100.0, 2), 1) == pytest.approx(10.0)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, "1", None, True])
@pytest.mark.parametrize("name", ["start", "end"])
def test_refused_values(name, bad):
    with pytest.raises(InvalidSetting, match=f"{name}={bad!r} of a geometric schedule"):
        Geometric(**{"start": 1.0, "end": 2.0, "iterations": 3, name: bad})


@pytest.mark.parametrize("bad", [0, -1, 1.5, math.nan, math.inf, "3", None, True])
def test_refused_iterations(bad):
    with pytest.raises(InvalidSetting, match=f"iterations={bad!r}"):
        Geometric(1.0, 2.0, bad)
