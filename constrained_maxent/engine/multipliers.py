"""The penalties in compiled form: slope, and the multiplier's step at a batch's end.

Formulas are those of :mod:`constrained_maxent.penalties`; tests hold the two together.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from constrained_maxent.engine.compiled import inner
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.penalties import (
    AdaptiveLagrangian,
    AdaptiveQuadratic,
    AugmentedLagrangian,
    Exact,
    Lagrangian,
    Penalty,
    Quadratic,
    QuadraticContinuation,
)
from constrained_maxent.types import FloatArray, IntArray

QUADRATIC, EXACT, LAGRANGIAN, AUGMENTED, ADAPTIVE, GROWING = range(6)


class Penalties(NamedTuple):
    """The penalties of a run's constraints, each ``(n_constraints,)``.

    Attributes:
        kinds: which penalty.
        beta: β, where it has one, or the rate of an adaptive Lagrangian; at its start where it grows.
        log_growth: logarithm of β at the end of its growth over that at the start; 0 where it is constant.
        growth_iterations: batches from the one to the other.
        begun: batches of them that were over before the run.
        learning_rate: step of the multiplier; negative for the classical 2β.
        largest: upper bound of the multiplier, or of a β that grows by violations.
        tolerance, growth: violation above which such a β grows, and by what factor.
    """

    kinds: IntArray
    beta: FloatArray
    log_growth: FloatArray
    growth_iterations: FloatArray
    begun: FloatArray
    learning_rate: FloatArray
    largest: FloatArray
    tolerance: FloatArray
    growth: FloatArray


def penalties_of(penalties: Sequence[Penalty]) -> tuple[Penalties, FloatArray, FloatArray]:
    """The compiled form, and multipliers and largest violations at the start.

    In place of multipliers, an adaptive Lagrangian has prices and an ``AdaptiveQuadratic`` its β.

    Raises:
        InvalidSetting: a penalty that the engine does not know.
    """
    compiled = Penalties(
        kinds=np.zeros(len(penalties), dtype=np.int64),
        beta=np.zeros(len(penalties)),
        log_growth=np.zeros(len(penalties)),
        growth_iterations=np.ones(len(penalties)),
        begun=np.zeros(len(penalties)),
        learning_rate=np.zeros(len(penalties)),
        largest=np.full(len(penalties), np.inf),
        tolerance=np.zeros(len(penalties)),
        growth=np.ones(len(penalties)),
    )
    multipliers, peaks = np.zeros((2, len(penalties)))
    for i, penalty in enumerate(penalties):
        match penalty:
            case Quadratic():
                compiled.kinds[i], compiled.beta[i] = QUADRATIC, penalty.beta
            case QuadraticContinuation():
                compiled.kinds[i], compiled.beta[i] = QUADRATIC, penalty.start
                compiled.log_growth[i] = math.log(penalty.end / penalty.start)
                compiled.growth_iterations[i], compiled.begun[i] = penalty.iterations, penalty.iteration
            case AdaptiveQuadratic():
                # As the penalty itself: a β that grows without bound stays a number.
                compiled.kinds[i], compiled.largest[i] = GROWING, min(penalty.largest, sys.float_info.max)
                compiled.tolerance[i], compiled.growth[i] = penalty.tolerance, penalty.growth
                multipliers[i] = penalty.beta
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
                if penalty.final_rate is not None and penalty.iterations is not None:
                    compiled.log_growth[i] = math.log(penalty.final_rate / penalty.rate)
                    compiled.growth_iterations[i], compiled.begun[i] = penalty.iterations, penalty.iteration
                multipliers[i], peaks[i] = penalty.price, penalty.largest_violation
            case _:
                raise InvalidSetting(
                    f"The engine has no compiled form of the penalty {type(penalty).__name__}: it knows those of "
                    "constrained_maxent.penalties. agents.PGP takes any penalty."
                )
    return compiled, multipliers, peaks


@inner
def beta_of(penalties: Penalties, i: int, iteration: int) -> float:
    """β of constraint i in the batch that comes after so many others."""
    beta: float = penalties.beta[i]
    if penalties.log_growth[i] == 0.0:
        return beta
    share: float = min((iteration + penalties.begun[i]) / penalties.growth_iterations[i], 1.0)
    return beta * math.exp(share * penalties.log_growth[i])


@inner
def slope(penalties: Penalties, i: int, beta: float, multiplier: float, peak: float, violation: float) -> float:
    """ℒ'(R) of constraint i; ``peak`` is the largest violation before this batch."""
    kind = penalties.kinds[i]
    if kind == GROWING:
        return 2.0 * multiplier * max(violation, 0.0)
    if kind == QUADRATIC:
        return 2.0 * beta * max(violation, 0.0)
    if kind == EXACT:
        return beta if violation > 0.0 else 0.0
    if kind == LAGRANGIAN:
        return multiplier
    if kind == ADAPTIVE:
        if peak <= 0.0:
            return 0.0
        return max(multiplier + beta * min(violation, peak) / peak, 0.0) / max(violation, peak)
    return max(multiplier + 2.0 * beta * violation, 0.0)


@inner
def stepped(penalties: Penalties, i: int, beta: float, multiplier: float, peak: float, violation: float) -> float:
    """The multiplier of constraint i for the next batch; ``peak`` is the largest violation, this batch's included."""
    kind = penalties.kinds[i]
    if kind in (QUADRATIC, EXACT):
        return multiplier
    largest: float = penalties.largest[i]
    if kind == GROWING:
        return min(multiplier * penalties.growth[i], largest) if violation > penalties.tolerance[i] else multiplier
    rate: float = penalties.learning_rate[i]
    if kind == ADAPTIVE:
        return max(multiplier + beta * violation / peak, 0.0) if peak > 0.0 else multiplier
    if rate < 0.0:
        rate = 2.0 * beta
    return min(max(multiplier + rate * violation, 0.0), largest)
