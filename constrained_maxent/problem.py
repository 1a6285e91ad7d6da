r"""Adds up objective, constraints and penalties: the penalized problem and its pseudo-reward. The only place that does.

.. math:: P(\lambda) = -F(\lambda) + \sum_i \mathcal L_i(R_i(\lambda)), \qquad
   r = -\frac{\partial P}{\partial\lambda}
     = \frac{\partial F}{\partial\lambda} - \sum_i \mathcal L_i'(R_i)\,\frac{\partial R_i}{\partial\lambda}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from constrained_maxent.errors import DuplicateName, InvalidSetting
from constrained_maxent.functionals import Functional
from constrained_maxent.functionals.base import as_measure
from constrained_maxent.penalties import Penalty
from constrained_maxent.types import FloatArray, IntArray, Measure, Points

OBJECTIVE = "objective"
"""Name of the objective's part of the pseudo-reward."""


@dataclass(frozen=True)
class Constraint:
    """R(λ) = F(λ) - limit ≤ 0, with the penalty that enforces it.

    Args:
        functional: F, convex, with its ``limit``.
        penalty: ℒ.
    """

    functional: Functional
    penalty: Penalty


@dataclass(frozen=True)
class Evaluation:
    """The penalized problem at one λ.

    Attributes:
        objective: F(λ), to be maximized; ``None`` without an objective.
        constraints: R_i(λ) by name; satisfied where ≤ 0.
        penalty: Σ ℒ_i(R_i), with the penalties as they were.
    """

    objective: float | None
    constraints: Mapping[str, float]
    penalty: float


@dataclass(frozen=True, eq=False)
class _Term:
    """One part of the pseudo-reward: a coefficient times the derivative of a functional."""

    functional: Functional
    coefficient: float
    table: FloatArray | None
    """Coefficient times what does not depend on observed quantities, on every cell, flat; ``None`` off tables."""
    charges: tuple[tuple[str, float], ...]
    """Names of observed quantities, and the coefficient times by how much the derivative follows each."""

    @classmethod
    def of(cls, functional: Functional, coefficient: float, measure: Measure, is_table: bool) -> _Term:
        """The term at a measure."""
        charges = tuple((name, coefficient * charge) for name, charge in functional.charges(measure).items())
        if not is_table:
            return cls(functional, coefficient, None, charges)
        nothing = np.zeros(measure.weights.shape)
        points = replace(measure.points, costs={name: nothing for name, _ in charges}) if charges else measure.points
        table = coefficient * functional.derivative(measure, points) if coefficient else nothing
        return cls(functional, coefficient, table.reshape(-1), charges)


