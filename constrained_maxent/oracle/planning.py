"""The best policy for a reward on a known MDP: policy iteration, or backward induction within a finite horizon."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from constrained_maxent.errors import NonFiniteValue
from constrained_maxent.occupancy.weighting import Scale
from constrained_maxent.oracle import exact_values
from constrained_maxent.oracle.tabular import TabularMDP
from constrained_maxent.types import FloatArray, IntArray

_MAX_IMPROVEMENTS = 1000


def plan(mdp: TabularMDP, reward: FloatArray, *, scale: Scale = "normalized") -> FloatArray:
    """A deterministic policy that maximizes ⟨r, λ⟩.

    Args:
        reward: ``(n_states, n_actions)``; -inf where a policy must not go. Entries of states that cannot be reached do
            not matter.
        scale: of λ.

    Returns:
        One-hot rows: ``(n_states, n_actions)`` at infinite horizon, else ``(horizon, n_states, n_actions)``.

    Raises:
        NonFiniteValue: a reward is NaN or +inf.
    """
    reward = _checked(mdp, reward)
    if mdp.horizon is None:
        actions = _policy_iteration(mdp, reward)[0]
    else:
        greedy = [action_values.argmax(axis=1) for action_values in _backwards(mdp, reward, scale)]
        actions = np.array(greedy[::-1])
    policy: FloatArray = np.eye(mdp.n_actions)[actions]
    return policy


def best_return(mdp: TabularMDP, reward: FloatArray, *, scale: Scale = "normalized") -> float:
    r""":math:`\max_\pi \langle r, \lambda^\pi\rangle` over all policies, from above.

    At infinite horizon policy iteration gives *V*, and what Bellman's equation misses,
    :math:`\delta = \max(r + \gamma T V - V)`, is added: :math:`V + \delta/(1-\gamma)` is an upper bound for any *V*.

    Arguments and errors are those of :func:`plan`.
    """
    reward = _checked(mdp, reward)
    if mdp.horizon is not None:
        *_, action_values = _backwards(mdp, reward, scale)
        happens = mdp.initial > 0.0
        return float(mdp.initial[happens] @ action_values.max(axis=1)[happens])
    _, value, action_values = _policy_iteration(mdp, reward)
    missed = np.where(mdp.reachable, action_values.max(axis=1) - value, 0.0).max(initial=0.0)
    return float(mdp.weighting(scale).constant * (mdp.initial @ value + missed / (1.0 - mdp.discount)))


def _checked(mdp: TabularMDP, reward: FloatArray) -> FloatArray:
    reward = np.where(mdp.reachable[:, None], reward, 0.0)
    if np.isnan(reward).any() or reward.max() == np.inf:
        raise NonFiniteValue("The reward must be finite, or -inf, on all states that can be reached.")
    return reward


def _backwards(mdp: TabularMDP, reward: FloatArray, scale: Scale) -> Iterator[FloatArray]:
    """Values of all actions, from the last time step to the first."""
    assert mdp.horizon is not None
    value = np.zeros(mdp.n_states)
    # Weights stand inside the values, as in exact_values.policy_gradient.
    for weight in mdp.weighting(scale).weights(np.arange(mdp.horizon))[::-1]:
        action_values = weight * reward + exact_values.expected(mdp.transition, value)
        yield action_values
        value = action_values.max(axis=1)


def _policy_iteration(mdp: TabularMDP, reward: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Greedy actions ``(n_states,)``, their values, and the values of all actions, at infinite horizon."""
    # States without any way to go on must not be entered. A bound may let a policy enter them and stay for nothing.
    forbidden = reward == -np.inf
    forbidden &= ~forbidden.all(axis=1, keepdims=True)
    states = np.arange(mdp.n_states)
    greedy = reward.argmax(axis=1)
    reward = np.where(reward == -np.inf, 0.0, reward)
    rounding = min(1.0, float(np.abs(reward).max(initial=0.0)))  # rewards may be in tiny units
    for _ in range(_MAX_IMPROVEMENTS):
        policy = np.zeros_like(reward)
        policy[states, greedy] = 1.0
        value = exact_values.state_values(mdp.transition, policy, reward, mdp.discount)
        action_values = np.where(
            forbidden, -np.inf, reward + mdp.discount * exact_values.expected(mdp.transition, value)
        )
        kept = action_values[states, greedy]
        # Among equals the old action stays: rounding must not make policies take turns.
        better = action_values.max(axis=1) > kept + 1e-12 * (rounding + np.abs(kept))
        if not better.any():
            break
        greedy = np.where(better, action_values.argmax(axis=1), greedy)
    return greedy, value, action_values
