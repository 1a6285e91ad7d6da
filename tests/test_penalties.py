"""Penalties against their formulas worked out by hand, and slopes against differences of values."""

from __future__ import annotations

import json
import math
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.penalties import (
    AdaptiveLagrangian,
    AugmentedLagrangian,
    Exact,
    Lagrangian,
    Penalty,
    Quadratic,
    QuadraticContinuation,
    penalty_from_config,
)

ALL = [
    Quadratic(0.3),
    QuadraticContinuation(0.1, 10.0, progress=0.375),
    Exact(0.7),
    Lagrangian(0.1, multiplier=0.4, largest=2.0),
    AugmentedLagrangian(0.5, learning_rate=0.2, multiplier=0.6),
    AdaptiveLagrangian(0.7, price=0.4, largest_violation=1.5),
    AdaptiveLagrangian(0.7, 7.0, price=0.4, largest_violation=1.5, progress=0.4),
]
each_penalty = pytest.mark.parametrize("penalty", ALL, ids=lambda penalty: type(penalty).__name__)


@pytest.mark.parametrize(
    ("penalty", "violation", "value", "slope"),
    [
        # β[R]₊², not β/2: 3·2² = 12 and 2·3·2 = 12.
        (Quadratic(3.0), 2.0, 12.0, 12.0),
        (Quadratic(3.0), 0.0, 0.0, 0.0),
        (Quadratic(3.0), -2.0, 0.0, 0.0),
        (Quadratic(0.0), 5.0, 0.0, 0.0),
        # Halfway from 1 to 9 geometrically: β = 3.
        (QuadraticContinuation(1.0, 9.0, progress=0.5), 2.0, 12.0, 12.0),
        (QuadraticContinuation(1.0, 9.0), 2.0, 4.0, 4.0),
        (QuadraticContinuation(1.0, 9.0, progress=1.0), -2.0, 0.0, 0.0),
        (Exact(3.0), 2.0, 6.0, 3.0),
        (Exact(3.0), 0.0, 0.0, 0.0),
        (Exact(3.0), -2.0, 0.0, 0.0),
        (Lagrangian(0.1, multiplier=0.5), 2.0, 1.0, 0.5),
        (Lagrangian(0.1, multiplier=0.5), -2.0, -1.0, 0.5),
        # ([1 + 2·3·2]₊² - 1²) / (4·3) = (169 - 1) / 12 = 14.
        (AugmentedLagrangian(3.0, multiplier=1.0), 2.0, 14.0, 13.0),
        # Far inside the constraint the slope ends: -1² / 12.
        (AugmentedLagrangian(3.0, multiplier=1.0), -2.0, -1 / 12, 0.0),
        (AugmentedLagrangian(3.0, multiplier=1.0), 0.0, 0.0, 1.0),
        # Without a multiplier it is the quadratic penalty.
        (AugmentedLagrangian(3.0), 2.0, 12.0, 12.0),
    ],
)
def test_value_and_slope_by_hand(penalty: Penalty, violation: float, value: float, slope: float) -> None:
    assert penalty.value(violation) == pytest.approx(value)
    assert penalty.slope(violation) == pytest.approx(slope)


@each_penalty
@given(violation=st.floats(-5.0, 5.0).filter(lambda r: abs(r) > 1e-3))
@settings(deadline=None)
def test_slope_is_the_derivative_of_the_value(penalty: Penalty, violation: float) -> None:
    h = 1e-5
    difference = (penalty.value(violation + h) - penalty.value(violation - h)) / (2 * h)
    # At the kink of [·]₊² central differences err by β·h.
    assert penalty.slope(violation) == pytest.approx(difference, abs=1e-5)


