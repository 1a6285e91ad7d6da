r"""Occupancies, values and policy gradients of a known MDP, by sparse linear algebra or by steps through the horizon.

:class:`~constrained_maxent.oracle.TabularMDP` checks the policies and rewards that come here, and says what comes out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array, eye_array
from scipy.sparse.linalg import SuperLU, splu

from constrained_maxent.occupancy.weighting import Weighting
from constrained_maxent.types import FloatArray

if TYPE_CHECKING:
    from constrained_maxent.oracle.tabular import TabularMDP


def occupancy(mdp: TabularMDP, policy: FloatArray, weighting: Weighting) -> FloatArray:
    r"""λ of a policy, ``(n_states, n_actions)``."""
    if mdp.horizon is None:
        return weighting.constant * _discounted_visits(mdp, _factorise(mdp, policy))[:, None] * policy
    total = np.zeros((mdp.n_states, mdp.n_actions))
    pi_t = _over_time(mdp, policy)
    weights = weighting.weights(np.arange(mdp.horizon))
    for weight, rho, pi_now in zip(weights, _state_distributions(mdp, pi_t), pi_t, strict=True):
        total += weight * rho[:, None] * pi_now
    return total


def policy_gradient(mdp: TabularMDP, policy: FloatArray, reward: FloatArray, weighting: Weighting) -> FloatArray:
    r"""Derivative of :math:`\langle r, \lambda^\pi \rangle` in the entries of the policy, of its shape."""
    if mdp.horizon is None:
        factors = _factorise(mdp, policy)
        value = _discounted_values(factors, policy, reward)
        visits = weighting.constant * _discounted_visits(mdp, factors)
        gradient: FloatArray = visits[:, None] * (reward + mdp.discount * _expected(mdp, value))
        return gradient

    pi_t = _over_time(mdp, policy)
    rho_t = list(_state_distributions(mdp, pi_t))
    gradient_t = np.empty_like(pi_t)
    # Weights stand inside the values here, w_t Q_t = w_t r + T w_{t+1} V_{t+1}: no weight is divided by another.
    value = np.zeros(mdp.n_states)
    for t, weight in reversed(list(enumerate(weighting.weights(np.arange(mdp.horizon))))):
        action_value = weight * reward + _expected(mdp, value)
        gradient_t[t] = rho_t[t][:, None] * action_value
        value = (pi_t[t] * action_value).sum(axis=1)
    return gradient_t if policy.ndim == 3 else gradient_t.sum(axis=0)


def state_values(mdp: TabularMDP, policy: FloatArray, reward: FloatArray) -> FloatArray:
    r"""Discounted return from each state at infinite horizon, ``(n_states,)``."""
    return _discounted_values(_factorise(mdp, policy), policy, reward)


def _over_time(mdp: TabularMDP, policy: FloatArray) -> FloatArray:
    return np.broadcast_to(policy, (mdp.horizon or 0, mdp.n_states, mdp.n_actions))


def _expected(mdp: TabularMDP, value: FloatArray) -> FloatArray:
    """Expectation of a value of the next state, 0 where the episode ends: ``(n_states, n_actions)``."""
    expected: FloatArray = (mdp.transition @ value).reshape(mdp.n_states, mdp.n_actions)
    return expected


def _state_distributions(mdp: TabularMDP, pi_t: FloatArray) -> Iterator[FloatArray]:
    """The distributions of the states at times 0, 1, …, as many as policies: ``(n_states,)`` each."""
    rho = mdp.initial
    for pi in pi_t:
        yield rho
        rho = (rho[:, None] * pi).ravel() @ mdp.transition


def _factorise(mdp: TabularMDP, policy: FloatArray) -> SuperLU:
    r"""Sparse factors of :math:`I - \gamma P_\pi`, which is regular because :math:`\gamma < 1`."""
    rows = np.arange(0, policy.size + 1, mdp.n_actions)
    mix_actions = csr_array((policy.ravel(), np.arange(policy.size), rows), shape=(mdp.n_states, policy.size))
    return splu((eye_array(mdp.n_states) - mdp.discount * (mix_actions @ mdp.transition)).tocsc())


def _discounted_values(factors: SuperLU, policy: FloatArray, reward: FloatArray) -> FloatArray:
    values: FloatArray = factors.solve((policy * reward).sum(axis=1))
    return values


def _discounted_visits(mdp: TabularMDP, factors: SuperLU) -> FloatArray:
    visits: FloatArray = factors.solve(mdp.initial, trans="T")
    # Rounding may leave ±1e-17 where a state is never visited; an occupancy has exactly 0 there.
    return np.where(mdp.reachable, np.maximum(visits, 0.0), 0.0)
