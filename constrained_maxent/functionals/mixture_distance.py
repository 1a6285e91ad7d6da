"""Euclidean distance of state densities that are mixtures of Gaussians: the norm constraint in continuous spaces."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from constrained_maxent.errors import InvalidSetting, UnsupportedSpace
from constrained_maxent.functionals.base import Functional
from constrained_maxent.functionals.convex import Curvature
from constrained_maxent.types import FloatArray, Measure, Points, StateMeasure

_NO_MIXTURE = (
    "The distance of densities is known in closed form between mixtures of Gaussians only: take GaussianMixture or "
    "AdamGaussianMixture as the estimator, with counted=() where coordinates take few values, or divergence='kl'."
)


@dataclass(frozen=True, eq=False)
class MixtureDistance(Functional):
    r""":math:`\|d - d_{\mathrm{ref}}\|_2 = \big(\int (d - d_{\mathrm{ref}})^2\,\mathrm ds\big)^{1/2}` of the state
    marginals, in closed form [1 / √volume of the state].

    The continuous form of :class:`~constrained_maxent.functionals.L2Distance` (paper eq. PenaltyNormConstraint). Its
    derivative in λ(s, a) is :math:`(d-d_{\mathrm{ref}})(s)/\|d-d_{\mathrm{ref}}\|_2`, the same for all actions; where
    both are equal, the sub-gradient 0.

    Args:
        reference: d_ref as a mixture with its mass, an :class:`~constrained_maxent.occupancy.Mixture`.
        limit: the constraint reads distance ≤ ``limit``.

    Raises:
        InvalidSetting: a reference of another kind.
        UnsupportedSpace: on evaluation, if λ̂ is not a mixture of Gaussians.
        InvalidData: on evaluation, if it is over other coordinates or other angles.
    """

    reference: StateMeasure
    _latest: list[tuple[StateMeasure, float]] = field(init=False, repr=False, default_factory=list)
    """The last measure and its distance: live rewards ask for the derivative at the same one on every step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (hasattr(self.reference, "squared_distance") and hasattr(self.reference, "density")):
            raise InvalidSetting(
                f"reference={type(self.reference).__name__} must be a mixture of Gaussians, occupancy.Mixture(...)."
            )

    def value(self, measure: Measure) -> float:
        states = measure.states
        if states is None:
            raise UnsupportedSpace(_NO_MIXTURE)
        if not (self._latest and self._latest[0][0] is states):
            self._latest[:] = [(states, math.sqrt(states.squared_distance(self.reference)))]
        return self._latest[0][1]

    def derivative(self, measure: Measure, points: Points) -> FloatArray:
        distance = self.value(measure)
        if points.states is None:
            raise UnsupportedSpace(_NO_MIXTURE)
        if distance == 0.0:
            return np.zeros_like(points.state_density)
        return (points.state_density - self.reference.density(points.states)) / distance

    @property
    def periodic(self) -> Sequence[int] | None:
        return getattr(self.reference, "periodic", None)

    @property
    def sees_places(self) -> bool:
        return False

    @property
    def sees_samples(self) -> bool:
        return False

    @property
    def formula(self) -> str:
        return "‖d − d_ref‖₂"

    @property
    def curvature(self) -> Curvature:
        return "convex"
