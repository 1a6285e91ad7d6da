"""Entropy of the occupancy measure, the objective of the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from scipy.special import xlogy

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals.base import Functional
from constrained_maxent.functionals.convex import ConicOccupancy, Curvature, Majorant
from constrained_maxent.functionals.tables import cell_smoothing, check_smoothing, require_smoothing, smoothing_at
from constrained_maxent.functionals.terms import EngineTerm
from constrained_maxent.types import FloatArray, Measure, Points

if TYPE_CHECKING:  # Slow to load, and only the convex solver needs it.
    import cvxpy as cp

Over = Literal["state-action", "state"]


@dataclass(frozen=True, eq=False)
class Entropy(Functional):
    r""":math:`H(\lambda) = -\sum_{s,a} \lambda \log(\lambda + \sigma)` [nats] (paper eq. CME).

    :math:`\lambda` need not sum to 1: the formula is applied to the masses as they are. The smoothing σ keeps the
    pseudo-reward of a cell never seen at :math:`-\log\sigma` instead of infinity, and changes the value by at most
    σ times the number of cells; ``smoothing=0`` is the entropy itself, for exact occupancies. Of a density, in
    continuous spaces, σ cuts off all rewards above :math:`-\log\sigma`, whatever the units of the state.

    Args:
        over: ``"state-action"``, or ``"state"`` for the entropy of the state marginal :math:`d(s)=\sum_a\lambda(s,a)`.
        smoothing: σ ≥ 0, in units of λ; usual: 1e-6 for masses of cells, and 1e-300 for densities.

    >>> round(Entropy(smoothing=0.0)([[0.5, 0.0], [0.25, 0.25]]), 4)  # 1.5 log 2
    1.0397
    """

    over: Over = "state-action"
    smoothing: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.over not in get_args(Over):
            raise InvalidSetting(f"over={self.over!r} must be one of {', '.join(get_args(Over))}.")
        check_smoothing(self.smoothing)

    def self_weighted(self, measure: Measure) -> float:
        r"""What comes out where samples of λ are weighted by λ̂ once more [nats], for comparison.

        .. math:: -\frac{m \sum_i w_i \lambda_i \log\lambda_i}{\sum_i w_i \lambda_i}, \qquad m = \sum_i w_i

        With samples of λ the plain mean is unbiased; this is -log λ where λ is high, and low. So the authors of the
        method estimate entropies in continuous spaces. Of no samples, or where λ is 0 at all of them, it is 0.
        """
        density, weights = self._density(measure.points), measure.weights
        total = float((weights * density).sum())
        if total == 0.0:
            return 0.0
        return -float((weights * xlogy(density, density)).sum() * weights.sum()) / total

    def _density(self, points: Points) -> FloatArray:
        return points.density if self.over == "state-action" else points.state_density

    def value(self, measure: Measure) -> float:
        density = self._density(measure.points)
        # xlogy(w, 0) = 0 where w = 0; with sigma = 0 an unvisited cell adds nothing, as it should.
        return -float(np.sum(xlogy(measure.weights, density + smoothing_at(self.smoothing, measure.points))))

    def derivative(self, measure: Measure, points: Points) -> FloatArray:
        density = self._density(points)
        sigma = smoothing_at(self.smoothing, points)
        smoothed = density + sigma
        if sigma > 0.0:
            smooth: FloatArray = -np.log(smoothed) - density / smoothed
            return smooth
        with np.errstate(divide="ignore", invalid="ignore"):
            # At an empty cell: the derivative of -x log x at 0 is +inf.
            share = np.where(smoothed > 0.0, density / smoothed, 1.0)
            return -np.log(smoothed) - share

    def require_trainable(self) -> None:
        require_smoothing(self, self.smoothing)

    def exact(self) -> Functional:
        return replace(self, smoothing=0.0)

    def integrand(self, measure: Measure, points: Points) -> FloatArray:
        smoothed = self._density(points) + smoothing_at(self.smoothing, points)
        f: FloatArray = -xlogy(1.0, smoothed, where=smoothed > 0.0, out=np.zeros_like(smoothed))
        return f

    def engine_terms(self, n_states: int, n_actions: int) -> Sequence[EngineTerm]:
        sigma = cell_smoothing(self.smoothing)
        return [EngineTerm(kind="entropy", smoothing=sigma, over_states=self.over == "state")]

    @property
    def curvature(self) -> Curvature:
        return "concave"

    def conic(self, occupancy: ConicOccupancy) -> cp.Expression:
        import cvxpy as cp

        density = occupancy.scaled if self.over == "state-action" else occupancy.by_state @ occupancy.scaled
        # -u x log(u x) = u (-x log x) - u log u · x
        return occupancy.unit * cp.sum(cp.entr(density) - math.log(occupancy.unit) * density)

    def majorant(self, factor: float, occupancy: FloatArray, subgradients: Mapping[int, FloatArray]) -> Majorant:
        nothing = np.zeros(occupancy.shape)
        if self.over == "state":
            return Majorant(0.0, nothing, state_temperature=factor)
        return Majorant(0.0, nothing, temperature=factor)
