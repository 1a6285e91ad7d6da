r"""Adds up objective, constraints and penalties: the penalized problem and its pseudo-reward. The only place that does.

.. math:: P(\lambda) = -F(\lambda) + \sum_i \mathcal L_i(R_i(\lambda)), \qquad
   r = -\frac{\partial P}{\partial\lambda}
     = \frac{\partial F}{\partial\lambda} - \sum_i \mathcal L_i'(R_i)\,\frac{\partial R_i}{\partial\lambda}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from constrained_maxent.errors import CheckpointMismatch, DuplicateName, InvalidSetting
from constrained_maxent.functionals import Functional
from constrained_maxent.functionals.base import as_measure
from constrained_maxent.penalties import AdaptiveLagrangian, Penalty
from constrained_maxent.types import FloatArray, IntArray, Measure, Points

OBJECTIVE = "objective"
"""Name of the objective's part of the pseudo-reward."""


@dataclass(frozen=True)
class Constraint:
    """R(λ) = F(λ) - limit ≤ 0, with the penalty that enforces it.

    Args:
        functional: F, convex, with its ``limit``.
        penalty: ℒ; by default the one that finds the price of the limit, in whatever units it is.
    """

    functional: Functional
    penalty: Penalty = field(default_factory=AdaptiveLagrangian)


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


class _Term:
    """One part of the pseudo-reward, where λ̂ is a table: a coefficient times the derivative of a functional.

    Args:
        slopes: what cells determine of the derivative, flat; ``None`` where that is 0.
        charges: how the rest follows what is recorded; not empty without ``slopes``.
        coefficient: multiplies both.
    """

    def __init__(self, slopes: FloatArray | None, charges: Mapping[str, float], coefficient: float) -> None:
        self.coefficient, self._unscaled = coefficient, (slopes, charges)
        # What is multiplied by 0 is 0, though it be infinite.
        self._table = slopes if slopes is None else coefficient * slopes if coefficient else np.zeros(slopes.shape)
        self._charges = {name: coefficient * charge for name, charge in charges.items()}

    @classmethod
    def of(cls, functional: Functional, coefficient: float, measure: Measure) -> _Term:
        charges = functional.charges(measure)
        uncharged = replace(measure.points, costs=dict.fromkeys(charges, np.zeros(measure.weights.shape)))
        slopes = functional.derivative(measure, uncharged).reshape(-1)
        return cls(slopes if slopes.any() or not charges else None, charges, coefficient)

    def with_coefficient(self, coefficient: float) -> _Term:
        return self if coefficient == self.coefficient else _Term(*self._unscaled, coefficient)

    def at_cell(self, cell: int, recorded: Mapping[str, float]) -> float:
        part = 0.0 if self._table is None else self._table.item(cell)
        for name, charge in self._charges.items():
            part += charge * recorded[name]
        return part

    def at_cells(self, cells: IntArray, recorded: Mapping[str, FloatArray]) -> FloatArray:
        part = None if self._table is None else self._table[cells]
        for name, charge in self._charges.items():
            charged = charge * recorded[name]
            part = charged if part is None else part + charged
        return np.zeros(len(cells)) if part is None else part


