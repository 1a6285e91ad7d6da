"""A mixture of policies: one is drawn at the start of each episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from constrained_maxent.errors import InvalidData, InvalidSetting
from constrained_maxent.types import FloatArray, as_array, require_finite

_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class MixturePolicy:
    r"""Policies and how often each is drawn; **not a single policy**.

    Its occupancy is the mean of theirs, :math:`\lambda = \sum_i w_i \lambda^{\pi_i}`. No table π(a|s) acts like it
    within a finite horizon: the draw at the episode's start is remembered until its end.

    Args:
        policies: tables π(a|s), ``(n_states, n_actions)``, or one per time step, ``(horizon, n_states, n_actions)``.
        weights: probability of each, ``(n_policies,)``; they sum to 1.

    Raises:
        InvalidData: no policies, different shapes, or rows or weights that are not distributions.
        NonFiniteValue: an entry is NaN or infinite.

    >>> left, right = [[1.0, 0.0]], [[0.0, 1.0]]
    >>> mixture = MixturePolicy([left, right], [0.5, 0.5])
    >>> episode = mixture.start_episode(np.random.default_rng(0))
    >>> len({episode.act(0) for _ in range(100)})  # one action for a whole episode
    1
    """

    policies: tuple[FloatArray, ...]
    weights: FloatArray

    is_single_policy: ClassVar[bool] = False

    def __init__(self, policies: ArrayLike, weights: ArrayLike) -> None:
        tables = as_array("policies", policies, np.float64)
        shares = as_array("weights", weights, np.float64)
        if tables.ndim not in (3, 4) or not tables.size:
            raise InvalidData(
                f"policies have shape {tables.shape}: give at least one table (n_states, n_actions), or "
                "(horizon, n_states, n_actions), all of one shape."
            )
        if shares.shape != (len(tables),):
            raise InvalidData(f"weights have shape {shares.shape}, but there are {len(tables)} policies.")
        for name, table in (("policies", tables), ("weights", shares)):
            require_finite(name, table)
            if (table < 0.0).any() or np.abs(table.sum(axis=-1) - 1.0).max() > _TOLERANCE:
                raise InvalidData(f"{name} must be at least 0 and sum to 1 over their last axis.")
        object.__setattr__(self, "policies", tuple(tables))
        object.__setattr__(self, "weights", shares)

    def __len__(self) -> int:
        return len(self.policies)

    def draw(self, rng: Generator) -> FloatArray:
        """The policy of one episode: a table as given."""
        return self.policies[int(rng.choice(len(self.policies), p=self.weights / self.weights.sum()))]

    def start_episode(self, rng: Generator) -> EpisodePolicy:
        """What acts in one episode of any environment with these states and actions; call it after each reset."""
        return EpisodePolicy(self.draw(rng), rng)


class EpisodePolicy:
    """A policy table that takes actions, from time 0 on.

    Args:
        policy: ``(n_states, n_actions)``, or ``(horizon, n_states, n_actions)``.
        rng: for the actions.
    """

    def __init__(self, policy: FloatArray, rng: Generator) -> None:
        self._policy, self._rng, self._time = policy, rng, 0

    def act(self, state: int) -> int:
        """The action of the next time step.

        Raises:
            InvalidSetting: the policy is one per time step, and the episode is longer.
        """
        table = self._policy
        if table.ndim == 3:
            if self._time >= len(table):
                raise InvalidSetting(
                    f"The policy has {len(table)} time steps, the episode is longer: call start_episode after each "
                    "reset, and end episodes at the MDP's horizon."
                )
            table = table[self._time]
        self._time += 1
        return int(self._rng.choice(table.shape[1], p=table[int(state)] / table[int(state)].sum()))
