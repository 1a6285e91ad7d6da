"""Entropy against SciPy and logarithms written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import entr
from scipy.stats import entropy as scipy_entropy
from scipy.stats import norm

from constrained_maxent.errors import InvalidData, InvalidSetting, NonFiniteValue
from constrained_maxent.functionals import Entropy
from constrained_maxent.types import Measure, Points

LN2 = math.log(2)
TABLE = np.array([[0.5, 0.0], [0.25, 0.25]])


class TestValue:
    def test_by_hand(self) -> None:
        assert Entropy(smoothing=0.0)(TABLE) == pytest.approx(1.5 * LN2)
        assert Entropy(over="state", smoothing=0.0)(TABLE) == pytest.approx(LN2)

    def test_smoothing_stands_inside_the_logarithm_only(self) -> None:
        # -½ log ¾ - 2·¼ log ½ with σ = ¼.
        assert Entropy(smoothing=0.25)(TABLE) == pytest.approx(-0.5 * math.log(0.75) + 0.5 * LN2)
        assert Entropy(over="state", smoothing=0.5)(TABLE) == 0.0

    def test_masses_need_not_sum_to_one(self) -> None:
        assert Entropy(smoothing=0.0)([[2.0, 4.0]]) == pytest.approx(-2 * LN2 - 4 * 2 * LN2)

    @given(st.integers(0, 2**32 - 1))
    @settings(deadline=None)
    def test_of_distributions_is_scipys(self, seed: int) -> None:
        table = np.random.default_rng(seed).dirichlet(np.ones(12)).reshape(4, 3)
        assert Entropy(smoothing=0.0)(table) == pytest.approx(scipy_entropy(table.ravel()), rel=1e-12)
        assert Entropy(over="state", smoothing=0.0)(table) == pytest.approx(scipy_entropy(table.sum(axis=1)), rel=1e-12)

    @given(st.integers(0, 2**32 - 1), st.floats(1e-9, 1e-1))
    @settings(deadline=None)
    def test_smoothing_changes_it_by_at_most_sigma_times_the_cells(self, seed: int, smoothing: float) -> None:
        rng = np.random.default_rng(seed)
        table = np.where(rng.random((4, 3)) < 0.3, 0.0, rng.exponential(size=(4, 3)))
        change = entr(table).sum() - Entropy(smoothing=smoothing)(table)
        assert -1e-12 <= change <= smoothing * table.size + 1e-12  # rounding

    def test_as_an_expectation_also_where_cells_are_empty(self) -> None:
        measure = Measure.from_table([[0.5, 0.0], [0.25, 0.25]])
        f = Entropy(smoothing=0.0).integrand(measure, measure.points)
        np.testing.assert_allclose(f, [[np.log(2.0), 0.0], [np.log(4.0), np.log(4.0)]], rtol=1e-15)

    def test_of_samples_of_a_gaussian(self) -> None:
        samples = np.random.default_rng(0).normal(size=100_000)
        density = norm.pdf(samples)
        measure = Measure(points=Points(density=density, state_density=density), weights=np.full(100_000, 1e-5))
        assert Entropy()(measure) == pytest.approx(0.5 * np.log(2.0 * np.pi) + 0.5, abs=0.01)

    def test_of_nothing_is_zero(self) -> None:
        for smoothing in (0.0, 1e-6):
            assert Entropy(smoothing=smoothing)(np.zeros((2, 2))) == 0.0


class TestDerivative:
    def test_by_hand(self) -> None:
        # -log(λ+σ) - λ/(λ+σ) with σ = ¼.
        smoothed = Entropy(smoothing=0.25).gradient(TABLE)
        np.testing.assert_allclose(smoothed, [[-math.log(0.75) - 2 / 3, 2 * LN2], [LN2 - 0.5, LN2 - 0.5]], rtol=1e-14)
        over_states = Entropy(over="state", smoothing=0.0).gradient(TABLE)
        np.testing.assert_allclose(over_states, np.full((2, 2), LN2 - 1), rtol=1e-14)

    def test_an_empty_cell_earns_minus_log_sigma_and_no_more(self) -> None:
        assert Entropy(smoothing=1e-6).gradient(TABLE)[0, 1] == pytest.approx(6 * math.log(10))
        assert Entropy().gradient(np.zeros((2, 2))).max() == pytest.approx(6 * math.log(10))

    def test_the_usual_smoothing_of_cells_and_of_densities(self) -> None:
        table = Measure.from_table([[0.5, 0.0]])
        assert Entropy().gradient(table)[0, 1] == pytest.approx(-math.log(1e-6))
        empty = np.zeros(1)
        sparse = Points(density=empty, state_density=empty, cells=np.array([7]))
        assert Entropy().derivative(table, sparse)[0] == pytest.approx(-math.log(1e-6))
        density = Points(density=empty, state_density=empty)
        assert Entropy().derivative(table, density)[0] == pytest.approx(-math.log(1e-300))

    def test_without_smoothing_it_is_infinite_at_an_empty_cell(self) -> None:
        assert Entropy(smoothing=0.0).gradient(TABLE)[0, 1] == math.inf
        # The state of that cell is visited, so over states it is finite.
        assert np.isfinite(Entropy(over="state", smoothing=0.0).gradient(TABLE)).all()


class TestRefuses:
    @pytest.mark.parametrize("smoothing", [-1e-6, math.nan, math.inf])
    def test_a_smoothing_that_makes_no_sense(self, smoothing: float) -> None:
        with pytest.raises(InvalidSetting, match=f"smoothing={smoothing}"):
            Entropy(smoothing=smoothing)

    def test_an_unknown_marginal(self) -> None:
        with pytest.raises(InvalidSetting, match="over='action' must be one of state-action, state"):
            Entropy(over="action")  # type: ignore[arg-type]

    @pytest.mark.parametrize("limit", [math.nan, math.inf])
    def test_a_limit_that_is_not_finite(self, limit: float) -> None:
        with pytest.raises(InvalidSetting, match=f"limit={limit}"):
            Entropy(limit=limit)

    def test_what_is_no_occupancy(self) -> None:
        for table, error in (([0.5, 0.5], InvalidData), ([[-0.5]], InvalidData), ([[math.nan]], NonFiniteValue)):
            with pytest.raises(error):
                Entropy()(table)
            with pytest.raises(error):
                Entropy().gradient(table)
