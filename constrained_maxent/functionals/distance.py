"""Euclidean distance to a reference occupancy: the norm constraint of the paper's grid study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from constrained_maxent.functionals.base import Functional
from constrained_maxent.functionals.convex import ConicOccupancy, Curvature, Majorant
from constrained_maxent.functionals.tables import check_table, frozen_table, table_at
from constrained_maxent.functionals.terms import EngineTerm
from constrained_maxent.types import FloatArray, Measure, Points

if TYPE_CHECKING:  # Slow to load, and only the convex solver needs it.
    import cvxpy as cp


@dataclass(frozen=True, eq=False)
class L2Distance(Functional):
    r""":math:`\|\lambda - \lambda_{\mathrm{ref}}\|_2` in units of λ (paper eq. PenaltyNormConstraint); finite spaces.

    Its derivative is :math:`(\lambda-\lambda_{\mathrm{ref}})/\|\lambda-\lambda_{\mathrm{ref}}\|_2`; at
    :math:`\lambda=\lambda_{\mathrm{ref}}`, where the norm has no gradient, the sub-gradient 0.

    Args:
        reference: λ_ref(s, a), ``(n_states, n_actions)``, of the same scale as λ.
        limit: the constraint reads distance ≤ ``limit``.

    >>> L2Distance([[1.0, 0.0]])([[0.4, 0.8]])
    1.0
    """

    reference: ArrayLike
    table: FloatArray = field(init=False, repr=False)
    """λ_ref(s, a), ``(n_states, n_actions)``, read-only."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "table", frozen_table("reference", self.reference))

    def value(self, measure: Measure) -> float:
        reference = table_at(self.table, measure.points)
        squared = float(np.sum((measure.weights - reference) ** 2))
        if measure.points.cells is not None:
            # Cells that the measure does not list have mass 0, but the reference may have some there.
            absent = np.ones(self.table.size, dtype=bool)
            absent[measure.points.cells] = False
            squared += float(np.sum(self.table.reshape(-1)[absent] ** 2))
        return float(np.sqrt(squared))

    def derivative(self, measure: Measure, points: Points) -> FloatArray:
        distance = self.value(measure)
        difference = points.density - table_at(self.table, points)
        return difference / distance if distance > 0.0 else np.zeros_like(difference)

    def check(self, n_states: int, n_actions: int) -> None:
        check_table("reference", self.table, n_states, n_actions)

    @property
    def needs_table(self) -> bool:
        return True

    def engine_terms(self, n_states: int, n_actions: int) -> Sequence[EngineTerm]:
        return [EngineTerm(kind="distance", table=self.table)]

    @property
    def formula(self) -> str:
        return "‖λ − λ_ref‖₂"

    @property
    def curvature(self) -> Curvature:
        return "convex"

    def conic(self, occupancy: ConicOccupancy) -> cp.Expression:
        import cvxpy as cp

        difference = occupancy.define(
            self, occupancy.everywhere @ occupancy.scaled - self.table.reshape(-1) / occupancy.unit
        )
        return occupancy.unit * cp.norm(difference, 2)

    def majorant(self, factor: float, occupancy: FloatArray, subgradients: Mapping[int, FloatArray]) -> Majorant:
        # The norm is the largest <u, difference> over |u| <= 1, best with its sub-gradient at the solution.
        u = subgradients[id(self)].reshape(occupancy.shape) if id(self) in subgradients else self.gradient(occupancy)
        u = u / max(1.0, float(np.linalg.norm(u)))
        return Majorant(-factor * float(np.sum(u * self.table)), factor * u)
