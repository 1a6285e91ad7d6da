"""The paper's policy class: a softmax over a table."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from constrained_maxent.agents.policies.policy import Policy, require_finite, to_tensor
from constrained_maxent.errors import UnsupportedSpace
from constrained_maxent.spaces import FiniteSpace
from constrained_maxent.types import FloatArray, IntArray

LARGEST_TABLE = 100_000_000
"""Most parameters of a table that is asked for explicitly (0.8 GB)."""


class TabularSoftmax(Policy):
    r"""The paper's policy class, uniform at first.

    .. math:: \pi_\theta(a|s) = e^{\theta_{s,a}} / \sum_{a'} e^{\theta_{s,a'}}, \qquad \theta_0 = 0

    Args:
        observation_space: finite, see :class:`~constrained_maxent.spaces.FiniteSpace`.
        action_space: ``Discrete``.

    Raises:
        UnsupportedSpace: the observations are not finite, or the table would have more than ``LARGEST_TABLE`` entries.
    """

    def __init__(self, observation_space: gym.Space[Any], action_space: gym.spaces.Discrete) -> None:
        super().__init__()
        self._states = FiniteSpace(observation_space)
        self._first_action = FiniteSpace(action_space).starts[0]
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
            table: FloatArray = require_finite(functional.softmax(self.theta, dim=1)).cpu().numpy()
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
        return functional.log_softmax(self.theta, dim=1)[
            to_tensor(self._states.encode(rows), self), to_tensor(raw, self)
        ]

    def ascend(self, rows: NDArray[Any], raw: NDArray[Any], factor_t: FloatArray) -> None:
        # In closed form, a tenth of the time: the score is 1{a} - pi(.|s) in the row of s.
        table = self.table()
        cells = self._states.encode(rows) * table.shape[1] + raw
        visits = np.bincount(cells, factor_t, table.size).reshape(table.shape)
        with np.errstate(invalid="ignore"):  # the agent names a gradient that is not finite
            gradient = to_tensor(table * visits.sum(axis=1, keepdims=True) - visits, self)
        self.theta.grad = gradient if self.theta.grad is None else self.theta.grad + gradient

    def to_env(self, raw: NDArray[Any]) -> NDArray[Any]:
        actions: NDArray[Any] = raw + self._first_action
        return actions

    def changed(self) -> None:
        self._cumulative = None
