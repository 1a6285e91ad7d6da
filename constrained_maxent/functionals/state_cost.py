"""The cost of being where others were: keeps an occupancy away from a density of states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from constrained_maxent.errors import InvalidSetting, UnsupportedSpace
from constrained_maxent.functionals.base import Functional
from constrained_maxent.functionals.convex import Curvature
from constrained_maxent.types import FloatArray, Measure, Points, StateMeasure


@dataclass(frozen=True, eq=False)
class StateCost(Functional):
    r""":math:`\langle d_{\mathrm{ref}}, \lambda\rangle = \int d_{\mathrm{ref}}(s)\,\mathrm d\lambda(s, a)`
    [1 / volume of the state].

    Linear in λ, so that a limit on it is a convex constraint; a lower bound on a divergence is none. For tables stands
    ``LinearCost``, with d_ref(s) for each action.

    Args:
        reference: d_ref with its mass: the ``states`` of a :class:`~constrained_maxent.references.Reference`, an
            :class:`~constrained_maxent.occupancy.Mixture`.
        limit: the constraint reads mean density ≤ ``limit``.

    Raises:
        InvalidSetting: a reference of another kind.
        UnsupportedSpace: on evaluation, if λ̂ is one of cells.
    """

    reference: StateMeasure

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(getattr(self.reference, "density", None)):
            raise InvalidSetting(
                f"reference={type(self.reference).__name__} must be a density of states, such as Reference(...).states."
            )

    def value(self, measure: Measure) -> float:
        return float((measure.weights * self.derivative(measure, measure.points)).sum())

    def derivative(self, measure: Measure, points: Points) -> FloatArray:
        if points.states is None:
            raise UnsupportedSpace("A density of states costs nothing in cells: give LinearCost a table of d_ref(s).")
        return self.reference.density(points.states.reshape(len(points.states), -1))

    def integrand(self, measure: Measure, points: Points) -> FloatArray:
        return self.derivative(measure, points)

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
        return "⟨d_ref, λ⟩"

    @property
    def curvature(self) -> Curvature:
        return "affine"
