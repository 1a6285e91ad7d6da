"""What makes arrays, or a table in Gymnasium's format, a Markov decision process; and policies and rewards of one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, csr_array

from constrained_maxent.errors import InvalidMDP, NonFiniteValue
from constrained_maxent.types import FloatArray, as_array, require_finite

MODEL_TOLERANCE = 1e-9
"""The sums of distributions of the model may be this far from 1."""

POLICY_TOLERANCE = 1e-6
"""Rows of a policy may sum to this far from 1: many come out of float32 networks, whose softmax is no closer."""


def canonical(matrix: Any) -> csr_array:
    """A float64 copy with each entry stored once, and none that is 0."""
    copy = csr_array(matrix, dtype=np.float64, copy=True)
    copy.sum_duplicates()
    copy.eliminate_zeros()
    return copy


def states_and_actions(transition: csr_array, initial: FloatArray) -> tuple[int, int]:
    """The numbers of states and actions; ``InvalidMDP`` is raised if the shapes belong to no MDP."""
    rows, n_states = map(int, transition.shape)
    if initial.shape != (n_states,):
        raise InvalidMDP(f"initial has shape {initial.shape}, but transition leads to {n_states} states.")
    if not rows or not n_states or rows % n_states:
        raise InvalidMDP(f"transition has shape {transition.shape}, expected (n_states * n_actions, n_states).")
    return n_states, rows // n_states


def require_distributions(what: str, probabilities: FloatArray, totals: FloatArray, tolerance: float) -> None:
    """Refuse entries that are no probabilities, and sums of them, one per distribution, that are not 1."""
    if not np.isfinite(probabilities).all():
        raise NonFiniteValue(f"{what} has a probability that is NaN or infinite.")
    if (probabilities < 0.0).any():
        raise InvalidMDP(f"{what} has a negative probability, {probabilities.min()}.")
    wrong = np.argwhere(np.abs(totals - 1.0) > tolerance)
    if wrong.size:
        first = tuple(map(int, wrong[0]))
        raise InvalidMDP(f"{what} must sum to 1, but at index {first} it sums to {float(totals[first])!r}.")


def require_policy(policy: ArrayLike, shape: tuple[int, int], horizon: int | None) -> FloatArray:
    """A policy of an MDP as float64, stationary or, at finite horizon, one per time step."""
    table = as_array("policy", policy, np.float64)
    shapes = [shape] if horizon is None else [shape, (horizon, *shape)]
    if table.shape not in shapes:
        raise InvalidMDP(f"policy has shape {table.shape}, expected {' or '.join(map(str, shapes))}.")
    require_distributions("policy", table, table.sum(axis=-1), POLICY_TOLERANCE)
    return table


def require_reward(reward: ArrayLike, shape: tuple[int, int]) -> FloatArray:
    """A reward of each state-action pair of an MDP, as float64 ``(n_states, n_actions)``."""
    table = as_array("reward", reward, np.float64)
    if table.shape != shape:
        raise InvalidMDP(f"reward has shape {table.shape}, expected (n_states, n_actions) = {shape}.")
    require_finite("reward", table)
    return table


def split_outcomes(outcomes: coo_array, ends: NDArray[np.bool_]) -> tuple[csr_array, csr_array]:
    """The outcomes with which an episode goes on, and those with which it ends: ``ends`` has one entry for each."""
    data, row, col = outcomes.data, outcomes.row, outcomes.col
    going_on, ending = (csr_array((data[kept], (row[kept], col[kept])), shape=outcomes.shape) for kept in (~ends, ends))
    return going_on, ending


def read_toy_text(table: Any, n_states: int) -> tuple[csr_array, csr_array, FloatArray]:
    """Read ``P`` of Gymnasium's toy-text environments: probabilities of going on and of ending, and mean rewards.

    Raises:
        InvalidMDP: it has another form.
    """
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
