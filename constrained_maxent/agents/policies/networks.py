"""Networks of policies and critics, and how they see observations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from constrained_maxent.agents.policies.policy import Policy, to_array
from constrained_maxent.errors import UnsupportedSpace
from constrained_maxent.spaces import FiniteSpace
from constrained_maxent.types import FloatArray

LARGEST_INPUT = 1_000_000
"""Most inputs of a network; a finite space has one for each value of each component."""

LARGEST_NORMALIZED = 10.0
"""Normalized observations are clipped here: one outlier would drive the network far from all that it has learnt."""


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
        return (to_array(self.mean), to_array(self._scale())) if self._normalizes else None

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if self._sizes is None:
            flat = rows.reshape(len(rows), -1)
            if self._normalizes:
                flat = ((flat - self.mean) * self._scale()).clamp(-LARGEST_NORMALIZED, LARGEST_NORMALIZED)
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
    """What policies of networks share: features of the observations, normalized if wanted.

    Args:
        observation_space: of one (sub-)environment.
        normalize: see :class:`Features`.
    """

    def __init__(self, observation_space: gym.Space[Any], *, normalize: bool) -> None:
        super().__init__()
        self.features = Features(observation_space, normalize=normalize)

    def observe(self, rows: NDArray[Any]) -> None:
        self.features.observe(rows)
