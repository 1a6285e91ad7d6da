"""The exact occupancy as a node of torch's graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.types import FloatArray


class Occupancy(torch.autograd.Function):
    """λ of a policy, of which NumPy functions give value and policy gradient: the backward pass is the latter."""

    @staticmethod
    def forward(
        ctx: Any,
        policy: torch.Tensor,
        occupancy: Callable[[FloatArray], FloatArray],
        policy_gradient: Callable[[FloatArray, FloatArray], FloatArray],
    ) -> torch.Tensor:
        ctx.save_for_backward(policy)
        ctx.policy_gradient = policy_gradient
        return torch.from_numpy(occupancy(policy.numpy(force=True))).to(policy.device)

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        # torch's own once_differentiable lets ⟨r, λ⟩ with constant r pass, and its second derivative would read 0.
        if torch.is_grad_enabled():
            raise InvalidSetting("occupancy_torch has no second derivative: call backward without create_graph=True.")
        (policy,) = ctx.saved_tensors
        gradient = ctx.policy_gradient(policy.numpy(force=True), cotangent.numpy(force=True))
        return torch.from_numpy(gradient).to(policy.device), None, None
