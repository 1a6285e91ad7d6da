"""Kullback-Leibler divergence to a reference occupancy: closeness to an expert."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from constrained_maxent.errors import InvalidData, InvalidSetting, UnsupportedSpace
from constrained_maxent.functionals.convex import ConicOccupancy, Curvature, Majorant
from constrained_maxent.functionals.entropy import LARGEST, SMALLEST, Smoothed
from constrained_maxent.functionals.tables import check_table, frozen_table, table_at
from constrained_maxent.functionals.terms import EngineTerm
from constrained_maxent.types import FloatArray, Measure, Points

if TYPE_CHECKING:  # Slow to load, and only the convex solver needs it.
    import cvxpy as cp


@dataclass(frozen=True, eq=False)
class KLDivergence(Smoothed):
    r""":math:`\sum \lambda \log\frac{\lambda+\sigma}{\lambda_{\mathrm{ref}}+\sigma}`, the KL divergence of λ [nats].

    Paper, *Apprenticeship Learning*. Both measures must be of the same scale. The smoothing keeps the divergence
    finite where the reference is 0 and λ is not; ``smoothing=0`` is the divergence itself, infinite there.

    Args:
        reference: λ_ref(s, a), a table ``(n_states, n_actions)``, not negative; or a function that gives λ_ref at any
            :class:`~constrained_maxent.types.Points`, in their shape: a density in continuous spaces. Over
            ``"state"`` it is d_ref(s), and only a function will do.
        limit: the constraint reads KL ≤ ``limit`` [nats].
        over, smoothing: as in :class:`~constrained_maxent.functionals.Entropy`. σ bounds the divergence of a sample by
            :math:`\log(\lambda/\sigma)`.

    >>> KLDivergence([[0.5, 0.5]], smoothing=0.0)([[0.5, 0.5]])
    0.0
    """

    reference: ArrayLike | Callable[[Points], FloatArray]
    _reference: FloatArray | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if callable(self.reference):
            return
        if self.over == "state":
            raise InvalidSetting("over='state' needs the reference as a function of points, not as a table.")
        reference = frozen_table("reference", self.reference)
        if reference.size and reference.min() < 0.0:
            raise InvalidData("reference must be an occupancy: its entries must not be negative.")
        object.__setattr__(self, "_reference", reference)

    def _reference_at(self, points: Points) -> FloatArray:
        if callable(self.reference):
            if points.counted:
                raise InvalidData(
                    f"Coordinates {', '.join(map(str, points.counted))} of the state take few values, so that λ̂ counts "
                    "them, and the reference is a density over them: leave them out of both by state=, or give the "
                    "estimator counted=()."
                )
            density = np.asarray(self.reference(_copied(points)), dtype=np.float64)
            if density.shape != points.density.shape or not (density >= 0.0).all():
                raise InvalidData(
                    f"The reference must give numbers ≥ 0 of shape {points.density.shape}, got shape {density.shape}."
                )
            return density
        return table_at(self.table, points)

    def _log_reference_at(self, points: Points) -> FloatArray:
        """Log(λ_ref + σ), from its logarithm where float64 does not hold λ_ref, if the reference tells it."""
        reference, sigma = self._reference_at(points), self.sigma(of_cells=points.are_cells)
        with np.errstate(divide="ignore"):
            log_smoothed: FloatArray = np.log(reference + sigma)
        tells: Callable[[Points], FloatArray] | None = getattr(self.reference, "log_density", None)
        if tells is None or not (is_lost := (reference < SMALLEST) | (reference > LARGEST)).any():
            return log_smoothed
        logs = tells(points)
        kept = logs if self.smoothing is None or sigma == 0.0 else np.logaddexp(logs, math.log(sigma))
        return np.where(is_lost, kept, log_smoothed)

    def _log_ratio(self, points: Points) -> FloatArray:
        with np.errstate(invalid="ignore"):
            ratio = self.log_smoothed(points)[0] - self._log_reference_at(points)
        # 0/0 with sigma = 0: such a cell adds nothing to the value.
        return np.where(np.isnan(ratio), 0.0, ratio)

    def value(self, measure: Measure) -> float:
        # 0 log 0 = 0: with sigma = 0 the ratio of an empty cell is -inf.
        log_ratio = np.where(measure.weights > 0.0, self._log_ratio(measure.points), 0.0)
        return float(np.sum(measure.weights * log_ratio))

    def derivative(self, measure: Measure, points: Points) -> FloatArray:
        return self._log_ratio(points) + self.influenced(self.log_smoothed(points)[1], points)

    @property
    def table(self) -> FloatArray:
        """λ_ref(s, a), ``(n_states, n_actions)``, read-only.

        Raises:
            UnsupportedSpace: the reference is a function.
        """
        if self._reference is None:
            raise UnsupportedSpace("This needs the reference as a table (n_states, n_actions), not as a function.")
        return self._reference

    @property
    def needs_table(self) -> bool:
        return self._reference is not None

    def check(self, n_states: int, n_actions: int) -> None:
        if self._reference is not None:
            check_table("reference", self._reference, n_states, n_actions)

    @property
    def periodic(self) -> Sequence[int] | None:
        return getattr(self.reference, "periodic", None)

    @property
    def sees_samples(self) -> bool:
        return False

    def integrand(self, measure: Measure, points: Points) -> FloatArray:
        return self._log_ratio(points)

    def engine_terms(self, n_states: int, n_actions: int) -> Sequence[EngineTerm]:
        return [EngineTerm(kind="divergence", table=self.table, smoothing=self.sigma(of_cells=True))]

    @property
    def label(self) -> str:
        return "KL divergence (nats)"

    @property
    def formula(self) -> str:
        return "KL(λ ‖ λ_ref)" if self.over == "state-action" else "KL(d ‖ d_ref)"

    @property
    def curvature(self) -> Curvature:
        return "convex"

    def support(self, n_states: int, n_actions: int) -> NDArray[np.bool_]:
        support: NDArray[np.bool_] = self.table > 0.0
        return support

    def conic(self, occupancy: ConicOccupancy) -> cp.Expression:
        import cvxpy as cp

        reference = occupancy.on_cells(self.table) / occupancy.unit
        return occupancy.unit * cp.sum(cp.kl_div(occupancy.scaled, reference) + occupancy.scaled - reference)

    def majorant(self, factor: float, occupancy: FloatArray, subgradients: Mapping[int, FloatArray]) -> Majorant:
        with np.errstate(divide="ignore"):
            return Majorant(0.0, -factor * np.log(self.table), temperature=-factor)


def _copied(points: Points) -> Points:
    """For a function of the user's, which may write into what it is given: these are the batch's own steps."""
    names = ("density", "state_density", "observations", "actions", "states")
    return replace(points, **{name: column.copy() for name in names if (column := getattr(points, name)) is not None})