class TestUpdate:
    def test_fixed_penalties_stay_themselves(self) -> None:
        for penalty in (Quadratic(1.0), Exact(1.0)):
            assert penalty.updated(3.0, 0.0) is penalty

    def test_dual_ascent_by_hand(self) -> None:
        penalty = Lagrangian(0.25, multiplier=1.0, largest=1.75)
        assert penalty.updated(2.0, 0.0).multiplier == 1.5
        assert penalty.updated(-2.0, 0.0).multiplier == 0.5
        assert penalty.updated(-8.0, 0.0).multiplier == 0.0
        assert penalty.updated(8.0, 0.0).multiplier == 1.75
        assert penalty.multiplier == 1.0
        assert penalty.updated(2.0, 0.0).learning_rate == 0.25

    def test_the_augmented_multiplier_becomes_the_slope_by_default(self) -> None:
        penalty = AugmentedLagrangian(0.5, multiplier=1.0)
        assert penalty.updated(3.0, 0.0).multiplier == penalty.slope(3.0) == 4.0
        assert penalty.updated(-3.0, 0.0).multiplier == penalty.slope(-3.0) == 0.0

    def test_the_augmented_multiplier_takes_a_step_of_its_own(self) -> None:
        penalty = AugmentedLagrangian(0.5, learning_rate=0.1, multiplier=1.0)
        assert penalty.updated(3.0, 0.0) == AugmentedLagrangian(0.5, learning_rate=0.1, multiplier=1.3)

    def test_a_scheduled_beta(self) -> None:
        """From 1 to 8, doubled by each third of the run, whatever the violation is."""
        penalty, betas = QuadraticContinuation(1.0, 8.0), []
        for violation, progress in ((5.0, 1 / 3), (-5.0, 2 / 3), (0.0, 1.0), (math.nan, 1.0), (1.0, 1.0)):
            betas.append(penalty.beta)
            penalty = penalty.updated(violation, progress)
        assert betas == pytest.approx([1.0, 2.0, 4.0, 8.0, 8.0], rel=1e-12)
        assert penalty.progress == 1.0

    def test_a_price_by_hand(self) -> None:
        """Rate 2: R = 0.5 first, the largest so far, costs 2; R = 1 is larger and 2 dearer; R = -0.5 takes 1 off."""
        penalty = AdaptiveLagrangian(2.0)
        assert (penalty.slope(0.5), penalty.value(0.5)) == (0.0, 0.0)
        penalty = penalty.updated(0.5, 0.0)
        assert penalty == AdaptiveLagrangian(2.0, price=2.0, largest_violation=0.5)
        # β = 2 / (2·0.5²) = 4, μ = 2 / 0.5 = 4: slope 4 + 2·4·0.25 = 6, value ((4 + 2)² - 4²) / 16 = 1.25.
        assert (penalty.multiplier, penalty.slope(0.25), penalty.value(0.25)) == (4.0, 6.0, 1.25)
        penalty = penalty.updated(1.0, 0.0)
        assert penalty == AdaptiveLagrangian(2.0, price=4.0, largest_violation=1.0)
        assert penalty.updated(-0.5, 0.0).price == 3.0
        assert penalty.updated(-9.0, 0.0).price == 0.0

    def test_a_price_is_the_classical_method_in_its_own_units(self) -> None:
        """Once the largest violation is known, it is the augmented Lagrangian with β = rate / 2R²."""
        own = AdaptiveLagrangian(0.5, price=0.3, largest_violation=0.2)
        classical = AugmentedLagrangian(0.5 / (2 * 0.2**2), multiplier=0.3 / 0.2)
        for violation in (0.1, 0.15, -0.05, 0.02, -0.2):
            assert own.value(violation) == pytest.approx(classical.value(violation))
            assert own.slope(violation) == pytest.approx(classical.slope(violation))
            own, classical = own.updated(violation, 0.0), classical.updated(violation, 0.0)

    def test_a_violation_larger_than_any_before_is_its_own_unit(self) -> None:
        """m = 1, η = 2, R_max = ½: up to R_max as ever, (9 - 1) / 4 there; above it a slope of (1 + 2) / R."""
        penalty = AdaptiveLagrangian(2.0, price=1.0, largest_violation=0.5)
        assert (penalty.slope(0.5), penalty.value(0.5)) == (6.0, 2.0)
        assert (penalty.slope(1.5), penalty.value(1.5)) == (2.0, pytest.approx(2.0 + 3.0 * math.log(3.0)))
        assert penalty.updated(1.5, 0.0) == AdaptiveLagrangian(2.0, price=3.0, largest_violation=1.5)

    def test_a_least_unit(self) -> None:
        """A violation of a thousandth of it costs a thousandth of the rate."""
        assert AdaptiveLagrangian(2.0, largest_violation=1.0).updated(1e-3, 0.0).price == pytest.approx(2e-3)

    @pytest.mark.fault
    def test_a_spread_is_the_least_unit(self) -> None:
        """Asked for once; what does not vary is no unit; a violation that is larger takes its place."""
        penalty = AdaptiveLagrangian(2.0)
        assert penalty.asks_for_spread
        assert penalty.with_spread(0.0) == penalty
        known = penalty.with_spread(1.0)
        assert not known.asks_for_spread
        assert known.with_spread(5.0) == known
        assert known.updated(1e-3, 0.0).price == pytest.approx(2e-3)
        assert known.updated(3.0, 0.0).largest_violation == 3.0
        assert penalty.updated(-1.0, 0.0).asks_for_spread, "what is kept tells no unit"
        assert not AdaptiveLagrangian(largest_violation=0.0).asks_for_spread

    def test_a_rate_that_grows(self) -> None:
        """From 1 to 4, doubled by each half of the run."""
        penalty, prices = AdaptiveLagrangian(1.0, 4.0), []
        for progress in (0.5, 1.0, 1.0, 1.0):
            penalty = penalty.updated(0.5, progress)
            prices.append(penalty.price)
        assert prices == pytest.approx([1.0, 3.0, 7.0, 11.0])
        assert penalty.progress == 1.0

    def test_without_a_schedule_progress_changes_nothing(self) -> None:
        assert AdaptiveLagrangian(2.0).updated(0.5, 0.0) == AdaptiveLagrangian(2.0).updated(0.5, 0.9)

    def test_which_penalties_follow_a_schedule(self) -> None:
        scheduled = [penalty for penalty in ALL if penalty.has_schedule]
        assert scheduled == [ALL[1], ALL[-1]]

    @pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
    def test_a_price_does_not_know_the_units(self, unit: float) -> None:
        one, other = AdaptiveLagrangian(), AdaptiveLagrangian()
        for violation in (0.001, 0.3, -0.1, 0.2):
            one, other = one.updated(violation, 0.0), other.updated(unit * violation, 0.0)
            assert other.price == pytest.approx(one.price)
            assert other.slope(unit * 0.1) * unit == pytest.approx(one.slope(0.1))

    def test_a_price_finds_the_multiplier(self) -> None:
        """min (x - 3)² with x ≤ 1 has the multiplier 4 there."""
        penalty = AdaptiveLagrangian()
        for _ in range(300):
            x = 3.0 - penalty.multiplier / 2.0  # where (x - 3)² + μx is least
            penalty = penalty.updated(x - 1.0, 0.0)
        assert penalty.multiplier == pytest.approx(4.0, abs=1e-6)

    def test_a_violation_that_is_no_number_is_refused(self) -> None:
        with pytest.raises(InvalidSetting, match="multiplier=nan"):
            Lagrangian(0.1).updated(math.nan, 0.0)

    @each_penalty
    def test_is_immutable(self, penalty: Penalty) -> None:
        with pytest.raises(FrozenInstanceError):
            penalty.beta = 1.0  # type: ignore[attr-defined]


