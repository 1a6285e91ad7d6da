r"""Upper bounds of the optimum that do not trust a convex solver.

For multipliers :math:`\nu \ge 0` the Lagrangian :math:`L(\lambda) = F(\lambda) - \sum_i \nu_i R_i(\lambda)` is concave,
and no feasible :math:`\lambda` has a larger *F* than :math:`\max_\Lambda L`. Two ways to bound that from above:

*By potentials* (:func:`potential_bound`), with any vector *V* for the flow constraints:

.. math:: \max_{\lambda\in\Lambda} L \le
          c\,\mu_0^\top V + \sup_{\lambda \ge 0} \big[L(\lambda) + \langle \gamma T V - V, \lambda\rangle\big],

whose supremum has a closed form, cell by cell. Its error is of second order in that of *V* and ν.

*By an ordinary MDP* (:func:`reward_bound`), with any reward *y*, best :math:`y = \nabla L(\lambda^*)`:

.. math:: \max_{\lambda\in\Lambda} L \le
          \sup_{\lambda \ge 0}\big[L(\lambda) - \langle y, \lambda\rangle\big]
          + \max_{\lambda\in\Lambda}\langle y, \lambda\rangle,

where dynamic programming gives the last term.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from constrained_maxent.errors import InvalidSetting, NonFiniteValue
from constrained_maxent.functionals import Entropy, Functional, KLDivergence, L2Distance, LinearCost
from constrained_maxent.occupancy.weighting import Scale
from constrained_maxent.oracle.tabular import TabularMDP
from constrained_maxent.penalties import Exact, Penalty, Quadratic
from constrained_maxent.types import FloatArray

_MAX_IMPROVEMENTS = 1000


@dataclass(frozen=True, eq=False)
class Majorant:
    r"""A concave function :math:`\ge L` everywhere, with a closed-form supremum.

    .. math:: L(\lambda) \le k + \langle q, \lambda\rangle - \tau \sum_{s,a} \lambda\log\lambda - \tau_d \sum_s d\log d.

    It is exact for entropies, divergences and linear functionals; a norm is replaced by a linear function below it.

    Attributes:
        constant: k.
        reward: q, ``(n_states, n_actions)``; -inf where λ must be 0.
        temperature: τ ≥ 0.
        state_temperature: τ_d ≥ 0.
    """

    constant: float
    reward: FloatArray
    temperature: float
    state_temperature: float

    def supremum(self, added: FloatArray) -> float:
        r""":math:`\sup_{\lambda\ge0}` with ``added`` on top of q; infinite if nothing curbs a positive reward."""
        reward = self.reward + added
        tau, total = self.temperature, self.temperature + self.state_temperature
        if total == 0.0:
            return self.constant if reward.max(initial=-math.inf) <= 0.0 else math.inf
        # Given d(s), the best split over actions is a softmax at temperature tau, the best action at 0.
        with np.errstate(divide="ignore"):
            best = tau * logsumexp(reward / tau, axis=1) if tau > 0.0 else reward.max(axis=1)
        with np.errstate(over="ignore"):
            # Far from the optimum the bound may be infinite; it is a bound all the same.
            return self.constant + float(np.sum(total * np.exp(best / total - 1.0)))


def majorant(
    objective: Functional,
    constraints: Mapping[str, Functional],
    multipliers: Mapping[str, float],
    shape: tuple[int, int],
    *,
    penalties: Mapping[str, Penalty] | None = None,
    directions: Mapping[str, FloatArray] | None = None,
) -> Majorant:
    r"""A majorant of the Lagrangian.

    A penalty is a supremum of tangents, :math:`\beta[R]_+^2 = \sup_s sR - s^2/4\beta` and
    :math:`\beta[R]_+ = \sup_{s\le\beta} sR` over :math:`s \ge 0`, so a penalized constraint enters like an enforced
    one, with its slope as multiplier.

    Args:
        objective: ``Entropy`` or ``LinearCost`` with a table.
        constraints: by name, with limits.
        multipliers: ν or slope of each, ≥ 0 (equalities: of any sign).
        shape: of λ, ``(n_states, n_actions)``.
        penalties: of the penalized constraints.
        directions: for each :class:`L2Distance` a table *u*, ``(n_states, n_actions)``: the norm is replaced by
            :math:`\langle u, \lambda - \lambda_{\mathrm{ref}}\rangle`, best with its (sub-)gradient at the optimum.

    Raises:
        InvalidSetting: a functional or penalty that is not concave, or not known here.
    """
    reward, constant = np.zeros(shape), 0.0
    tau = tau_d = 0.0
    if isinstance(objective, Entropy):
        tau, tau_d = (1.0, 0.0) if objective.over == "state-action" else (0.0, 1.0)
    elif isinstance(objective, LinearCost) and objective.table is not None:
        reward = reward + objective.table
    else:
        raise InvalidSetting(
            f"The objective cannot be a {type(objective).__name__}: take Entropy, or LinearCost with a table."
        )
    for name, functional in constraints.items():
        nu = multipliers[name]
        penalty = (penalties or {}).get(name)
        if isinstance(penalty, Quadratic) and penalty.beta > 0.0:
            constant += nu**2 / (4.0 * penalty.beta)
        elif isinstance(penalty, (Quadratic, Exact)):
            nu = min(nu, penalty.beta)
        elif penalty is not None:
            raise InvalidSetting(f"{type(penalty).__name__} changes during training: penalize by Quadratic or Exact.")
        if nu == 0.0:
            continue
        constant += nu * functional.limit
        if isinstance(functional, LinearCost) and functional.table is not None:
            reward = reward - nu * functional.table
        elif isinstance(functional, KLDivergence):
            tau += nu
            with np.errstate(divide="ignore"):
                reward = reward + nu * np.log(functional.table)
        elif isinstance(functional, L2Distance):
            # The norm is the largest <u, difference> over |u| <= 1.
            u = (directions or {})[name]
            u = u / max(1.0, float(np.linalg.norm(u)))
            reward = reward - nu * u
            constant += nu * float(np.sum(u * functional.table))
        else:
            raise InvalidSetting(f"{type(functional).__name__} has no bound here.")
    return Majorant(constant, reward, tau, tau_d)


def potential_bound(mdp: TabularMDP, bound: Majorant, potential: FloatArray, *, scale: Scale = "normalized") -> float:
    """The bound of any potential V at infinite horizon.

    Args:
        mdp: the MDP, of infinite horizon.
        bound: a majorant of the Lagrangian.
        potential: V, ``(n_states,)``; entries of states that cannot be reached do not matter.
        scale: of λ.

    Raises:
        InvalidSetting: the horizon is finite.
    """
    if mdp.horizon is not None:
        raise InvalidSetting("Potentials bound problems of infinite horizon: take reward_bound.")
    states = mdp.reachable
    value = np.where(states, potential, 0.0)
    advantage = mdp.discount * (mdp.transition @ value).reshape(bound.reward.shape) - value[:, None]
    # States out of reach have no mass, whatever the program says of them.
    start = mdp.weighting(scale).constant * float(mdp.initial @ value)
    return start + _on(states, bound).supremum(advantage[states])


def reward_bound(mdp: TabularMDP, bound: Majorant, reward: FloatArray, *, scale: Scale = "normalized") -> float:
    """The bound of any reward y.

    Args:
        mdp: the MDP.
        bound: a majorant of the Lagrangian.
        reward: y, ``(n_states, n_actions)``; -inf only where the majorant is -inf too.
        scale: of λ.
    """
    states = mdp.reachable
    added = np.where(bound.reward == -np.inf, 0.0, -reward)
    return _on(states, bound).supremum(added[states]) + best_return(mdp, reward, scale=scale)


def _on(states: NDArray[np.bool_], bound: Majorant) -> Majorant:
    return Majorant(bound.constant, bound.reward[states], bound.temperature, bound.state_temperature)


def best_return(mdp: TabularMDP, reward: FloatArray, *, scale: Scale = "normalized") -> float:
    r""":math:`\max_\pi \langle r, \lambda^\pi\rangle` over all policies, from above.

    Backward induction at finite horizon. At infinite horizon policy iteration gives *V*, and what Bellman's
    equation misses, :math:`\delta = \max(r + \gamma T V - V)`, is added: :math:`V + \delta/(1-\gamma)` is an upper
    bound for any *V*.

    Args:
        mdp: the MDP.
        reward: ``(n_states, n_actions)``; -inf where a policy must not go. Entries of states that cannot be reached
            do not matter.
        scale: of λ.

    Raises:
        NonFiniteValue: a reward is NaN or +inf.
    """
    reward = np.where(mdp.reachable[:, None], reward, 0.0)
    if np.isnan(reward).any() or reward.max() == np.inf:
        raise NonFiniteValue("The reward must be finite, or -inf, on all states that can be reached.")
    weighting = mdp.weighting(scale)

    def expected(value: FloatArray) -> FloatArray:
        result: FloatArray = (mdp.transition @ value).reshape(reward.shape)
        return result

    if mdp.horizon is not None:
        value = np.zeros(mdp.n_states)
        for weight in weighting.weights(np.arange(mdp.horizon))[::-1]:
            value = (weight * reward + expected(value)).max(axis=1)
        return _expectation(mdp.initial, value)
    # States without any way to go on must not be entered. A bound may let a policy enter them and stay for nothing.
    forbidden = reward == -np.inf
    forbidden &= ~forbidden.all(axis=1, keepdims=True)
    states = np.arange(mdp.n_states)
    greedy = reward.argmax(axis=1)
    reward = np.where(reward == -np.inf, 0.0, reward)
    for _ in range(_MAX_IMPROVEMENTS):
        policy = np.zeros_like(reward)
        policy[states, greedy] = 1.0
        value = mdp.state_values(policy, reward)
        action_values = np.where(forbidden, -np.inf, reward + mdp.discount * expected(value))
        kept = action_values[states, greedy]
        # Among equals the old action stays: rounding must not make policies take turns.
        better = action_values.max(axis=1) > kept + 1e-12 * (1.0 + np.abs(kept))
        if not better.any():
            break
        greedy = np.where(better, action_values.argmax(axis=1), greedy)
    missed = np.where(mdp.reachable, action_values.max(axis=1) - value, 0.0).max(initial=0.0)
    return float(weighting.constant * (mdp.initial @ value + missed / (1.0 - mdp.discount)))


def _expectation(probability: FloatArray, value: FloatArray) -> float:
    """Expected value, where what cannot happen may have a value of -inf."""
    happens = probability > 0.0
    return float(probability[happens] @ value[happens])
