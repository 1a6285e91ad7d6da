"""How a policy takes a batch: one step up its gradient, or epochs of minibatches with clipped ratios."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from constrained_maxent.agents.policies import Policy
from constrained_maxent.agents.settings import Hyperparameters
from constrained_maxent.errors import NonFiniteValue
from constrained_maxent.types import FloatArray


def update_policy(
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    *,
    settings: Hyperparameters,
    rows: NDArray[Any],
    raw: NDArray[Any],
    factor_t: FloatArray,
    rng: np.random.Generator,
    center: Sequence[torch.Tensor] = (),
) -> float:
    r"""Climb :math:`\sum_t f_t \log\pi(a_t|s_t)`, or its surrogate that stays near the policy which acted.

    With several epochs or minibatches the batch's own policy is soon left behind; then the surrogate of Schulman et al.
    2017 (eq. 7), :math:`\sum_t \min(\rho_t f_t, \mathrm{clip}(\rho_t, 1-\epsilon, 1+\epsilon) f_t)` with the ratio
    :math:`\rho_t` of new to old probability, has the same gradient at first and none where it went too far.

    Args:
        policy, optimizer: what to change, and how.
        settings: epochs, minibatches, ε and largest norm.
        rows: observations, ``(n, ...)``.
        raw: raw actions, ``(n, ...)``.
        factor_t: :math:`f_t`, the weighted advantages, ``(n,)``.
        rng: shuffles.
        center: of the proximal term (paper, Algorithm 2): parameters that every gradient pulls back to, in their
            order. Without it there is no such term.

    Returns:
        Norm of the first gradient, before clipping.

    Raises:
        NonFiniteValue: a gradient is not finite; that step is not taken.
    """
    n_steps = len(rows)
    size = settings.minibatch_size or n_steps
    if settings.epochs == 1 and size >= n_steps:
        optimizer.zero_grad()
        policy.ascend(rows, raw, factor_t)
        return _step(policy, optimizer, settings, center)
    with torch.no_grad():
        old_t = policy.log_prob(rows, raw)
    first_norm = math.nan
    for _ in range(settings.epochs):
        order = rng.permutation(n_steps)
        # Parts of about equal size: a small rest would take as large a step as the others.
        for chosen in np.array_split(order, math.ceil(n_steps / size)):
            ratio = (policy.log_prob(rows[chosen], raw[chosen]) - old_t[torch.as_tensor(chosen)]).exp()
            # Scaled up, so that each minibatch's gradient estimates that of the whole batch.
            factor = torch.as_tensor(factor_t[chosen] * (n_steps / len(chosen)), dtype=ratio.dtype, device=ratio.device)
            clipped = ratio.clamp(1.0 - settings.clip_range, 1.0 + settings.clip_range)
            optimizer.zero_grad()
            (-torch.minimum(ratio * factor, clipped * factor).sum()).backward()  # type: ignore[no-untyped-call]
            norm = _step(policy, optimizer, settings, center)
            first_norm = norm if math.isnan(first_norm) else first_norm
    return first_norm


def _step(
    policy: Policy, optimizer: torch.optim.Optimizer, settings: Hyperparameters, center: Sequence[torch.Tensor]
) -> float:
    """One step of the optimizer, projected; the norm of its gradient."""
    if center:
        # Optimizers step down: the gradient of ρ̂/2 |θ - center|² is added.
        with torch.no_grad():
            for parameter, home in zip(policy.parameters(), center, strict=True):
                assert parameter.grad is not None
                parameter.grad += settings.proximal_weight * (parameter - home)
    norm = float(torch.nn.utils.clip_grad_norm_(policy.parameters(), settings.max_gradient_norm))
    if not math.isfinite(norm):
        raise NonFiniteValue("The gradient is not finite: lower the learning rate, or bound the pseudo-rewards.")
    optimizer.step()
    radius = settings.projection_radius
    if math.isfinite(radius):
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter.clamp_(-radius, radius)
    policy.changed()
    return norm
