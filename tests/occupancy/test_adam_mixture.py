"""The paper's mixture: gradient and steps against automatic differentiation with PyTorch's Adam."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.occupancy import AdamGaussianMixture
from constrained_maxent.occupancy.adam_mixture import LikelihoodAscent, turns_of
from constrained_maxent.types import Batch

BOUNDS = (-0.5, 0.25)
RATE = 0.1
every_wrapping = pytest.mark.parametrize("periodic", [[], [1], [0, 1]])


def bound(n: int = 2, **options: Any) -> AdamGaussianMixture:
    return AdamGaussianMixture(**options).bind(Box(-np.inf, np.inf, (n,)), Box(-1.0, 1.0, (1,)))


def batch_of(states: Any, weights: Any = None) -> Batch:
    return Batch(observations=states, actions=np.zeros((len(states), 1)), lengths=[len(states)], weights=weights)


def start() -> Any:
    """Logits, means and log σ of three components in two features; means at the edge of a turn, σ at the bounds."""
    rng = np.random.default_rng(0)
    parameters = rng.normal(size=(3, 5))
    parameters[:, 1:3] = [[3.1, -3.1], [-3.1, 3.1], [0.5, 0.0]]
    parameters[:, 3:] = np.clip(parameters[:, 3:], *BOUNDS)
    return parameters


def likelihood(parameters: torch.Tensor, samples: Any, periodic: list[int]) -> torch.Tensor:
    """Mean log-likelihood, by torch.distributions."""
    weights = torch.log_softmax(parameters[:, 0], 0)
    means, log_std = parameters[:, 1:3], parameters[:, 3:]
    normal = torch.distributions.Normal(means[:, None] + torch.as_tensor(turns_of(periodic, 2)), log_std.exp()[:, None])
    logs = normal.log_prob(torch.as_tensor(samples)[:, None, None]).sum(dim=3) + weights[:, None]
    return torch.logsumexp(logs.flatten(1), dim=1).mean()


def ascent(parameters: Any, periodic: list[int]) -> LikelihoodAscent:
    return LikelihoodAscent(
        parameters,
        np.zeros((2, *parameters.shape)),
        angles=periodic,
        learning_rate=RATE,
        log_std_bounds=BOUNDS,
    )


@every_wrapping
def test_gradient_by_automatic_differentiation(periodic: list[int]) -> None:
    samples = np.random.default_rng(1).uniform(-3.0, 3.0, (40, 2))
    variable = torch.as_tensor(start()).requires_grad_()
    likelihood(variable, samples, periodic).backward()
    monomials = np.concatenate((samples.T**2, samples.T, np.ones((1, 40))))
    assert variable.grad is not None
    np.testing.assert_allclose(ascent(start(), periodic).gradient(monomials), variable.grad, rtol=1e-10, atol=1e-12)


@every_wrapping
def test_steps_are_those_of_pytorch(periodic: list[int]) -> None:
    rng = np.random.default_rng(1)
    rows, chosen = rng.uniform(-3.0, 3.0, (200, 2)), rng.integers(200, size=(12, 16))
    variable = torch.as_tensor(start()).requires_grad_()
    optimizer = torch.optim.Adam([variable], lr=RATE, maximize=True)
    for batch in chosen:
        optimizer.zero_grad()
        likelihood(variable, rows[batch], periodic).backward()
        optimizer.step()
        with torch.no_grad():
            variable[:, 3:] = variable[:, 3:].clamp(*BOUNDS)
            for i in periodic:
                variable[:, 1 + i] = torch.remainder(variable[:, 1 + i] + math.pi, 2.0 * math.pi) - math.pi
    parameters = start()
    steps = ascent(parameters, periodic)
    steps.climb(rows, chosen[:5], 0)
    steps.climb(rows, chosen[5:], 5)  # as the next fit goes on
    assert (np.abs(start() - parameters) > 0.1).any()
    np.testing.assert_allclose(parameters, variable.detach(), rtol=1e-9, atol=1e-10)


def test_steps_are_those_of_adam() -> None:
    states = np.random.default_rng(0).normal(size=(200, 2)) * [1.0, 3.0]
    fitted = bound(n_components=3, n_steps=4, batch_size=8, learning_rate=0.1)
    # The same start and the same minibatches, drawn as fit draws them.
    rng = np.random.default_rng((0, 0))
    start = np.zeros((3, 5))
    start[:, 1:3] = states[rng.choice(200, size=3, p=np.full(200, 1 / 200))]
    chosen = np.searchsorted(np.arange(1.0, 201.0), rng.random((4, 8)) * 200.0, side="right")
    variable = torch.as_tensor(start).requires_grad_()
    optimizer = torch.optim.Adam([variable], lr=0.1)
    for batch in chosen:
        optimizer.zero_grad()
        (-likelihood(variable, states[batch], [])).backward()
        optimizer.step()
    fitted.fit(batch_of(states))
    np.testing.assert_allclose(fitted.mixture_.means, variable.detach().numpy()[:, 1:3], rtol=1e-9)
    np.testing.assert_allclose(fitted.state_dict()["model"]["parameters"], variable.detach(), rtol=1e-9, atol=1e-12)


class TestFits:
    def test_finds_a_gaussian(self) -> None:
        states = np.random.default_rng(0).normal(size=(2000, 2)) * [1.5, 0.5] + [1.0, -2.0]
        fitted = bound(n_components=1, learning_rate=0.05, n_steps=400).fit(batch_of(states))
        np.testing.assert_allclose(fitted.mixture_.means, [[1.0, -2.0]], atol=0.1)
        np.testing.assert_allclose(fitted.mixture_.covariances[0], np.diag([2.25, 0.25]), atol=0.2)

    def test_follows_the_weights(self) -> None:
        states = np.repeat([[-1.0, 0.0], [1.0, 0.0]], 100, axis=0)
        weights = np.repeat([1.0, 3.0], 100)
        fitted = bound(n_components=1, learning_rate=0.02, counted=()).fit(batch_of(states, weights))
        assert fitted.mixture_.means[0, 0] == pytest.approx(0.5, abs=0.1)

    def test_stays_within_the_bounds(self) -> None:
        fitted = bound(learning_rate=0.5, log_std_bounds=(-1.0, 0.5))
        for scale in (0.0, 100.0):
            fitted.fit(batch_of(scale * np.random.default_rng(0).normal(size=(50, 2))))
            log_std = 0.5 * np.log(np.diagonal(fitted.mixture_.covariances, axis1=1, axis2=2))
            assert log_std.min() >= -1.0 - 1e-12
            assert log_std.max() <= 0.5 + 1e-12

    def test_an_angle_is_found_across_the_cut(self) -> None:
        states = np.pi + 0.2 * np.random.default_rng(0).normal(size=(500, 1))
        fitted = bound(1, n_components=1, periodic=(0,), learning_rate=0.05).fit(batch_of(states))
        assert abs(fitted.mixture_.means[0, 0]) == pytest.approx(np.pi, abs=0.05)
        assert fitted.mixture_.covariances[0, 0, 0] == pytest.approx(0.04, abs=0.01)

    def test_refuses_bad_settings(self) -> None:
        for options in (
            {"n_components": 0},
            {"n_steps": 0},
            {"batch_size": 0},
            {"learning_rate": 0.0},
            {"log_std_bounds": (2.0, -5.0)},
        ):
            with pytest.raises(InvalidSetting, match=next(iter(options))):
                AdamGaussianMixture(**options)