class TestConfig:
    @each_penalty
    def test_round_trips_through_json(self, penalty: Penalty) -> None:
        assert penalty_from_config(json.loads(json.dumps(penalty.to_config()))) == penalty

    def test_is_plain_data(self) -> None:
        assert Quadratic(0.5).to_config() == {"kind": "Quadratic", "beta": 0.5}

    @pytest.mark.parametrize(
        ("config", "message"),
        [
            ({"kind": "Cubic", "beta": 1.0}, "'Cubic'.*QuadraticContinuation"),
            ({"kind": "QuadraticContinuation", "start": "low", "end": 1.0}, "start='low'"),
            ({"kind": "QuadraticContinuation", "start": 1.0, "end": 2.0, "iterations": 3}, "iterations"),
            ({"beta": 1.0}, "None"),
            ({"kind": "Quadratic", "beta": 1.0, "gamma": 2.0}, "gamma"),
            ({"kind": "Quadratic"}, "beta"),
            ({"kind": "Quadratic", "beta": -1.0}, "beta=-1.0"),
        ],
    )
    def test_says_what_is_wrong(self, config: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidSetting, match=message):
            penalty_from_config(config)


class TestState:
    @pytest.mark.parametrize(
        ("penalty", "state"),
        [
            (Quadratic(1.0), {}),
            (Exact(1.0), {}),
            (QuadraticContinuation(1.0, 8.0, progress=0.25), {"progress": 0.25}),
            (Lagrangian(0.1, multiplier=0.4), {"multiplier": 0.4}),
            (AugmentedLagrangian(0.5, multiplier=0.6), {"multiplier": 0.6}),
            (
                AdaptiveLagrangian(1.0, price=0.6, largest_violation=0.5),
                {"price": 0.6, "largest_violation": 0.5, "progress": 0.0},
            ),
        ],
    )
    def test_is_what_changes(self, penalty: Penalty, state: dict[str, float]) -> None:
        assert penalty.state_dict() == state

    @each_penalty
    def test_continues_a_fresh_penalty(self, penalty: Penalty) -> None:
        ahead = penalty.updated(1.0, 0.0).updated(2.0, 0.0)
        assert penalty.with_state(json.loads(json.dumps(ahead.state_dict()))) == ahead

    @pytest.mark.parametrize(
        ("penalty", "state", "message"),
        [
            (Lagrangian(0.1, largest=2.0), {"multiplier": 3.0}, "largest=2.0"),
            (QuadraticContinuation(1.0, 8.0), {"progress": -1}, "progress=-1"),
            (AdaptiveLagrangian(), {"progress": 1.5}, "progress=1.5"),
        ],
    )
    def test_out_of_range(self, penalty: Penalty, state: dict[str, float], message: str) -> None:
        with pytest.raises(InvalidSetting, match=message):
            penalty.with_state(state)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, True, "high"])
