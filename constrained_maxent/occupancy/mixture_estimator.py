"""What estimators share whose density is a mixture of Gaussians, however they fit it."""

from __future__ import annotations

from constrained_maxent.occupancy.continuous import ContinuousEstimator
from constrained_maxent.occupancy.gaussians import Gaussians
from constrained_maxent.occupancy.mixture import Mixture
from constrained_maxent.types import FloatArray


class MixtureEstimator(ContinuousEstimator):
    """A density that is a mixture of Gaussians. Subclasses hand each fit's result to ``_show``.

    Attributes:
        mixture_: the components, before wrapping.
    """

    mixture_: Gaussians
    _density: Gaussians
    _state_density: Gaussians

    def _show(self, mixture: Gaussians) -> None:
        self.mixture_ = mixture
        self._density = mixture.on_circles(self._angles)
        self._state_density = mixture.marginal(self._n_states).on_circles(self._angles)

    def _forget(self) -> None:
        self.__dict__.pop("mixture_", None)

    def _log_density(self, rows: FloatArray) -> FloatArray:
        return self._density.log_density(rows)

    def _log_state_density(self, states: FloatArray) -> FloatArray:
        return self._state_density.log_density(states)

    def _state_mixture(self) -> Mixture:
        return Mixture(self.mixture_.marginal(self._n_states), mass=self.mass_, periodic=tuple(self._angles))
