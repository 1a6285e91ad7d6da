"""Squashed Gaussians against torch's distributions and transforms, and the distribution of their own samples."""

import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from scipy.stats import kstest
from torch.distributions import Normal, TransformedDistribution
from torch.distributions.transforms import AffineTransform, ComposeTransform, TanhTransform

from constrained_maxent.errors import NonFiniteValue

CONFIDENCE = 1e-6
"""A right sampler fails a test of this level once in a million seeds; the seed is fixed."""


class TestGaussianMLP:
    LOW, HIGH = np.array([-2.0, 0.5]), np.array([1.0, 3.0])

    @pytest.fixture
    def policy(self, network_policy):
        return network_policy(Box(self.LOW, self.HIGH, dtype=np.float64))

    def torch_log_prob(self, policy, rows, raw):
        """By torch's own transforms, in float64."""
        inputs = torch.as_tensor(rows, dtype=torch.float32)
        mean, log_std = policy.mean(inputs).double(), policy.log_std(inputs).double().clamp(-5.0, 2.0)
        scale = torch.as_tensor((self.HIGH - self.LOW) / 2.0)
        middle = torch.as_tensor((self.HIGH + self.LOW) / 2.0)
        # With its cache the transform remembers u, and does not go back through atanh.
        transform = ComposeTransform([TanhTransform(cache_size=1), AffineTransform(middle, scale, cache_size=1)])
        action = transform(torch.as_tensor(raw))
        return TransformedDistribution(Normal(mean, log_std.exp()), transform).log_prob(action).sum(dim=1)

    @pytest.mark.parametrize("size", [1.0, 5.0, 20.0])
    def test_log_prob_is_that_of_a_squashed_normal(self, policy, size):
        rng = np.random.default_rng(0)
        rows, raw = rng.normal(size=(6, 3)), size * np.sign(rng.normal(size=(6, 2)))
        expected = self.torch_log_prob(policy, rows, raw)
        actual = policy.log_prob(rows, raw)
        torch.testing.assert_close(actual.double(), expected, rtol=1e-5, atol=1e-4)

    def test_gradient_stays_finite_at_the_bounds(self, policy):
        rows, raw = np.zeros((2, 3)), np.array([[20.0, -20.0], [300.0, -300.0]])
        log_prob = policy.log_prob(rows, raw)
        log_prob.sum().backward()
        assert torch.isfinite(log_prob).all()
        assert all(torch.isfinite(parameter.grad).all() for parameter in policy.parameters())

    def test_density_integrates_to_one(self, network_policy):
        """Over the actions themselves, by the midpoint rule."""
        policy = network_policy(Box(-2.0, 1.0, (1,), dtype=np.float64))
        actions = -2.0 + 3.0 * (np.arange(20_000) + 0.5) / 20_000
        raw = np.arctanh((actions + 0.5) / 1.5)[:, None]
        density = policy.log_prob(np.zeros((20_000, 3)), raw).detach().exp().double().numpy()
        assert density.sum() * 3.0 / 20_000 == pytest.approx(1.0, abs=1e-4)

    def test_samples_follow_the_gaussian(self, policy):
        row = np.array([0.3, -0.2, 0.9])
        raw = policy.sample(np.tile(row, (5_000, 1)), np.random.default_rng(0))
        with torch.no_grad():
            inputs = torch.as_tensor(row, dtype=torch.float32)[None]
            mean, std = policy.mean(inputs)[0], policy.log_std(inputs)[0].exp()
        for i in range(2):
            assert kstest(raw[:, i], "norm", args=(mean[i].item(), std[i].item())).pvalue > CONFIDENCE

    def test_standard_deviation_has_bounds(self, network_policy):
        policy = network_policy(Box(-1.0, 1.0, (1,)))
        with torch.no_grad():
            policy.log_std[-1].bias.fill_(50.0)
        raw = policy.sample(np.zeros((2_000, 3)), np.random.default_rng(0))
        assert raw.std() == pytest.approx(math.exp(2.0), rel=0.1)

    def test_mode_is_the_mean(self, policy):
        rows = np.random.default_rng(0).normal(size=(4, 3))
        np.testing.assert_allclose(
            policy.mode(rows), policy.mean(torch.as_tensor(rows, dtype=torch.float32)).detach(), rtol=1e-6
        )

    @pytest.mark.parametrize("network", ["mean", "log_std"])
    def test_diverged_parameters_are_named(self, policy, network):
        with torch.no_grad():
            getattr(policy, network)[-1].bias[0] = math.nan
        with pytest.raises(NonFiniteValue, match="lower the learning rate"):
            policy.sample(np.zeros((1, 3)), np.random.default_rng(0))
