r"""Mixtures of Gaussians as densities and as measures of states: evaluated fast, on circles, compared in closed form.

.. math:: p(x) = \sum_k w_k\, \mathcal N(x; m_k, \Sigma_k)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.errors import InsufficientMemory, InvalidData, InvalidSetting, NonFiniteValue
from constrained_maxent.types import FloatArray, IntArray

PERIOD = 2.0 * math.pi
"""Length of a circle [rad]."""

_REACH = 5.0
"""Images of a component that lie so many standard deviations away are left out: less than 1e-6 of its mass."""

_EXACT_REACH = 8.0
"""Reach of a component [standard deviations] where images cost nothing: less than 1e-15 of its mass lies beyond."""
MOST_IMAGES = 20_000
"""A number each for each sample: 1.3 GB for 8192 of them."""

_LEAST = -1e300

_FAR = 1e6
"""Means so many of their own standard deviations from 0 are subtracted before whitening: the difference of two whitened
numbers of that size would be rounding."""

_ROWS = 512
"""Rows evaluated at once, so that the working memory stays in the processor's cache."""


_LARGEST_LOG = 600.0
"""Beyond it the exponential of a logarithm, or what it is multiplied by, may leave float64."""

_DEEPEST, _AT_FIRST = -math.log(1e-300), 100.0


def floor_below(typical: float) -> float:
    """Least log-density that counts where that of the samples is typically so large.

    A place that is 690 nats less likely is nowhere near the samples, and how far it is tells nothing of λ. In ordinary
    units, where typical log-densities are not below -100, the floor is the logarithm of 1e-300.
    """
    return min(0.0, typical + _AT_FIRST) - _DEEPEST if math.isfinite(typical) else -_DEEPEST


def fold(angles: FloatArray) -> FloatArray:
    """Angles [rad] in [-π, π)."""
    folded: FloatArray = np.remainder(angles + math.pi, PERIOD) - math.pi
    return folded


@dataclass(frozen=True, eq=False)
class Gaussians:
    """A mixture of Gaussians.

    Args:
        weights: w_k ≥ 0, ``(n_components,)``; they need not sum to 1 (images of periodic components do not).
        means: m_k, ``(n_components, n_features)``.
        covariances: Σ_k, positive definite, ``(n_components, n_features, n_features)``.

    >>> standard = Gaussians(np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1)))
    >>> standard.log_density(np.array([[0.0], [2.0]])) + 0.5 * np.log(2.0 * np.pi)
    array([ 0., -2.])
    """

    weights: FloatArray
    means: FloatArray
    covariances: FloatArray
    _whitening: FloatArray = field(init=False, repr=False)
    """Rows of the inverse Cholesky factors, ``(n_features · n_components, n_features)``, components fastest: one matrix
    product whitens a point for all components."""
    _offset: FloatArray = field(init=False, repr=False)
    _log_scale: FloatArray = field(init=False, repr=False)
    _is_far: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        n_features = self.means.shape[1]
        try:
            factors = np.linalg.cholesky(self.covariances)
        except np.linalg.LinAlgError as error:
            raise InvalidData("A covariance is not positive definite: raise its floor.") from error
        whitening = np.linalg.inv(factors)
        log_determinant = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
        with np.errstate(divide="ignore"):
            log_scale = np.log(self.weights) - log_determinant - 0.5 * n_features * math.log(2.0 * math.pi)
        object.__setattr__(self, "_whitening", np.ascontiguousarray(whitening.swapaxes(0, 1)).reshape(-1, n_features))
        object.__setattr__(self, "_offset", np.einsum("kij,kj->ik", whitening, self.means).reshape(-1))
        object.__setattr__(self, "_log_scale", log_scale)
        object.__setattr__(self, "_is_far", bool(np.abs(self._offset).max(initial=0.0) > _FAR))

    @property
    def n_features(self) -> int:
        return int(self.means.shape[1])

    def log_density(self, rows: FloatArray) -> FloatArray:
        """Log p, ``(n,)``, at rows ``(n, n_features)``."""
        if len(rows) == 1:
            return np.array([self.log_density_at(rows[0])])
        if len(rows) > _ROWS:
            return np.concatenate([self.log_density(rows[i : i + _ROWS]) for i in range(0, len(rows), _ROWS)])
        logs = self.log_parts(rows)
        # Beyond 1e150 standard deviations even the logarithm of every component is -inf.
        largest = np.maximum(logs.max(axis=1), _LEAST)
        logs -= largest[:, None]
        with np.errstate(divide="ignore"):
            total: FloatArray = largest + np.log(np.exp(logs, out=logs).sum(axis=1))
        return total

    def log_parts(self, rows: FloatArray) -> FloatArray:
        """Log of each component's share w_k N(x; m_k, Σ_k), ``(n, n_components)``, at rows ``(n, n_features)``."""
        if self._is_far:
            by_component = self._whitening.reshape(self.n_features, -1, self.n_features).swapaxes(0, 1)
            white = np.empty((len(rows), self.n_features, len(self.weights)))
            for k, whitening in enumerate(by_component):
                white[:, :, k] = (rows - self.means[k]) @ whitening.T
        else:
            white = rows @ self._whitening.T - self._offset
            white = white.reshape(len(rows), self.n_features, -1)
        white *= white
        logs: FloatArray = self._log_scale - 0.5 * white.sum(axis=1)
        return logs

    def log_density_at(self, row: FloatArray) -> float:
        """Log p at one row ``(n_features,)``; faster than the batched form."""
        if self._is_far:
            logs = self.log_parts(row[None])[0]
        else:
            white = self._whitening.dot(row)
            white -= self._offset
            white *= white
            logs = self._log_scale - 0.5 * np.add.reduce(white.reshape(row.shape[0], -1), axis=0)
        largest = float(np.maximum.reduce(logs))
        if largest < _LEAST:
            return -math.inf
        return largest + math.log(np.add.reduce(np.exp(logs - largest)))

    def marginal(self, n_features: int) -> Gaussians:
        """The density of the first features alone."""
        if n_features == self.n_features:
            return self
        return Gaussians(self.weights, self.means[:, :n_features], self.covariances[:, :n_features, :n_features])

    def moved(self, center: FloatArray, scale: FloatArray) -> Gaussians:
        """The density of ``center + scale · x``."""
        return Gaussians(self.weights, center + scale * self.means, self.covariances * np.multiply.outer(scale, scale))

    def on_circles(
        self, periodic: Sequence[int], *, reach: float = _REACH, most_images: int = MOST_IMAGES
    ) -> Gaussians:
        r"""The density on :math:`[-\pi, \pi)` of the periodic features, where -π and π are neighbors.

        .. math:: p_\circ(x) = \sum_{j \in \mathbb Z^m} p(x + 2\pi j)

        The sum is again one of Gaussians, of those images that reach into the turn: the others are left out, less than
        1e-6 of a component's mass each, for a ``reach`` of 5 standard deviations.
        """
        if not periodic:
            return self
        component, shift = images(self.means, self.covariances, periodic, reach=reach, most=most_images)
        return Gaussians(self.weights[component], self.means[component] + shift, self.covariances[component])

    def log_inner_product(self, other: Gaussians, periodic: Sequence[int]) -> float:
        r"""Log of :math:`\int p\,q = \sum_{kl} w_k v_l\, \mathcal N(m_k - n_l; 0, \Sigma_k + T_l)`, in closed form.

        It is the integral over one turn of the periodic features, of mixtures as they are before ``on_circles``.
        """
        n_self, n_other = len(self.weights), len(other.weights)
        k, n = (index.reshape(-1) for index in np.indices((n_self, n_other)))
        differences = Gaussians(
            self.weights[k] * other.weights[n],
            self.means[k] - other.means[n],
            self.covariances[k] + other.covariances[n],
        )
        if periodic:
            # On circles ∫ p q is the sum over all turns by which the two may differ: the density of m - n, periodic.
            folded = differences.means.copy()
            folded[:, periodic] = fold(folded[:, periodic])
            differences = Gaussians(differences.weights, folded, differences.covariances).on_circles(
                periodic,
                reach=_EXACT_REACH,
                most_images=100 * MOST_IMAGES,  # seen from one point
            )
        return differences.log_density_at(np.zeros(self.n_features))


