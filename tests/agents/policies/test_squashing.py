"""The map onto a box against its formulas, finite differences and the arithmetic of its bounds."""

import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from scipy.stats import norm

from constrained_maxent.agents.policies import (
    Squashing,
)


class TestSquashing:
    BOX = Box(np.array([-1.0, -np.inf, 2.0, -np.inf]), np.array([0.7, np.inf, np.inf, -3.0]), dtype=np.float64)

    def test_every_kind_of_bound_is_respected(self):
        squashing = Squashing(self.BOX)
        u = np.random.default_rng(0).normal(scale=30.0, size=(1_000, 4))
        values = squashing.to_box(u)
        assert all(self.BOX.contains(value) for value in values)
        np.testing.assert_array_equal(values[:, 1], u[:, 1])

    def test_values(self):
        """low + (tanh u + 1)(high - low)/2, u, low + log(1 + e^u), high - log(1 + e^-u)."""
        u = np.array([[0.4, 5.0, 0.0, 1.0]])
        expected = [-1.0 + (math.tanh(0.4) + 1.0) * 0.85, 5.0, 2.0 + math.log(2.0), -3.0 - math.log1p(math.exp(-1.0))]
        np.testing.assert_allclose(Squashing(self.BOX).to_box(u), [expected], rtol=1e-14)

    def test_slope_is_the_derivative(self):
        squashing, step = Squashing(self.BOX), 1e-5
        u = np.random.default_rng(0).normal(scale=1.5, size=(200, 4))
        numeric = (squashing.to_box(u + step) - squashing.to_box(u - step)) / (2 * step)
        np.testing.assert_allclose(squashing.log_slope(torch.as_tensor(u)).exp(), numeric, rtol=1e-6, atol=1e-9)

    def test_rounding_does_not_step_over_a_bound(self):
        """In float64, -1 + 2 * fl((1.2e-16 + 1) / 2) is 2.2e-16."""
        box = Box(-1.0, 1.2e-16, (1,), dtype=np.float64)
        assert Squashing(box).to_box(np.array([[50.0]])) == [[1.2e-16]]
        low = np.random.default_rng(0).normal(size=500).astype(np.float32)
        box = Box(low, low + 1.1, dtype=np.float32)
        for u in (-50.0, 50.0):
            assert box.contains(Squashing(box).to_box(np.full((1, 500), u))[0])

    def test_a_component_of_no_width(self):
        squashing = Squashing(Box(0.5, 0.5, (1,), dtype=np.float64))
        assert squashing.to_box(np.array([[3.0]])).tolist() == [[0.5]]
        assert torch.isfinite(squashing.log_slope(torch.tensor([[3.0]]))).all()

    def test_density(self):
        """Of what is between -1 and 1 by the change of variables; what has no choice has none."""
        squashing = Squashing(Box(np.array([-1.0, 0.5]), np.array([1.0, 0.5]), dtype=np.float64))
        rows = [[0.3, 2.0]], [[0.1, -1.0]], [[-0.5, 1.0]]
        u, mean, log_std = (torch.tensor(row, dtype=torch.float64) for row in rows)
        expected = norm.logpdf(0.3, 0.1, math.exp(-0.5)) - math.log(1.0 - math.tanh(0.3) ** 2)
        assert squashing.log_prob(u, mean, log_std).numpy() == pytest.approx([expected], rel=1e-12)

    def test_shape_and_dtype(self):
        box = Box(-1.0, 1.0, (2, 3), dtype=np.float32)
        values = Squashing(box).to_box(np.zeros((5, 6)))
        assert (values.shape, values.dtype) == ((5, 2, 3), np.float32)
