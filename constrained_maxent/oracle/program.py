r"""The convex program over occupancy measures: its variables, what keeps them an occupancy, and how Clarabel solves it.

At infinite horizon :math:`\Lambda` is the set of :math:`\lambda \ge 0` with

.. math:: \sum_a \lambda(s,a) = c\,\mu_0(s) + \gamma \sum_{s',a'} T(s|s',a')\,\lambda(s',a'),

*c* being the constant of the scale; at finite horizon one distribution :math:`x_t(s,a)` for each time step
flows into the next, and :math:`\lambda = \sum_t w_t x_t`. Both describe every policy, the second also those that
depend on time.

The solver's own variables are masses in units of the average one. Where cells have 1e-4 or less it fails otherwise:
no scaling of rows and columns reaches inside an exponential cone. Its tolerances are absolute, so what is far below the
average, and what is charged for it, is noise to it. Where that matters each mass is in a unit of its own, the one that
it has under a policy that is nearly right, and each row in that of its terms.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_diag, csr_array, diags_array

from constrained_maxent.errors import UnsupportedFunctional
from constrained_maxent.functionals import ConicOccupancy, Functional, Majorant
from constrained_maxent.occupancy.weighting import Scale
from constrained_maxent.oracle.bound import potential_bound, reward_bound
from constrained_maxent.oracle.planning import best_return
from constrained_maxent.oracle.tabular import TabularMDP
from constrained_maxent.types import FloatArray

Bools = NDArray[np.bool_]
Cells = NDArray[np.intp]

_NO_MASS = 1e-12
_LEAST = 1e-200  # units of nothing would divide by 0

# Tighter than Clarabel's own 1e-8: policies are quotients of small masses.
_TIGHT = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}

ATTEMPTS: tuple[dict[str, float | bool], ...] = (
    _TIGHT,
    # Where exponential and second-order cones meet, full steps sometimes stall close to the optimum.
    {**_TIGHT, "max_step_fraction": 0.95},
    {**_TIGHT, "linesearch_backtrack_step": 0.5},
    {},
    {"static_regularization_constant": 1e-7},
    {"max_step_fraction": 0.9},
    {"equilibrate_enable": False},
)
"""Options to try, one after the other."""


@dataclass(frozen=True, eq=False)
class OccupancyProgram:
    """Variables and flow constraints of an MDP, on the state-action pairs that can have mass.

    Attributes:
        scale: of λ.
        possible: pairs that can have mass, ``(n_steps, n_states, n_actions)``; one step at infinite horizon.
        cells: numbers ``s * n_actions + a`` of those that can at any time, ``(n_cells,)``.
        unit: average mass of a cell.
        scaled: λ on these cells as a variable, in that unit, ``(n_cells,)``.
        masses: x_t(s, a) of all possible pairs, one time step after the other; at infinite horizon ``occupancy``.
        flow: the constraints that make the variables an occupancy.
        rows: the units of the last of these, which scale its dual values, ``(n_rows,)``.
        least: mass of a state at a time below which it is taken for none, ``(n_steps, n_states, 1)`` or one number.
    """

    mdp: TabularMDP
    scale: Scale
    possible: Bools
    cells: Cells
    unit: float
    scaled: cp.Expression
    masses: cp.Expression
    flow: list[cp.Constraint]
    rows: FloatArray
    least: FloatArray

    @classmethod
    def of(
        cls, mdp: TabularMDP, scale: Scale, support: Bools | None = None, guess: FloatArray | None = None
    ) -> OccupancyProgram:
        """The program of an MDP.

        Args:
            support: of the policies that never leave it, ``(n_states, n_actions)``; all, if not given.
            guess: a policy of the form of ``policy()``, whose masses, and a little more, are the units; the average
                mass, if not given.
        """
        whole = np.ones((mdp.n_states, mdp.n_actions), dtype=np.bool_)
        possible = possible_pairs(mdp, whole if support is None else support)
        cells = np.flatnonzero(possible.any(axis=0))
        weighting = mdp.weighting(scale)
        unit = weighting.full_mass / max(len(cells), 1)
        matrix, start = balance(mdp, possible)
        masses = None if guess is None else np.maximum(_masses(mdp, possible, guess, scale), _LEAST)
        least: FloatArray = np.array(_NO_MASS) if masses is None else _NO_MASS * masses.sum(axis=-1, keepdims=True)
        sizes = None if masses is None else masses[possible]
        if mdp.horizon is None:
            variable = cp.Variable(len(cells), nonneg=True)
            scaled, rows = variable, np.ones(len(start))
            if sizes is not None:
                sizes = sizes / unit
                scaled, rows = cp.multiply(sizes, variable), abs(matrix) @ sizes
                matrix = _per(rows, matrix, sizes)
            flow = [matrix @ variable == weighting.constant / unit * start / rows]
            return cls(mdp, scale, possible, cells, unit, scaled, unit * scaled, flow, rows, least)
        times, numbers = np.nonzero(possible.reshape(mdp.horizon, -1))
        at = np.searchsorted(cells, numbers)
        sums = csr_array((weighting.weights(times), (at, np.arange(len(at)))), shape=(len(cells), len(at)))
        share = mdp.horizon / max(len(at), 1)
        sums = share / unit * sums
        steps = cp.Variable(len(at), nonneg=True)
        # λ is a variable of its own, so that the dual of its definition is the pseudo-reward at the optimum.
        variable = cp.Variable(len(cells))
        scaled, rows, start, shares = variable, np.ones(len(cells)), start / share, steps
        if sizes is not None:
            sizes = sizes / share
            equations, rows = abs(matrix) @ sizes, sums @ sizes
            scaled, shares = cp.multiply(rows, variable), cp.multiply(sizes, steps)
            matrix, start, sums = _per(equations, matrix, sizes), start / equations, _per(rows, sums, sizes)
        flow = [matrix @ steps == start, variable == sums @ steps]
        return cls(mdp, scale, possible, cells, unit, scaled, share * shares, flow, rows, least)

    @property
    def occupancy(self) -> cp.Expression:
        """λ on the cells, ``(n_cells,)``."""
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
        """An upper bound of the Lagrangian's majorant, from the solver's dual values; valid however wrong those are.

        The solver maximized the objective in ``objective_unit``.
        """
        # Nothing outside the program has mass.
        bound = replace(bound, reward=np.where(self.possible.any(axis=0), bound.reward, -np.inf))
        if np.isnan(bound.reward).any() or bound.reward.max() == np.inf:
            # The tangent of a functional whose slope is infinite in an empty cell bounds nothing.
            return math.inf
        if bound.temperature + bound.state_temperature == 0.0:
            # All linear: the Lagrangian is an ordinary MDP.
            return bound.constant + best_return(self.mdp, bound.reward, scale=self.scale)
        dual = np.asarray(self.flow[-1].dual_value) / self.rows * (objective_unit / self.unit)
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
        policy: FloatArray = np.where(mass.sum(axis=-1, keepdims=True) > self.least, mass, allowed)
        policy /= policy.sum(axis=-1, keepdims=True)
        return policy[0] if self.mdp.horizon is None else policy

    def view(self) -> ConicOccupancy:
        """λ as one functional sees it, with room for the variables that it defines."""
        return ConicOccupancy(self.scaled, self.unit, self.cells, self.mdp.n_states, self.mdp.n_actions)

    def express(self, functional: Functional, view: ConicOccupancy) -> cp.Expression:
        """A functional of λ, without smoothing, as an expression; its definitions are then in the :meth:`view`.

        Raises:
            UnsupportedFunctional: it has no conic form, or one of another curvature than it says.
            InvalidData: its table has another size.
        """
        functional.check(*self.mdp.shape)
        expression = functional.conic(view)
        follows = {"affine": "is_affine", "concave": "is_concave", "convex": "is_convex"}[functional.curvature]
        if not getattr(expression, follows)():
            raise UnsupportedFunctional(
                type(functional).__name__,
                f"{functional.curvature} conic form",
                "the expression that conic(occupancy) returns does not follow CVXPY's rules for one.",
            )
        return expression


def possible_pairs(mdp: TabularMDP, support: Bools) -> Bools:
    """State-action pairs that some policy has mass on at each time, among those that never leave a support.

    The support is ``(n_states, n_actions)``; the answer ``(horizon, n_states, n_actions)``, or
    ``(1, n_states, n_actions)`` at infinite horizon, and empty if the support must be left.
    """

    def successors(pairs: Bools) -> Bools:
        reached: Bools = pairs.reshape(-1).astype(np.float64) @ mdp.transition > 0.0
        return reached

    # From the end: an action is allowed if all that may follow has an allowed action.
    allowed = [support]
    for _ in range((mdp.horizon or mdp.n_states + 1) - 1):
        stuck = ~allowed[-1].any(axis=1)
        before = support & ~(mdp.transition @ stuck.astype(np.float64) > 0.0).reshape(support.shape)
        if mdp.horizon is None and (before == allowed[-1]).all():
            break
        allowed.append(before)
    # From the start: what can be reached.
    present = mdp.initial > 0.0
    if mdp.horizon is None:
        while True:
            pairs = allowed[-1] & present[:, None]
            if not (successors(pairs) & ~present).any():
                return pairs[None]
            present = present | successors(pairs)
    possible = []
    for now in reversed(allowed):
        possible.append(now & present[:, None])
        present = successors(possible[-1])
    return np.array(possible)


def _masses(mdp: TabularMDP, possible: Bools, policy: FloatArray, scale: Scale) -> FloatArray:
    """λ at infinite horizon, else x_t, of a policy, ``(n_steps, n_states, n_actions)``."""
    if mdp.horizon is None:
        return mdp.occupancy(policy, scale=scale)[None]
    masses, rho = np.zeros(possible.shape), mdp.initial
    for t, pi in enumerate(policy):
        masses[t] = rho[:, None] * pi
        rho = masses[t].ravel() @ mdp.transition
    return masses


def _per(rows: FloatArray, matrix: csr_array, columns: FloatArray) -> csr_array:
    """A matrix for variables in units of their own, each row divided by its unit."""
    return csr_array(diags_array(1.0 / rows) @ matrix @ diags_array(columns))


def exact_occupancy(mdp: TabularMDP, policy: FloatArray, scale: Scale) -> FloatArray:
    """Occupancy of a policy, with exactly 0 where it never goes: rounding is enough to make a divergence infinite."""
    occupancy = mdp.occupancy(policy, scale=scale)
    if mdp.horizon is None:
        occupancy = np.where(possible_pairs(mdp, policy > 0.0)[0], occupancy, 0.0)
    return occupancy


def balance(mdp: TabularMDP, possible: Bools) -> tuple[csr_array, FloatArray]:
    """A matrix of what leaves each state at each time less what arrives there, and what starts there."""
    leaving, arriving = [], []
    states = [np.flatnonzero(pairs.any(axis=1)) for pairs in possible]
    cells = [np.flatnonzero(pairs) for pairs in possible]
    for t, (here, pairs) in enumerate(zip(states, cells, strict=True)):
        rows = np.searchsorted(here, pairs // mdp.n_actions)
        leaving.append(csr_array((np.ones(len(pairs)), (rows, np.arange(len(pairs)))), shape=(len(here), len(pairs))))
        if t + 1 < len(states):
            arriving.append(mdp.transition[pairs][:, states[t + 1]].T)
    if mdp.horizon is None:
        stationary = mdp.transition[cells[0]][:, states[0]].T
        return csr_array(leaving[0] - mdp.discount * stationary), mdp.initial[states[0]]
    out = block_diag(leaving, format="csr")
    # One block down from the diagonal: what leaves at one time arrives at the next.
    into = block_diag([csr_array((len(states[0]), 0)), *arriving, csr_array((0, len(cells[-1])))], format="csr")
    start = np.zeros(out.shape[0])
    start[: len(states[0])] = mdp.initial[states[0]]
    return csr_array(out - into), start


def run_solver(problem: cp.Problem) -> str:
    """Solve by Clarabel: ``solved``, ``infeasible`` or ``failed``."""
    answers = (attempt(problem, options) for options in ATTEMPTS)
    return next((status for status in answers if status != "failed"), "failed")


def attempt(problem: cp.Problem, options: Mapping[str, float | bool]) -> str:
    """One solve with the given options of Clarabel, its status as :func:`run_solver` gives it."""
    with warnings.catch_warnings():
        # Inaccurate solves are told by the status; the dual bound says how inaccurate.
        warnings.simplefilter("ignore", UserWarning)
        try:
            # With a warm start CVXPY would keep the options of the attempts before.
            problem.solve(solver=cp.CLARABEL, warm_start=False, **options)
        except cp.error.SolverError:
            return "failed"
    if problem.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        return "solved"
    return "infeasible" if problem.status in (cp.INFEASIBLE, cp.INFEASIBLE_INACCURATE) else "failed"
