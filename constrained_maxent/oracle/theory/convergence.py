r"""How many steps reach a small gap of the penalized problem, and what such a gap says of objective and constraint.

Everywhere the penalties are ours, :math:`\beta[R]_+^2` and :math:`\beta[R]_+`, as in
:mod:`constrained_maxent.penalties` and the paper's eq. PEN. Its appendix proves these results for
:math:`\frac\beta2[R]_+^2` and :math:`\frac\beta2[R]_+`: **the β printed there is twice ours**. The multiplier is that
of :math:`R \le 0` in :math:`-H + \nu R` [nats / R], under strong duality (Assumption ``ass:StrongDuality``).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.oracle.theory.arithmetic import check_nonnegative, check_positive, divide, product, round_up


class DescentFigures(NamedTuple):
    """What :func:`biased_descent` asks for: step size η, number of steps, and largest bias and standard deviation."""

    step_size: float
    iterations: float
    error: float


def biased_descent(
    smoothness: float, epsilon: float, *, mu_lambda: float, diameter: float, initial_gap: float
) -> DescentFigures:
    r"""Projected SGD with biased gradients on a hidden convex function (Theorem ``thm:BiasedSGDHiddenConvex``).

    With :math:`\eta = 1/L` and :math:`\alpha = \min(1, \eta\epsilon/(3\mu_\lambda^2D^2))`, after
    :math:`N = \frac1\alpha\log\frac{3\Delta_0}{\epsilon}` steps the last iterate is expected within ε of the optimum,
    if the bias :math:`\delta` and the standard deviation :math:`\sigma` of the gradient satisfy
    :math:`\delta^2, \sigma^2 \le \epsilon\alpha/(3\eta)`, which is :math:`(\epsilon/(3\mu_\lambda D))^2` where α < 1.

    Departures: the paper's :math:`\mu_\lambda` is the Lipschitz constant of the inverse in Assumption
    ``ass:ParametrizationSOAM`` and in the proof of ``thm:MainResultPenalty``, where it multiplies, and one over it in
    the appendix on hidden convexity (:math:`\mu_c`); ours multiplies. That proof also asks for δ and σ of order ε only;
    we keep the factor of the theorem.

    Args:
        smoothness: L of the function of θ.
        epsilon: wanted gap ε ≥ 0; at 0, or at infinite constants, the number of steps is infinite.
        mu_lambda: Lipschitz constant of the inverse of the convexifying map (here θ ↦ λ).
        diameter: D of the image of that map.
        initial_gap: :math:`\Delta_0`, the gap at the start.
    """
    check_nonnegative(smoothness=smoothness, epsilon=epsilon, mu_lambda=mu_lambda)
    check_nonnegative(diameter=diameter, initial_gap=initial_gap)
    reach = product(mu_lambda, diameter)
    steps_per_fold = max(1.0, divide(product(3.0, reach, reach, smoothness), epsilon))
    ratio = divide(product(3.0, initial_gap), epsilon)
    folds = math.log(ratio) if ratio > 1.0 else 0.0
    return DescentFigures(
        step_size=divide(1.0, smoothness),
        iterations=round_up(product(steps_per_fold, folds)),
        error=min(math.sqrt(product(epsilon, smoothness) / 3.0), divide(epsilon, product(3.0, reach))),
    )


def quadratic_beta(multiplier: float, epsilon: float) -> float:
    r"""β of the quadratic penalty for an (ε, ε)-optimal policy [nats / R²], ε [nats, and units of R].

    Corollary ``cor:FinalRateTranslation`` and Theorem ``thm:MainResultPPPMQuadraticPenaltyConvergenceGuarantee`` have
    :math:`\beta(\epsilon) = (\nu^*+1)(\nu^*+\sqrt{\nu^{*2}+2})/\epsilon`, derived for the penalty
    :math:`\frac\beta2[R]_+^2`; ours is half of it. A gap of at most :func:`penalty_gap` then bounds the violation by
    :math:`\epsilon/(\nu^*+1)` and the error of the objective by ε.

    >>> round(quadratic_beta(0.0, 0.1), 4)  # half of √2 / ε
    7.0711
    """
    check_nonnegative(multiplier=multiplier)
    check_positive(epsilon=epsilon)
    return (multiplier + 1.0) * (multiplier + math.hypot(multiplier, math.sqrt(2.0))) / epsilon / 2.0


def penalty_gap(multiplier: float, epsilon: float) -> float:
    r""":math:`\tilde\epsilon`, the gap to which the penalized problem is solved: 1/(2β), 1 over the paper's β [nats].

    Proof of Corollary ``cor:FinalRateTranslation``. It never exceeds :math:`\epsilon/\sqrt2`.
    """
    return divide(1.0, 2.0 * quadratic_beta(multiplier, epsilon))


def quadratic_violation(gap: float, beta: float, multiplier: float) -> float:
    r"""Bound :math:`(\nu^*+\sqrt{\nu^{*2}+4\beta\,\mathrm{gap}})/(2\beta)` of the violation :math:`[R]_+`.

    Corollary ``cor:AppendixConstraintViolationQuadraticPenaltyTranslation`` with β/2 replaced by β > 0; it is tight for
    a linear objective of one variable. The gap is that of :math:`-H + \beta[R]_+^2` above the constrained optimum of −H
    [nats].
    """
    check_nonnegative(gap=gap, multiplier=multiplier)
    check_positive(beta=beta)
    # Divided before the root is taken: the square of a large multiplier would overflow.
    half = multiplier / (2.0 * beta)
    return half + math.hypot(half, math.sqrt(gap / beta))


def exact_beta(multiplier: float) -> float:
    r"""β from which on the exact penalty comes with a guarantee: :math:`\nu^*+1` [nats / R].

    Theorem ``thm:MainResultPPPMExactPenaltyConvergenceGuarantee``, which has :math:`2\nu^*+2` for
    :math:`\frac\beta2[R]_+`. A gap of ε/β then gives (ε, ε)-optimality. The minimizers themselves agree with those of
    the constrained problem from :math:`\beta > \nu^*` on; the 1 turns a small gap into a small violation.
    """
    check_nonnegative(multiplier=multiplier)
    return multiplier + 1.0


def exact_violation(gap: float, beta: float, multiplier: float) -> float:
    r"""Bound :math:`\mathrm{gap}/(\beta-\nu^*)` of the violation, for the penalty :math:`\beta[R]_+`, β > ν*.

    Corollary ``cor:AppendixConstraintViolationExactPenaltyTranslation`` with β/2 replaced by β.
    """
    check_nonnegative(gap=gap, multiplier=multiplier)
    if not beta > multiplier:
        raise InvalidSetting(
            f"beta={beta!r} must exceed the multiplier {multiplier!r}: below it the penalty is not exact."
        )
    return divide(gap, beta - multiplier)
