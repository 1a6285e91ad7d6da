r"""Occupancies, values and policy gradients of a known MDP, by sparse linear algebra or by steps through the horizon.

:class:`~constrained_maxent.oracle.TabularMDP` checks the policies and rewards that come here, and says what comes out.
Everywhere ``transition`` is the probability of moving on, ``(n_states * n_actions, n_states)``, and ``initial`` the
distribution of the first state.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array, eye_array
from scipy.sparse.linalg import SuperLU, splu

from constrained_maxent.occupancy.weighting import Weighting
from constrained_maxent.types import FloatArray


def occupancy(transition: csr_array, initial: FloatArray, policy: FloatArray, weighting: Weighting) -> FloatArray:
    r"""λ of a policy, ``(n_states, n_actions)``."""
    if weighting.horizon is None:
        visits = _discounted_visits(initial, _factorise(transition, policy, weighting.discount))
        # The factors leave 1e-17 of the whole everywhere. A step of the flow has positive terms only, and puts right
        # what is that small itself, as what tiny limits are about.
        arrivals: FloatArray = (visits[:, None] * policy).ravel() @ transition
        visits = initial + weighting.discount * arrivals
        return weighting.constant * visits[:, None] * policy
    pi_t = _over_time(policy, weighting.horizon)
    total = np.zeros(pi_t.shape[1:])
    weights = weighting.weights(np.arange(weighting.horizon))
    for weight, rho, pi_now in zip(weights, _state_distributions(transition, initial, pi_t), pi_t, strict=True):
        total += weight * rho[:, None] * pi_now
    return total


def policy_gradient(
    transition: csr_array, initial: FloatArray, policy: FloatArray, reward: FloatArray, weighting: Weighting
) -> FloatArray:
    r"""Derivative of :math:`\langle r, \lambda^\pi \rangle` in the entries of the policy, of its shape."""
    if weighting.horizon is None:
        factors = _factorise(transition, policy, weighting.discount)
        value = _discounted_values(factors, policy, reward)
        visits = weighting.constant * _discounted_visits(initial, factors)
        gradient: FloatArray = visits[:, None] * (reward + weighting.discount * expected(transition, value))
        return gradient

    pi_t = _over_time(policy, weighting.horizon)
    rho_t = list(_state_distributions(transition, initial, pi_t))
    gradient_t = np.empty_like(pi_t)
    # Weights stand inside the values, w_t Q_t = w_t r + T w_{t+1} V_{t+1}: none is divided by another.
    value = np.zeros(initial.size)
    for t, weight in reversed(list(enumerate(weighting.weights(np.arange(weighting.horizon))))):
        action_value = weight * reward + expected(transition, value)
        gradient_t[t] = rho_t[t][:, None] * action_value
        value = (pi_t[t] * action_value).sum(axis=1)
    return gradient_t if policy.ndim == 3 else gradient_t.sum(axis=0)


def state_values(transition: csr_array, policy: FloatArray, reward: FloatArray, discount: float) -> FloatArray:
    r"""Discounted return from each state at infinite horizon, ``(n_states,)``."""
    return _discounted_values(_factorise(transition, policy, discount), policy, reward)


def _over_time(policy: FloatArray, horizon: int) -> FloatArray:
    return np.broadcast_to(policy, (horizon, *policy.shape[-2:]))


def expected(transition: csr_array, value: FloatArray) -> FloatArray:
    """Expectation of a value of the next state, 0 where the episode ends: ``(n_states, n_actions)``."""
    result: FloatArray = (transition @ value).reshape(value.size, -1)
    return result


def _state_distributions(transition: csr_array, initial: FloatArray, pi_t: FloatArray) -> Iterator[FloatArray]:
    """The distributions of the states at times 0, 1, …, as many as policies: ``(n_states,)`` each."""
    rho = initial
    for pi in pi_t:
        yield rho
        rho = (rho[:, None] * pi).ravel() @ transition


def _factorise(transition: csr_array, policy: FloatArray, discount: float) -> SuperLU:
    r"""Sparse factors of :math:`I - \gamma P_\pi`, which is regular because :math:`\gamma < 1`."""
    n_states, n_actions = policy.shape
    rows = np.arange(0, policy.size + 1, n_actions)
    mix_actions = csr_array((policy.ravel(), np.arange(policy.size), rows), shape=(n_states, policy.size))
    return splu((eye_array(n_states) - discount * (mix_actions @ transition)).tocsc())


def _discounted_values(factors: SuperLU, policy: FloatArray, reward: FloatArray) -> FloatArray:
    values: FloatArray = factors.solve((policy * reward).sum(axis=1))
    return values


def _discounted_visits(initial: FloatArray, factors: SuperLU) -> FloatArray:
    """Discounted visits of each state; rounding may leave up to ±1e-17 where one is never visited."""
    visits: FloatArray = np.maximum(factors.solve(initial, trans="T"), 0.0)
    return visits
