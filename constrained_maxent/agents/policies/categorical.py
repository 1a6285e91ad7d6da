"""A network over finitely many actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from constrained_maxent.agents.policies.networks import NetworkPolicy, mlp
from constrained_maxent.agents.policies.policy import require_finite, to_tensor
from constrained_maxent.spaces import FiniteSpace
from constrained_maxent.types import FloatArray


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
        self._first_action = FiniteSpace(action_space).starts[0]
        self.logits = mlp(self.features.size, hidden_sizes, int(action_space.n))

    def _log_probs(self, rows: NDArray[Any]) -> torch.Tensor:
        return functional.log_softmax(require_finite(self.logits(self.features(to_tensor(rows, self)))), dim=1)

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
        return self._probabilities(states.decode(np.arange(states.n)))

    def sample(self, rows: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        cumulative = np.cumsum(self._probabilities(rows), axis=1)[:, :-1]
        actions: NDArray[Any] = (cumulative <= rng.random(len(rows))[:, None]).sum(axis=1)
        return actions

    def mode(self, rows: NDArray[Any]) -> NDArray[Any]:
        with torch.no_grad():
            best: NDArray[Any] = self._log_probs(rows).argmax(dim=1).cpu().numpy()
        return best

    def log_prob(self, rows: NDArray[Any], raw: NDArray[Any]) -> torch.Tensor:
        return self._log_probs(rows).gather(1, to_tensor(raw, self).long()[:, None])[:, 0]

    def to_env(self, raw: NDArray[Any]) -> NDArray[Any]:
        return raw + self._first_action
