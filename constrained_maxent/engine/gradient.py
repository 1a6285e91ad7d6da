r"""REINFORCE with pseudo-rewards on a softmax table.

.. math:: \hat g_{s,a} = \frac1B\Big(F_{s,a} - \pi(a|s) \sum_b F_{s,b}\Big), \qquad
   F_{s,a} = \sum_{\text{steps at } (s,a)} \Big(\sum_{k\ge t} w_k\, r(s_k,a_k)\Big)

which is the sum over steps of return times :math:`\nabla\log\pi(a_t|s_t)`, with the steps of a cell taken together.

Variance reduction by momentum and importance weights, after VR-PDPG (Ying et al., 2025).

With weight α on the new batch, old parameters :math:`\theta'` and old pseudo-rewards :math:`r'`,

.. math:: \hat\lambda &\leftarrow \hat\lambda(\tau)
              + (1-\alpha)\big(\hat\lambda - w\,\hat\lambda(\tau)\big) \\
          d &\leftarrow \hat g(\tau;\theta,r) + (1-\alpha)\big(d - w\,\hat g(\tau;\theta',r')\big), \qquad
          w(\tau) = \min\Big(\prod_t \frac{\pi_{\theta'}(a_t|s_t)}{\pi_\theta(a_t|s_t)},\ c\Big).

The weights carry the new episodes back to the old policy, so that the brackets have mean 0 up to the error of what was
known before. They are products over a whole episode: computed as sums of logarithms, and cut at the bound *c*, they are
finite always; where the bound cuts, the correction is biased towards 0. A cell of λ̂ that falls below 0 becomes 0.

Both r and r' should come from batches before τ, as with ``pairing="previous"``. A λ̂ that τ itself has entered knows
the cells of τ, that of r' does not: with ``"same"`` the two gradients differ by what is rarely seen, step after step,
and the policy is driven away from it (on the paper's grid, into a corner).
"""

from __future__ import annotations

import math

from constrained_maxent.engine.compiled import flushed, inner
from constrained_maxent.engine.sampling import END, Flags, Indices
from constrained_maxent.types import FloatArray


@inner
def mark(cells: Indices, first_used: int, used: Flags) -> None:
    """Set the flag of every cell whose reward the gradient asks for."""
    horizon, n_episodes = cells.shape
    for t in range(horizon):
        for b in range(first_used, n_episodes):
            if cells[t, b] != END:
                used[cells[t, b]] = 1


@inner
def add_returns(
    visit_weights: FloatArray,
    rewards: FloatArray,
    cells: Indices,
    first_used: int,
    use_baseline: int,
    returns: FloatArray,
    factors: FloatArray,
) -> None:
    """Add the weighted return of every used step to its cell in ``factors``.

    The baseline is the mean over the episodes that are under way at the same time. ``returns``, ``(n_episodes,)``, is
    scratch.
    """
    horizon, n_episodes = cells.shape
    returns[:] = 0.0
    for t in range(horizon - 1, -1, -1):
        mean = 0.0
        if use_baseline:
            total, running = 0.0, 0
            for b in range(first_used, n_episodes):
                if cells[t, b] != END:
                    returns[b] += visit_weights[t] * rewards[cells[t, b]]
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
                    returns[b] += visit_weights[t] * rewards[cells[t, b]]
                    factors[cells[t, b]] += returns[b]


@inner
def add_weighted_returns(
    visit_weights: FloatArray,
    rewards: FloatArray,
    cells: Indices,
    first_used: int,
    use_baseline: int,
    importance: FloatArray,
    returns: FloatArray,
    factors: FloatArray,
) -> None:
    """Add every used step's return times its episode's ``importance``: one function for both would be slower."""
    horizon, n_episodes = cells.shape
    returns[:] = 0.0
    for t in range(horizon - 1, -1, -1):
        total, running = 0.0, 0
        for b in range(first_used, n_episodes):
            if cells[t, b] != END:
                returns[b] += visit_weights[t] * rewards[cells[t, b]]
                total += returns[b]
                running += 1
        mean = total / running if use_baseline and running else 0.0
        for b in range(first_used, n_episodes):
            if cells[t, b] != END:
                factors[cells[t, b]] += importance[b] * (returns[b] - mean)


@inner
def softmax_gradient(
    policy: FloatArray, n_used: int, used: Flags, factors: FloatArray, gradient: FloatArray, touched: Flags
) -> float:
    """Write ĝ into ``gradient``, return the sum of its squares, and clear factors and flags for the next batch."""
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


@inner
def importance_weights(
    theta: FloatArray, previous: FloatArray, cells: Indices, bound: float, ratios: FloatArray, weights: FloatArray
) -> None:
    """Write w of every episode into ``weights``, ``(n_episodes,)``; ``ratios``, ``(n_cells,)``, is scratch."""
    n_states, n_actions = theta.shape
    for s in range(n_states):
        shift = log_sum(theta[s]) - log_sum(previous[s])
        for a in range(n_actions):
            ratios[s * n_actions + a] = previous[s, a] - theta[s, a] + shift
    horizon, n_episodes = cells.shape
    weights[:] = 0.0
    for t in range(horizon):
        for b in range(n_episodes):
            if cells[t, b] != END:
                weights[b] += ratios[cells[t, b]]
    for b in range(n_episodes):
        weights[b] = math.exp(min(weights[b], math.log(bound)))


@inner
def log_sum(row: FloatArray) -> float:
    """Logarithm of the sum of the exponentials."""
    largest: float = row[0]
    for number in row:
        largest = max(largest, number)
    total = 0.0
    for number in row:
        total += math.exp(number - largest)
    return largest + math.log(total)


@inner
def correct_occupancy(
    occupancy: FloatArray,
    fresh: FloatArray,
    visit_weights: FloatArray,
    cells: Indices,
    n_first: int,
    weights: FloatArray,
    alpha: float,
) -> None:
    """The new λ̂, flat, from the old one and the batch's own, ``fresh``."""
    for cell in range(len(occupancy)):
        occupancy[cell] = fresh[cell] + (1.0 - alpha) * occupancy[cell]
    for t in range(len(visit_weights)):
        for b in range(n_first):
            if cells[t, b] != END:
                occupancy[cells[t, b]] -= (1.0 - alpha) * weights[b] * visit_weights[t] / n_first
    for cell in range(len(occupancy)):
        occupancy[cell] = flushed(max(occupancy[cell], 0.0))


@inner
def follow(direction: FloatArray, gradient: FloatArray, corrected: FloatArray, alpha: float, has_old: bool) -> float:
    """The new d, into ``direction`` and ``gradient``, which was ĝ; the sum of its squares. Without an old d it is ĝ."""
    n_states, n_actions = gradient.shape
    squares = 0.0
    for s in range(n_states):
        for a in range(n_actions):
            if has_old:
                gradient[s, a] += (1.0 - alpha) * (direction[s, a] - corrected[s, a])
            direction[s, a] = flushed(gradient[s, a])
            squares += gradient[s, a] * gradient[s, a]
    return squares
