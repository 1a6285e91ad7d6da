"""Stochastic policies: a softmax table, and networks for any ``Discrete`` or ``Box`` action space."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from constrained_maxent.errors import NonFiniteValue, UnsupportedSpace
from constrained_maxent.occupancy.spaces import FiniteSpace
from constrained_maxent.types import FloatArray

LOG_STD_BOUNDS = (-5.0, 2.0)
"""Range of log σ of Gaussian policies (paper, table of model architectures)."""


class Policy(nn.Module, ABC):
    """π(a|s) with parameters. Rows are observations as ``occupancy.spaces.as_rows`` records them.

    *Raw* actions are what the policy samples: numbers from 0 for ``Discrete``, values before the squashing for ``Box``, so
    that log π is exact at the bounds. ``to_env`` turns them into actions of the environment.
    """

    @abstractmethod
    def sample(self, rows: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        """Raw actions drawn from π, ``(n, ...)``, for rows ``(n, ...)``."""

    @abstractmethod
    def mode(self, rows: NDArray[Any]) -> NDArray[Any]:
        """The most probable raw actions, ``(n, ...)``."""

    @abstractmethod
    def log_prob(self, rows: NDArray[Any], raw: NDArray[Any]) -> torch.Tensor:
        """Log π of raw actions, ``(n,)`` [nats]; differentiable in the parameters."""

    @abstractmethod
    def to_env(self, raw: NDArray[Any]) -> NDArray[Any]:
        """Raw actions as actions of the environment, ``(n, ...)``."""

    def changed(self) -> None:
        """The parameters were changed: forget what was derived from them."""


class TabularSoftmax(Policy):
    r"""The paper's policy class: :math:`\pi_\theta(a|s) = e^{\theta_{s,a}} / \sum_{a'} e^{\theta_{s,a'}}`, θ = 0 at the start.

    Args:
        observation_space: finite, see :class:`~constrained_maxent.occupancy.FiniteSpace`.
        action_space: ``Discrete``.
    """

    def __init__(self, observation_space: gym.Space[Any], action_space: gym.spaces.Discrete) -> None:
        super().__init__()
        self._states = FiniteSpace(observation_space)
        self._first_action = int(action_space.start)
        shape = (self._states.n, int(action_space.n))
        self.theta = nn.Parameter(torch.zeros(shape, dtype=torch.float64))
        self._cumulative: FloatArray | None = None

    def table(self) -> FloatArray:
        """π(a|s), ``(n_states, n_actions)``."""
        with torch.no_grad():
            table: FloatArray = functional.softmax(self.theta, dim=1).cpu().numpy()
        return table

    def sample(self, rows: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        if self._cumulative is None:
            # Only the last column can miss 1 by rounding, and it is not needed: u < 1 lands there by default.
            self._cumulative = np.cumsum(self.table(), axis=1)[:, :-1]
        u = rng.random(len(rows))
        actions: NDArray[Any] = (self._cumulative[self._states.encode(rows)] <= u[:, None]).sum(axis=1)
        return actions

    def mode(self, rows: NDArray[Any]) -> NDArray[Any]:
        return self.table()[self._states.encode(rows)].argmax(axis=1)

    def log_prob(self, rows: NDArray[Any], raw: NDArray[Any]) -> torch.Tensor:
        states = torch.as_tensor(self._states.encode(rows), device=self.theta.device)
        actions = torch.as_tensor(raw, device=self.theta.device)
        return functional.log_softmax(self.theta, dim=1)[states, actions]

    def to_env(self, raw: NDArray[Any]) -> NDArray[Any]:
        actions: NDArray[Any] = raw + self._first_action
        return actions

    def changed(self) -> None:
        self._cumulative = None


class Features(nn.Module):
    """Observations as network input: ``Box`` flattened, finite spaces one-hot by component.

    Raises:
        UnsupportedSpace: neither.
    """

    def __init__(self, space: gym.Space[Any]) -> None:
        super().__init__()
        self._sizes: list[int] | None = None
        if isinstance(space, gym.spaces.Box):
            self.size = int(np.prod(space.shape))
        else:
            finite = FiniteSpace(space)
            self._sizes, self._starts = finite.sizes, finite.starts
            self.size = sum(self._sizes)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if self._sizes is None:
            return rows.reshape(len(rows), -1).to(torch.float32)
        components = rows.reshape(len(rows), -1).long() - torch.as_tensor(self._starts, device=rows.device)
        return torch.cat([functional.one_hot(components[:, i], size) for i, size in enumerate(self._sizes)], dim=1).to(
            torch.float32
        )


def mlp(space: gym.Space[Any], hidden_sizes: Sequence[int], n_outputs: int) -> nn.Sequential:
    """A network with ReLU between its layers; the last layer starts near 0: the first policy is nearly uniform."""
    features = Features(space)
    layers: list[nn.Module] = [features]
    size = features.size
    for hidden in hidden_sizes:
        layers += [nn.Linear(size, hidden), nn.ReLU()]
        size = hidden
    last = nn.Linear(size, n_outputs)
    nn.init.normal_(last.weight, std=0.01)
    nn.init.zeros_(last.bias)
    return nn.Sequential(*layers, last)


class CategoricalMLP(Policy):
    """A network whose outputs are the logits of a ``Discrete`` action space."""

    def __init__(
        self, observation_space: gym.Space[Any], action_space: gym.spaces.Discrete, hidden_sizes: Sequence[int]
    ) -> None:
        super().__init__()
        self._first_action = int(action_space.start)
        self.logits = mlp(observation_space, hidden_sizes, int(action_space.n))

    def _log_probs(self, rows: NDArray[Any]) -> torch.Tensor:
        return functional.log_softmax(self.logits(_tensor(rows, self)), dim=1)

    def sample(self, rows: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        with torch.no_grad():
            probabilities = _checked(self._log_probs(rows)).exp().cpu().numpy().astype(np.float64)
        cumulative = np.cumsum(probabilities, axis=1)[:, :-1]
        actions: NDArray[Any] = (cumulative <= rng.random(len(rows))[:, None]).sum(axis=1)
        return actions

    def mode(self, rows: NDArray[Any]) -> NDArray[Any]:
        with torch.no_grad():
            best: NDArray[Any] = self._log_probs(rows).argmax(dim=1).cpu().numpy()
        return best

    def log_prob(self, rows: NDArray[Any], raw: NDArray[Any]) -> torch.Tensor:
        return self._log_probs(rows).gather(1, _tensor(raw, self).long()[:, None])[:, 0]

    def to_env(self, raw: NDArray[Any]) -> NDArray[Any]:
        return raw + self._first_action


class GaussianMLP(Policy):
    r"""A Gaussian with state-dependent mean and log σ, squashed by tanh onto a bounded ``Box``.

    :math:`a = \mathrm{low} + (\tanh u + 1)(\mathrm{high}-\mathrm{low})/2` with
    :math:`u \sim \mathcal N(\mu(s), \sigma(s))`; an unbounded component takes *u* itself.
    """

    def __init__(
        self, observation_space: gym.Space[Any], action_space: gym.spaces.Box, hidden_sizes: Sequence[int]
    ) -> None:
        super().__init__()
        self._shape, self._dtype = action_space.shape, action_space.dtype
        n_actions = int(np.prod(action_space.shape))
        low, high = action_space.low.reshape(-1).astype(np.float64), action_space.high.reshape(-1).astype(np.float64)
        self._squashed = np.isfinite(low) & np.isfinite(high)
        self._middle = np.where(self._squashed, (low + high) / 2.0, 0.0)
        self._half = np.where(self._squashed, (high - low) / 2.0, 1.0)
        self.mean = mlp(observation_space, hidden_sizes, n_actions)
        self.log_std = mlp(observation_space, hidden_sizes, n_actions)

    def _gaussian(self, rows: NDArray[Any]) -> tuple[torch.Tensor, torch.Tensor]:
        inputs = _tensor(rows, self)
        return _checked(self.mean(inputs)), self.log_std(inputs).clamp(*LOG_STD_BOUNDS)

    def sample(self, rows: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        with torch.no_grad():
            mean, log_std = self._gaussian(rows)
        noise = rng.standard_normal(mean.shape)
        raw: NDArray[Any] = mean.cpu().numpy() + log_std.exp().cpu().numpy() * noise
        return raw

    def mode(self, rows: NDArray[Any]) -> NDArray[Any]:
        with torch.no_grad():
            mean: NDArray[Any] = self._gaussian(rows)[0].cpu().numpy().astype(np.float64)
        return mean

    def log_prob(self, rows: NDArray[Any], raw: NDArray[Any]) -> torch.Tensor:
        mean, log_std = self._gaussian(rows)
        u = _tensor(raw, self).to(mean.dtype)
        log_normal = -0.5 * ((u - mean) / log_std.exp()) ** 2 - log_std - 0.5 * float(np.log(2.0 * np.pi))
        # log |da/du|: log(1 - tanh(u)^2) written so that it stays finite for large |u|.
        stretch = torch.as_tensor(np.log(self._half), dtype=mean.dtype, device=mean.device)
        squash = stretch + 2.0 * (float(np.log(2.0)) - u - functional.softplus(-2.0 * u))
        squashed = torch.as_tensor(self._squashed, device=mean.device)
        return (log_normal - torch.where(squashed, squash, torch.zeros_like(squash))).sum(dim=1)

    def to_env(self, raw: NDArray[Any]) -> NDArray[Any]:
        actions = self._middle + self._half * np.where(self._squashed, np.tanh(raw), raw)
        scaled: NDArray[Any] = actions.reshape(len(raw), *self._shape).astype(self._dtype)
        return scaled


def make_policy(
    observation_space: gym.Space[Any], action_space: gym.Space[Any], *, tabular: bool, hidden_sizes: Sequence[int]
) -> Policy:
    """The policy for a pair of spaces.

    Raises:
        UnsupportedSpace: the action space is neither ``Discrete`` nor ``Box``, or a table is asked for and impossible.
    """
    if isinstance(action_space, gym.spaces.Discrete):
        if tabular:
            return TabularSoftmax(observation_space, action_space)
        return CategoricalMLP(observation_space, action_space, hidden_sizes)
    if not isinstance(action_space, gym.spaces.Box):
        raise UnsupportedSpace(f"{action_space} is neither Discrete nor Box: PGP has no policy for it.")
    if tabular:
        raise UnsupportedSpace("A tabular policy needs Discrete actions: take policy='mlp'.")
    return GaussianMLP(observation_space, action_space, hidden_sizes)


def _tensor(values: NDArray[Any], module: nn.Module) -> torch.Tensor:
    return torch.as_tensor(values, device=next(module.parameters()).device)


def _checked(outputs: torch.Tensor) -> torch.Tensor:
    if not bool(torch.isfinite(outputs).all()):
        raise NonFiniteValue("The policy network returned a value that is not finite: lower the learning rate.")
    return outputs
