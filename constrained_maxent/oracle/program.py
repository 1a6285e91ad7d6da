r"""The convex program over occupancy measures: its variables, what keeps them an occupancy, and functionals of them.

At infinite horizon :math:`\Lambda` is the set of :math:`\lambda \ge 0` with

.. math:: \sum_a \lambda(s,a) = c\,\mu_0(s) + \gamma \sum_{s',a'} T(s|s',a')\,\lambda(s',a'),

*c* being the constant of the scale; at finite horizon one distribution :math:`x_t(s,a)` for each time step
flows into the next, and :math:`\lambda = \sum_t w_t x_t`. Both describe every policy, the second also those that
depend on time.

The solver's own variables are masses in units of the average one. Where cells have 1e-4 or less it fails otherwise:
no scaling of rows and columns reaches inside an exponential cone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals import Entropy, Functional, KLDivergence, L2Distance, LinearCost
from constrained_maxent.occupancy.weighting import Scale
from constrained_maxent.oracle.bound import Majorant, best_return, potential_bound, reward_bound
from constrained_maxent.oracle.flow import Bools, balance, possible_pairs
from constrained_maxent.oracle.tabular import TabularMDP
from constrained_maxent.types import FloatArray

Cells = NDArray[np.intp]

_NO_MASS = 1e-12


@dataclass(frozen=True, eq=False)
class OccupancyProgram:
    """Variables and flow constraints of an MDP, on the state-action pairs that can have mass.

    Attributes:
        mdp: the MDP.
        scale: of λ.
        possible: pairs that can have mass, ``(n_steps, n_states, n_actions)``; one step at infinite horizon.
        cells: numbers ``s * n_actions + a`` of those that can at any time, ``(n_cells,)``.
        unit: average mass of a cell.
        scaled: λ on these cells as a variable, in that unit, ``(n_cells,)``.
        masses: x_t(s, a) of all possible pairs, one time step after the other; at infinite horizon ``occupancy``.
        flow: the constraints that make the variables an occupancy.
    """

    mdp: TabularMDP
    scale: Scale
    possible: Bools
    cells: Cells
    unit: float
    scaled: Any
    masses: Any
    flow: list[Any]

    @classmethod
    def of(cls, mdp: TabularMDP, scale: Scale, support: Bools | None = None) -> OccupancyProgram:
        """The program of an MDP; with a support, ``(n_states, n_actions)``, of the policies that never leave it."""
        whole = np.ones((mdp.n_states, mdp.n_actions), dtype=np.bool_)
        possible = possible_pairs(mdp, whole if support is None else support)
        cells = np.flatnonzero(possible.any(axis=0))
        weighting = mdp.weighting(scale)
        unit = weighting.full_mass / max(len(cells), 1)
        matrix, start = balance(mdp, possible)
        if mdp.horizon is None:
            scaled = cp.Variable(len(cells), nonneg=True)
            flow = [matrix @ scaled == weighting.constant / unit * start]
            return cls(mdp, scale, possible, cells, unit, scaled, unit * scaled, flow)
        times, numbers = np.nonzero(possible.reshape(mdp.horizon, -1))
        rows = np.searchsorted(cells, numbers)
        sums = csr_array((weighting.weights(times), (rows, np.arange(len(rows)))), shape=(len(cells), len(rows)))
        share = mdp.horizon / max(len(rows), 1)
        steps = cp.Variable(len(rows), nonneg=True)
        # λ is a variable of its own, so that the dual of its definition is the pseudo-reward at the optimum.
        scaled = cp.Variable(len(cells))
        flow = [matrix @ steps == start / share, scaled == share / unit * sums @ steps]
        return cls(mdp, scale, possible, cells, unit, scaled, share * steps, flow)

    @property
    def occupancy(self) -> Any:
        """λ on the cells as an expression, ``(n_cells,)``."""
        return self.unit * self.scaled

    @property
    def is_blocked(self) -> bool:
        """Whether every policy leaves the support: the program has no solution then."""
        return not self.possible[0].any(axis=1)[self.mdp.initial > 0.0].all()

    @property
    def mass(self) -> float:
        """Mass of a full-length episode: 1 at scale ``normalized``."""
        return self.mdp.weighting(self.scale).full_mass

    def bound(self, bound: Majorant, *, objective_unit: float = 1.0) -> float:
        """An upper bound of what a majorant bounds, from the solver's dual values; valid however wrong those are.

        Args:
            bound: the majorant of the Lagrangian.
            objective_unit: the unit in which the solver maximized the objective.
        """
        # Nothing outside the program has mass.
        bound = replace(bound, reward=np.where(self.possible.any(axis=0), bound.reward, -np.inf))
        if bound.temperature + bound.state_temperature == 0.0:
            # All linear: the Lagrangian is an ordinary MDP.
            return bound.constant + best_return(self.mdp, bound.reward, scale=self.scale)
        dual = np.asarray(self.flow[-1].dual_value) * (objective_unit / self.unit)
        if self.mdp.horizon is None:
            potential = np.zeros(self.mdp.n_states)
            potential[self.possible[0].any(axis=1)] = dual
            return potential_bound(self.mdp, bound, potential, scale=self.scale)
        reward = np.full(bound.reward.shape, -np.inf)
        reward.reshape(-1)[self.cells] = dual
        return reward_bound(self.mdp, bound, reward, scale=self.scale)

    def table(self, values: FloatArray) -> FloatArray:
        """Values on the program's cells as a table ``(n_states, n_actions)``, 0 elsewhere."""
        table = np.zeros((self.mdp.n_states, self.mdp.n_actions))
        table.reshape(-1)[self.cells] = values
        return table

    def policy(self) -> FloatArray:
        """π(a|s) = λ(s,a)/d(s) of the solved program, for each time step if there are any.

        Where nothing is, it is uniform over the actions that stay in the support.
        """
        mass, allowed = np.zeros(self.possible.shape), self.possible.astype(np.float64)
        mass[self.possible] = np.maximum(self.masses.value, 0.0)
        allowed[~self.possible.any(axis=-1)] = 1.0
        policy: FloatArray = np.where(mass.sum(axis=-1, keepdims=True) > _NO_MASS, mass, allowed)
        policy /= policy.sum(axis=-1, keepdims=True)
        return policy[0] if self.mdp.horizon is None else policy

    def goal(self, objective: Functional) -> Any:
        """A concave functional of λ as an expression, of entropies that without smoothing.

        Raises:
            InvalidSetting: the functional is not concave.
        """
        if isinstance(objective, Entropy):
            density = self.scaled if objective.over == "state-action" else self._by_state() @ self.scaled
            # -u x log(u x) = u (-x log x) - u log u · x
            return self.unit * cp.sum(cp.entr(density) - math.log(self.unit) * density)
        if isinstance(objective, LinearCost):
            return self.express(objective)[0]
        raise InvalidSetting(
            f"{type(objective).__name__} is not concave: maximize Entropy or a LinearCost with a table."
        )

    def express(self, functional: Functional) -> tuple[Any, list[Any]]:
        r"""A convex functional of λ as an expression, and the definitions that it brings along.

        Divergences are those without smoothing, and the program's support must lie in that of their references. A
        norm defines :math:`z = \lambda - \lambda_{\mathrm{ref}}` in the program's unit; minus the dual value of that
        is ν times the unit and the norm's sub-gradient.

        Raises:
            InvalidSetting: the functional has no convex formulation here.
            InvalidData: its table has another size.
        """
        functional.check(self.mdp.n_states, self.mdp.n_actions)
        if isinstance(functional, LinearCost) and functional.table is not None:
            return functional.table.reshape(-1)[self.cells] @ self.occupancy, []
        if isinstance(functional, KLDivergence):
            reference = functional.table.reshape(-1)[self.cells] / self.unit
            return self.unit * cp.sum(cp.kl_div(self.scaled, reference) + self.scaled - reference), []
        if isinstance(functional, L2Distance):
            size = functional.table.size
            where = (self.cells, np.arange(len(self.cells)))
            everywhere = csr_array((np.ones(len(self.cells)), where), shape=(size, len(self.cells)))
            difference = cp.Variable(size)
            definition = difference == everywhere @ self.scaled - functional.table.reshape(-1) / self.unit
            return self.unit * cp.norm(difference, 2), [definition]
        raise InvalidSetting(
            f"{type(functional).__name__} has no convex formulation here. As constraints the oracle takes LinearCost "
            "with a table (mdp.tabulate makes one of a cost function), KLDivergence and L2Distance."
        )

    def _by_state(self) -> csr_array:
        states, rows = np.unique(self.cells // self.mdp.n_actions, return_inverse=True)
        return csr_array((np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=(len(states), len(rows)))
