"""Steps of one length, whatever the gradient's norm, as an optimizer of PyTorch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch


class NormalizedGradient(torch.optim.Optimizer):
    r"""Steps :math:`\theta \leftarrow \theta + \eta\,\hat g / \|\hat g\|_2` (Ying et al., 2025).

    The norm is over all parameters together. A gradient of 0 takes no step.

    Args:
        parameters: what to move.
        lr: η, the length of every step.
    """

    def __init__(self, parameters: Iterable[torch.nn.Parameter], *, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step. PyTorch's gradients point down: the one to climb is their negative."""
        for group in self.param_groups:
            moved = [parameter for parameter in group["params"] if parameter.grad is not None]
            norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(p.grad) for p in moved]))
            if norm > 0.0:
                with torch.no_grad():
                    for parameter in moved:
                        parameter -= group["lr"] / norm * parameter.grad
