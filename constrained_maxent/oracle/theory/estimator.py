r"""Bias and variance of the gradient estimator :math:`\hat g_{H,B}`.

Paper Lemma ``lem:BiasVarianceGradientEstimator``. Corollary ``lem:PenaltyBiasVarianceGradientEstimator`` is the same
with the constants of :func:`~constrained_maxent.oracle.theory.regularity.penalized_constants`. Occupancies are at scale
``truncated``.

The pseudo-rewards come from :math:`\hat\lambda` of the first part :math:`B_1` of a batch, the scores from the other,
:math:`B_2`. Given :math:`\hat\lambda`, the bias has a root mean square of at most
:math:`D_H\gamma^H + D_{\hat g}/\sqrt{|B_1|}`, and the variance is at most :math:`\sigma_H^2/|B_2|`. The square of the
one plus the other bounds the mean square error, which is all that the convergence proof uses. (The paper states the
variance over both parts; its proof fixes :math:`\hat\lambda`.)
"""

from __future__ import annotations

import math

from constrained_maxent.oracle.theory.arithmetic import (
    check_counts,
    check_discount,
    check_nonnegative,
    product,
)
from constrained_maxent.oracle.theory.parametrization import ELL_PSI, occupancy_lipschitz
from constrained_maxent.oracle.theory.regularity import FunctionalConstants


def truncation_constant(
    functional: FunctionalConstants, discount: float, horizon: float, *, ell_psi: float = ELL_PSI
) -> float:
    r""":math:`D_H`, with which cutting episodes at *H* moves the gradient by at most :math:`D_H\gamma^H`.

    .. math:: D_H^2 = \frac{8\ell_\psi^2L_\lambda^2}{(1-\gamma)^6}
              + 16\ell_\psi^2\ell_\lambda^2\Big(\frac{(H+1)^2}{(1-\gamma)^2} + \frac1{(1-\gamma)^4}\Big)

    Departure: the paper prints 6 for 8. The two parts are :math:`2\ell_\psi L_\lambda\gamma^H/(1-\gamma)^3`, from the
    pseudo-reward, and :math:`2\ell_\psi\ell_\lambda\sum_{t\ge H}\gamma^t(t+1)`, from the steps cut off; the square of
    a sum is at most twice the sum of squares, which makes 2 · 4 of the first and the printed 16 of the second.

    Args:
        functional: constants of F, or of the penalized problem.
        discount: γ.
        horizon: H [steps].
        ell_psi: bound of the gradient of ψ.

    Raises:
        InvalidSetting: an argument out of range.
    """
    check_discount(discount)
    check_counts(horizon=horizon)
    check_nonnegative(ell_psi=ell_psi)
    effective = 1.0 / (1.0 - discount)
    pseudo_reward = product(math.sqrt(8.0), ell_psi, functional.L, effective**3)
    cut_off = product(4.0, ell_psi, functional.ell, math.hypot((horizon + 1.0) * effective, effective**2))
    return math.hypot(pseudo_reward, cut_off)


def truncation_bias(
    functional: FunctionalConstants, discount: float, horizon: float, *, ell_psi: float = ELL_PSI
) -> float:
    r""":math:`D_H\gamma^H \ge \|\nabla_\theta F(\lambda_H(\theta)) - \nabla_\theta F(\lambda(\theta))\|_2`.

    Raises:
        InvalidSetting: an argument out of range.
    """
    return product(truncation_constant(functional, discount, horizon, ell_psi=ell_psi), discount**horizon)


