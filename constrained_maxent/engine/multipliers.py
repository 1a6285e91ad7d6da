"""The penalties in compiled form: slope, and the multiplier's step at a batch's end.

Formulas are those of :mod:`constrained_maxent.penalties`; tests hold the two together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from constrained_maxent.engine.compiled import inner
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.penalties import (
    AdaptiveLagrangian,
    AugmentedLagrangian,
    Exact,
    Lagrangian,
    Penalty,
    Quadratic,
    QuadraticContinuation,
    is_known_kind,
)
from constrained_maxent.types import FloatArray, IntArray

QUADRATIC, EXACT, LAGRANGIAN, AUGMENTED, ADAPTIVE = range(5)


class Penalties(NamedTuple):
    """The penalties of a run's constraints, each ``(n_constraints,)``.

    Attributes:
        kinds: which penalty.
        beta: β, where it has one, or the rate of an adaptive Lagrangian; at its start where it has a schedule.
        log_growth: logarithm of β at the end of its schedule over that at the start; 0 where it is constant.
        begun: progress of its schedule in the first batch.
        learning_rate: step of the multiplier; negative for the classical 2β.
        largest: upper bound of the multiplier.
    """

    kinds: IntArray
    beta: FloatArray
    log_growth: FloatArray
    begun: FloatArray
    learning_rate: FloatArray
    largest: FloatArray


def penalties_of(penalties: Sequence[Penalty]) -> tuple[Penalties, FloatArray, FloatArray]:
    """The compiled form, and multipliers (or an adaptive Lagrangian's price) and largest violations at the start.

    The largest violation is NaN where the spread is asked for.

    Raises:
        InvalidSetting: a penalty of the user's own.
    """
    count = len(penalties)
    beta, log_growth, begun, learning_rate, multipliers, peaks = np.zeros((6, count))
    kinds, largest = np.zeros(count, dtype=np.int64), np.full(count, np.inf)
    compiled = Penalties(kinds, beta, log_growth, begun, learning_rate, largest)
    for i, penalty in enumerate(penalties):
        # A class of the user's own may derive from one of these, with another formula.
        if not is_known_kind(penalty):
            raise InvalidSetting(
                f"The engine has no compiled form of the penalty {type(penalty).__name__}: it knows those of "
                "constrained_maxent.penalties. agents.PGP takes any penalty."
            )
        match penalty:
            case Quadratic():
                compiled.kinds[i], compiled.beta[i] = QUADRATIC, penalty.beta
            case QuadraticContinuation():
                compiled.kinds[i], compiled.beta[i] = QUADRATIC, penalty.start
                compiled.log_growth[i], compiled.begun[i] = math.log(penalty.end / penalty.start), penalty.progress
            case Exact():
                compiled.kinds[i], compiled.beta[i] = EXACT, penalty.beta
            case Lagrangian():
                compiled.kinds[i], compiled.largest[i] = LAGRANGIAN, penalty.largest
                compiled.learning_rate[i], multipliers[i] = penalty.learning_rate, penalty.multiplier
            case AugmentedLagrangian():
                compiled.kinds[i], compiled.beta[i] = AUGMENTED, penalty.beta
                compiled.learning_rate[i] = -1.0 if penalty.learning_rate is None else penalty.learning_rate
                multipliers[i] = penalty.multiplier
            case AdaptiveLagrangian():
                compiled.kinds[i], compiled.beta[i] = ADAPTIVE, penalty.rate
                if penalty.final_rate is not None:
                    compiled.log_growth[i] = math.log(penalty.final_rate / penalty.rate)
                    compiled.begun[i] = penalty.progress
                multipliers[i] = penalty.price
                peaks[i] = math.nan if penalty.largest_violation is None else penalty.largest_violation
    return compiled, multipliers, peaks


@inner
def beta_of(penalties: Penalties, i: int, progress: float) -> float:
    """β of constraint i where this share of the run is over."""
    beta: float = penalties.beta[i]
    if penalties.log_growth[i] == 0.0:
        return beta
    share: float = progress if progress > 0.0 else penalties.begun[i]
    return beta * math.exp(share * penalties.log_growth[i])


@inner
def slope(penalties: Penalties, i: int, beta: float, multiplier: float, peak: float, violation: float) -> float:
    """ℒ'(R) of constraint i; ``peak`` is the largest violation before this batch."""
    kind = penalties.kinds[i]
    if kind == QUADRATIC:
        return 2.0 * beta * max(violation, 0.0)
    if kind == EXACT:
        return beta if violation > 0.0 else 0.0
    if kind == LAGRANGIAN:
        return multiplier
    if kind == ADAPTIVE:
        if not peak > 0.0:  # or NaN
            return 0.0
        return max(multiplier + beta * min(violation, peak) / peak, 0.0) / max(violation, peak)
    return max(multiplier + 2.0 * beta * violation, 0.0)


@inner
def widened(peak: float, violation: float) -> float:
    """The largest violation once this batch's is known; NaN as long as nothing is."""
    return violation if violation > peak or (math.isnan(peak) and violation > 0.0) else peak


@inner
def stepped(penalties: Penalties, i: int, beta: float, multiplier: float, peak: float, violation: float) -> float:
    """The multiplier of constraint i for the next batch; ``peak`` is the largest violation, this batch's included."""
    kind = penalties.kinds[i]
    if kind in (QUADRATIC, EXACT):
        return multiplier
    if kind == ADAPTIVE:
        return max(multiplier + beta * violation / peak, 0.0) if peak > 0.0 else multiplier
    rate, largest = float(penalties.learning_rate[i]), float(penalties.largest[i])
    if rate < 0.0:
        rate = 2.0 * beta
    return min(max(multiplier + rate * violation, 0.0), largest)
