"""How many steps of stochastic gradient descent a hidden convex function takes, and how exact they must be."""

from __future__ import annotations

import math
from typing import NamedTuple

from constrained_maxent.oracle.theory.arithmetic import check_nonnegative, divide, product, round_up


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

    Raises:
        InvalidSetting: a negative argument or NaN.
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
