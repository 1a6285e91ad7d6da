"""Euclidean distance to a reference occupancy: the norm constraint of the paper's grid study."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from constrained_maxent.functionals.base import Functional, check_table, frozen_table, table_at
from constrained_maxent.types import FloatArray, Measure, Points


@dataclass(frozen=True, eq=False)
class L2Distance(Functional):
    r""":math:`\|\lambda - \lambda_{\mathrm{ref}}\|_2` in units of λ (paper eq. PenaltyNormConstraint); finite spaces.

    Its derivative is :math:`(\lambda-\lambda_{\mathrm{ref}})/\|\lambda-\lambda_{\mathrm{ref}}\|_2`; at
    :math:`\lambda=\lambda_{\mathrm{ref}}`, where the norm has no gradient, the sub-gradient 0.

    Args:
        reference: λ_ref(s, a), ``(n_states, n_actions)``, of the same scale as λ.
        limit: the constraint reads distance ≤ ``limit``.

    >>> L2Distance([[1.0, 0.0]]).value([[0.4, 0.8]])
    1.0
    """

    reference: ArrayLike
    _reference: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_reference", frozen_table("reference", self.reference))

    def engine_terms(self, n_states, n_actions):  # type: ignore[no-untyped-def]
        from constrained_maxent.functionals.base import cell_smoothing
        from constrained_maxent.functionals.terms import EngineTerm

        return [EngineTerm(kind="distance", table=self.table)]

    def _value(self, measure: Measure) -> float:
        reference = table_at(self._reference, measure.points)
        squared = float(np.sum((measure.weights - reference) ** 2))
        if measure.points.cells is not None:
            # Cells that the measure does not list have mass 0, but the reference may have some there.
            absent = np.ones(self._reference.size, dtype=bool)
            absent[measure.points.cells] = False
            squared += float(np.sum(self._reference.reshape(-1)[absent] ** 2))
        return float(np.sqrt(squared))

    def _derivative(self, measure: Measure, points: Points) -> FloatArray:
        distance = self._value(measure)
        difference = points.density - table_at(self._reference, points)
        return difference / distance if distance > 0.0 else np.zeros_like(difference)

    @property
    def table(self) -> FloatArray:
        """λ_ref(s, a), ``(n_states, n_actions)``, read-only."""
        return self._reference

    def check(self, n_states: int, n_actions: int) -> None:
        check_table("reference", self._reference, n_states, n_actions)