class PseudoReward:
    r"""The pseudo-reward :math:`r(s,a)` of one estimate of λ, by parts: ``objective`` and each constraint's name.

    Made by :meth:`Problem.pseudo_reward`. The parts add up to the pseudo-reward.
    """

    def __init__(self, measure: Measure, terms: Mapping[str, tuple[Functional, float]]) -> None:
        self._measure = measure
        is_table = measure.points.cells is None and measure.weights.ndim == 2
        self._terms: dict[str, _Term] = {}
        for name, (functional, coefficient) in terms.items():
            self._terms[name] = _Term.of(functional, coefficient, measure, is_table)
        self.is_tabular = is_table
        """Whether cell numbers and observed costs are enough to look every part up."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._terms)

    def at(self, points: Points) -> dict[str, FloatArray]:
        """Parts of the pseudo-reward at many points, each of the points' shape."""
        return {
            name: term.coefficient * term.functional.derivative(self._measure, points)
            if term.coefficient
            else np.zeros(points.density.shape)
            for name, term in self._terms.items()
        }

    def at_cells(self, cells: IntArray, costs: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
        """The same by cell numbers, ``(n,)``; needs ``is_tabular``."""
        parts = {}
        for name, term in self._terms.items():
            part = term.table[cells]  # type: ignore[index]
            for observed, charge in term.charges:
                part = part + charge * costs[observed]
            parts[name] = part
        return parts

    def at_cell(self, cell: int, costs: Mapping[str, float]) -> dict[str, float]:
        """The same for one cell: what a scalar environment asks for on every step."""
        parts = {}
        for name, term in self._terms.items():
            part = term.table.item(cell)  # type: ignore[union-attr]
            for observed, charge in term.charges:
                part += charge * costs[observed]
            parts[name] = part
        return parts


@dataclass
class Problem:
    """The constrained problem: one objective, constraints by name.

    Args:
        objective: F, concave, to be maximized; ``None`` for none.
        constraints: by name.
    """

    objective: Functional | None = None
    constraints: dict[str, Constraint] = field(default_factory=dict)

    @classmethod
    def of(cls, objective: Functional | None, constraints: Mapping[str, Constraint]) -> Problem:
        """A problem of its own from parts that a user gave.

        Raises:
            InvalidSetting: a part is of another kind, or a name is not usable.
        """
        if objective is not None and not isinstance(objective, Functional):
            raise InvalidSetting(f"objective={objective!r} must be a functional, for example Entropy(), or None.")
        if not isinstance(constraints, Mapping):
            raise InvalidSetting(f"constraints={constraints!r} must be by name: {{'cost': Constraint(...)}}.")
        problem = cls(objective)
        for name, constraint in constraints.items():
            problem.add_constraint(name, constraint)
        return problem

    def set_objective(self, objective: Functional) -> None:
        """Raises DuplicateName: there is an objective already."""
        if self.objective is not None:
            raise DuplicateName("This stack has an objective already: put one objective wrapper on it.")
        self.objective = objective

    def add_constraint(self, name: str, constraint: Constraint) -> None:
        """Raises DuplicateName: the name is taken. InvalidSetting: it is no key for ``info``, or this no constraint."""
        if name in self.constraints:
            raise DuplicateName(f"A constraint named {name!r} is there already: give this one another name=.")
        if not isinstance(name, str) or not name.isidentifier() or name in (OBJECTIVE, "ready"):
            raise InvalidSetting(f"name={name!r} must be an identifier other than 'objective' and 'ready'.")
        if (
            not isinstance(constraint, Constraint)
            or not isinstance(constraint.functional, Functional)
            or not isinstance(constraint.penalty, Penalty)
        ):
            raise InvalidSetting(
                f"The constraint {name!r} is a {type(constraint).__name__}: it needs a functional and a penalty, "
                "for example Constraint(LinearCost(table, limit=1.0), Quadratic(beta=1.0))."
            )
        self.constraints[name] = constraint

    @property
    def term_names(self) -> tuple[str, ...]:
        """Names of the pseudo-reward's parts."""
        return ((OBJECTIVE,) if self.objective is not None else ()) + tuple(self.constraints)

    def evaluate(self, occupancy: Measure | FloatArray) -> Evaluation:
        """Objective, constraint values and penalty at λ."""
        measure = as_measure(occupancy)
        violations = {
            name: constraint.functional.value(measure) - constraint.functional.limit
            for name, constraint in self.constraints.items()
        }
        return Evaluation(
            objective=None if self.objective is None else self.objective.value(measure),
            constraints=violations,
            penalty=sum((self.constraints[name].penalty.value(value) for name, value in violations.items()), 0.0),
        )

    def pseudo_reward(self, occupancy: Measure | FloatArray, evaluation: Evaluation) -> PseudoReward:
        """The pseudo-reward at λ; ``evaluation`` is that of the same λ."""
        terms = {} if self.objective is None else {OBJECTIVE: (self.objective, 1.0)}
        for name, constraint in self.constraints.items():
            terms[name] = (constraint.functional, -constraint.penalty.slope(evaluation.constraints[name]))
        return PseudoReward(as_measure(occupancy), terms)

    def update_penalties(self, evaluation: Evaluation) -> bool:
        """Let multipliers follow the violations; True if any penalty changed."""
        updated = {
            name: replace(constraint, penalty=constraint.penalty.updated(evaluation.constraints[name]))
            for name, constraint in self.constraints.items()
        }
        changed = any(updated[name].penalty != constraint.penalty for name, constraint in self.constraints.items())
        self.constraints.update(updated)
        return changed
