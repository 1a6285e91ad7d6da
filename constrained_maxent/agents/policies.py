"""Stochastic policies: a softmax table, and networks for any ``Discrete`` or ``Box`` action space."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from constrained_maxent.agents.settings import PolicyKind
from constrained_maxent.errors import NonFiniteValue, UnsupportedSpace
from constrained_maxent.occupancy.counts import DENSE_CELLS
from constrained_maxent.occupancy.spaces import FiniteSpace
from constrained_maxent.types import FloatArray, IntArray

LOG_STD_BOUNDS = (-5.0, 2.0)
"""Range of log σ of Gaussian policies (paper, table of model architectures)."""

ALMOST_BOUND = 1.0 - 1e-6
"""Recorded actions nearer to a bound than this cannot be told from it in float32 arithmetic: |u| ≤ 7.25."""

LARGEST_TABLE = 100_000_000
"""Most parameters of a table that is asked for explicitly (0.8 GB)."""

LARGEST_INPUT = 1_000_000
"""Most inputs of a network; a finite space has one for each value of each component."""

LARGEST_NORMALISED = 10.0
"""Normalised observations are clipped here: one outlier would drive the network far from all that it has learnt."""


class Policy(nn.Module, ABC):
    """π(a|s) with parameters. Rows are observations as ``occupancy.spaces.as_rows`` records them.

    *Raw* actions are what the policy samples: numbers from 0 for ``Discrete``, values before the squashing for ``Box``,
    so that log π is exact at the bounds. ``to_env`` turns them into actions of the environment.

    Every method raises ``NonFiniteValue`` if the parameters have diverged.
    """

    @abstractmethod
    def sample(self, rows: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        """Raw actions drawn from π, ``(n, ...)``, for rows ``(n, ...)``."""

    def sample_with_log_prob(self, rows: NDArray[Any], rng: np.random.Generator) -> tuple[NDArray[Any], FloatArray]:
        """Raw actions drawn from π, ``(n, ...)``, and log π of them, ``(n,)`` [nats]."""
        raw = self.sample(rows, rng)
        with torch.no_grad():
            return raw, _numpy(self.log_prob(rows, raw))

    @abstractmethod
    def mode(self, rows: NDArray[Any]) -> NDArray[Any]:
        """The most probable raw actions, ``(n, ...)``."""

    @abstractmethod
    def log_prob(self, rows: NDArray[Any], raw: NDArray[Any]) -> torch.Tensor:
        """Log π of raw actions, ``(n,)`` [nats]; differentiable in the parameters."""

    def ascend(self, rows: NDArray[Any], raw: NDArray[Any], factor_t: FloatArray) -> None:
        r"""Add :math:`-\sum_t f_t \nabla\log\pi(a_t|s_t)` to the gradients, for an optimiser to step down.

        Args:
            rows: observations, ``(n, ...)``.
            raw: raw actions, ``(n, ...)``.
            factor_t: :math:`f_t`, ``(n,)``.
        """
        log_prob_t = self.log_prob(rows, raw)
        (-(_tensor(factor_t, self).to(log_prob_t.dtype) * log_prob_t).sum()).backward()  # type: ignore[no-untyped-call]

    @abstractmethod
    def to_env(self, raw: NDArray[Any]) -> NDArray[Any]:
        """Raw actions as actions of the environment, ``(n, ...)``."""

    def changed(self) -> None:
        """The parameters were changed: forget what was derived from them."""

    def observe(self, rows: NDArray[Any]) -> None:
        """Let the normalisation of observations, where there is one, take these rows into account."""


class TabularSoftmax(Policy):
    r"""The paper's policy class, uniform at first.

    .. math:: \pi_\theta(a|s) = e^{\theta_{s,a}} / \sum_{a'} e^{\theta_{s,a'}}, \qquad \theta_0 = 0

    Args:
        observation_space: finite, see :class:`~constrained_maxent.occupancy.FiniteSpace`.
        action_space: ``Discrete``.

    Raises:
        UnsupportedSpace: the observations are not finite, or the table would have more than ``LARGEST_TABLE`` entries.
    """

    def __init__(self, observation_space: gym.Space[Any], action_space: gym.spaces.Discrete) -> None:
        super().__init__()
        self._states = FiniteSpace(observation_space)
        self._first_action = int(action_space.start)
        shape = (self._states.n, int(action_space.n))
        if shape[0] * shape[1] > LARGEST_TABLE:
            raise UnsupportedSpace(
                f"A table of {shape[0]:,} states and {shape[1]:,} actions does not fit into memory: take policy='mlp', "
                "or describe the observation more coarsely."
            )
        self.theta = nn.Parameter(torch.zeros(shape, dtype=torch.float64))
        self._cumulative: FloatArray | None = None

    def table(self) -> FloatArray:
        """π(a|s), ``(n_states, n_actions)``."""
        with torch.no_grad():
            table: FloatArray = _checked(functional.softmax(self.theta, dim=1)).cpu().numpy()
        return table

    def state_numbers(self, rows: NDArray[Any]) -> IntArray:
        """Rows of the table that belong to observations, ``(n,)``."""
        return self._states.encode(rows)

    def sample(self, rows: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        if self._cumulative is None:
            # Only the last column can miss 1 by rounding, and it is not needed: u < 1 lands there by default.
            self._cumulative = np.cumsum(self.table(), axis=1)[:, :-1]
        u = rng.random(len(rows))
        actions: NDArray[Any] = (self._cumulative[self._states.encode(rows)] <= u[:, None]).sum(axis=1)
        return actions

    def mode(self, rows: NDArray[Any]) -> NDArray[Any]:
        actions: NDArray[Any] = self.table()[self._states.encode(rows)].argmax(axis=1)
        return actions

    def log_prob(self, rows: NDArray[Any], raw: NDArray[Any]) -> torch.Tensor:
        return functional.log_softmax(self.theta, dim=1)[_tensor(self._states.encode(rows), self), _tensor(raw, self)]

    def ascend(self, rows: NDArray[Any], raw: NDArray[Any], factor_t: FloatArray) -> None:
        # In closed form, a tenth of the time: the score is 1{a} - pi(.|s) in the row of s.
        table = self.table()
        cells = self._states.encode(rows) * table.shape[1] + raw
        visits = np.bincount(cells, factor_t, table.size).reshape(table.shape)
        with np.errstate(invalid="ignore"):  # the agent names a gradient that is not finite
            gradient = _tensor(table * visits.sum(axis=1, keepdims=True) - visits, self)
        self.theta.grad = gradient if self.theta.grad is None else self.theta.grad + gradient

    def to_env(self, raw: NDArray[Any]) -> NDArray[Any]:
        actions: NDArray[Any] = raw + self._first_action
        return actions

    def changed(self) -> None:
        self._cumulative = None


class Features(nn.Module):
    """Observations as network input: ``Box`` flattened, finite spaces one-hot by component.

    Args:
        space: of the observations.
        normalize: whether ``Box`` observations are shifted and scaled to mean 0 and variance 1 over all rows that
            ``observe`` was given, and clipped to ±10. The statistics are buffers: part of every checkpoint.

    Raises:
        UnsupportedSpace: neither, or more than ``LARGEST_INPUT`` inputs.
    """

    count: torch.Tensor
    mean: torch.Tensor
    variance: torch.Tensor

    def __init__(self, space: gym.Space[Any], *, normalize: bool = False) -> None:
        super().__init__()
        self._sizes: list[int] | None = None
        if isinstance(space, gym.spaces.Box):
            self.size = int(np.prod(space.shape))
        else:
            finite = FiniteSpace(space)
            self._sizes, self._starts = finite.sizes, finite.starts
            self.size = sum(self._sizes)
        if self.size > LARGEST_INPUT:
            raise UnsupportedSpace(
                f"{space} would be {self.size:,} inputs of a network: describe the observation more coarsely, or as a "
                "MultiDiscrete of small components."
            )
        self._normalizes = normalize and self._sizes is None
        if self._normalizes:
            self.register_buffer("count", torch.zeros((), dtype=torch.float64))
            self.register_buffer("mean", torch.zeros(self.size, dtype=torch.float64))
            self.register_buffer("variance", torch.ones(self.size, dtype=torch.float64))

    def observe(self, rows: NDArray[Any]) -> None:
        """Merge mean and variance of more rows, ``(n, ...)`` (Chan, Golub and LeVeque 1979)."""
        if not (self._normalizes and len(rows)):
            return
        flat = torch.as_tensor(rows, device=self.mean.device).reshape(len(rows), -1).double()
        fresh_mean, fresh_variance = flat.mean(dim=0), flat.var(dim=0, unbiased=False)
        share = len(rows) / (float(self.count) + len(rows))
        difference = fresh_mean - self.mean
        spread = share * (1.0 - share) * difference**2
        self.variance.copy_((1.0 - share) * self.variance + share * fresh_variance + spread)
        self.mean += share * difference
        self.count += len(rows)

    @property
    def is_flat(self) -> bool:
        """Whether these are the numbers of a ``Box`` as they are."""
        return self._sizes is None

    def _scale(self) -> torch.Tensor:
        # What is constant, but for the rounding of its mean, stays as it is, shifted to 0.
        varies = self.variance > 1e-16 + 1e-24 * self.mean**2
        return torch.where(varies, self.variance, 1.0).rsqrt()

    def normalization(self) -> tuple[FloatArray, FloatArray] | None:
        """Center c and scale z, ``(size,)`` each: inputs become (x - c)·z. ``None`` where inputs stay as they are."""
        return (_numpy(self.mean), _numpy(self._scale())) if self._normalizes else None

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if self._sizes is None:
            flat = rows.reshape(len(rows), -1)
            if self._normalizes:
                flat = ((flat - self.mean) * self._scale()).clamp(-LARGEST_NORMALISED, LARGEST_NORMALISED)
            return flat.to(torch.float32)
        components = rows.reshape(len(rows), -1).long() - torch.as_tensor(self._starts, device=rows.device)
        return torch.cat([functional.one_hot(components[:, i], size) for i, size in enumerate(self._sizes)], dim=1).to(
            torch.float32
        )


def mlp(n_inputs: int, hidden_sizes: Sequence[int], n_outputs: int) -> nn.Sequential:
    """A network with ReLU between its layers; the last layer starts near 0: the first policy is nearly uniform."""
    layers: list[nn.Module] = []
    size = n_inputs
    for hidden in hidden_sizes:
        # In place: nothing needs what comes before, and fresh memory for large batches costs as much as the arithmetic.
        layers += [nn.Linear(size, hidden), nn.ReLU(inplace=True)]
        size = hidden
    last = nn.Linear(size, n_outputs)
    nn.init.normal_(last.weight, std=0.01)
    nn.init.zeros_(last.bias)
    return nn.Sequential(*layers, last)


class NetworkPolicy(Policy):
    """What policies of networks share: features of the observations, normalised if wanted.

    Args:
        observation_space: of one (sub-)environment.
        normalize: see :class:`Features`.
    """

    def __init__(self, observation_space: gym.Space[Any], *, normalize: bool) -> None:
        super().__init__()
        self.features = Features(observation_space, normalize=normalize)

    def observe(self, rows: NDArray[Any]) -> None:
        self.features.observe(rows)


class CategoricalMLP(NetworkPolicy):
    """A network whose outputs are the logits of a ``Discrete`` action space."""

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.spaces.Discrete,
        hidden_sizes: Sequence[int],
        *,
        normalize: bool = False,
    ) -> None:
        super().__init__(observation_space, normalize=normalize)
        self._observation_space = observation_space
        self._first_action = int(action_space.start)
        self.logits = mlp(self.features.size, hidden_sizes, int(action_space.n))

    def _log_probs(self, rows: NDArray[Any]) -> torch.Tensor:
        return functional.log_softmax(_checked(self.logits(self.features(_tensor(rows, self)))), dim=1)

    def _probabilities(self, rows: NDArray[Any]) -> FloatArray:
        with torch.no_grad():
            probabilities: FloatArray = self._log_probs(rows).double().exp().cpu().numpy()
        return probabilities

    def table(self) -> FloatArray:
        """π(a|s), ``(n_states, n_actions)``.

        Raises:
            UnsupportedSpace: the observation space is not finite.
        """
        states = FiniteSpace(self._observation_space)
        digits = np.stack(np.unravel_index(np.arange(states.n), states.sizes), axis=1)
        return self._probabilities(digits + states.starts)

    def sample(self, rows: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        cumulative = np.cumsum(self._probabilities(rows), axis=1)[:, :-1]
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


class Squashing:
    r"""A smooth map from all reals *u* onto the inside of a ``Box``, component by component.

    Between two bounds it is :math:`\mathrm{low} + (\tanh u + 1)(\mathrm{high}-\mathrm{low})/2`, above or below a single
    one :math:`\mathrm{low} + \log(1+e^u)` or :math:`\mathrm{high} - \log(1+e^{-u})`, and *u* itself without bounds.
    """

    def __init__(self, space: gym.spaces.Box) -> None:
        self._shape, self._dtype = space.shape, space.dtype
        self._low, self._high = (bound.reshape(-1).astype(np.float64) for bound in (space.low, space.high))
        has_low, has_high = np.isfinite(self._low), np.isfinite(self._high)
        self._is_interval, self._is_ray = has_low & has_high, has_low ^ has_high
        self._sign = np.where(has_low, 1.0, -1.0)  # the way in which a ray runs
        self._bound = np.where(has_low, self._low, np.where(has_high, self._high, 0.0))
        self._half = np.where(self._is_interval, self._high / 2.0 - np.where(has_low, self._low, 0.0) / 2.0, 1.0)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of an element of the space."""
        return self._shape

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds, ``(n_components,)`` each."""
        return self._low, self._high

    def to_box(self, u: FloatArray) -> NDArray[Any]:
        """Elements of the space, ``(n, *shape)``, for *u* ``(n, n_components)``."""
        interval = self._bound + self._half * (np.tanh(u) + 1.0)
        ray = self._bound + self._sign * np.logaddexp(0.0, self._sign * u)
        values = np.where(self._is_interval, interval, np.where(self._is_ray, ray, u))
        # Rounding may step over a bound.
        inside: NDArray[Any] = np.clip(values, self._low, self._high).reshape(len(u), *self._shape).astype(self._dtype)
        return inside

    def to_reals(self, values: NDArray[Any]) -> FloatArray:
        """The inverse: *u*, ``(n, n_components)``, for elements of the space.

        Rounding puts squashed actions on the bounds themselves, where *u* would be infinite: between two bounds they
        count as :data:`ALMOST_BOUND` of the way to them, and beside a single one as that far from it.
        """
        rows = np.asarray(values, dtype=np.float64).reshape(len(values), -1)
        width = np.where(self._half > 0.0, self._half, 1.0)
        inside = np.clip((rows - self._bound) / width - 1.0, -ALMOST_BOUND, ALMOST_BOUND)
        distance = np.maximum(self._sign * (rows - self._bound), 1.0 - ALMOST_BOUND)
        # The inverse of log(1 + e^u), without overflow.
        ray = self._sign * (distance + np.log(-np.expm1(-distance)))
        reals: FloatArray = np.where(self._is_interval, np.arctanh(inside), np.where(self._is_ray, ray, rows))
        return reals

    def log_slope(self, u: torch.Tensor) -> torch.Tensor:
        """Logarithm of the map's derivative, of the shape of *u*; finite however large *u* is."""

        def constant(values: NDArray[Any]) -> torch.Tensor:
            return torch.as_tensor(values, device=u.device)

        # log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u)). A component of no width has no density: its part is 0.
        stretch = constant(np.log(np.where(self._half > 0.0, self._half, 1.0))).to(u.dtype)
        interval = stretch + 2.0 * (math.log(2.0) - u - functional.softplus(-2.0 * u))
        ray = -functional.softplus(-constant(self._sign).to(u.dtype) * u)
        beside = torch.where(constant(self._is_ray), ray, torch.zeros_like(u))
        return torch.where(constant(self._is_interval), interval, beside)


