r"""What an exact-gradient penalty method answers: last iterate and history, and what the paper's theorems say of it.

With :math:`\Delta = F^* + P(\theta)`, the gap of the penalized problem above the *constrained* optimum (paper eq.
``OptGap``), strong duality turns a small Δ into a small violation. Ours are :math:`\beta[R]_+^2` and
:math:`\beta[R]_+`; the paper's appendix proves its results for half of them, see
:mod:`constrained_maxent.oracle.theory`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.oracle.exact_gradient import SoftmaxPoint
from constrained_maxent.oracle.solution import FixedPenalty, Solution
from constrained_maxent.oracle.theory import exact_beta, exact_violation, quadratic_beta, quadratic_violation
from constrained_maxent.penalties import Exact, Quadratic
from constrained_maxent.types import FloatArray, IntArray

Status = Literal["stationary", "stalled", "exhausted"]

# The reference is the answer of a solver: what is compared with it agrees within its tolerance.
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Guarantees:
    r"""Which of the paper's guarantees hold for a policy.

    Attributes:
        guaranteed_epsilon: the ε for which Δ alone guarantees (ε, ε)-optimality, :math:`|F^*-F| \le \epsilon` and
            :math:`[R]_+ \le \epsilon`, through the bounds below.
        thresholds: β from which on Theorem ``thm:MainResultPPPMExactPenaltyConvergenceGuarantee`` or
            ``…QuadraticPenalty…`` speaks, by name: ν*+1 for an exact penalty,
            β(ε) for a quadratic one.
        beta_suffices: whether every β reaches its threshold.
        penalized_gap: Δ; it may be negative where β is small.
        violation_bounds: bound of :math:`[R]_+` that Δ gives, by name (Corollaries
            ``cor:AppendixConstraintViolation{Exact,Quadratic}PenaltyTranslation``); infinite for an exact penalty
            below its multiplier.
        bounds_hold: whether :math:`[R]_+` keeps these bounds, and :math:`F - F^* \le \sum\nu^*[R]_+` (Lemma
            ``lemma:AppendixTranslatePenaltyGuaranteeToFuncGapConstrViol``). False contradicts the reference.
    """

    guaranteed_epsilon: float
    thresholds: Mapping[str, float]
    beta_suffices: bool
    penalized_gap: float
    violation_bounds: Mapping[str, float]
    bounds_hold: bool


def check_guarantees(
    point: SoftmaxPoint,
    penalties: Mapping[str, FixedPenalty],
    reference: Solution,
    *,
    epsilon: float = 1e-3,
) -> Guarantees:
    """Hold a policy against the theorems, given the constrained optimum and the penalties of its constraints.

    Thresholds of quadratic penalties are those for an accuracy of ``epsilon``: ``InvalidSetting`` unless above 0.
    """
    multipliers = {name: max(reference.multipliers[name], 0.0) for name in penalties}
    thresholds = {
        name: exact_beta(nu) if isinstance(penalties[name], Exact) else quadratic_beta(nu, epsilon)
        for name, nu in multipliers.items()
    }
    penalized_gap = reference.value + point.value
    # With several constraints each may borrow what the others' penalties lose at most: max νR − βR² = ν²/4β.
    loans = {name: _loan(penalty, multipliers[name]) for name, penalty in penalties.items()}
    bounds = {
        name: _violation_bound(max(penalized_gap, 0.0) + sum(loans.values()) - loans[name], penalty, multipliers[name])
        for name, penalty in penalties.items()
    }
    most_gained = sum((multipliers[name] * bound for name, bound in bounds.items() if multipliers[name]), 0.0)
    violations = {name: max(point.constraints[name], 0.0) for name in penalties}
    gain = sum(multipliers[name] * violations[name] for name in penalties)
    return Guarantees(
        guaranteed_epsilon=max(penalized_gap, most_gained, *bounds.values(), 0.0),
        thresholds=thresholds,
        beta_suffices=all(penalty.beta >= thresholds[name] for name, penalty in penalties.items()),
        penalized_gap=penalized_gap,
        violation_bounds=bounds,
        bounds_hold=point.objective - reference.value <= gain + _TOLERANCE
        and all(violations[name] <= bounds[name] + _TOLERANCE for name in penalties),
    )


def _loan(penalty: FixedPenalty, multiplier: float) -> float:
    """The largest νR − ℒ(R) over R ≥ 0."""
    if isinstance(penalty, Exact):
        return 0.0 if penalty.beta >= multiplier else math.inf
    if penalty.beta == 0.0:
        return 0.0 if multiplier == 0.0 else math.inf
    return multiplier**2 / (4.0 * penalty.beta)


def _violation_bound(gap: float, penalty: FixedPenalty, multiplier: float) -> float:
    if math.isinf(gap) or penalty.beta == 0.0:
        return math.inf
    if isinstance(penalty, Quadratic):
        return quadratic_violation(gap, penalty.beta, multiplier)
    return exact_violation(gap, penalty.beta, multiplier) if penalty.beta > multiplier else math.inf


@dataclass(frozen=True, eq=False)
class History:
    """The figures of every iterate, the start included: arrays ``(n_iterates,)``.

    Attributes:
        objective: F, to be maximized.
        penalty: Σ ℒ(R).
        constraints: R by name; satisfied where ≤ 0.
        evaluations: of P and its gradient, so far.
        seconds: since the start.
        optimum: F* of the reference, if there is one.
    """

    objective: FloatArray
    penalty: FloatArray
    constraints: Mapping[str, FloatArray]
    evaluations: IntArray
    seconds: FloatArray
    optimum: float | None

    @property
    def value(self) -> FloatArray:
        """P = Σ ℒ(R) − F."""
        return self.penalty - self.objective

    @property
    def violation(self) -> FloatArray:
        """Largest [R]₊, 0 where all constraints hold."""
        violation: FloatArray = np.max([np.zeros_like(self.objective), *self.constraints.values()], axis=0)
        return violation

    @property
    def gap(self) -> FloatArray:
        """F* − F, negative where an iterate gains by violating; ``InvalidSetting`` if there was no reference."""
        if self.optimum is None:
            raise InvalidSetting("A gap needs the optimum: give reference=solve(...) to the method.")
        return self.optimum - self.objective

    def reached(self, epsilon: float) -> int | None:
        """The iteration from which on, up to the last, :math:`|F^*-F|` and all :math:`[R]_+` stay within ε.

        It is ``None`` if the last iterate is not within ε; ``InvalidSetting`` is raised if there was no reference.
        """
        outside = np.flatnonzero((np.abs(self.gap) > epsilon) | (self.violation > epsilon))
        first = int(outside[-1]) + 1 if outside.size else 0
        return first if first < self.objective.size else None


@dataclass(frozen=True, eq=False)
class DescentResult:
    """Where a penalty method ended.

    Attributes:
        status: ``"stationary"``: the tolerance is met; ``"stalled"``: the line search found no lower point;
            ``"exhausted"``: all iterations were made.
        last: the problem at the last iterate, with its policy.
        history: of all (outer) iterates.
        guarantees: which of the paper's guarantees hold; ``None`` without reference.
    """

    status: Status
    last: SoftmaxPoint
    history: History
    guarantees: Guarantees | None

    @property
    def iterations(self) -> int:
        """(Outer) iterations made."""
        return self.history.objective.size - 1
