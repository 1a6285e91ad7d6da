"""Columns of the progress file that nothing else measures."""

import numpy as np
import pytest
from scipy.stats import norm

from constrained_maxent.functionals import Entropy, L2Distance
from constrained_maxent.runs.recorder import _self_weighted
from constrained_maxent.types import Measure, Points


class TestSelfWeighted:
    def test_by_hand(self):
        """-(¼ log ½ + 2/16 log ¼) / (¼ + 2/16)."""
        measure = Measure.from_table([[0.5, 0.0], [0.25, 0.25]])
        assert _self_weighted(Entropy(), measure) == pytest.approx((0.25 + 0.25) * np.log(2.0) / 0.375)

    def test_entropy_of_a_gaussian_is_low(self):
        """Half of log 2π + 1/2 instead of half of log 2π + 1: the square of a normal density has half its variance."""
        samples = np.random.default_rng(0).normal(size=100_000)
        density = norm.pdf(samples)
        measure = Measure(points=Points(density=density, state_density=density), weights=np.full(100_000, 1e-5))
        # The standard error of the ratio is below 0.002.
        assert _self_weighted(Entropy(), measure) == pytest.approx(0.5 * np.log(2.0 * np.pi) + 0.25, abs=0.01)

    def test_of_nothing(self):
        nothing = Measure.from_table(np.zeros((2, 2)))
        assert _self_weighted(Entropy(), nothing) is None
        assert _self_weighted(L2Distance(np.zeros((2, 2))), nothing) is None
        assert _self_weighted(None, nothing) is None

    @pytest.mark.fault
    def test_of_densities_that_float64_does_not_hold(self) -> None:
        # λ = e^-2000 and e^-2001: ours weighs the first by e: (2000 e + 2001) / (e + 1), at σ = 0.
        logs = np.array([-2000.0, -2001.0])
        points = Points(density=np.exp(logs), state_density=np.exp(logs), log_density=logs, log_state_density=logs)
        measure = Measure(points=points, weights=np.full(2, 0.5))
        assert _self_weighted(Entropy(), measure) == pytest.approx((2000.0 * np.e + 2001.0) / (np.e + 1.0))
