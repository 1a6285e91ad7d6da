r"""From parameters to occupancies and back: tabular softmax on :math:`\Theta = [-R, R]^{S \times A}`.

Occupancies are at scale ``truncated``, :math:`\lambda = \sum_t \gamma^t P(s_t=s, a_t=a)` with mass 1/(1−γ), at infinite
horizon. The paper defines λ with a factor (1−γ), but its estimator and its lemmas leave it out, and so do we.
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

ELL_PSI = 1.0
r""":math:`\ell_\psi`, bound of :math:`\|\nabla_\theta\psi\|`, for :math:`\psi(s,a;\theta)=\theta_{s,a}`
(Assumption ``ass:Softmax``, Lemma ``lem:DirectSoftmaxFulfillsAssumptions``)."""

L_PSI = 0.0
r""":math:`L_\psi`, bound of :math:`\|\nabla^2_\theta\psi\|`, for the same ψ, which is linear."""


def score_bound(ell_psi: float = ELL_PSI) -> float:
    r""":math:`\|\nabla_\theta\log\pi_\theta(a|s)\|_2 \le 2\ell_\psi` (Lemma ``lem:AppendixScoreFunction``)."""
    check_nonnegative(ell_psi=ell_psi)
    return 2.0 * ell_psi


def score_slope(ell_psi: float = ELL_PSI, L_psi: float = L_PSI) -> float:
    r""":math:`\|\nabla^2_\theta\log\pi_\theta(a|s)\|_2 \le 2(L_\psi+\ell_\psi^2)` (``lem:AppendixScoreFunction``)."""
    check_nonnegative(ell_psi=ell_psi, L_psi=L_psi)
    return 2.0 * (L_psi + ell_psi * ell_psi)


def occupancy_lipschitz(discount: float, *, ell_psi: float = ELL_PSI) -> float:
    r""":math:`\|\lambda(\theta_1)-\lambda(\theta_2)\|_1 \le \frac{2\ell_\psi}{(1-\gamma)^2}\|\theta_1-\theta_2\|_2`.

    Lemma ``lem:AppendixScoreFunction``, for every horizon [mass per unit of θ].

    Raises:
        InvalidSetting: discount outside (0, 1), or a negative bound.
    """
    check_discount(discount)
    return score_bound(ell_psi) / (1.0 - discount) ** 2


def gradient_bound(functional: FunctionalConstants, discount: float, *, ell_psi: float = ELL_PSI) -> float:
    r""":math:`\ell_{F,\theta} = 2\ell_\psi\ell_\lambda/(1-\gamma)^2 \ge \|\nabla_\theta F(\lambda(\theta))\|_2`.

    Lemma ``lem:AppendixScoreFunction``; of the penalized problem's constants, :math:`\ell_{P,\theta}` of Corollary
    ``cor:GradientBoundSmoothnessPenalty``. Departure: the corollary puts :math:`L_{P,\lambda}` where the lemma that it
    invokes has the bound :math:`\ell_{P,\lambda}` of the gradient.

    Raises:
        InvalidSetting: discount outside (0, 1), or a negative bound.
    """
    return product(occupancy_lipschitz(discount, ell_psi=ell_psi), functional.ell)


def gradient_lipschitz(
    functional: FunctionalConstants, discount: float, *, ell_psi: float = ELL_PSI, L_psi: float = L_PSI
) -> float:
    r""":math:`L_{F,\theta}`, the Lipschitz constant of :math:`\nabla_\theta F(\lambda(\theta))`.

    .. math:: L_{F,\theta} = \frac{4 L_{\lambda,\infty}\ell_\psi^2}{(1-\gamma)^4}
              + \frac{8\ell_\psi^2\ell_\lambda}{(1-\gamma)^3} + \frac{2\ell_\lambda(L_\psi+\ell_\psi^2)}{(1-\gamma)^2}

    Lemma ``lem:AppendixScoreFunction``; of the penalized problem's constants, :math:`L_{P,\theta}` of Corollary
    ``cor:GradientBoundSmoothnessPenalty``. Departure: the paper prints :math:`(1-\gamma)^2` under the first term. It is
    the square of the Lipschitz constant of λ(θ), so it carries :math:`(1-\gamma)^4`.

    Raises:
        InvalidSetting: discount outside (0, 1), or a negative bound.
    """
    sensitivity = occupancy_lipschitz(discount, ell_psi=ell_psi)
    effective = 1.0 / (1.0 - discount)
    return (
        product(functional.L_inf, sensitivity, sensitivity)
        + product(8.0, ell_psi, ell_psi, functional.ell, effective**3)
        + product(functional.ell, score_slope(ell_psi, L_psi), effective**2)
    )


def occupancy_gap(policy_gap: float, discount: float) -> float:
    r"""Bound of :math:`\|\lambda^\pi-\lambda^{\pi'}\|_1`, given :math:`\max_s\|\pi(\cdot|s)-\pi'(\cdot|s)\|_1`.

    It is that distance, ``policy_gap``, over (1−γ)². Departure: the proof of Theorem
    ``lem:FinalComplexityDirectSoftmax`` takes the factor γ/(1−γ) at scale ``normalized``. That holds for the occupancy
    of states; actions add 1, which makes 1/(1−γ), and the scale ``truncated`` another 1/(1−γ).

    Raises:
        InvalidSetting: discount outside (0, 1), or a negative gap.
    """
    check_discount(discount)
    check_nonnegative(policy_gap=policy_gap)
    return policy_gap / (1.0 - discount) ** 2


def density_radius(n_actions: int, epsilon: float, *, centered: bool = True) -> float:
    r"""*R* with which softmax on [−R, R] comes within ε, in :math:`\max_s\|\cdot\|_1`, of every stationary policy.

    Proposition ``prop:SoftmaxApproximationStationaryPolicies``, which states :math:`R = O(\log(A/\epsilon))`. The proof
    mixes the policy with the uniform one, :math:`(1-\epsilon')\pi^* + \epsilon'/A`. This moves it by up to
    :math:`2\epsilon'(1-1/A)` (the paper says ε′, which is the total variation: half of it), so
    :math:`\epsilon' = \epsilon A/(2(A-1))`. The proof's parameters :math:`\theta=\log\pi` lie in
    :math:`[-\log(A/\epsilon'), 0]`, hence :math:`R = \log(2(A-1)/\epsilon)`. Softmax ignores a shift of a row: centered
    rows need half the range, :math:`R = \frac12\log((A-1)(2-\epsilon)/\epsilon)`, the smallest possible for a
    deterministic policy.

    Args:
        n_actions: A.
        epsilon: ε > 0. No two policies are further apart than 2; from 2(1−1/A) on the uniform policy is near enough.
        centered: ``False`` for the proof's own, larger radius.

    Raises:
        InvalidSetting: A below 1, or ε not above 0.

    >>> round(density_radius(4, 0.1, centered=False), 4), round(density_radius(4, 0.1), 4)  # log 60, half of log 57
    (4.0943, 2.0215)
    """
    check_counts(n_actions=n_actions)
    check_positive(epsilon=epsilon)
    if epsilon >= 2.0 * (1.0 - 1.0 / n_actions):
        return 0.0 if centered else math.log(n_actions)
    # Logarithms apart: a ratio would overflow for the smallest floats.
    if centered:
        return 0.5 * (math.log(n_actions - 1) + math.log(2.0 - epsilon) - math.log(epsilon))
    return math.log(2.0 * (n_actions - 1)) - math.log(epsilon)


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
        n_actions: A.
        radius: R ≥ 0.
        initial_min: smallest :math:`\mu_0(s)`, or any lower bound of the discounted visits
            :math:`\sum_t\gamma^t P(s_t=s)` of every state under every policy; at 0 the result is infinite.

    Raises:
        InvalidSetting: an argument out of range.
    """
    check_counts(n_actions=n_actions)
    check_nonnegative(radius=radius, initial_min=initial_min)
    if not math.isfinite(initial_min):
        raise InvalidSetting(f"initial_min={initial_min!r} must be finite.")
    least_inverse = 1.0 + product(n_actions - 1.0, exponential(2.0 * radius))
    return divide(product(1.0 + math.sqrt(n_actions), least_inverse), initial_min)