class GaussianMLP(NetworkPolicy):
    r"""A Gaussian :math:`u \sim \mathcal N(\mu(s), \sigma(s))`, squashed into a ``Box``; see :class:`Squashing`."""

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.spaces.Box,
        hidden_sizes: Sequence[int],
        *,
        normalize: bool = False,
    ) -> None:
        super().__init__(observation_space, normalize=normalize)
        self._squashing = Squashing(action_space)
        n_actions = int(np.prod(action_space.shape))
        self.mean = mlp(self.features.size, hidden_sizes, n_actions)
        self.log_std = mlp(self.features.size, hidden_sizes, n_actions)

    @property
    def squashing(self) -> Squashing:
        """What makes actions of *u*."""
        return self._squashing

    def _gaussian(self, rows: NDArray[Any]) -> tuple[torch.Tensor, torch.Tensor]:
        inputs = self.features(_tensor(rows, self))
        return _checked(self.mean(inputs)), _checked(self.log_std(inputs)).clamp(*LOG_STD_BOUNDS)

    def sample(self, rows: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        return self._draw(rows, rng)[0]

    def sample_with_log_prob(self, rows: NDArray[Any], rng: np.random.Generator) -> tuple[NDArray[Any], FloatArray]:
        # One pass through the networks serves both.
        raw, mean, log_std = self._draw(rows, rng)
        with torch.no_grad():
            return raw, _numpy(self._log_prob_of(raw, mean, log_std))

    def _draw(self, rows: NDArray[Any], rng: np.random.Generator) -> tuple[NDArray[Any], torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            mean, log_std = self._gaussian(rows)
        noise = rng.standard_normal(mean.shape)
        raw: NDArray[Any] = mean.cpu().numpy() + log_std.exp().cpu().numpy() * noise
        return raw, mean, log_std

    def mode(self, rows: NDArray[Any]) -> NDArray[Any]:
        with torch.no_grad():
            mean: NDArray[Any] = self._gaussian(rows)[0].cpu().numpy().astype(np.float64)
        return mean

    def log_prob(self, rows: NDArray[Any], raw: NDArray[Any]) -> torch.Tensor:
        return self._log_prob_of(raw, *self._gaussian(rows))

    def _log_prob_of(self, raw: NDArray[Any], mean: torch.Tensor, log_std: torch.Tensor) -> torch.Tensor:
        u = _tensor(raw, self).to(mean.dtype)
        log_normal = -0.5 * ((u - mean) / log_std.exp()) ** 2 - log_std - 0.5 * math.log(2.0 * math.pi)
        return (log_normal - self._squashing.log_slope(u)).sum(dim=1)

    def to_env(self, raw: NDArray[Any]) -> NDArray[Any]:
        return self._squashing.to_box(raw)


def make_policy(
    observation_space: gym.Space[Any],
    action_space: gym.Space[Any],
    *,
    kind: PolicyKind = "auto",
    hidden_sizes: Sequence[int],
    normalize: bool = False,
) -> Policy:
    """The policy for a pair of spaces; networks have ``hidden_sizes``, and observations normalised if wanted.

    Raises:
        UnsupportedSpace: the action space is neither ``Discrete`` nor ``Box``, or a table is asked for and impossible.
    """
    if isinstance(action_space, gym.spaces.Discrete):
        if is_table(observation_space, action_space, kind=kind):
            return TabularSoftmax(observation_space, action_space)
        return CategoricalMLP(observation_space, action_space, hidden_sizes, normalize=normalize)
    if not isinstance(action_space, gym.spaces.Box):
        raise UnsupportedSpace(f"{action_space} is neither Discrete nor Box: PGP has no policy for it.")
    if kind == "tabular":
        raise UnsupportedSpace("A tabular policy needs Discrete actions: take policy='mlp'.")
    return GaussianMLP(observation_space, action_space, hidden_sizes, normalize=normalize)


def is_table(observation_space: gym.Space[Any], action_space: gym.Space[Any], *, kind: PolicyKind) -> bool:
    """Whether ``make_policy`` makes a table; "auto": where its parameters are few."""
    if kind != "auto" or not isinstance(action_space, gym.spaces.Discrete):
        return kind == "tabular"
    try:
        return FiniteSpace(observation_space).n * int(action_space.n) <= DENSE_CELLS
    except UnsupportedSpace:
        return False


def _tensor(values: NDArray[Any], module: nn.Module) -> torch.Tensor:
    return torch.as_tensor(values, device=next(module.parameters()).device)


def _numpy(values: torch.Tensor) -> FloatArray:
    array: FloatArray = values.double().cpu().numpy()
    return array


def _checked(outputs: torch.Tensor) -> torch.Tensor:
    if not bool(torch.isfinite(outputs).all()):
        raise NonFiniteValue(
            "The policy returned a value that is not finite: lower the learning rate, or scale the observations."
        )
    return outputs
