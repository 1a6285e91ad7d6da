r"""Steps of θ along the gradient, then the projection: plain, natural (Kakade, 2001), or Adam (Kingma and Ba, 2015).

The Fisher matrix of a softmax table, averaged over the visits that λ counts, has one block for each state,
:math:`F_s = d(s)\,(\mathrm{diag}\,\pi_s - \pi_s\pi_s^\top)` with :math:`d(s) = \sum_a \lambda(s,a)`, and with damping
the direction :math:`(F_s + \delta I)^{-1} g_s` is

.. math:: x_a = \frac{g_a - \pi_a\,\nu}{d\,\pi_a + \delta}, \qquad
          \nu = \sum_a \frac{g_a}{d\,\pi_a + \delta} \Big/ \sum_a \frac{\pi_a}{d\,\pi_a + \delta}

because the :math:`g_a` of a state sum to 0. As δ → 0 it becomes the advantage, less its mean over the actions.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from constrained_maxent.engine.compiled import flushed, inner, outermost
from constrained_maxent.engine.sampling import Flags, softmax_rows
from constrained_maxent.types import FloatArray

FIRST_DECAY, SECOND_DECAY, EPSILON = 0.9, 0.999, 1e-8


@inner
def plain_step(theta: FloatArray, gradient: FloatArray, learning_rate: float, radius: float, touched: Flags) -> None:
    """θ ← proj(θ + η ĝ). Rows without a visit keep their place."""
    n_states, n_actions = theta.shape
    for s in range(n_states):
        if touched[s]:
            for a in range(n_actions):
                theta[s, a] = min(max(theta[s, a] + learning_rate * gradient[s, a], -radius), radius)


@inner
def adam_step(
    theta: FloatArray,
    gradient: FloatArray,
    mean: FloatArray,
    square: FloatArray,
    learning_rate: float,
    radius: float,
    updates: int,
    touched: Flags,
) -> None:
    """θ ← proj(θ + η x) with Adam's direction x, which moves every row. ``updates`` counts from 1."""
    n_states, n_actions = theta.shape
    step = learning_rate / (1.0 - FIRST_DECAY**updates)
    correction = math.sqrt(1.0 - SECOND_DECAY**updates)
    for s in range(n_states):
        touched[s] = 1
        for a in range(n_actions):
            g = gradient[s, a]
            mean[s, a] = flushed(FIRST_DECAY * mean[s, a] + (1.0 - FIRST_DECAY) * g)
            square[s, a] = flushed(SECOND_DECAY * square[s, a] + (1.0 - SECOND_DECAY) * g * g)
            moved = theta[s, a] + step * mean[s, a] / (math.sqrt(square[s, a]) / correction + EPSILON)
            theta[s, a] = min(max(moved, -radius), radius)


@inner
def natural_step(
    theta: FloatArray,
    gradient: FloatArray,
    policy: FloatArray,
    visits: FloatArray,
    damping: float,
    learning_rate: float,
    radius: float,
    touched: Flags,
) -> None:
    """θ ← proj(θ + η x) with the natural direction x; ``visits`` is d, ``(n_states,)``, ``damping`` δ in its units."""
    n_states, n_actions = theta.shape
    for s in range(n_states):
        if not touched[s]:
            continue
        total, share = 0.0, 0.0
        for a in range(n_actions):
            curvature = visits[s] * policy[s, a] + damping
            total += gradient[s, a] / curvature
            share += policy[s, a] / curvature
        for a in range(n_actions):
            direction = (gradient[s, a] - policy[s, a] * (total / share)) / (visits[s] * policy[s, a] + damping)
            theta[s, a] = min(max(theta[s, a] + learning_rate * direction, -radius), radius)


@inner
def is_finite(theta: FloatArray, touched: Flags) -> bool:
    """Whether all numbers in the touched rows are."""
    n_states, n_actions = theta.shape
    residue = 0.0
    for s in range(n_states):
        if touched[s]:
            for a in range(n_actions):
                residue += theta[s, a] * 0.0  # NaN, if this is infinite or NaN; without a branch it costs nothing
    return residue == 0.0


def _make_natural_table_step(digest: str) -> Callable[..., None]:
    def natural_table_step(
        theta: FloatArray, gradient: FloatArray, visits: FloatArray, damping: float, learning_rate: float
    ) -> None:
        """``natural_step`` of a whole table at its own policy, without projection, for who has only these arrays."""
        digest  # noqa: B018  # enclosed, so that the cache depends on it
        n_states, n_actions = theta.shape
        policy, cumulative = np.empty((n_states, n_actions)), np.empty((n_states, n_actions - 1))
        touched = np.ones(n_states, dtype=np.uint8)
        softmax_rows(theta, touched, policy, cumulative)
        touched[:] = 1
        natural_step(theta, gradient, policy, visits, damping, learning_rate, math.inf, touched)

    return natural_table_step


natural_table_step = outermost(_make_natural_table_step)


@inner
def pull_to_center(gradient: FloatArray, theta: FloatArray, center: FloatArray, weight: float) -> float:
    """Subtract the gradient of the proximal term, ρ̂ (θ - center), from ``gradient``; the sum of its squares."""
    n_states, n_actions = gradient.shape
    squares = 0.0
    for s in range(n_states):
        for a in range(n_actions):
            gradient[s, a] -= weight * (theta[s, a] - center[s, a])
            squares += gradient[s, a] * gradient[s, a]
    return squares
