"""Functionals of a smoothed logarithm of λ, and the entropy of the occupancy measure, the paper's objective."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from scipy.special import xlogy

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals.base import Functional
from constrained_maxent.functionals.convex import ConicOccupancy, Curvature, Majorant
from constrained_maxent.functionals.terms import EngineTerm
from constrained_maxent.types import FloatArray, Measure, Points, is_number

if TYPE_CHECKING:  # Slow to load, and only the convex solver needs it.
    import cvxpy as cp

Over = Literal["state-action", "state"]


CELL_SMOOTHING = 1e-6
"""Usual σ where λ is the mass of cells: the pseudo-reward of a cell never seen is 13.8 nats."""

DENSITY_SMOOTHING = 1e-300
"""Usual σ where λ is a density. How large that is depends on units, so that σ may only keep logarithms finite: where λ
underflows, they are 690 nats."""


@dataclass(frozen=True, eq=False)
class Smoothed(Functional):
    """A functional of log(λ + σ); its arguments are explained at :class:`Entropy`."""

    _: KW_ONLY
    over: Over = "state-action"
    smoothing: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.over not in get_args(Over):
            raise InvalidSetting(f"over={self.over!r} must be one of {', '.join(get_args(Over))}.")
        if self.smoothing is not None and not (is_number(self.smoothing) and 0.0 <= self.smoothing < np.inf):
            raise InvalidSetting(f"smoothing={self.smoothing!r} must be a finite number of at least 0.")

    def density(self, points: Points) -> FloatArray:
        return points.density if self.over == "state-action" else points.state_density

    def sigma(self, *, of_cells: bool) -> float:
        """σ as given, or what is usual for masses of cells or for densities."""
        if self.smoothing is not None:
            return float(self.smoothing)
        return CELL_SMOOTHING if of_cells else DENSITY_SMOOTHING

    def require_trainable(self) -> None:
        if self.smoothing == 0.0:
            raise InvalidSetting(
                f"smoothing=0 makes the pseudo-reward of {type(self).__name__} infinite in cells never seen: give a "
                "smoothing above 0."
            )

    def exact(self) -> Functional:
        return replace(self, smoothing=0.0)


@dataclass(frozen=True, eq=False)
class Entropy(Smoothed):
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

    def value(self, measure: Measure) -> float:
        points = measure.points
        # xlogy(w, 0) = 0 where w = 0; with sigma = 0 an unvisited cell adds nothing, as it should.
        return -float(np.sum(xlogy(measure.weights, self.density(points) + self.sigma(of_cells=points.are_cells))))

    def derivative(self, measure: Measure, points: Points) -> FloatArray:
        density, sigma = self.density(points), self.sigma(of_cells=points.are_cells)
        smoothed = density + sigma
        if sigma > 0.0:
            smooth: FloatArray = -np.log(smoothed) - density / smoothed
            return smooth
        with np.errstate(divide="ignore", invalid="ignore"):
            # At an empty cell: the derivative of -x log x at 0 is +inf.
            share = np.where(smoothed > 0.0, density / smoothed, 1.0)
            return -np.log(smoothed) - share

    def integrand(self, measure: Measure, points: Points) -> FloatArray:
        smoothed = self.density(points) + self.sigma(of_cells=points.are_cells)
        f: FloatArray = -xlogy(np.sign(smoothed), smoothed)  # 0 in empty cells without smoothing
        return f

    def engine_terms(self, n_states: int, n_actions: int) -> Sequence[EngineTerm]:
        return [EngineTerm(kind="entropy", smoothing=self.sigma(of_cells=True), over_states=self.over == "state")]

    @property
    def label(self) -> str:
        return "entropy (nats)"

    @property
    def sees_places(self) -> bool:
        return False

    @property
    def curvature(self) -> Curvature:
        return "concave"

    def conic(self, occupancy: ConicOccupancy) -> cp.Expression:
        import cvxpy as cp

        density = occupancy.scaled if self.over == "state-action" else occupancy.by_state @ occupancy.scaled
        # -u x log(u x) = u (-x log x) - u log u · x
        return occupancy.unit * cp.sum(cp.entr(density) - math.log(occupancy.unit) * density)

    def majorant(self, factor: float, occupancy: FloatArray, subgradients: Mapping[int, FloatArray]) -> Majorant:
        temperatures = (0.0, factor) if self.over == "state" else (factor, 0.0)
        return Majorant(0.0, np.zeros(occupancy.shape), *temperatures)
