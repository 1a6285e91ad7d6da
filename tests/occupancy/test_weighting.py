"""Discount weights against explicit sums, and every bad setting."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.occupancy import Weighting

discounts = st.floats(1e-3, 1.0, exclude_max=True)
horizons = st.integers(1, 300)


class TestByHand:
    def test_truncated_is_gamma_to_the_t(self) -> None:
        weighting = Weighting(discount=0.5, horizon=3, scale="truncated")
        assert weighting.weights([[0, 1], [2, 0]]).tolist() == [[1.0, 0.5], [0.25, 1.0]]
        assert (weighting.truncated_mass, weighting.full_mass, weighting.constant) == (1.75, 1.75, 1.0)

    def test_normalized_divides_by_the_full_length_and_never_by_a_realized_one(self) -> None:
        weighting = Weighting(discount=0.5, horizon=3)
        np.testing.assert_allclose(weighting.weights([0, 1, 2]), [4 / 7, 2 / 7, 1 / 7], rtol=1e-15)
        np.testing.assert_allclose(weighting.weights([0, 1]).sum(), 6 / 7, rtol=1e-15)

    def test_undiscounted_weights_are_one_over_the_horizon(self) -> None:
        assert Weighting(discount=1.0, horizon=8).weights([0, 7]).tolist() == [0.125, 0.125]

    def test_infinite_horizon(self) -> None:
        weighting = Weighting(discount=0.75)
        assert weighting.constant == 0.25
        assert weighting.weights([0, 1]).tolist() == [0.25, 0.1875]
        assert Weighting(discount=0.75, scale="truncated").full_mass == 4.0

    def test_mass_of_the_papers_grid(self) -> None:
        # EXPERIMENTS: γ = 0.99, H = 25 make a truncated mass of 22.2.
        assert Weighting(discount=0.99, horizon=25, scale="truncated").full_mass == pytest.approx(22.2, abs=0.05)


class TestProperties:
    @given(discounts, horizons)
    @settings(deadline=None)
    def test_truncated_mass_is_the_geometric_sum(self, discount: float, horizon: int) -> None:
        weighting = Weighting(discount=discount, horizon=horizon, scale="truncated")
        assert weighting.truncated_mass == pytest.approx(math.fsum(discount**t for t in range(horizon)), rel=1e-12)

    @given(discounts, horizons)
    @settings(deadline=None)
    def test_a_full_length_episode_has_mass_one_when_normalized(self, discount: float, horizon: int) -> None:
        assert Weighting(discount, horizon).weights(np.arange(horizon)).sum() == pytest.approx(1.0, rel=1e-12)

    @given(discounts, st.one_of(st.none(), horizons), st.lists(st.integers(0, 300), min_size=1))
    @settings(deadline=None)
    def test_scales_differ_by_one_constant(self, discount: float, horizon: int | None, times: list[int]) -> None:
        normalized, truncated = (
            Weighting(discount, horizon, scale).weights(times) for scale in ("normalized", "truncated")
        )
        np.testing.assert_allclose(normalized, Weighting(discount, horizon).constant * truncated, rtol=1e-12)

    @pytest.mark.parametrize("gap", [1e-6, 1e-9, 1e-12])
    def test_keeps_precision_near_discount_one(self, gap: float) -> None:
        discount = Fraction(1.0 - gap)
        exact = float(sum(discount**t for t in range(40)))
        assert Weighting(1.0 - gap, 40, "truncated").truncated_mass == pytest.approx(exact, rel=1e-13)

    def test_weights_far_away_underflow_to_zero(self) -> None:
        assert Weighting(discount=0.5, scale="truncated").weights([5000]).tolist() == [0.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"discount": 0.0}, r"discount=0.0 must lie in \(0, 1\]"),
        ({"discount": -0.5}, "discount"),
        ({"discount": 1.5}, "discount"),
        ({"discount": math.nan}, "discount"),
        ({"discount": None}, "discount=None"),
        ({"discount": 1.0}, "discount=1 needs a finite horizon"),
        ({"horizon": 0}, "horizon=0 must be a whole number of steps, at least 1"),
        ({"horizon": -3}, "horizon"),
        ({"horizon": 2.5}, "horizon"),
        ({"horizon": math.inf}, "horizon=inf"),
        ({"horizon": math.nan}, "horizon=nan"),
        ({"horizon": "25"}, "horizon='25'"),
        ({"scale": "unit"}, "scale='unit' must be one of normalized, truncated"),
    ],
)
def test_refuses(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        Weighting(**{"discount": 0.9, **options})
