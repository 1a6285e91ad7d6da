"""Linear functionals of λ: expected costs and expected rewards, known as tables or observed on each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from constrained_maxent.errors import MissingCost
from constrained_maxent.functionals.base import OWN_REWARD, CostFunction, Functional, OwnReward, Source
from constrained_maxent.functionals.convex import Curvature
from constrained_maxent.functionals.tables import check_table, frozen_table, table_at
from constrained_maxent.functionals.terms import EngineTerm
from constrained_maxent.types import FloatArray, Measure, Points

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Linear(Functional):
    r""":math:`\langle c, \lambda\rangle`, of a table c(s, a) or of a quantity c that is observed on each step."""

    table: FloatArray | None = field(init=False, repr=False, default=None)
    """c(s, a), ``(n_states, n_actions)``, read-only; ``None`` where it is observed."""

    _argument: ClassVar[str]
    """Name of the argument that says what c is."""

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self._given()
        if not (isinstance(given, (str, OwnReward)) or callable(given)):
            object.__setattr__(self, "table", frozen_table(self._argument, given))

    def _given(self) -> Any:
        return getattr(self, self._argument)

    def _recorded(self) -> str:
        """The name under which c is recorded."""
        source = self._given()
        if isinstance(source, OwnReward):
            return source.value
        if not isinstance(source, str):
            raise MissingCost(
                f"A function as {self._argument} is evaluated on the steps of an environment, by wrappers such as "
                "wrappers.CostConstraint; for an exact occupancy give its table, TabularMDP.tabulate(function)."
            )
        return source

    def value(self, measure: Measure) -> float:
        if self.table is not None:
            return float(np.sum(measure.weights * table_at(self.table, measure.points)))
        return _lookup(measure.expected_costs, self._recorded())

    def derivative(self, measure: Measure, points: Points) -> FloatArray:
        if self.table is not None:
            return table_at(self.table, points)
        return _lookup(points.costs, self._recorded())

    def check(self, n_states: int, n_actions: int) -> None:
        if self.table is not None:
            check_table(self._argument, self.table, n_states, n_actions)

    @property
    def needs_table(self) -> bool:
        return self.table is not None

    @property
    def formula(self) -> str:
        given = self._given()
        return f"⟨{self._recorded() if isinstance(given, str | OwnReward) else self._argument}, λ⟩"

    @property
    def curvature(self) -> Curvature:
        return "affine"

    @property
    def sees_places(self) -> bool:
        return False

    @property
    def sees_samples(self) -> bool:
        return False

    def integrand(self, measure: Measure, points: Points) -> FloatArray:
        return self.derivative(measure, points)

    def observing(self, name: str) -> tuple[Functional, dict[str, Source]]:
        if self.table is not None:
            return self, {}
        source = self._given()
        if isinstance(source, (str, OwnReward)):
            return self, {self._recorded(): source}
        # The parentheses keep functions apart from keys of info of the same name.
        key = f"{name}()"
        return self._with(key), {key: source}

    def charges(self, measure: Measure) -> Mapping[str, float]:
        return {} if self.table is not None else {self._recorded(): 1.0}

    def tabulated(self, table_of: Callable[[str], FloatArray]) -> Functional:
        return self if self.table is not None else self._with(table_of(self._recorded()))

    def engine_terms(self, n_states: int, n_actions: int) -> Sequence[EngineTerm]:
        if self.table is None:
            remedy = f"for {self._argument}={self._given()!r} give its table, as TabularMDP.tabulate(function) does"
            self._lacks("engine_terms", remedy)
        return [EngineTerm(kind="linear", table=self.table)]

    def _with(self, given: str | FloatArray) -> Functional:
        changes: dict[str, Any] = {self._argument: given}
        return replace(self, **changes)


@dataclass(frozen=True, eq=False)
class LinearCost(Linear):
    r""":math:`\langle c, \lambda\rangle` [cost, times the mass of λ] (paper, *Cumulative Cost*).

    At scale ``normalized`` this is the expected cost per step (discounted average), at ``truncated`` the expected
    discounted sum of costs over an episode. The cost is never discounted twice.

    Args:
        cost: a table c(s, a) of shape ``(n_states, n_actions)``; or the name of a key of ``info`` that carries the cost
            of each step; or a function ``(observation, action, next_observation) -> float``, which the
            wrappers call on every step. Positive means bad.

    Raises:
        MissingCost: on evaluation, if the measure does not carry the named cost.

    >>> LinearCost([[1.0, 0.0], [2.0, 0.0]])([[0.5, 0.0], [0.25, 0.25]])
    1.0
    """

    cost: str | CostFunction | ArrayLike = "cost"
    _argument: ClassVar[str] = "cost"


@dataclass(frozen=True, eq=False)
class Reward(Linear):
    r""":math:`\langle r, \lambda\rangle` [reward, times the mass of λ], as an objective or a part of one.

    ``0.1 * Entropy() + Reward()`` explores while it earns. At scale ``normalized`` this is the expected reward per step
    (discounted average), at ``truncated`` the expected discounted return.

    Args:
        source: ``OWN_REWARD``, the reward of the environment below the wrappers; or the name of a key of ``info``; or a
            function ``(observation, action, next_observation) -> float``; or a table r(s, a), ``(n_states,
            n_actions)``.

    Raises:
        MissingCost: on evaluation, if the measure does not carry what is named.

    >>> Reward([[1.0, 0.0], [2.0, 0.0]])([[0.5, 0.0], [0.25, 0.25]])
    1.0
    """

    source: Source | ArrayLike = OWN_REWARD
    _argument: ClassVar[str] = "source"


def _lookup(costs: Mapping[str, T], name: str) -> T:
    try:
        return costs[name]
    except KeyError:
        known = ", ".join(sorted(costs)) or "none"
        raise MissingCost(f"No cost {name!r} was recorded (recorded: {known}).") from None
