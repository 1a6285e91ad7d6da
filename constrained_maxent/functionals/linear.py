"""Linear functionals of λ: expected costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from constrained_maxent.errors import MissingCost
from constrained_maxent.functionals.base import Functional, check_table, frozen_table, table_at
from constrained_maxent.types import FloatArray, Measure, Points

CostFunction = Callable[[Any, Any, Any], float]
"""A cost ``(observation, action, next_observation) -> float``, charged where the action was taken."""


@dataclass(frozen=True, eq=False)
class LinearCost(Functional):
    r""":math:`\langle c, \lambda\rangle` [cost, times the mass of λ] (paper, *Cumulative Cost*).

    At scale ``normalized`` this is the expected cost per step (discounted average), at ``truncated`` the expected
    discounted sum of costs over an episode. The cost is never discounted twice.

    Args:
        cost: a table c(s, a) of shape ``(n_states, n_actions)``; or the name of a key of ``info`` that carries the cost
            of each step; or a function ``(observation, action, next_observation) -> float``, which the
            wrappers call on every step. Positive means bad.
        limit: the constraint reads :math:`\langle c,\lambda\rangle \le` ``limit``, in the same units.

    Raises:
        MissingCost: on evaluation, if the measure does not carry the named cost.

    >>> LinearCost([[1.0, 0.0], [2.0, 0.0]]).value([[0.5, 0.0], [0.25, 0.25]])
    1.0
    """

    cost: str | CostFunction | ArrayLike = "cost"
    _table: FloatArray | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.cost, str) or callable(self.cost)):
            object.__setattr__(self, "_table", frozen_table("cost", self.cost))

    @property
    def observed(self) -> str | CostFunction | None:
        """The ``info`` key or function that is asked on every step; ``None`` for a table."""
        return None if self._table is not None else self.cost  # type: ignore[return-value]

    def _name(self) -> str:
        if not isinstance(self.cost, str):
            raise MissingCost(
                "A cost function is evaluated on the steps of an environment, by wrappers.CostConstraint; for an exact "
                "occupancy give its table, TabularMDP.tabulate(cost)."
            )
        return self.cost

    def engine_terms(self, n_states, n_actions):  # type: ignore[no-untyped-def]
        from constrained_maxent.functionals.terms import EngineTerm

        if self.table is None:
            self._name()
            raise MissingCost("The engine needs a table.")
        return [EngineTerm(kind="linear", table=self.table)]

    def _value(self, measure: Measure) -> float:
        if self._table is not None:
            return float(np.sum(measure.weights * table_at(self._table, measure.points)))
        expected: float = _lookup(measure.expected_costs, self._name())
        return expected

    def _derivative(self, measure: Measure, points: Points) -> FloatArray:
        if self._table is not None:
            return table_at(self._table, points)
        charged: FloatArray = _lookup(points.costs, self._name())
        return charged

    @property
    def table(self) -> FloatArray | None:
        """c(s, a), ``(n_states, n_actions)``, read-only; ``None`` for a cost that is observed."""
        return self._table

    def check(self, n_states: int, n_actions: int) -> None:
        if self._table is not None:
            check_table("cost", self._table, n_states, n_actions)


def _lookup(costs: Any, name: str) -> Any:
    try:
        return costs[name]
    except KeyError:
        known = ", ".join(sorted(costs)) or "none"
        raise MissingCost(f"No cost {name!r} was recorded (recorded: {known}).") from None
