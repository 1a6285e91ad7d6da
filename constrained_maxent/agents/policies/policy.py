"""What every stochastic policy can do, and how torch and NumPy meet in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from constrained_maxent.errors import NonFiniteValue
from constrained_maxent.types import FloatArray


class Policy(nn.Module, ABC):
    """π(a|s) with parameters. Rows are observations as ``spaces.as_rows`` records them.

    *Raw* actions are what the policy samples: numbers from 0 for finite spaces, values before the squashing for
    ``Box``, so that log π is exact at the bounds. ``to_env`` turns them into actions of the environment, or into rows
    of them where these are of several components.

    Every method raises ``NonFiniteValue`` if the parameters have diverged.
    """

    @abstractmethod
    def sample(self, rows: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        """Raw actions drawn from π, ``(n, ...)``, for rows ``(n, ...)``."""

    def sample_with_log_prob(self, rows: NDArray[Any], rng: np.random.Generator) -> tuple[NDArray[Any], FloatArray]:
        """Raw actions drawn from π, ``(n, ...)``, and log π of them, ``(n,)`` [nats]."""
        raw = self.sample(rows, rng)
        with torch.no_grad():
            return raw, to_array(self.log_prob(rows, raw))

    @abstractmethod
    def mode(self, rows: NDArray[Any]) -> NDArray[Any]:
        """The most probable raw actions, ``(n, ...)``."""

    @abstractmethod
    def log_prob(self, rows: NDArray[Any], raw: NDArray[Any]) -> torch.Tensor:
        """Log π of raw actions, ``(n,)`` [nats]; differentiable in the parameters."""

    def ascend(self, rows: NDArray[Any], raw: NDArray[Any], factor_t: FloatArray) -> None:
        r"""Add :math:`-\sum_t f_t \nabla\log\pi(a_t|s_t)` to the gradients, for an optimizer to step down.

        Args:
            rows: observations, ``(n, ...)``.
            raw: raw actions, ``(n, ...)``.
            factor_t: :math:`f_t`, ``(n,)``.
        """
        log_prob_t = self.log_prob(rows, raw)
        (-(to_tensor(factor_t, self).to(log_prob_t.dtype) * log_prob_t).sum()).backward()  # type: ignore[no-untyped-call]

    @abstractmethod
    def to_env(self, raw: NDArray[Any]) -> NDArray[Any]:
        """Raw actions as actions of the environment, ``(n, ...)``."""

    def changed(self) -> None:
        """The parameters were changed: forget what was derived from them."""

    def observe(self, rows: NDArray[Any]) -> None:
        """Let the normalization of observations, where there is one, take these rows into account."""


def to_tensor(values: NDArray[Any], module: nn.Module) -> torch.Tensor:
    """An array as a tensor beside the parameters of a module."""
    return torch.as_tensor(values, device=next(module.parameters()).device)


def to_array(values: torch.Tensor) -> FloatArray:
    """A tensor as a float64 array of its shape."""
    array: FloatArray = values.double().cpu().numpy()
    return array


def require_finite(outputs: torch.Tensor) -> torch.Tensor:
    """The outputs of a table or network; ``NonFiniteValue`` if its parameters have diverged."""
    if not bool(torch.isfinite(outputs).all()):
        raise NonFiniteValue(
            "The policy returned a value that is not finite: lower the learning rate, or scale the observations."
        )
    return outputs
