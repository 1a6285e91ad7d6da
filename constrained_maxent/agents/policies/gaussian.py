"""A network over actions of a ``Box``: a squashed Gaussian."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from constrained_maxent.agents.policies.networks import Network, NetworkPolicy, network
from constrained_maxent.agents.policies.policy import require_finite, to_array, to_tensor
from constrained_maxent.agents.policies.squashing import Squashing
from constrained_maxent.errors import UnsupportedSpace
from constrained_maxent.types import FloatArray

LOG_STD_BOUNDS = (-5.0, 2.0)
"""Range of log σ (paper, table of model architectures)."""


class GaussianMLP(NetworkPolicy):
    r"""A Gaussian :math:`u \sim \mathcal N(\mu(s), \sigma(s))`, squashed into a ``Box``; see :class:`Squashing`.

    Raises:
        UnsupportedSpace: a ``Box`` of whole numbers.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.spaces.Box,
        hidden: Sequence[int] | Network,
        *,
        normalize: bool = False,
    ) -> None:
        super().__init__(observation_space, normalize=normalize)
        if not np.issubdtype(action_space.dtype, np.floating):
            raise UnsupportedSpace(
                f"Actions in {action_space} are whole numbers, and a Gaussian has a density of real ones: in a "
                "gymnasium.ActionWrapper make them of those of a MultiDiscrete, or of a Box of floats that you round."
            )
        self._squashing = Squashing(action_space)
        n_actions = int(np.prod(action_space.shape))
        self.mean = network(self.features.size, hidden, n_actions)
        self.log_std = network(self.features.size, hidden, n_actions)

    @property
    def squashing(self) -> Squashing:
        """What makes actions of *u*."""
        return self._squashing

    def moments(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean of *u* and log σ, ``(n, n_components)`` each, for rows ``(n, ...)``."""
        inputs = self.features(rows)
        return self.mean(inputs), self.log_std(inputs).clamp(*LOG_STD_BOUNDS)

    def _gaussian(self, rows: NDArray[Any]) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_std = self.moments(to_tensor(rows, self))
        return require_finite(mean), require_finite(log_std)

    def sample(self, rows: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        return self._draw(rows, rng)[0]

    def sample_with_log_prob(self, rows: NDArray[Any], rng: np.random.Generator) -> tuple[NDArray[Any], FloatArray]:
        # One pass through the networks serves both.
        raw, mean, log_std = self._draw(rows, rng)
        with torch.no_grad():
            return raw, to_array(self._log_prob_of(raw, mean, log_std))

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
        return self._squashing.log_prob(to_tensor(raw, self).to(mean.dtype), mean, log_std)

    def to_env(self, raw: NDArray[Any]) -> NDArray[Any]:
        return self._squashing.to_box(raw)
