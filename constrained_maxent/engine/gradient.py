r"""REINFORCE with pseudo-rewards on a softmax table.

.. math:: \hat g_{s,a} = \frac1B\Big(F_{s,a} - \pi(a|s) \sum_b F_{s,b}\Big), \qquad
   F_{s,a} = \sum_{\text{steps at } (s,a)} \Big(\sum_{k\ge t} w_k\, r(s_k,a_k)\Big)

which is the sum over steps of return times :math:`\nabla\log\pi(a_t|s_t)`, with the steps of a cell taken together.
"""

from __future__ import annotations

from constrained_maxent.engine.compiled import inner
from constrained_maxent.engine.dynamics import END, Indices
from constrained_maxent.engine.sampling import Flags
from constrained_maxent.engine.terms import NONE, STATE_ENTROPY, Terms, derivative
from constrained_maxent.types import FloatArray


@inner
def mark(cells: Indices, first_used: int, used: Flags) -> None:
    """Set the flag of every cell whose reward the gradient asks for, ``(n_cells,)``."""
    horizon, n_episodes = cells.shape
    for t in range(horizon):
        for b in range(first_used, n_episodes):
            if cells[t, b] != END:
                used[cells[t, b]] = 1


@inner
def pseudo_rewards(
    terms: Terms,
    slopes: FloatArray,
    values: FloatArray,
    occupancy: FloatArray,
    state_occupancy: FloatArray,
    used: Flags,
    n_actions: int,
    rewards: FloatArray,
) -> None:
    """The pseudo-reward ∂F/∂λ - Σ ℒ'(R) ∂R/∂λ of the used cells, ``(n_cells,)``; slopes and values are by term."""
    kinds, tables, smoothing = terms.kinds, terms.tables, terms.smoothing
    rewards[:] = 0.0
    for i in range(len(kinds)):
        weight = 1.0 if i == 0 else -slopes[i]
        kind, sigma = kinds[i], smoothing[i]
        if kind == NONE or weight == 0.0:
            continue
        for cell in range(len(rewards)):
            if used[cell]:
                mass = state_occupancy[cell // n_actions] if kind == STATE_ENTROPY else occupancy[cell]
                rewards[cell] += weight * derivative(kind, mass, sigma, tables[i, cell], values[i])


@inner
def add_returns(
    weights: FloatArray,
    rewards: FloatArray,
    cells: Indices,
    first_used: int,
    use_baseline: int,
    returns: FloatArray,
    factors: FloatArray,
) -> None:
    """Add the weighted return of every used step to its cell in ``factors``, ``(n_cells,)``.

    Args:
        weights: w_t, ``(horizon,)``.
        rewards: by cell, ``(n_cells,)``.
        cells: of each step, ``(horizon, n_episodes)``.
        first_used: the first episode that counts.
        use_baseline: subtract the mean over the episodes that are under way at the same time.
        returns: scratch, ``(n_episodes,)``.
        factors: zeros.
    """
    horizon, n_episodes = cells.shape
    returns[:] = 0.0
    for t in range(horizon - 1, -1, -1):
        mean = 0.0
        if use_baseline:
            total, running = 0.0, 0
            for b in range(first_used, n_episodes):
                if cells[t, b] != END:
                    returns[b] += weights[t] * rewards[cells[t, b]]
                    total += returns[b]
                    running += 1
            if running:
                mean = total / running
            for b in range(first_used, n_episodes):
                if cells[t, b] != END:
                    factors[cells[t, b]] += returns[b] - mean
        else:
            for b in range(first_used, n_episodes):
                if cells[t, b] != END:
                    returns[b] += weights[t] * rewards[cells[t, b]]
                    factors[cells[t, b]] += returns[b]


@inner
def softmax_gradient(
    policy: FloatArray, n_used: int, used: Flags, factors: FloatArray, gradient: FloatArray, touched: Flags
) -> float:
    """The estimate ĝ into ``gradient``, ``(n_states, n_actions)``; factors and flags are cleared for the next batch.

    Returns:
        Sum of the squares of ĝ.
    """
    n_states, n_actions = policy.shape
    squares = 0.0
    for s in range(n_states):
        total, visited = 0.0, 0
        for cell in range(s * n_actions, (s + 1) * n_actions):
            total += factors[cell]
            visited |= used[cell]
            used[cell] = 0
        touched[s] = visited
        if not visited:
            gradient[s, :] = 0.0
            continue
        for a in range(n_actions):
            cell = s * n_actions + a
            entry = (factors[cell] - policy[s, a] * total) / n_used
            gradient[s, a] = entry
            factors[cell] = 0.0
            squares += entry * entry
    return squares