class RewardFunction:
    r"""The pseudo-reward :math:`r(s,a)` of one estimate of λ, by parts: ``objective`` and each constraint's name.

    Made by :meth:`Problem.reward_function`. The parts add up to the pseudo-reward.

    Args:
        measure: the estimate.
        terms: functional and coefficient of each part, by name.
    """

    def __init__(self, measure: Measure, terms: Mapping[str, tuple[Functional, float]]) -> None:
        self._measure, self._functionals = measure, dict(terms)
        self.is_tabular = measure.points.cells is None and measure.weights.ndim == 2
        """Whether cell numbers and what was recorded are enough to look every part up."""
        self._terms = {name: _Term.of(*term, measure) for name, term in terms.items()} if self.is_tabular else {}

    def with_coefficients(self, terms: Mapping[str, tuple[Functional, float]]) -> RewardFunction:
        """The derivatives of the same functionals times other coefficients: multipliers have moved, λ̂ has not."""
        other = copy(self)
        other._functionals = dict(terms)
        other._terms = {name: term.with_coefficient(terms[name][1]) for name, term in self._terms.items()}
        return other

    def at(self, points: Points) -> dict[str, FloatArray]:
        """Parts of the pseudo-reward at many points, each of the points' shape."""
        return {
            name: coefficient * functional.derivative(self._measure, points)
            if coefficient
            else np.zeros(points.density.shape)
            for name, (functional, coefficient) in self._functionals.items()
        }

    def at_cells(self, cells: IntArray, recorded: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
        """Parts of the pseudo-reward at cells, ``(n,)`` each; needs ``is_tabular``.

        Args:
            cells: numbers s·|A| + a, ``(n,)``.
            recorded: what was recorded there by name, costs for example, ``(n,)`` each.
        """
        return {name: term.at_cells(cells, recorded) for name, term in self._terms.items()}

    def at_cell(self, cell: int, recorded: Mapping[str, float]) -> dict[str, float]:
        """Parts of the pseudo-reward in one cell: what a scalar environment asks for on every step."""
        return {name: term.at_cell(cell, recorded) for name, term in self._terms.items()}


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
                f"The constraint {name!r} is {constraint!r:.200}: give Constraint(functional), for example "
                "Constraint(LinearCost('cost', limit=0.05)), with a penalty besides if it is to be another than "
                "AdaptiveLagrangian()."
            )
        self.constraints[name] = constraint

    @property
    def term_names(self) -> tuple[str, ...]:
        """Names of the pseudo-reward's parts."""
        return ((OBJECTIVE,) if self.objective is not None else ()) + tuple(self.constraints)

    def _functionals(self) -> dict[str, Functional]:
        objective = {} if self.objective is None else {OBJECTIVE: self.objective}
        return objective | {name: constraint.functional for name, constraint in self.constraints.items()}

    def _with_functionals(self, functionals: Mapping[str, Functional]) -> Problem:
        constraints = {
            name: replace(constraint, functional=functionals[name]) for name, constraint in self.constraints.items()
        }
        return Problem(functionals.get(OBJECTIVE), constraints)

    def resolved(self, measure: Measure, periodic: Sequence[int] = ()) -> Problem:
        """The problem with what the first estimate of λ settles of its functionals, such as the size of cells."""
        return self._with_functionals(
            {name: functional.resolved(measure, periodic) for name, functional in self._functionals().items()}
        )

    def become(self, other: Problem) -> None:
        """Take over what another has, such as this one once it is resolved: whoever holds this one sees it."""
        self.objective, self.constraints = other.objective, other.constraints

    def settled(self) -> dict[str, Any]:
        """What an estimate has settled of each functional, by name, as plain data."""
        return {name: state for name, functional in self._functionals().items() if (state := functional.state_dict())}

    def with_settled(self, states: Mapping[str, Any], *, is_begun: bool) -> Problem:
        """The problem as ``settled`` described it.

        Args:
            states: by name.
            is_begun: whether there has been a first batch, which settles everything.

        Raises:
            CheckpointMismatch: it was another problem.
        """
        functionals = {}
        for name, functional in self._functionals().items():
            try:
                functionals[name] = functional.with_state(states.get(name, {}))
            except InvalidSetting as error:
                raise CheckpointMismatch(f"The checkpoint's {name!r} is another one: {error}.") from error
            if is_begun and not functionals[name].is_settled:
                raise CheckpointMismatch(
                    f"The checkpoint does not say the cells of {name!r}, which its first batch would have settled: it "
                    "was made without them. Leave out resolution=, or give the size of a cell in each coordinate."
                )
        return self._with_functionals(functionals)

    @property
    def sees_samples(self) -> bool:
        """Whether a derivative looks at the samples of λ̂, where that is a density."""
        return any(functional.sees_samples for functional in self._functionals().values())

    @property
    def cell_sizes(self) -> dict[str, tuple[float, ...]]:
        """Sizes of the cells whose entropies functionals are, by name, where λ is a density and they are known."""
        sizes = {name: functional.cell_sizes for name, functional in self._functionals().items()}
        return {name: known for name, known in sizes.items() if known is not None}

    def evaluate(self, occupancy: Measure | FloatArray) -> ProblemValue:
        """Objective, constraint values and penalty at λ."""
        measure = as_measure(occupancy)
        violations = {
            name: constraint.functional.excess(constraint.functional.value(measure))
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

    def measure_spreads(self, occupancy: Measure, points: Points, weights: FloatArray) -> None:
        """Tell the penalties that ask by how much R differs from step to step, see ``Penalty.with_spread``.

        Args:
            occupancy: λ̂.
            points: the steps of the batch, ``(n,)``.
            weights: of the steps in λ̂, ``(n,)``.
        """
        for name, constraint in self.constraints.items():
            if constraint.penalty.asks_for_spread:
                derivative = constraint.functional.derivative(occupancy, points)
                spread = _standard_deviation(derivative, weights) * float(weights.sum())
                self.constraints[name] = replace(constraint, penalty=constraint.penalty.with_spread(spread))

    def update_penalties(self, value: ProblemValue, progress: float) -> None:
        """Let multipliers follow the violations.

        Args:
            value: of the batch that has ended.
            progress: share of the run that is over when the next batch begins, from 0 to 1.
        """
        for name, constraint in self.constraints.items():
            updated = constraint.penalty.updated(value.constraints[name], progress)
            self.constraints[name] = replace(constraint, penalty=updated)


def _standard_deviation(values: FloatArray, weights: FloatArray) -> float:
    """Of values ``(n,)`` with weights; 0 where it is no number: a penalty without a unit finds another one."""
    counted = weights > 0.0
    if not counted.any():
        return 0.0
    values, shares = values[counted], weights[counted] / weights[counted].sum()
    deviation = float(np.sqrt(shares @ (values - shares @ values) ** 2))
    # Equal numbers differ by rounding.
    return deviation if deviation > 1e-12 * float(np.abs(values).max()) and np.isfinite(deviation) else 0.0
