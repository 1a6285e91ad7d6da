"""Any function of λ that PyTorch can differentiate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from constrained_maxent.errors import InvalidData, NonFiniteValue, UnsupportedSpace
from constrained_maxent.functionals.base import Functional
from constrained_maxent.functionals.tables import table_at
from constrained_maxent.types import FloatArray, Measure, Points

if TYPE_CHECKING:  # Slow to load, and only who differentiates by it waits for it.
    import torch


@dataclass(frozen=True, eq=False)
class Autograd(Functional):
    """F(λ) given as a PyTorch function of the table λ(s, a); its derivative by automatic differentiation.

    Args:
        function: takes a float64 tensor ``(n_states, n_actions)``, returns a scalar tensor. As a constraint it should
            be convex.
        limit: the constraint reads F(λ) ≤ ``limit``, in the units of the function.

    Raises:
        UnsupportedSpace: on evaluation, if λ is not known on all cells (sparse counts, continuous spaces).
        InvalidData: the function does not return a scalar that depends on λ.
        NonFiniteValue: it, or its gradient, is NaN or infinite.

    >>> Autograd(lambda occupancy: (occupancy**2).sum()).gradient([[0.5, 0.25]])
    array([[1. , 0.5]])
    """

    function: Callable[[torch.Tensor], torch.Tensor]

    def _evaluate(self, measure: Measure) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        if measure.points.cells is not None or measure.weights.ndim != 2:
            raise UnsupportedSpace("Autograd needs λ on all cells of a finite space, small enough for a dense table.")
        occupancy = torch.tensor(measure.weights, requires_grad=True)
        value = self.function(occupancy)
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            raise InvalidData("The function given to Autograd must return a scalar tensor.")
        if not bool(torch.isfinite(value).all()):
            raise NonFiniteValue(f"The function given to Autograd returned {value.item()}.")
        return value, occupancy

    @property
    def needs_table(self) -> bool:
        return True

    def value(self, measure: Measure) -> float:
        return float(self._evaluate(measure)[0].item())

    def derivative(self, measure: Measure, points: Points) -> FloatArray:
        import torch

        value, occupancy = self._evaluate(measure)
        gradient = None
        if value.requires_grad:
            (gradient,) = torch.autograd.grad(value.reshape(()), occupancy, allow_unused=True)
        if gradient is None:
            raise InvalidData("The function given to Autograd must depend on λ through PyTorch operations.")
        if not bool(torch.isfinite(gradient).all()):
            raise NonFiniteValue(
                "The gradient of the function given to Autograd is not finite: smooth it, for example log(λ + 1e-6)."
            )
        return table_at(gradient.numpy(), points)
