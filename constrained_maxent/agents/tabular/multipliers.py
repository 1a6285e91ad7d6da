"""The penalties in compiled form: slope, and the multiplier's step at a batch's end.

Formulas are those of :mod:`constrained_maxent.penalties`; tests hold the two together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from constrained_maxent.agents.tabular.compiled import inner
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.penalties import AugmentedLagrangian, Exact, Lagrangian, Penalty, Quadratic
from constrained_maxent.types import FloatArray, IntArray

QUADRATIC, EXACT, LAGRANGIAN, AUGMENTED = range(4)


class Penalties(NamedTuple):
    """The penalties of a run's constraints, each ``(n_constraints,)``.

    Attributes:
        kinds: which penalty.
        beta: β, where it has one.
        learning_rate: step of the multiplier; negative for the classical 2β.
        largest: upper bound of the multiplier.
    """

    kinds: IntArray
    beta: FloatArray
    learning_rate: FloatArray
    largest: FloatArray


def penalties_of(penalties: Sequence[Penalty]) -> tuple[Penalties, FloatArray]:
    """The compiled form, and the multipliers at the start.

    Raises:
        InvalidSetting: a penalty that the engine does not know.
    """
    compiled = Penalties(
        np.zeros(len(penalties), dtype=np.int64),
        np.zeros(len(penalties)),
        np.zeros(len(penalties)),
        np.full(len(penalties), np.inf),
    )
    multipliers = np.zeros(len(penalties))
    for i, penalty in enumerate(penalties):
        match penalty:
            case Quadratic():
                compiled.kinds[i], compiled.beta[i] = QUADRATIC, penalty.beta
            case Exact():
                compiled.kinds[i], compiled.beta[i] = EXACT, penalty.beta
            case Lagrangian():
                compiled.kinds[i], compiled.largest[i] = LAGRANGIAN, penalty.largest
                compiled.learning_rate[i], multipliers[i] = penalty.learning_rate, penalty.multiplier
            case AugmentedLagrangian():
                compiled.kinds[i], compiled.beta[i] = AUGMENTED, penalty.beta
                compiled.learning_rate[i] = -1.0 if penalty.learning_rate is None else penalty.learning_rate
                multipliers[i] = penalty.multiplier
            case _:
                raise InvalidSetting(f"The engine has no compiled form of the penalty {type(penalty).__name__}.")
    return compiled, multipliers


@inner
def slope(penalties: Penalties, i: int, beta: float, multiplier: float, violation: float) -> float:
    """ℒ'(R) of constraint i."""
    kind = penalties.kinds[i]
    if kind == QUADRATIC:
        return 2.0 * beta * max(violation, 0.0)
    if kind == EXACT:
        return beta if violation > 0.0 else 0.0
    if kind == LAGRANGIAN:
        return multiplier
    return max(multiplier + 2.0 * beta * violation, 0.0)


@inner
def stepped(penalties: Penalties, i: int, beta: float, multiplier: float, violation: float) -> float:
    """The multiplier of constraint i for the next batch."""
    kind = penalties.kinds[i]
    if kind in (QUADRATIC, EXACT):
        return multiplier
    rate: float = penalties.learning_rate[i]
    if rate < 0.0:
        rate = 2.0 * beta
    largest: float = penalties.largest[i]
    return min(max(multiplier + rate * violation, 0.0), largest)
