"""A mixture of Gaussians as a measure of states: with its mass, and with its angles on circles."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidData, InvalidSetting
from constrained_maxent.occupancy.gaussians import Gaussians, fold
from constrained_maxent.types import FloatArray


@dataclass(frozen=True, eq=False)
class Mixture:
    r"""The measure :math:`m\,p` of states, for the mass *m* and a mixture *p* of Gaussians.

    Args:
        gaussians: *p* before ``on_circles``.
        mass: *m* ≥ 0; 1 for a probability.
        periodic: coordinates that are angles in radians: -π and π are neighbors there.

    Raises:
        InvalidSetting: a mass below 0, or an angle that is not a coordinate.

    >>> normal = Mixture(Gaussians(np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1))), mass=0.5)
    >>> normal.density(np.zeros((1, 1))).round(4)  # half of 1 / √2π
    array([0.1995])
    """

    gaussians: Gaussians
    mass: float = 1.0
    periodic: tuple[int, ...] = ()
    _on_circles: Gaussians = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0.0 <= self.mass < np.inf:
            raise InvalidSetting(f"mass={self.mass!r} must be a finite number of at least 0.")
        if any(not 0 <= i < self.n_states for i in self.periodic):
            raise InvalidSetting(f"periodic={self.periodic!r}: states have only {self.n_states} coordinates, from 0.")
        object.__setattr__(self, "_on_circles", self.gaussians.on_circles(self.periodic))

    @property
    def n_states(self) -> int:
        """Coordinates of a state."""
        return self.gaussians.n_features

    def log_prob(self, states: NDArray[Any]) -> FloatArray:
        """Logarithm of *p*, ``(n,)``, at states ``(n, n_states)``.

        Raises:
            InvalidData: states of another size.
        """
        rows = np.array(states, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.n_states:
            raise InvalidData(
                f"This mixture is over {self.n_states} coordinates of the state, asked at states of shape "
                f"{rows.shape[1:]}: compare densities of the same state."
            )
        for angle in self.periodic:
            rows[:, angle] = fold(rows[:, angle])
        return self._on_circles.log_density(rows)

    def density(self, states: NDArray[Any]) -> FloatArray:
        r""":math:`m\,p`, ``(n,)``, at states ``(n, n_states)``."""
        density: FloatArray = self.mass * np.exp(self.log_prob(states))
        return density

    def squared_distance(self, other: Mixture) -> float:
        r""":math:`\int (m\,p - m'\,p')^2` in closed form [1 / volume].

        Raises:
            InvalidData: the other is over another state.
        """
        if (self.n_states, sorted(self.periodic)) != (other.n_states, sorted(other.periodic)):
            raise InvalidData(
                f"A mixture over {self.n_states} coordinates with angles {sorted(self.periodic)} cannot be compared "
                f"with one over {other.n_states} with {sorted(other.periodic)}: fit both to the same state, and give "
                "both the same periodic=."
            )
        return self.gaussians.squared_distance(
            other.gaussians, masses=(self.mass, other.mass), periodic=list(self.periodic)
        )

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """States drawn from *p*, ``(n, n_states)``; angles in [-π, π)."""
        weights = self.gaussians.weights
        chosen = rng.choice(len(weights), size=n, p=weights / weights.sum())
        factors = np.linalg.cholesky(self.gaussians.covariances)[chosen]
        noise = rng.standard_normal((n, self.n_states))
        states: FloatArray = self.gaussians.means[chosen] + np.einsum("nij,nj->ni", factors, noise)
        for angle in self.periodic:
            states[:, angle] = fold(states[:, angle])
        return states
