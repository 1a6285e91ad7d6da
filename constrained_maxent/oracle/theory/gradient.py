r"""How fast :math:`\lambda` and the objective change with the parameters, and how good the estimated gradient is.

Policies are tabular softmax on :math:`\Theta = [-R, R]^{S \times A}`, whose :math:`\psi(s,a;\theta)=\theta_{s,a}` has
:math:`\ell_\psi = 1` and :math:`L_\psi = 0` (Assumption ``ass:Softmax``, Lemma
``lem:DirectSoftmaxFulfillsAssumptions``). Occupancies are at scale ``truncated``,
:math:`\lambda = \sum_t \gamma^t P(s_t=s, a_t=a)` with mass 1/(1−γ), at infinite horizon. The paper defines λ with a
factor (1−γ), but its estimator and its lemmas leave it out, and so do we.

The estimator :math:`\hat g_{H,B}` (Lemma ``lem:BiasVarianceGradientEstimator``; with the constants of
:func:`~constrained_maxent.oracle.theory.penalized_constants` it is Corollary
``lem:PenaltyBiasVarianceGradientEstimator``) takes pseudo-rewards from :math:`\hat\lambda` of the first part
:math:`B_1` of a batch, scores from the other, :math:`B_2`. Given :math:`\hat\lambda`, the bias has a root mean square
of at most :math:`D_H\gamma^H + D_{\hat g}/\sqrt{|B_1|}`, and the variance is at most :math:`\sigma_H^2/|B_2|`; together
they bound the mean square error, which is all that the convergence proof uses. (The paper states the variance over both
parts; its proof fixes :math:`\hat\lambda`.)
"""

from __future__ import annotations

import math

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.oracle.theory.arithmetic import (
    check_counts,
    check_discount,
    check_nonnegative,
    check_positive,
    divide,
    exponential,
    product,
)
from constrained_maxent.oracle.theory.regularity import FunctionalConstants

SCORE_BOUND = 2.0
r""":math:`2\ell_\psi \ge \|\nabla_\theta\log\pi_\theta(a|s)\|_2` (Lemma ``lem:AppendixScoreFunction``)."""

SCORE_SLOPE = 2.0
r""":math:`2(L_\psi+\ell_\psi^2) \ge \|\nabla^2_\theta\log\pi_\theta(a|s)\|_2` (Lemma ``lem:AppendixScoreFunction``)."""


def occupancy_lipschitz(discount: float) -> float:
    r""":math:`\|\lambda(\theta_1)-\lambda(\theta_2)\|_1 \le \frac{2\ell_\psi}{(1-\gamma)^2}\|\theta_1-\theta_2\|_2`.

    Lemma ``lem:AppendixScoreFunction``, for every horizon [mass per unit of θ].
    """
    check_discount(discount)
    return SCORE_BOUND / (1.0 - discount) ** 2


def gradient_bound(functional: FunctionalConstants, discount: float) -> float:
    r""":math:`\ell_{F,\theta} = 2\ell_\psi\ell_\lambda/(1-\gamma)^2 \ge \|\nabla_\theta F(\lambda(\theta))\|_2`.

    Lemma ``lem:AppendixScoreFunction``; of the penalized problem's constants, :math:`\ell_{P,\theta}` of Corollary
    ``cor:GradientBoundSmoothnessPenalty``. Departure: the corollary puts :math:`L_{P,\lambda}` where the lemma that it
    invokes has the bound :math:`\ell_{P,\lambda}` of the gradient.
    """
    return product(occupancy_lipschitz(discount), functional.ell)


def gradient_lipschitz(functional: FunctionalConstants, discount: float) -> float:
    r""":math:`L_{F,\theta}`, the Lipschitz constant of :math:`\nabla_\theta F(\lambda(\theta))`.

    .. math:: L_{F,\theta} = \frac{4 L_{\lambda,\infty}\ell_\psi^2}{(1-\gamma)^4}
              + \frac{8\ell_\psi^2\ell_\lambda}{(1-\gamma)^3} + \frac{2\ell_\lambda(L_\psi+\ell_\psi^2)}{(1-\gamma)^2}

    Lemma ``lem:AppendixScoreFunction``; of the penalized problem's constants, :math:`L_{P,\theta}` of Corollary
    ``cor:GradientBoundSmoothnessPenalty``. Departure: the paper prints :math:`(1-\gamma)^2` under the first term. It is
    the square of the Lipschitz constant of λ(θ), so it carries :math:`(1-\gamma)^4`.
    """
    sensitivity = occupancy_lipschitz(discount)
    effective = 1.0 / (1.0 - discount)
    return (
        product(functional.L_inf, sensitivity, sensitivity)
        + product(8.0, functional.ell, effective**3)
        + product(functional.ell, SCORE_SLOPE, effective**2)
    )


