"""The exact occupancy as a node of torch's graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.occupancy.weighting import Scale

if TYPE_CHECKING:
    from constrained_maxent.oracle.tabular import TabularMDP


class Occupancy(torch.autograd.Function):
    """λ of a policy; its backward pass is the policy gradient theorem."""

    @staticmethod
    def forward(ctx: Any, policy: torch.Tensor, mdp: TabularMDP, scale: Scale) -> torch.Tensor:
        ctx.save_for_backward(policy)
        ctx.mdp, ctx.scale = mdp, scale
        return torch.from_numpy(mdp.occupancy(policy.numpy(force=True), scale=scale)).to(policy.device)

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        # torch's own once_differentiable lets ⟨r, λ⟩ with constant r pass, and its second derivative would read 0.
        if torch.is_grad_enabled():
            raise InvalidSetting("occupancy_torch has no second derivative: call backward without create_graph=True.")
        (policy,) = ctx.saved_tensors
        gradient = ctx.mdp.policy_gradient(policy.numpy(force=True), cotangent.numpy(force=True), scale=ctx.scale)
        return torch.from_numpy(gradient).to(policy.device), None, None
