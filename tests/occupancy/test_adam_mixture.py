"""The paper's mixture: its gradient by finite differences, its steps against PyTorch's own Adam."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.occupancy import AdamGaussianMixture
from constrained_maxent.occupancy.adam_mixture import log_likelihood_gradient, turns_of
from constrained_maxent.types import Batch


def bound(n: int = 2, **options: Any) -> AdamGaussianMixture:
    return AdamGaussianMixture(**options).bind(Box(-np.inf, np.inf, (n,)), Box(-1.0, 1.0, (1,)))


def batch_of(states: Any, weights: Any = None) -> Batch:
    return Batch(observations=states, actions=np.zeros((len(states), 1)), lengths=[len(states)], weights=weights)


def likelihood(parameters: torch.Tensor, samples: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """Mean log-likelihood, by torch.distributions."""
    d = samples.shape[1]
    weights = torch.log_softmax(parameters[:, 0], 0)
    means, log_std = parameters[:, 1 : 1 + d], parameters[:, 1 + d :]
    normal = torch.distributions.Normal(means[:, None] + turns, log_std.exp()[:, None])
    logs = normal.log_prob(samples[:, None, None]).sum(dim=3) + weights[:, None]
    return torch.logsumexp(logs.flatten(1), dim=1).mean()


def example(periodic: list[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(0)
    parameters = torch.as_tensor(rng.normal(size=(3, 5)))
    samples = torch.as_tensor(rng.uniform(-3.0, 3.0, (40, 2)))
    return parameters, samples, torch.as_tensor(turns_of(periodic, 2))


def monomials(samples: torch.Tensor) -> torch.Tensor:
    return torch.cat((samples**2, samples, torch.ones_like(samples[:, :1])), dim=1)


@pytest.mark.parametrize("periodic", [[], [1], [0, 1]])
class TestGradient:
    def test_by_finite_differences(self, periodic: list[int]) -> None:
        parameters, samples, turns = example(periodic)
        gradient = log_likelihood_gradient(parameters, monomials(samples), turns)
        for index in np.ndindex(*parameters.shape):
            step = torch.zeros_like(parameters)
            step[index] = 1e-6
            up, down = (likelihood(parameters + sign * step, samples, turns) for sign in (1.0, -1.0))
            assert gradient[index].item() == pytest.approx(((up - down) / 2e-6).item(), abs=1e-8)

    def test_by_automatic_differentiation(self, periodic: list[int]) -> None:
        parameters, samples, turns = example(periodic)
        variable = parameters.clone().requires_grad_()
        likelihood(variable, samples, turns).backward()
        gradient = log_likelihood_gradient(parameters, monomials(samples), turns)
        np.testing.assert_allclose(gradient, variable.grad, rtol=1e-10, atol=1e-12)


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
        (-likelihood(variable, torch.as_tensor(states[batch]), torch.zeros(1, 2, dtype=torch.float64))).backward()
        optimizer.step()
    fitted.fit(batch_of(states))
    np.testing.assert_allclose(fitted.mixture_.means, variable.detach().numpy()[:, 1:3], rtol=1e-9)
    np.testing.assert_allclose(fitted._parameters, variable.detach(), rtol=1e-9, atol=1e-12)


class TestFits:
    def test_finds_a_gaussian(self) -> None:
        states = np.random.default_rng(0).normal(size=(2000, 2)) * [1.5, 0.5] + [1.0, -2.0]
        fitted = bound(n_components=1, learning_rate=0.05, n_steps=400).fit(batch_of(states))
        np.testing.assert_allclose(fitted.mixture_.means, [[1.0, -2.0]], atol=0.1)
        np.testing.assert_allclose(fitted.mixture_.covariances[0], np.diag([2.25, 0.25]), atol=0.2)

    def test_follows_the_weights(self) -> None:
        states = np.repeat([[-1.0, 0.0], [1.0, 0.0]], 100, axis=0)
        weights = np.repeat([1.0, 3.0], 100)
        fitted = bound(n_components=1, learning_rate=0.02).fit(batch_of(states, weights))
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

    def test_standardized_coordinates_are_those_of_the_first_batch(self) -> None:
        states = 1e4 * np.random.default_rng(0).normal(size=(500, 2)) + 1e5
        fitted = bound(standardize=True).fit(batch_of(states))
        assert fitted.log_prob(states, np.zeros((500, 1))).mean() == pytest.approx(
            -2.0 * (np.log(1e4) + 0.5 * np.log(2.0 * np.pi * np.e)), abs=0.4
        )
        before = fitted._frame
        assert fitted.fit(batch_of(states * 2.0))._frame is before

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
        with pytest.raises(InvalidSetting, match="device"):
            bound(device="nowhere").fit(batch_of(np.zeros((3, 2))))
