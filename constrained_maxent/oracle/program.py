r"""The convex program over occupancy measures: states visited, flow in, flow out.

At infinite horizon :math:`\Lambda` is the set of :math:`\lambda \ge 0` with

.. math:: \sum_a \lambda(s,a) = c\,\mu_0(s) + \gamma \sum_{s',a'} T(s|s',a')\,\lambda(s',a'),

*c* being the constant of the scale; at finite horizon one distribution :math:`x_t(s,a)` for each time step
flows into the next, and :math:`\lambda = \sum_t w_t x_t`. Both describe every policy, the second every time-dependent one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array, kron

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals import Entropy, Functional, KLDivergence, L2Distance, LinearCost
from constrained_maxent.occupancy.weighting import Scale
from constrained_maxent.oracle.bound import Majorant, potential_bound, reward_bound
from constrained_maxent.oracle.tabular import TabularMDP
from constrained_maxent.types import FloatArray


@dataclass(frozen=True, eq=False)
class OccupancyProgram:
    """Variables and flow constraints of an MDP, on the states that can be reached.

    Attributes:
        mdp: the MDP.
        scale: of λ.
        states: numbers of the states in the program, ``(n,)``.
        flow: the constraints that make the variables an occupancy.
        occupancy: λ on these states as an expression, ``(n, n_actions)``.
        steps: at finite horizon x_t(s, a), one variable per time step, each ``(n, n_actions)``; else empty.
    """

    mdp: TabularMDP
    scale: Scale
    states: NDArray[np.intp]
    flow: list[Any]
    occupancy: Any
    steps: list[Any]

    @classmethod
    def of(cls, mdp: TabularMDP, scale: Scale) -> OccupancyProgram:
        """The program of an MDP."""
        states = np.flatnonzero(mdp.reachable)
        rows = (states[:, None] * mdp.n_actions + np.arange(mdp.n_actions)).ravel()
        # Of what leaves the reachable states nothing goes on: no action is taken there within the horizon.
        transition = csr_array(mdp.transition[rows][:, states])
        initial = mdp.initial[states]
        weighting = mdp.weighting(scale)
        shape = (len(states), mdp.n_actions)
        outflow = kron(eye_array(len(states)), np.ones((1, mdp.n_actions)), format="csr")
        if mdp.horizon is None:
            flat = cp.Variable(shape[0] * shape[1], nonneg=True)
            balance = outflow - mdp.discount * transition.T
            flow = [balance @ flat == weighting.constant * initial]
            return cls(mdp, scale, states, flow, cp.reshape(flat, shape, order="C"), [])
        variables = [cp.Variable(shape[0] * shape[1], nonneg=True) for _ in range(mdp.horizon)]
        flow = [outflow @ variables[0] == initial]
        flow += [outflow @ after == transition.T @ before for before, after in pairwise(variables)]
        weights = weighting.weights(np.arange(mdp.horizon))
        # λ is a variable of its own, so that the dual of its definition is the pseudo-reward at the optimum.
        flat = cp.Variable(shape[0] * shape[1])
        flow.append(flat == sum(weight * variable for weight, variable in zip(weights, variables, strict=True)))
        steps = [cp.reshape(variable, shape, order="C") for variable in variables]
        return cls(mdp, scale, states, flow, cp.reshape(flat, shape, order="C"), steps)

    def bound(self, bound: Majorant) -> float:
        """An upper bound of what a majorant bounds, from the solver's dual values; valid however wrong those are."""
        # Solvers disagree about the sign of an equality's dual; any vector gives a valid bound, so try both.
        dual = np.asarray(self.flow[-1].dual_value)
        if self.mdp.horizon is None:
            potential = np.zeros(self.mdp.n_states)
            potential[self.states] = dual
            return min(potential_bound(self.mdp, bound, sign * potential, scale=self.scale) for sign in (1.0, -1.0))
        reward = self.extend(dual.reshape(len(self.states), self.mdp.n_actions))
        return min(reward_bound(self.mdp, bound, sign * reward, scale=self.scale) for sign in (1.0, -1.0))

    def restrict(self, table: FloatArray) -> FloatArray:
        """Rows of a table ``(n_states, n_actions)`` that belong to the program's states."""
        return table[self.states]

    def extend(self, values: FloatArray) -> FloatArray:
        """A table on the program's states as one on all states, 0 elsewhere."""
        table = np.zeros((*values.shape[:-2], self.mdp.n_states, self.mdp.n_actions))
        table[..., self.states, :] = values
        return table

    def express(self, functional: Functional) -> tuple[Any, list[Any]]:
        """A functional of λ as an expression, and the constraints that it brings along.

        The smoothing of entropies and divergences is taken as 0: the program is about λ itself.

        Raises:
            InvalidSetting: the functional has no convex formulation here.
        """
        occupancy = self.occupancy
        if isinstance(functional, Entropy):
            density = occupancy if functional.over == "state-action" else cp.sum(occupancy, axis=1)
            return cp.sum(cp.entr(density)), []
        functional.check(self.mdp.n_states, self.mdp.n_actions)
        if isinstance(functional, LinearCost) and functional.table is not None:
            return cp.sum(cp.multiply(self.restrict(functional.table), occupancy)), []
        if isinstance(functional, KLDivergence):
            reference = self.restrict(functional.table)
            seen = reference > 0.0
            # Outside the reference's support any mass makes the divergence infinite.
            absent = [] if seen.all() else [occupancy[~seen] == 0.0]
            if not seen.any():
                return cp.Constant(0.0), absent
            return cp.sum(cp.kl_div(occupancy[seen], reference[seen]) + occupancy[seen] - reference[seen]), absent
        if isinstance(functional, L2Distance):
            outside = np.delete(functional.table, self.states, axis=0)
            difference = cp.vec(occupancy - self.restrict(functional.table), order="C")
            return cp.norm(cp.hstack([difference, np.linalg.norm(outside)]), 2), []
        raise InvalidSetting(
            f"{type(functional).__name__} has no convex formulation here. The oracle takes Entropy, LinearCost with a "
            "table, KLDivergence and L2Distance."
        )