def occupancy_constant(
    functional: FunctionalConstants, discount: float, *, n_states: int, n_actions: int, ell_psi: float = ELL_PSI
) -> float:
    r""":math:`D_{\hat g}`, with which estimating λ from :math:`|B_1|` episodes moves the gradient by
    :math:`D_{\hat g}/\sqrt{|B_1|}` (root mean square).

    .. math:: D_{\hat g} = \frac{2\ell_\psi L_{\lambda,\infty}}{(1-\gamma)^2} \cdot \frac{\sqrt{SA}}{1-\gamma}

    Departure: the paper bounds :math:`\mathbb E\|\hat\lambda-\lambda_H\|_1\sqrt{|B_1|}` by SA. At this scale one
    episode has mass, and so Euclidean norm, up to 1/(1−γ); the ℓ1 norm is at most :math:`\sqrt{SA}` times that.

    Raises:
        InvalidSetting: an argument out of range.
    """
    check_counts(n_states=n_states, n_actions=n_actions)
    sensitivity = occupancy_lipschitz(discount, ell_psi=ell_psi)
    return product(sensitivity, functional.L_inf, math.sqrt(n_states * n_actions), 1.0 / (1.0 - discount))


def gradient_spread(
    functional: FunctionalConstants, discount: float, horizon: float, *, ell_psi: float = ELL_PSI
) -> float:
    r""":math:`\sigma_H`, the standard deviation (root of the trace of the covariance) of one episode's gradient.

    .. math:: \sigma_H^2 = \Big(\frac{2\ell_\psi\ell_\lambda}{1-\gamma}\Big)^2\min\Big(H, \frac1{1-\gamma}\Big)

    Departure: the paper has :math:`H\ell_\lambda\ell_\psi/(1-\gamma)`, a bound of the norm where that of its square
    is needed, with :math:`\ell_\psi` for the score's :math:`2\ell_\psi`. The repair keeps its form:
    :math:`g_H = \sum_{k<H}\gamma^k r_k\sum_{t\le k}\nabla\log\pi_t`, scores of different steps are uncorrelated, so the
    root mean square of the inner sum is at most :math:`2\ell_\psi\sqrt{k+1}`, and Cauchy-Schwarz does the rest.

    Raises:
        InvalidSetting: an argument out of range.
    """
    check_discount(discount)
    check_counts(horizon=horizon)
    check_nonnegative(ell_psi=ell_psi)
    effective = 1.0 / (1.0 - discount)
    return product(2.0, ell_psi, functional.ell, effective, math.sqrt(min(horizon, effective)))


def sufficient_horizon(
    functional: FunctionalConstants, discount: float, bias: float, *, ell_psi: float = ELL_PSI
) -> float:
    r"""Smallest *H* ≥ 1/log(1/γ), from where :math:`D_H\gamma^H` falls, with :math:`D_H\gamma^H \le` *bias* [steps].

    Proof of Theorem ``thm:MainResultPenalty``. Departure: the paper bounds :math:`D_H \le C(\beta)(1+H)` and prints
    :math:`H \ge -\frac2{\log\gamma}\log\frac C\epsilon`; here the condition itself is solved, by bisection.

    Args:
        functional: constants of the penalized problem.
        discount: γ.
        bias: largest bias allowed [norm of the gradient]; at 0 the result is infinite.
        ell_psi: bound of the gradient of ψ.

    Returns:
        A whole number, as a float because it may be infinite.

    Raises:
        InvalidSetting: an argument out of range.
    """
    check_nonnegative(bias=bias)
    check_discount(discount)

    def is_short(horizon: float) -> bool:
        constant = truncation_constant(functional, discount, horizon, ell_psi=ell_psi)
        return math.log(constant) + horizon * math.log(discount) > math.log(bias)

    low = float(math.ceil(-1.0 / math.log(discount)))
    constant = truncation_constant(functional, discount, low, ell_psi=ell_psi)
    if constant == 0.0:
        return low
    if bias == 0.0 or math.isinf(constant):
        return math.inf
    if not is_short(low):
        return low
    high = 2.0 * low
    while is_short(high):
        low, high = high, 2.0 * high
    if math.isinf(high):
        return high
    # Beyond 2^53 not every whole number is a float: stop when there is none in between.
    while low < (middle := float(math.floor((low + high) / 2.0))) < high:
        low, high = (middle, high) if is_short(middle) else (low, middle)
    return high
