"""Step rules on parabolas, whose iterates are known."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np
import pytest

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.oracle import BacktrackingStep, DiminishingStep, StepRule
from constrained_maxent.oracle.step_sizes import iterates, slope


@dataclass(frozen=True)
class Parabola:
    """f = k/2 |θ|² at θ."""

    theta: np.ndarray
    curvature: float = 1.0

    @property
    def value(self) -> float:
        return self.curvature / 2.0 * float(np.sum(self.theta**2))

    @property
    def gradient(self) -> np.ndarray:
        return self.curvature * self.theta


def run(
    rule: StepRule, *, start: float = 1.0, curvature: float = 1.0, radius: float = np.inf, n: int = 4
) -> list[float]:
    first = Parabola(np.array([start]), curvature)
    steps = iterates(lambda theta: Parabola(theta, curvature), first, rule, radius)
    return [float(point.theta[0]) for point in islice(steps, n)]


def test_constant() -> None:
    assert run(DiminishingStep(0.5, power=0.0)) == [1.0, 0.5, 0.25, 0.125]


def test_diminishing() -> None:
    # η = 1/2, 1/4, 1/6: factors 1/2, 3/4, 5/6.
    np.testing.assert_allclose(run(DiminishingStep(0.5, delay=1.0, power=1.0)), [1.0, 0.5, 0.375, 0.3125])


def test_backtracking_halves_until_the_decrease_is_enough() -> None:
    # With c = 1/2 a parabola of curvature 8 takes any η ≤ 1/8, so 1 is halved three times, to the minimum.
    assert run(BacktrackingStep(1.0), curvature=8.0, n=2) == [1.0, 0.0]


def test_backtracking_grows_again() -> None:
    # 0.1 is taken, then twice that, and twice that.
    np.testing.assert_allclose(run(BacktrackingStep(0.1)), [1.0, 0.9, 0.9 * 0.8, 0.9 * 0.8 * 0.6])


def test_backtracking_ends_where_nothing_is_lower() -> None:
    @dataclass(frozen=True)
    class Uphill(Parabola):
        @property
        def gradient(self) -> np.ndarray:
            return -self.theta

    assert len(list(iterates(Uphill, Uphill(np.array([1.0])), BacktrackingStep(), np.inf))) == 1


def test_projection() -> None:
    # From 1 the step of 3 would lead to -2.
    assert run(DiminishingStep(3.0, power=0.0), radius=0.5, n=3) == [1.0, -0.5, 0.5]


def test_slope_leaves_out_what_points_out_of_the_box() -> None:
    point = Parabola(np.array([-1.0, 1.0]), curvature=-2.0)  # downhill is outwards
    assert slope(point, np.inf) == pytest.approx(np.sqrt(8.0))
    assert slope(point, 1.0) == 0.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: DiminishingStep(0.0),
        lambda: DiminishingStep(np.nan),
        lambda: DiminishingStep(1.0, delay=0.0),
        lambda: DiminishingStep(1.0, power=-1.0),
        lambda: BacktrackingStep(np.inf),
        lambda: BacktrackingStep(1.0, decrease=1.0),
    ],
)
def test_settings_that_make_no_sense(make: object) -> None:
    with pytest.raises(InvalidSetting):
        make()  # type: ignore[operator]
