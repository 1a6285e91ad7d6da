"""A value network for pseudo-rewards, whose scale changes as λ does."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from constrained_maxent.agents.policies import Features, Network, network
from constrained_maxent.agents.settings import Hyperparameters
from constrained_maxent.types import FloatArray


class Critic(nn.Module):
    """V(s) of the discounted return, fitted to standardized returns: the units of the latest batch.

    Args:
        observation_space: of one (sub-)environment.
        settings: sizes, steps and learning rate.
        own_network: what makes a network of one's own, in place of one with these sizes.
    """

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(
        self, observation_space: gym.Space[Any], settings: Hyperparameters, own_network: Network | None = None
    ) -> None:
        super().__init__()
        self._settings = settings
        self.features = Features(observation_space, normalize=settings.normalize_observations)
        self.network = network(self.features.size, own_network or settings.hidden_sizes, 1)
        # Part of the state dict, so that a checkpoint carries the units.
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("std", torch.ones(()))
        # Fused: each parameter in one pass, instead of a dozen.
        self.optimizer = torch.optim.Adam(self.parameters(), lr=settings.critic_learning_rate, fused=True)

    def values(self, rows: NDArray[Any]) -> FloatArray:
        """V(s), ``(n,)``, for observation rows ``(n, ...)``."""
        with torch.no_grad():
            standard = self.network(self.features(torch.as_tensor(rows, device=self.mean.device)))[:, 0]
            values: FloatArray = (standard * self.std + self.mean).cpu().numpy().astype(np.float64)
        return values

    def observe(self, rows: NDArray[Any]) -> None:
        """Let the normalization of observations take these rows into account."""
        self.features.observe(rows)

    def fit(self, rows: NDArray[Any], return_t: FloatArray, rng: np.random.Generator) -> float:
        """Some gradient steps towards the returns.

        Returns:
            Mean squared error of the last step, in standardized units.
        """
        settings, device = self._settings, self.mean.device
        self.mean.fill_(float(return_t.mean()))
        self.std.fill_(max(float(return_t.std()), 1e-8))
        seen = torch.as_tensor(rows, device=device)
        learns_features = any(True for _ in self.features.parameters())
        inputs = seen if learns_features else self.features(seen)
        targets = (torch.as_tensor(return_t, dtype=torch.float32, device=device) - self.mean) / self.std
        loss = torch.zeros(())
        for _ in range(settings.critic_steps):
            chosen = torch.as_tensor(rng.integers(len(rows), size=min(settings.critic_batch_size, len(rows))))
            features = self.features(inputs[chosen]) if learns_features else inputs[chosen]
            loss = (self.network(features)[:, 0] - targets[chosen]).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.parameters(), 1.0)
            self.optimizer.step()
        return float(loss.item())
