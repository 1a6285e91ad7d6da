"""What the convex solver and its certificates ask of a functional: a conic form, and a bound easily maximized."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy

from constrained_maxent.types import FloatArray, IntArray

if TYPE_CHECKING:  # CVXPY takes a second to load, and only who solves a convex program waits for it.
    import cvxpy as cp

Curvature = Literal["affine", "concave", "convex", "unknown"]
"""Of a functional over all λ ≥ 0."""


def scaled_curvature(curvature: Curvature, factor: float) -> Curvature:
    """The curvature of a functional times a number."""
    if factor == 0.0:
        return "affine"
    flipped: dict[Curvature, Curvature] = {"concave": "convex", "convex": "concave"}
    return curvature if factor > 0.0 else flipped.get(curvature, curvature)


@dataclass(frozen=True, eq=False)
class ConicOccupancy:
    r"""λ as variables of a convex program, of which :meth:`Functional.conic` makes an expression of CVXPY.

    The solver's own variables are masses in units of the average one, because exponential cones fail on small numbers:
    λ is ``unit * scaled`` on the cells, and 0 elsewhere.

    Args:
        scaled: λ on the cells in that unit, a CVXPY expression ``(n_cells,)``.
        unit: mass of one unit.
        cells: numbers s·\|A\| + a of the cells that can have mass, ``(n_cells,)``.
        n_states, n_actions: of the MDP.
        definitions: the variables that functionals defined, as constraints, by the functional's ``id``.
    """

    scaled: cp.Expression
    unit: float
    cells: IntArray
    n_states: int
    n_actions: int
    definitions: dict[int, cp.Constraint] = field(default_factory=dict)

    @property
    def mass(self) -> cp.Expression:
        """λ on the cells, ``(n_cells,)``."""
        return self.unit * self.scaled

    def on_cells(self, table: FloatArray) -> FloatArray:
        """Entries of a table ``(n_states, n_actions)`` on the cells, ``(n_cells,)``."""
        return table.reshape(-1)[self.cells]

    @cached_property
    def by_state(self) -> scipy.sparse.csr_array:
        """Sums over the actions of each state that has cells: a matrix ``(n_present_states, n_cells)``."""
        states, rows = np.unique(self.cells // self.n_actions, return_inverse=True)
        return scipy.sparse.csr_array(
            (np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=(len(states), len(rows))
        )

    @cached_property
    def everywhere(self) -> scipy.sparse.csr_array:
        """From the cells to the whole flat table: a matrix ``(n_states * n_actions, n_cells)``."""
        where = (self.cells, np.arange(len(self.cells)))
        return scipy.sparse.csr_array(
            (np.ones(len(self.cells)), where), shape=(self.n_states * self.n_actions, len(self.cells))
        )

    def define(self, functional: object, expression: cp.Expression) -> cp.Variable:
        """A new variable equal to an affine expression, one a functional.

        Its dual value, a sub-gradient at the solution, where there may be no derivative, comes back to
        :meth:`Functional.majorant`.
        """
        import cvxpy as cp

        variable = cp.Variable(expression.size)
        self.definitions[id(functional)] = variable == expression
        return variable


@dataclass(frozen=True, eq=False)
class Majorant:
    r"""A concave function of λ with a closed-form supremum, which some other function nowhere exceeds.

    .. math:: k + \langle q, \lambda\rangle - \tau \sum_{s,a} \lambda\log\lambda - \tau_d \sum_s d\log d.

    Args:
        constant: k.
        reward: q, ``(n_states, n_actions)``; -inf where λ must be 0.
        temperature: τ ≥ 0.
        state_temperature: τ_d ≥ 0.
    """

    constant: float
    reward: FloatArray
    temperature: float = 0.0
    state_temperature: float = 0.0

    def __add__(self, other: Majorant) -> Majorant:
        return Majorant(
            self.constant + other.constant,
            self.reward + other.reward,
            self.temperature + other.temperature,
            self.state_temperature + other.state_temperature,
        )

    def supremum(self, added: FloatArray) -> float:
        r""":math:`\sup_{\lambda\ge0}` with ``added`` on top of q; infinite if nothing curbs a positive reward."""
        reward = self.reward + added
        tau, total = self.temperature, self.temperature + self.state_temperature
        if total == 0.0:
            return self.constant if reward.max(initial=-math.inf) <= 0.0 else math.inf
        # Given d(s), the best split over actions is a softmax at temperature tau, the best action at 0.
        with np.errstate(divide="ignore"):
            best = tau * scipy.special.logsumexp(reward / tau, axis=1) if tau > 0.0 else reward.max(axis=1)
        with np.errstate(over="ignore"):
            # Far from the optimum the bound may be infinite; it is a bound all the same.
            return self.constant + float(np.sum(total * np.exp(best / total - 1.0)))
