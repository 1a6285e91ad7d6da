"""A batch of episodes under a softmax table, and its visit counts."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.engine.compiled import flushed, inner
from constrained_maxent.engine.dynamics import DRAWN, END, Dynamics, Indices, draw
from constrained_maxent.engine.streams import uniform
from constrained_maxent.types import FloatArray

Flags = NDArray[np.uint8]


@inner
def softmax_rows(theta: FloatArray, stale: Flags, policy: FloatArray, cumulative: FloatArray) -> None:
    """Refresh the stale rows of π and of its sums; the last action, which needs no sum, has none."""
    n_states, n_actions = theta.shape
    for s in range(n_states):
        if not stale[s]:
            continue
        stale[s] = 0
        largest = theta[s, 0]
        for a in range(1, n_actions):
            largest = max(largest, theta[s, a])
        total = 0.0
        for a in range(n_actions):
            policy[s, a] = math.exp(theta[s, a] - largest)
            total += policy[s, a]
        reached = 0.0
        for a in range(n_actions):
            policy[s, a] /= total
            reached += policy[s, a]
            if a < n_actions - 1:
                cumulative[s, a] = reached


@inner
def sample(
    dynamics: Dynamics, cumulative: FloatArray, key: np.uint64, iteration: int, states: Indices, cells: Indices
) -> int:
    """Sample a batch of episodes side by side, so that the processor works on several at once.

    Args:
        dynamics: the MDP.
        cumulative: sums of π, ``(n_states, n_actions - 1)``.
        key: of the stream of random numbers.
        iteration: which batch of the run.
        states: scratch, ``(n_episodes,)``.
        cells: receives the cell of each step, ``END`` after an episode's last, ``(horizon, n_episodes)``.

    Returns:
        Steps taken.
    """
    # Taken out of the tuple here, for good: in the loops, every access would count references.
    certain, first = dynamics.certain, dynamics.first
    successors, outcome_sums = dynamics.successors, dynamics.cumulative
    starts, start_sums = dynamics.starts, dynamics.start_cumulative
    horizon, n_episodes = cells.shape
    n_sums = cumulative.shape[1]
    n_actions = n_sums + 1
    position = iteration * n_episodes * (2 * horizon + 1)
    for b in range(n_episodes):
        start = 0 if len(starts) == 1 else draw(start_sums, 0, len(starts), uniform(key, position + b))
        states[b] = starts[start]
    position += n_episodes
    steps = 0
    for t in range(horizon):
        for b in range(n_episodes):
            state = states[b]
            if state == END:
                cells[t, b] = END
                continue
            u = uniform(key, position + b)
            action = 0
            for a in range(n_sums):
                action += cumulative[state, a] <= u
            cell = state * n_actions + action
            successor = certain[cell]
            if successor == DRAWN:
                u = uniform(key, position + n_episodes + b)
                successor = successors[draw(outcome_sums, first[cell], first[cell + 1], u)]
            cells[t, b] = cell
            states[b] = successor
            steps += 1
        position += 2 * n_episodes
    return steps


@inner
def count(weights: FloatArray, cells: Indices, n_first: int, fresh: FloatArray) -> None:
    """Discounted visits of the first episodes, on average over them, into ``fresh``, ``(n_cells,)``."""
    fresh[:] = 0.0
    for t in range(len(weights)):
        for b in range(n_first):
            if cells[t, b] != END:
                fresh[cells[t, b]] += weights[t]
    for cell in range(len(fresh)):
        fresh[cell] /= n_first


@inner
def remember(occupancy: FloatArray, fresh: FloatArray, share: float) -> None:
    """λ̂ ← (1 - share) λ̂ + share λ̂(batch)."""
    for cell in range(len(occupancy)):
        occupancy[cell] = flushed((1.0 - share) * occupancy[cell] + share * fresh[cell])