def truncation_constant(functional: FunctionalConstants, discount: float, horizon: float) -> float:
    r""":math:`D_H`, with which cutting episodes at *H* moves the gradient by at most :math:`D_H\gamma^H`.

    .. math:: D_H^2 = \frac{8\ell_\psi^2L_\lambda^2}{(1-\gamma)^6}
              + 16\ell_\psi^2\ell_\lambda^2\Big(\frac{(H+1)^2}{(1-\gamma)^2} + \frac1{(1-\gamma)^4}\Big)

    Departure: the paper prints 6 for 8. The two parts are :math:`2\ell_\psi L_\lambda\gamma^H/(1-\gamma)^3`, from the
    pseudo-reward, and :math:`2\ell_\psi\ell_\lambda\sum_{t\ge H}\gamma^t(t+1)`, from the steps cut off; the square of
    a sum is at most twice the sum of squares, which makes 2 · 4 of the first and the printed 16 of the second.
    """
    check_discount(discount)
    check_counts(horizon=horizon)
    effective = 1.0 / (1.0 - discount)
    pseudo_reward = product(math.sqrt(8.0), functional.L, effective**3)
    cut_off = product(4.0, functional.ell, math.hypot((horizon + 1.0) * effective, effective**2))
    return math.hypot(pseudo_reward, cut_off)


def truncation_bias(functional: FunctionalConstants, discount: float, horizon: float) -> float:
    r""":math:`D_H\gamma^H \ge \|\nabla_\theta F(\lambda_H(\theta)) - \nabla_\theta F(\lambda(\theta))\|_2`."""
    return product(truncation_constant(functional, discount, horizon), discount**horizon)


def occupancy_constant(functional: FunctionalConstants, discount: float, *, n_states: int, n_actions: int) -> float:
    r""":math:`D_{\hat g}`, with which estimating λ from :math:`|B_1|` episodes moves the gradient by
    :math:`D_{\hat g}/\sqrt{|B_1|}` (root mean square).

    .. math:: D_{\hat g} = \frac{2\ell_\psi L_{\lambda,\infty}}{(1-\gamma)^2} \cdot \frac{\sqrt{SA}}{1-\gamma}

    Departure: the paper bounds :math:`\mathbb E\|\hat\lambda-\lambda_H\|_1\sqrt{|B_1|}` by SA. At this scale one
    episode has mass, and so Euclidean norm, up to 1/(1−γ); the ℓ1 norm is at most :math:`\sqrt{SA}` times that.
    """
    check_counts(n_states=n_states, n_actions=n_actions)
    sensitivity = occupancy_lipschitz(discount)
    return product(sensitivity, functional.L_inf, math.sqrt(n_states * n_actions), 1.0 / (1.0 - discount))


def gradient_spread(functional: FunctionalConstants, discount: float, horizon: float) -> float:
    r""":math:`\sigma_H`, the standard deviation (root of the trace of the covariance) of one episode's gradient.

    .. math:: \sigma_H^2 = \Big(\frac{2\ell_\psi\ell_\lambda}{1-\gamma}\Big)^2\min\Big(H, \frac1{1-\gamma}\Big)

    Departure: the paper has :math:`H\ell_\lambda\ell_\psi/(1-\gamma)`, a bound of the norm where that of its square
    is needed, with :math:`\ell_\psi` for the score's :math:`2\ell_\psi`. The repair keeps its form:
    :math:`g_H = \sum_{k<H}\gamma^k r_k\sum_{t\le k}\nabla\log\pi_t`, scores of different steps are uncorrelated, so the
    root mean square of the inner sum is at most :math:`2\ell_\psi\sqrt{k+1}`, and Cauchy-Schwarz does the rest.
    """
    check_discount(discount)
    check_counts(horizon=horizon)
    effective = 1.0 / (1.0 - discount)
    return product(SCORE_BOUND, functional.ell, effective, math.sqrt(min(horizon, effective)))


def sufficient_horizon(functional: FunctionalConstants, discount: float, bias: float) -> float:
    r"""Smallest *H* ≥ 1/log(1/γ), from where :math:`D_H\gamma^H` falls, with :math:`D_H\gamma^H \le` *bias* [steps].

    Proof of Theorem ``thm:MainResultPenalty``. Departure: the paper bounds :math:`D_H \le C(\beta)(1+H)` and prints
    :math:`H \ge -\frac2{\log\gamma}\log\frac C\epsilon`; here the condition itself is solved, by bisection. The answer
    is a whole number, or infinite, as it is for a bias of 0.
    """
    check_nonnegative(bias=bias)
    check_discount(discount)

    def is_short(horizon: float) -> bool:
        constant = truncation_constant(functional, discount, horizon)
        return math.log(constant) + horizon * math.log(discount) > math.log(bias)

    low = float(math.ceil(-1.0 / math.log(discount)))
    constant = truncation_constant(functional, discount, low)
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


