"""Real numbers as actions within bounds, with the density that this gives."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from constrained_maxent.types import FloatArray

ALMOST_BOUND = 1.0 - 1e-6
"""Recorded actions nearer to a bound than this cannot be told from it in float32 arithmetic: |u| ≤ 7.25."""


class Squashing:
    r"""A smooth map from all reals *u* onto the inside of a ``Box``, component by component.

    Between two bounds it is :math:`\mathrm{low} + (\tanh u + 1)(\mathrm{high}-\mathrm{low})/2`, above or below a single
    one :math:`\mathrm{low} + \log(1+e^u)` or :math:`\mathrm{high} - \log(1+e^{-u})`, and *u* itself without bounds.
    """

    def __init__(self, space: gym.spaces.Box) -> None:
        self._shape, self._dtype = space.shape, space.dtype
        self._low, self._high = (bound.reshape(-1).astype(np.float64) for bound in (space.low, space.high))
        has_low, has_high = np.isfinite(self._low), np.isfinite(self._high)
        self._is_interval, self._is_ray = has_low & has_high, has_low ^ has_high
        self._sign = np.where(has_low, 1.0, -1.0)  # the way in which a ray runs
        self._bound = np.where(has_low, self._low, np.where(has_high, self._high, 0.0))
        self._half = np.where(self._is_interval, self._high / 2.0 - np.where(has_low, self._low, 0.0) / 2.0, 1.0)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of an element of the space."""
        return self._shape

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds, ``(n_components,)`` each."""
        return self._low, self._high

    def to_box(self, u: FloatArray) -> NDArray[Any]:
        """Elements of the space, ``(n, *shape)``, for *u* ``(n, n_components)``."""
        interval = self._bound + self._half * (np.tanh(u) + 1.0)
        ray = self._bound + self._sign * np.logaddexp(0.0, self._sign * u)
        values = np.where(self._is_interval, interval, np.where(self._is_ray, ray, u))
        # Rounding may step over a bound.
        inside: NDArray[Any] = np.clip(values, self._low, self._high).reshape(len(u), *self._shape).astype(self._dtype)
        return inside

    def tensor_to_box(self, u: torch.Tensor) -> torch.Tensor:
        """The same of tensors in float64, ``(n, n_components)`` both, not rounded to the space's type."""

        def constant(values: NDArray[Any]) -> torch.Tensor:
            return torch.as_tensor(values, device=u.device)

        bound, half, sign = constant(self._bound), constant(self._half), constant(self._sign)
        interval = bound + half * (torch.tanh(u) + 1.0)
        ray = bound + sign * torch.logaddexp(torch.zeros_like(u), sign * u)
        values = torch.where(constant(self._is_interval), interval, torch.where(constant(self._is_ray), ray, u))
        return values.clamp(constant(self._low), constant(self._high))

    def to_reals(self, values: NDArray[Any]) -> FloatArray:
        """The inverse: *u*, ``(n, n_components)``, for elements of the space.

        Rounding puts squashed actions on the bounds themselves, where *u* would be infinite: between two bounds they
        count as :data:`ALMOST_BOUND` of the way to them, and beside a single one as that far from it.
        """
        rows = np.asarray(values, dtype=np.float64).reshape(len(values), -1)
        width = np.where(self._half > 0.0, self._half, 1.0)
        inside = np.clip((rows - self._bound) / width - 1.0, -ALMOST_BOUND, ALMOST_BOUND)
        distance = np.maximum(self._sign * (rows - self._bound), 1.0 - ALMOST_BOUND)
        # The inverse of log(1 + e^u), without overflow.
        ray = self._sign * (distance + np.log(-np.expm1(-distance)))
        reals: FloatArray = np.where(self._is_interval, np.arctanh(inside), np.where(self._is_ray, ray, rows))
        return reals

    def log_prob(self, u: torch.Tensor, mean: torch.Tensor, log_std: torch.Tensor) -> torch.Tensor:
        """Log-density [nats], ``(n,)``, of actions whose *u* ``(n, n_components)`` are of Gaussians.

        A component whose bounds are the same number has no choice and no density, and is left out.
        """
        log_normal = -0.5 * ((u - mean) / log_std.exp()) ** 2 - log_std - 0.5 * math.log(2.0 * math.pi)
        parts = log_normal - self.log_slope(u)
        has_width = torch.as_tensor(self._half > 0.0, device=u.device)
        return torch.where(has_width, parts, torch.zeros_like(parts)).sum(dim=1)

    def log_slope(self, u: torch.Tensor) -> torch.Tensor:
        """Logarithm of the map's derivative, of the shape of *u*; finite however large *u* is."""

        def constant(values: NDArray[Any]) -> torch.Tensor:
            return torch.as_tensor(values, device=u.device)

        # log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u)).
        stretch = constant(np.log(np.where(self._half > 0.0, self._half, 1.0))).to(u.dtype)
        interval = stretch + 2.0 * (math.log(2.0) - u - functional.softplus(-2.0 * u))
        ray = -functional.softplus(-constant(self._sign).to(u.dtype) * u)
        beside = torch.where(constant(self._is_ray), ray, torch.zeros_like(u))
        return torch.where(constant(self._is_interval), interval, beside)
