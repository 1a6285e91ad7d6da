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

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals import Functional, Majorant
from constrained_maxent.occupancy.weighting import Scale
from constrained_maxent.oracle.planning import best_return
from constrained_maxent.oracle.solution import FixedPenalty
from constrained_maxent.oracle.tabular import TabularMDP
from constrained_maxent.penalties import Quadratic
from constrained_maxent.types import FloatArray

Subgradients = Mapping[int, FloatArray]
"""Subgradients in the variables that a functional and its parts defined; see :meth:`Functional.majorant`."""


def lagrangian_majorant(
    objective: Functional,
    constraints: Mapping[str, Functional],
    multipliers: Mapping[str, float],
    occupancy: FloatArray,
    *,
    penalties: Mapping[str, FixedPenalty] | None = None,
    subgradients: Mapping[str | None, Subgradients] | None = None,
) -> Majorant:
    r"""A majorant of the Lagrangian, from those of its functionals.

    A penalty is a supremum of tangents, :math:`\beta[R]_+^2 = \sup_s sR - s^2/4\beta` and
    :math:`\beta[R]_+ = \sup_{s\le\beta} sR` over :math:`s \ge 0`, so a penalized constraint enters like an enforced
    one, with its slope as multiplier.

    Args:
        objective: F, concave.
        constraints: by name, convex, with limits.
        multipliers: ν or slope of each, ≥ 0 (equalities: of any sign).
        occupancy: where the bound should be close, ``(n_states, n_actions)``.
        penalties: of the penalized constraints.
        subgradients: of the constraints by name, and of the objective by ``None``.
    """
    known = subgradients or {}
    bound = objective.majorant(1.0, occupancy, known.get(None, {}))
    for name, functional in constraints.items():
        nu, loan = multipliers[name], 0.0
        penalty = (penalties or {}).get(name)
        if isinstance(penalty, Quadratic) and penalty.beta > 0.0:
            loan = nu**2 / (4.0 * penalty.beta)
        elif penalty is not None:
            nu = min(nu, penalty.beta)
        bound = replace(bound, constant=bound.constant + loan + nu * functional.limit)
        if nu != 0.0:
            bound = bound + functional.majorant(-nu, occupancy, known.get(name, {}))
    return bound


def potential_bound(mdp: TabularMDP, bound: Majorant, potential: FloatArray, *, scale: Scale = "normalized") -> float:
    """The bound of any potential V, ``(n_states,)``, given a majorant of the Lagrangian.

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
    """The bound of any reward y, ``(n_states, n_actions)``, given a majorant of the Lagrangian.

    The reward may be -inf only where the majorant is -inf too.
    """
    states = mdp.reachable
    added = np.where(bound.reward == -np.inf, 0.0, -reward)
    return _on(states, bound).supremum(added[states]) + best_return(mdp, reward, scale=scale)


def _on(states: NDArray[np.bool_], bound: Majorant) -> Majorant:
    return Majorant(bound.constant, bound.reward[states], bound.temperature, bound.state_temperature)
