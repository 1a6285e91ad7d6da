r"""Discount weights :math:`\gamma^t` and the two scales of the occupancy measure, for estimates and exact values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.types import is_number

Scale = Literal["normalized", "truncated"]
"""Of λ: a full-length episode has mass 1, or that of its weights γᵗ."""


@dataclass(frozen=True, slots=True)
class Weighting:
    r"""The weight :math:`w_t` of time step *t* in :math:`\lambda(s,a) = \mathbb{E}\sum_t w_t 1\{s_t=s,a_t=a\}`.

    ``truncated`` is the paper's estimator (:math:`\lambda^{\mathrm{MC}}_H`-Est): :math:`w_t = \gamma^t`.
    ``normalized`` multiplies it by the constant :math:`(1-\gamma)/(1-\gamma^H)`, which is :math:`1-\gamma` at
    infinite horizon and :math:`1/H` at :math:`\gamma = 1`: an episode of full length then has mass 1. Both are linear
    in the trajectories (nothing is divided by a realized mass), so the policy gradient theorem holds as it stands.

    Args:
        discount: :math:`\gamma \in (0, 1]`.
        horizon: steps of a full episode [steps]; ``None`` means infinite, which needs a discount below 1.
        scale: ``"normalized"`` or ``"truncated"``.

    Raises:
        InvalidSetting: discount outside (0, 1], horizon below 1, unknown scale, or infinite horizon without discount.

    >>> Weighting(discount=0.5, horizon=2, scale="truncated").weights([0, 1])
    array([1. , 0.5])
    >>> Weighting(discount=1.0, horizon=4).weights([0, 3])
    array([0.25, 0.25])
    """

    discount: float
    horizon: int | None = None
    scale: Scale = "normalized"

    def __post_init__(self) -> None:
        if not (is_number(self.discount) and 0.0 < self.discount <= 1.0):
            raise InvalidSetting(f"discount={self.discount!r} must lie in (0, 1].")
        # The remainder of NaN and infinity is NaN: they are refused as well.
        if self.horizon is not None and not (is_number(self.horizon) and self.horizon >= 1 and self.horizon % 1 == 0):
            raise InvalidSetting(
                f"horizon={self.horizon!r} must be a whole number of steps, at least 1, or None (infinite)."
            )
        if self.scale not in get_args(Scale):
            raise InvalidSetting(f"scale={self.scale!r} must be one of {', '.join(get_args(Scale))}.")
        if self.horizon is None and self.discount == 1.0:
            raise InvalidSetting("discount=1 needs a finite horizon: pass horizon=, or a discount below 1.")

    @property
    def truncated_mass(self) -> float:
        r"""Mass of a full-length episode at scale ``truncated``, :math:`\sum_{t<H}\gamma^t`."""
        if self.horizon is None:
            return 1.0 / (1.0 - self.discount)
        if self.discount == 1.0:
            return float(self.horizon)
        # expm1 keeps full precision where gamma is near 1.
        return math.expm1(self.horizon * math.log(self.discount)) / (self.discount - 1.0)

    @property
    def constant(self) -> float:
        r"""The factor between :math:`\gamma^t` and the weight: 1 at scale ``truncated``."""
        return 1.0 if self.scale == "truncated" else 1.0 / self.truncated_mass

    @property
    def full_mass(self) -> float:
        """Mass of a full-length episode at this scale: 1 if ``normalized``."""
        return self.constant * self.truncated_mass

    def weights(self, times: ArrayLike) -> NDArray[np.float64]:
        """Weights of times [steps] of any shape, each counted from the episode's own start."""
        return self.constant * np.power(self.discount, np.asarray(times, dtype=np.float64))

    def share_after(self, time: int) -> float:
        """Share of a full-length episode's mass that lies at this time [steps] and later."""
        if self.horizon is not None and (self.discount == 1.0 or time >= self.horizon):
            return max(0.0, 1.0 - time / self.horizon)
        cut = 0.0 if self.horizon is None else self.discount**self.horizon
        return (self.discount**time - cut) / (1.0 - cut)