def images(
    means: FloatArray,
    covariances: FloatArray,
    periodic: Sequence[int],
    *,
    reach: float = _REACH,
    most: int = MOST_IMAGES,
) -> tuple[IntArray, FloatArray]:
    """The shifts by whole turns that carry a component, which reaches so many standard deviations, into [-π, π).

    Returns:
        The component of each image, ``(n_images,)``, and its shift, ``(n_images, n_features)``.

    Raises:
        InsufficientMemory: of many angles there would be too many.
    """
    spread = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    component, shift = np.arange(len(means)), np.zeros(means.shape)
    for column in periodic:
        # One angle after the other: what cannot reach in one of them has no images in the next.
        mean, within = means[component, column], math.pi + reach * spread[component, column]
        first = np.ceil((-within - mean) / PERIOD).astype(np.int64)
        count = np.floor((within - mean) / PERIOD).astype(np.int64) - first + 1
        if (n_images := int(count.sum())) > most:
            raise InsufficientMemory(
                f"Gaussians that reach around {len(periodic)} angles have more than {n_images} images: take "
                "NearestNeighbors, or fewer angles by state= (--state)."
            )
        parent = np.repeat(np.arange(len(component)), count)
        turn = first[parent] + np.arange(n_images) - np.repeat(np.cumsum(count) - count, count)
        component, shift = component[parent], shift[parent]
        shift[:, column] = PERIOD * turn
    return component, shift


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

    @cached_property
    def log_floor(self) -> float:
        """Where the logarithm of a density ends that is seen from this one's own states, see :func:`floor_below`."""
        weights = self.gaussians.weights
        peaks = self._on_circles.log_density(self.gaussians.means)
        return floor_below(float(weights @ peaks / weights.sum()) - 0.5 * self.n_states)

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
            NonFiniteValue: it is beyond float64, as of hundreds of coordinates, or of many in tiny units.
        """
        if (self.n_states, sorted(self.periodic)) != (other.n_states, sorted(other.periodic)):
            raise InvalidData(
                f"A mixture over {self.n_states} coordinates with angles {sorted(self.periodic)} cannot be compared "
                f"with one over {other.n_states} with {sorted(other.periodic)}: fit both to the same state, and give "
                "both the same periodic=."
            )
        (a, p), (b, q), angles = (self.mass, self.gaussians), (other.mass, other.gaussians), list(self.periodic)
        logs = [p.log_inner_product(p, angles), p.log_inner_product(q, angles), q.log_inner_product(q, angles)]
        if not abs(largest := max(logs)) < _LARGEST_LOG:
            raise NonFiniteValue(
                f"The squared distance of densities over {self.n_states} coordinates is about exp({largest:.0f}), "
                "which float64 does not hold: take divergence='kl', other units, or fewer coordinates by state=."
            )
        own, both, others = map(math.exp, logs)
        return max(a * a * own - 2.0 * a * b * both + b * b * others, 0.0)  # rounding, where both are alike

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
