"""A network over finitely many actions, or vectors of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from constrained_maxent.agents.policies.networks import Network, NetworkPolicy, network
from constrained_maxent.agents.policies.policy import require_finite, to_array, to_tensor
from constrained_maxent.agents.policies.tabular_softmax import LARGEST_TABLE
from constrained_maxent.errors import UnsupportedSpace
from constrained_maxent.spaces import FiniteSpace
from constrained_maxent.types import FloatArray


class CategoricalMLP(NetworkPolicy):
    r"""A network whose outputs are the logits of a finite action space.

    Of spaces with several components, such as ``MultiDiscrete``, the components are drawn independently, given the
    observation: :math:`\pi(a|s) = \prod_i \pi_i(a_i|s)`. Raw actions are then ``(n, n_components)``, each component
    from 0; of ``Discrete`` they are ``(n,)``.

    Args:
        observation_space: of one (sub-)environment.
        action_space: ``Discrete``, ``MultiDiscrete``, ``MultiBinary``, or ``Tuple`` and ``Dict`` of them.
        hidden: units of each hidden layer, or what makes a network of one's own.
        normalize: see :class:`~constrained_maxent.agents.policies.Features`.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        hidden: Sequence[int] | Network,
        *,
        normalize: bool = False,
    ) -> None:
        super().__init__(observation_space, normalize=normalize)
        self._observation_space, self._actions = observation_space, FiniteSpace(action_space)
        self._is_single = isinstance(action_space, gym.spaces.Discrete)
        self._first = np.array(self._actions.starts)
        self.logits = network(self.features.size, hidden, sum(self._actions.sizes))

    def logits_at(self, rows: torch.Tensor) -> list[torch.Tensor]:
        """Of every value of each component, ``(n, size)`` each, for rows ``(n, ...)``."""
        return list(torch.split(self.logits(self.features(rows)), self._actions.sizes, dim=1))

    def _log_probs(self, rows: NDArray[Any]) -> list[torch.Tensor]:
        """Log π of every value of each component, ``(n, size)`` each."""
        return [functional.log_softmax(require_finite(own), dim=1) for own in self.logits_at(to_tensor(rows, self))]

    def _of_components(self, columns: list[NDArray[Any]]) -> NDArray[Any]:
        return columns[0] if self._is_single else np.stack(columns, axis=1)

    def _components_of(self, raw: NDArray[Any]) -> torch.Tensor:
        chosen = to_tensor(raw, self).long()
        return chosen[:, None] if self._is_single else chosen

    def table(self) -> FloatArray:
        """π(a|s), ``(n_states, n_actions)``.

        Raises:
            UnsupportedSpace: the observation space is not finite, or there are too many pairs for a table.
        """
        states = FiniteSpace(self._observation_space)
        if states.n * self._actions.n > LARGEST_TABLE:
            raise UnsupportedSpace(f"A table of {states.n:,} states and {self._actions.n:,} actions is too large.")
        with torch.no_grad():
            log_probs = self._log_probs(states.decode(np.arange(states.n)))
        digits = self._actions.decode(np.arange(self._actions.n)).reshape(self._actions.n, -1) - self._first
        parts = [own.double().exp()[:, digits[:, i]] for i, own in enumerate(log_probs)]
        return to_array(torch.stack(parts).prod(dim=0))

    def sample(self, rows: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        with torch.no_grad():
            probabilities = [own.double().exp().cpu().numpy() for own in self._log_probs(rows)]
        u = rng.random((len(rows), len(probabilities)))
        cumulative = [np.cumsum(own, axis=1)[:, :-1] for own in probabilities]
        return self._of_components([(own <= u[:, i, None]).sum(axis=1) for i, own in enumerate(cumulative)])

    def mode(self, rows: NDArray[Any]) -> NDArray[Any]:
        with torch.no_grad():
            return self._of_components([own.argmax(dim=1).cpu().numpy() for own in self._log_probs(rows)])

    def log_prob(self, rows: NDArray[Any], raw: NDArray[Any]) -> torch.Tensor:
        chosen = self._components_of(raw)
        log_probs = self._log_probs(rows)
        if self._is_single:
            return log_probs[0].gather(1, chosen)[:, 0]
        return torch.stack([own.gather(1, chosen[:, i, None])[:, 0] for i, own in enumerate(log_probs)]).sum(dim=0)

    def to_env(self, raw: NDArray[Any]) -> NDArray[Any]:
        actions: NDArray[Any] = raw + (self._first[0] if self._is_single else self._first)
        return actions
