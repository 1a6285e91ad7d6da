"""KL divergence against SciPy's relative entropy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import rel_entr

from constrained_maxent.errors import InvalidData, InvalidSetting, NonFiniteValue
from constrained_maxent.functionals import KLDivergence

LN2 = math.log(2)
REFERENCE = [[0.5, 0.25], [0.25, 0.0]]


class TestValue:
    def test_by_hand(self) -> None:
        # ¼ log ½ + ½ log 2 + ¼ log 1 = ¼ log 2
        assert KLDivergence(REFERENCE, smoothing=0.0)([[0.25, 0.5], [0.25, 0.0]]) == pytest.approx(LN2 / 4)

    def test_smoothing_is_added_to_both(self) -> None:
        # σ = ¼: ½ log(¾ / ¾) + ½ log(¾ / ¼)
        value = KLDivergence(REFERENCE, smoothing=0.25)([[0.5, 0.0], [0.0, 0.5]])
        assert value == pytest.approx(0.5 * math.log(3))

    @given(st.integers(0, 2**32 - 1))
    @settings(deadline=None)
    def test_is_scipys_relative_entropy(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        occupancy, reference = rng.dirichlet(np.ones(12), size=2).reshape(2, 4, 3)
        occupancy = np.where(rng.random((4, 3)) < 0.3, 0.0, occupancy)
        value = KLDivergence(reference, smoothing=0.0)(occupancy)
        assert value == pytest.approx(rel_entr(occupancy, reference).sum(), rel=1e-12, abs=1e-14)

    def test_of_a_measure_to_itself_is_zero(self) -> None:
        for smoothing in (0.0, 1e-6):
            assert KLDivergence(REFERENCE, smoothing=smoothing)(REFERENCE) == 0.0

    def test_outside_the_references_support_smoothing_keeps_it_finite(self) -> None:
        outside = [[0.0, 0.0], [0.0, 1.0]]
        assert KLDivergence(REFERENCE)(outside) == pytest.approx(6 * math.log(10), abs=1e-5)
        assert KLDivergence(REFERENCE, smoothing=0.0)(outside) == math.inf


class TestDerivative:
    def test_by_hand(self) -> None:
        # log(λ/ref) + 1
        derivative = KLDivergence([[0.5, 0.25]], smoothing=0.0).gradient([[0.25, 0.25]])
        np.testing.assert_allclose(derivative, [[1 - LN2, 1.0]], rtol=1e-14)

    def test_an_empty_cell_is_finite_with_smoothing(self) -> None:
        # log((0+σ)/(ref+σ)) + 0
        derivative = KLDivergence([[0.75, 0.0]], smoothing=0.25).gradient([[0.0, 0.0]])
        np.testing.assert_allclose(derivative, [[-2 * LN2, 0.0]], rtol=1e-14)

    def test_an_empty_cell_pulls_without_bound_if_nothing_is_smoothed(self) -> None:
        assert KLDivergence([[0.5, 0.5]], smoothing=0.0).gradient([[1.0, 0.0]])[0, 1] == -math.inf


class TestRefuses:
    @pytest.mark.parametrize(
        ("reference", "error", "message"),
        [
            ([[0.5, -0.5]], InvalidData, "must not be negative"),
            ([[0.5, math.nan]], NonFiniteValue, "reference must be finite"),
            ([0.5, 0.5], InvalidData, "reference must be a table"),
        ],
    )
    def test_a_reference_that_is_no_occupancy(self, reference: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            KLDivergence(reference)

    @pytest.mark.parametrize("smoothing", [-1.0, math.nan, math.inf])
    def test_a_smoothing_that_makes_no_sense(self, smoothing: float) -> None:
        with pytest.raises(InvalidSetting, match="smoothing"):
            KLDivergence(REFERENCE, smoothing=smoothing)

    def test_a_reference_of_another_size(self) -> None:
        kl = KLDivergence(REFERENCE)
        with pytest.raises(InvalidData, match=r"reference has shape \(2, 2\), .* 3 states and 2 actions"):
            kl.check(3, 2)
        for use in (kl, kl.gradient):
            with pytest.raises(InvalidData, match="does not fit"):
                use(np.full((3, 2), 1 / 6))
