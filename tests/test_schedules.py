"""Schedules against powers worked out by hand."""

import math

import pytest

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.schedules import Geometric, value_at


@pytest.mark.parametrize(
    ("progress", "value"),
    [(0.0, 1.0), (1 / 3, 10.0), (2 / 3, 100.0), (1.0, 1_000.0), (1.5, 1_000.0), (math.inf, 1_000.0)],
)
def test_by_hand(progress, value):
    assert Geometric(1.0, 1_000.0).at(progress) == pytest.approx(value, rel=1e-14)


def test_downwards():
    # 0.08 * (1/16)^p: halved by every quarter of the run.
    schedule = Geometric(0.08, 0.005)
    assert [schedule.at(k / 4) for k in range(6)] == pytest.approx([0.08, 0.04, 0.02, 0.01, 0.005, 0.005])


def test_begins_exactly():
    assert Geometric(0.3, 0.7).at(0.0) == 0.3


def test_no_change():
    assert [Geometric(2.0, 2.0).at(k / 5) for k in range(7)] == [2.0] * 7


def test_value_of_a_constant_and_of_a_schedule():
    assert [value_at(3, progress) for progress in (0.0, 0.7)] == [3.0, 3.0]
    assert value_at(Geometric(1.0, 100.0), 0.5) == pytest.approx(10.0)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, "1", None, True])
@pytest.mark.parametrize("name", ["start", "end"])
def test_refused_values(name, bad):
    with pytest.raises(InvalidSetting, match=f"{name}={bad!r}"):
        Geometric(**{"start": 1.0, "end": 2.0, name: bad})