def density_radius(n_actions: int, epsilon: float) -> float:
    r"""Smallest *R* with which softmax on [−R, R] comes within ε, in :math:`\max_s\|\cdot\|_1`, of every policy.

    Proposition ``prop:SoftmaxApproximationStationaryPolicies``, which states :math:`R = O(\log(A/\epsilon))`, by
    mixing the policy with the uniform one, :math:`(1-\epsilon')\pi^* + \epsilon'/A`. This moves it by up to
    :math:`2\epsilon'(1-1/A)` (the paper says ε′, which is the total variation: half of it). With
    :math:`\theta=\log\pi` that needs :math:`R = \log(2(A-1)/\epsilon)`; rows shifted to the middle of their range,
    which softmax ignores, need half of it, :math:`R = \frac12\log((A-1)(2-\epsilon)/\epsilon)`.

    Args:
        epsilon: ε > 0. No two policies are further apart than 2; from 2(1−1/A) on the uniform policy is near enough.

    >>> round(density_radius(4, 0.1), 4)  # half of log 57
    2.0215
    """
    check_counts(n_actions=n_actions)
    check_positive(epsilon=epsilon)
    if epsilon >= 2.0 * (1.0 - 1.0 / n_actions):
        return 0.0
    # Logarithms apart: a ratio would overflow for the smallest floats.
    return 0.5 * (math.log(n_actions - 1) + math.log(2.0 - epsilon) - math.log(epsilon))


def parameter_diameter(n_states: int, n_actions: int, radius: float) -> float:
    r""":math:`D_\Theta = 2R\sqrt{SA}`, the diameter of Θ (Theorem ``lem:FinalComplexityDirectSoftmax``)."""
    check_counts(n_states=n_states, n_actions=n_actions)
    check_nonnegative(radius=radius)
    return product(2.0, radius, math.sqrt(n_states * n_actions))


def occupancy_diameter(discount: float) -> float:
    r""":math:`D_\Lambda = \sqrt2/(1-\gamma) \ge \|\lambda-\lambda'\|_2` (after Assumption ``ass:ParametrizationSOAM``).

    The paper only says that it is finite: two non-negative tables of mass *m* have an angle of at most 90°.
    """
    check_discount(discount)
    return math.sqrt(2.0) / (1.0 - discount)


def inverse_lipschitz(n_actions: int, radius: float, *, initial_min: float) -> float:
    r""":math:`\mu_\lambda`, the Lipschitz constant of the inverse of λ(θ) (Assumption ``ass:ParametrizationSOAM``).

    The paper cites its existence. Two things it leaves open: softmax ignores a shift of a row, so λ(θ) has no inverse,
    but the proofs only need, for any θ and θ* in Θ, *some* θ′ in Θ with
    :math:`\lambda(\theta') = (1-\alpha)\lambda(\theta)+\alpha\lambda(\theta^*)` and
    :math:`\|\theta'-\theta\| \le \mu_\lambda\alpha\|\lambda(\theta^*)-\lambda(\theta)\|`. And the constant is never
    given. Ours: :math:`\theta' = \theta + \log(\lambda(\theta')/\lambda(\theta))` is such a parameter, up to a shift of
    each row back into [−R, R] by no more than its largest change. Hence

    .. math:: \mu_\lambda = \frac{1+\sqrt A}{\min_{\theta,s,a}\lambda}, \qquad
              \min\lambda \ge \min_s\mu_0(s)\,\min\pi = \frac{\min_s\mu_0(s)}{1+(A-1)e^{2R}}.

    With the radius of :func:`density_radius`, :math:`e^{2R}` is of order A/ε. The rates in ε that the paper states
    for direct softmax hold :math:`\mu_\lambda` fixed, which for policies near deterministic ones it is not.

    Args:
        initial_min: smallest :math:`\mu_0(s)`, or any lower bound of the discounted visits
            :math:`\sum_t\gamma^t P(s_t=s)` of every state under every policy; at 0 the result is infinite.
    """
    check_counts(n_actions=n_actions)
    check_nonnegative(radius=radius, initial_min=initial_min)
    if not math.isfinite(initial_min):
        raise InvalidSetting(f"initial_min={initial_min!r} must be finite.")
    least_inverse = 1.0 + product(n_actions - 1.0, exponential(2.0 * radius))
    return divide(product(1.0 + math.sqrt(n_actions), least_inverse), initial_min)