@pytest.mark.parametrize("name", ["start", "end"])
def test_refuses_settings_that_are_not_above_0(name: str, bad: Any) -> None:
    with pytest.raises(InvalidSetting, match=f"{name}={bad!r}"):
        QuadraticContinuation(**{"start": 1.0, "end": 2.0, name: bad})


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan, "half", None])
def test_refuses_a_progress_that_is_no_share(bad: Any) -> None:
    for make in (lambda: QuadraticContinuation(1.0, 2.0, progress=bad), lambda: AdaptiveLagrangian(progress=bad)):
        with pytest.raises(InvalidSetting, match=f"progress={bad!r}"):
            make()


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, True, "high"])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Quadratic, "beta"),
        (Exact, "beta"),
        (Lagrangian, "learning_rate"),
        (Lagrangian, "multiplier"),
        (AugmentedLagrangian, "beta"),
        (AugmentedLagrangian, "learning_rate"),
        (AugmentedLagrangian, "multiplier"),
    ],
)
def test_refuses_negative_and_infinite_settings(kind: Any, name: str, bad: Any) -> None:
    valid = {"learning_rate": 1.0} if kind is Lagrangian else {"beta": 1.0}
    with pytest.raises(InvalidSetting, match=f"{name}={bad!r}"):
        kind(**{**valid, name: bad})


@pytest.mark.parametrize("largest", [0.0, -1.0, math.nan])
def test_refuses_a_bound_that_leaves_no_multiplier(largest: float) -> None:
    with pytest.raises(InvalidSetting, match="largest"):
        Lagrangian(0.1, largest=largest)


def test_refuses_a_multiplier_above_its_bound() -> None:
    with pytest.raises(InvalidSetting, match=r"multiplier=3.0"):
        Lagrangian(0.1, multiplier=3.0, largest=2.0)


def test_refuses_an_augmented_lagrangian_without_beta() -> None:
    with pytest.raises(InvalidSetting, match="beta"):
        AugmentedLagrangian(0.0)


@pytest.mark.parametrize("penalty", ALL, ids=lambda penalty: penalty.kind)
def test_has_a_formula(penalty: Penalty) -> None:
    assert "R" in penalty.formula
    assert penalty.formula != Penalty.formula
