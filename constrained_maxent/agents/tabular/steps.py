"""Steps of θ along the gradient: plain, or Adam (Kingma and Ba, 2015); then the projection."""

from __future__ import annotations

import math

from constrained_maxent.agents.tabular.compiled import flushed, inner
from constrained_maxent.agents.tabular.sampling import Flags
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
    """The same with Adam's direction, which moves every row. ``updates`` counts from 1."""
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
