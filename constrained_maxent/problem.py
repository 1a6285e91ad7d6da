r"""Adds up objective, constraints and penalties: the penalized problem and its pseudo-reward. The only place that does.

.. math:: P(\lambda) = -F(\lambda) + \sum_i \mathcal L_i(R_i(\lambda)), \qquad
   r = -\frac{\partial P}{\partial\lambda}
     = \frac{\partial F}{\partial\lambda} - \sum_i \mathcal L_i'(R_i)\,\frac{\partial R_i}{\partial\lambda}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
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
class ProblemValue:
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
class _Summand:
    """A coefficient times the derivative of a functional.

    ``table`` is that derivative on every cell, flat; ``None`` where it is what was observed, or without cells.
    """

    functional: Functional
    coefficient: float
    table: FloatArray | None

    def at_cell(self, cell: int, observed: Mapping[str, float]) -> float:
        if self.table is not None:
            return self.coefficient * self.table.item(cell)
        return self.coefficient * observed[str(self.functional.observed)]

    def at_cells(self, cells: IntArray, observed: Mapping[str, FloatArray]) -> FloatArray:
        if self.table is not None:
            return self.coefficient * self.table[cells]
        return self.coefficient * observed[str(self.functional.observed)]

    def at(self, measure: Measure, points: Points) -> FloatArray:
        if not self.coefficient:
            return np.zeros(points.density.shape)
        return self.coefficient * self.functional.derivative(measure, points)


class RewardFunction:
    r"""The pseudo-reward :math:`r(s,a)` of one estimate of λ, by parts: ``objective`` and each constraint's name.

    Made by :meth:`Problem.reward_function`. The parts add up to the pseudo-reward.

    Args:
        measure: the estimate.
        terms: functional and coefficient of each part, by name.
    """

    def __init__(self, measure: Measure, terms: Mapping[str, tuple[Functional, float]]) -> None:
        self._measure = measure
        self.is_tabular = measure.points.cells is None and measure.weights.ndim == 2
        """Whether cell numbers and observed quantities are enough to look every part up."""
        self._terms = {
            name: [_Summand(part, coefficient * weight, self._table(part)) for weight, part in functional.summands]
            for name, (functional, coefficient) in terms.items()
        }

    def _table(self, functional: Functional) -> FloatArray | None:
        if not self.is_tabular or functional.observed is not None:
            return None
        return functional.derivative(self._measure, self._measure.points).reshape(-1)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._terms)

    def with_coefficients(self, terms: Mapping[str, tuple[Functional, float]]) -> RewardFunction:
        """These derivatives times other coefficients: all that is new where only multipliers have moved."""
        other = copy(self)
        other._terms = {
            name: [
                replace(summand, coefficient=coefficient * weight)
                for summand, (weight, _) in zip(self._terms[name], functional.summands, strict=True)
            ]
            for name, (functional, coefficient) in terms.items()
        }
        return other

    def at(self, points: Points) -> dict[str, FloatArray]:
        """Parts of the pseudo-reward at many points, each of the points' shape."""
        return {
            name: _total([summand.at(self._measure, points) for summand in summands])
            for name, summands in self._terms.items()
        }

    def at_cells(self, cells: IntArray, observed: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
        """Parts of the pseudo-reward at cells, ``(n,)`` each; needs ``is_tabular``.

        Args:
            cells: numbers s·|A| + a, ``(n,)``.
            observed: what was observed there by name, costs for example, ``(n,)`` each.
        """
        return {
            name: _total([summand.at_cells(cells, observed) for summand in summands])
            for name, summands in self._terms.items()
        }

    def at_cell(self, cell: int, observed: Mapping[str, float]) -> dict[str, float]:
        """Parts of the pseudo-reward in one cell: what a scalar environment asks for on every step."""
        return {
            name: summands[0].at_cell(cell, observed)
            if len(summands) == 1
            else sum(summand.at_cell(cell, observed) for summand in summands)
            for name, summands in self._terms.items()
        }


def _total(parts: Sequence[FloatArray]) -> FloatArray:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


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

    def evaluate(self, occupancy: Measure | FloatArray) -> ProblemValue:
        """Objective, constraint values and penalty at λ."""
        measure = as_measure(occupancy)
        violations = {
            name: constraint.functional.value(measure) - constraint.functional.limit
            for name, constraint in self.constraints.items()
        }
        return ProblemValue(
            objective=None if self.objective is None else self.objective.value(measure),
            constraints=violations,
            penalty=sum((self.constraints[name].penalty.value(value) for name, value in violations.items()), 0.0),
        )

    def terms(self, value: ProblemValue) -> dict[str, tuple[Functional, float]]:
        """Each part of the pseudo-reward by name: its functional, and what multiplies it, 1 for F and -ℒ'(R) for R."""
        objective = {} if self.objective is None else {OBJECTIVE: (self.objective, 1.0)}
        return objective | {
            name: (constraint.functional, -constraint.penalty.slope(value.constraints[name]))
            for name, constraint in self.constraints.items()
        }

    def reward_function(self, occupancy: Measure | FloatArray, value: ProblemValue) -> RewardFunction:
        """The pseudo-reward at λ; ``value`` is the problem's value at the same λ."""
        return RewardFunction(as_measure(occupancy), self.terms(value))

    def update_penalties(self, value: ProblemValue, progress: float) -> None:
        """Let multipliers follow the violations.

        Args:
            value: of the batch that has ended.
            progress: share of the run that is over when the next batch begins, from 0 to 1.
        """
        for name, constraint in self.constraints.items():
            updated = constraint.penalty.updated(value.constraints[name], progress)
            self.constraints[name] = replace(constraint, penalty=updated)
