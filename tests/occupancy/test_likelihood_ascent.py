"""The steps in NumPy: against automatic differentiation with PyTorch's Adam, and against those of other devices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from constrained_maxent.occupancy import AdamGaussianMixture
from constrained_maxent.occupancy.adam_mixture import turns_of
from constrained_maxent.occupancy.likelihood_ascent import LikelihoodAscent
from constrained_maxent.types import Batch

BOUNDS = (-0.5, 0.25)
RATE = 0.1
every_wrapping = pytest.mark.parametrize("periodic", [[], [1], [0, 1]])


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
        turns_of(periodic, 2),
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


@pytest.mark.parametrize("standardize", [False, True])
def test_other_devices_take_the_same_steps(standardize: bool) -> None:
    """Those of PyTorch, here on the processor as well."""
    states = np.random.default_rng(0).normal(size=(300, 2)) * [1.0, 30.0]
    batch = Batch(observations=states, actions=np.zeros((300, 1)), lengths=[300])
    space, options = Box(-np.inf, np.inf, (2,)), {"n_components": 4, "periodic": (0,), "standardize": standardize}
    here, there = (AdamGaussianMixture(**options).bind(space, space) for _ in range(2))

    def climb(samples: Any, chosen: Any) -> None:
        there._adam(torch.as_tensor(samples), torch.as_tensor(chosen))

    there._climb = climb  # type: ignore[method-assign]
    for mixture in (here, there):
        mixture.fit(batch).fit(batch)
    np.testing.assert_allclose(here._parameters, there._parameters, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(here._moments, there._moments, rtol=1e-10, atol=1e-10)
    assert here._n_updates == there._n_updates == 400
