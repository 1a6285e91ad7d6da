"""Reads transition probabilities in the format of Gymnasium's toy-text environments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from constrained_maxent.errors import InvalidMDP
from constrained_maxent.types import FloatArray


def split_outcomes(outcomes: coo_array, ends: NDArray[np.bool_]) -> tuple[csr_array, csr_array]:
    """The outcomes with which an episode goes on, and those with which it ends: ``ends`` has one entry for each."""
    data, row, col = outcomes.data, outcomes.row, outcomes.col
    going_on, ending = (csr_array((data[kept], (row[kept], col[kept])), shape=outcomes.shape) for kept in (~ends, ends))
    return going_on, ending


def read_toy_text(table: Any, n_states: int) -> tuple[csr_array, csr_array, FloatArray]:
    """Split ``P`` into the probabilities of going on and of ending, and the expected reward."""
    try:
        n_actions = max(len(table[state]) for state in range(len(table)))
        flat = [
            (state * n_actions + action, *outcome)
            for state in range(len(table))
            for action in range(n_actions)
            for outcome in table[state][action]
        ]
        pair, probability, successor, reward, ended = np.array(flat, dtype=np.float64).reshape(-1, 5).T
        coordinates = (pair.astype(np.intp), successor.astype(np.intp))
        outcomes = coo_array((probability, coordinates), shape=(n_states * n_actions, n_states))
        transition, ending = split_outcomes(outcomes, ended.astype(np.bool_))
        expected_reward = np.zeros(n_states * n_actions)
        np.add.at(expected_reward, coordinates[0], probability * reward)
    except (LookupError, TypeError, ValueError) as error:
        raise InvalidMDP(
            f"P must be {{s: {{a: [(probability, s', reward, terminated), ...]}}}} over the {n_states} states "
            f"of initial_state_distrib, with the same actions in each: {error!r}."
        ) from error
    return transition, ending, expected_reward.reshape(n_states, n_actions)
