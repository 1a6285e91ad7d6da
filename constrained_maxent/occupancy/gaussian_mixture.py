"""The state density as a mixture of Gaussians, fitted to each batch by expectation maximization."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.occupancy.continuous import ContinuousEstimator, check_positive
from constrained_maxent.occupancy.gaussians import Gaussians, Mixture, fold
from constrained_maxent.occupancy.samples import Frame, resampled
from constrained_maxent.occupancy.weighted_em import Covariance, from_labels, weighted_em
from constrained_maxent.types import FloatArray, check_count

_IDLE = 0.01
"""A component with less than this share of an even one starts anew: expectation maximization would not revive it."""

_OVERFITTED = 5.0
"""With more numbers than so many for each sample, a covariance is one of its own samples."""

_CLUSTERED = 8192
"""Most samples that the first clusters are sought among."""


class MixtureEstimator(ContinuousEstimator):
    """A density that is a mixture of Gaussians, however it is fitted. Subclasses hand each fit's result to ``show``."""

    mixture_: Gaussians
    _density: Gaussians
    _state_density: Gaussians

    def show(self, mixture: Gaussians) -> None:
        self.mixture_ = mixture
        self._density = mixture.on_circles(self._angles)
        n_states = self._n_states or mixture.means.shape[1]  # of a category whose states are all counted
        self._state_density = mixture.marginal(n_states).on_circles(self._angles)

    def forget(self) -> None:
        self.__dict__.pop("mixture_", None)

    def log_density(self, rows: FloatArray) -> FloatArray:
        return self._density.log_density(rows)

    def log_state_density(self, states: FloatArray) -> FloatArray:
        return self._state_density.log_density(states)

    def state_measure(self) -> Mixture:
        return Mixture(self.mixture_.marginal(self._n_states), mass=self.mass_, periodic=tuple(self._angles))


@dataclass(kw_only=True, eq=False, repr=False)
class GaussianMixture(MixtureEstimator):
    r"""A mixture of Gaussians, :math:`\hat d(s) = \sum_k w_k\,\mathcal N(s; m_k, \Sigma_k)`, in float64.

    Fitted in coordinates of mean 0 and variance 1 (angles in radians) and described in the state's own. Fewer distinct
    samples than components give as many components as there are samples. Of an angle, a component is summed over
    whole turns, :math:`\sum_j \mathcal N(s + 2\pi j)`, in the fit as in the density: it is continuous across ±π and
    integrates to 1 over one turn.

    Args:
        n_components: number of components.
        covariance: ``"full"``, ``"diagonal"``, ``"tied"`` (one for all) or ``"low-rank"``: variances of each coordinate
            and what ``rank`` factors in common make of them (factor analysis), for many coordinates of which each
            component has few samples.
        rank: number of factors; only ``"low-rank"`` has them.
        warm_start: begin each fit at the last one's result; idle components start anew.
        covariance_floor: added to each variance, in units of the coordinate's variance (angles: rad²): the least width
            that identical states get is its root.
        max_iter, tol: a fit ends after so many steps, or when one gains less mean log-likelihood than ``tol``.
        over, periodic, counted, buffer_size, memory, seed: as in ``ContinuousEstimator``.

    Attributes:
        mixture_: the components, :class:`~constrained_maxent.occupancy.Gaussians`, before wrapping.

    >>> import gymnasium as gym
    >>> from constrained_maxent.types import Batch
    >>> line = gym.spaces.Box(-np.inf, np.inf, (1,))
    >>> batch = Batch(observations=[[-1.0], [3.0]], actions=[[0.0], [0.0]], lengths=[2])
    >>> fitted = GaussianMixture(n_components=1).bind(line, line).fit(batch)
    >>> fitted.mixture_.means, fitted.mixture_.covariances.round(3)
    (array([[1.]]), array([[[4.]]]))
    """

    n_components: int = 16
    covariance: Covariance = "full"
    rank: int = 4
    warm_start: bool = True
    covariance_floor: float = 1e-6
    max_iter: int = 100
    tol: float = 1e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("n_components", self.n_components)
        check_count("rank", self.rank)
        check_count("max_iter", self.max_iter)
        check_positive("covariance_floor", self.covariance_floor)
        if not self.tol >= 0.0:
            raise InvalidSetting(f"tol={self.tol!r} must be at least 0.")
        if self.covariance not in get_args(Covariance):
            raise InvalidSetting(f"covariance={self.covariance!r} must be one of {', '.join(get_args(Covariance))}.")

    def size(self, n_features: int) -> int:
        return 2 * self.n_components * n_features**2  # covariances and their roots

    def shortage(self, n_samples: int, n_features: int) -> str | None:
        numbers, each = n_features * (n_features + 3) // 2, n_samples / self.n_components
        if self.covariance != "full" or numbers <= _OVERFITTED * each:
            return None
        return (
            f"Each of {self.n_components} full Gaussians over {n_features} coordinates has {numbers} numbers, and "
            f"{each:.0f} samples: it fits them and not what they come from, and entropies are too low by nats. Take "
            "covariance='low-rank', fewer components, larger batches, or fewer coordinates by state=."
        )

    def learn(self, rows: FloatArray, weights: FloatArray, rng: np.random.Generator) -> None:
        frame = Frame.of(rows, weights, self._angles)
        z = frame.standardized(rows)
        start = self._warm(frame, z, weights, rng) if self.warm_start else None
        if start is None:
            start = self._cold(z, weights, rng)
        fitted = weighted_em(
            z,
            weights,
            start,
            covariance=self.covariance,
            rank=self.rank,
            floor=self.covariance_floor,
            periodic=self._angles,
            max_iter=self.max_iter,
            tol=self.tol,
        )
        self.show(fitted.moved(frame.center, frame.scale))

    def _warm(self, frame: Frame, z: FloatArray, weights: FloatArray, rng: np.random.Generator) -> Gaussians | None:
        """The last result in this frame; ``None`` if there is none of full size."""
        last: Gaussians | None = self.__dict__.get("mixture_")
        if last is None or len(last.weights) < self.n_components:
            return None
        inside = last.moved(-frame.center / frame.scale, 1.0 / frame.scale)
        # What an earlier, narrower frame allowed may be too thin for the arithmetic of this one.
        shares, means = inside.weights.copy(), inside.means.copy()
        covariances = inside.covariances + self.covariance_floor * np.eye(inside.n_features)
        idle = shares < _IDLE / self.n_components
        if idle.any() and self.covariance != "tied":
            means[idle] = z[resampled(weights, int(idle.sum()), rng)]
            covariances[idle] = 0.1 * np.eye(inside.n_features)
            shares[idle] = 0.1 / self.n_components
        return Gaussians(shares / shares.sum(), means, covariances)

    def _cold(self, z: FloatArray, weights: FloatArray, rng: np.random.Generator) -> Gaussians:
        """One component for each of scikit-learn's k-means clusters; angles are clustered as points of a circle."""
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning

        if len(z) > _CLUSTERED:
            chosen = rng.choice(len(z), _CLUSTERED, replace=False)
            z, weights = z[chosen], weights[chosen]
        angles = z[:, self._angles]
        places = np.concatenate((np.delete(z, self._angles, axis=1), np.cos(angles), np.sin(angles)), axis=1)
        n_components = min(self.n_components, len(np.unique(z, axis=0)))
        kmeans = KMeans(n_components, n_init=1, max_iter=30, random_state=int(rng.integers(2**31)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            labels = kmeans.fit(places, sample_weight=weights / weights.mean()).labels_
        labels = np.unique(labels, return_inverse=True)[1]
        if self._angles:
            # Cut each cluster's circle opposite to it, or one that lies across ±π would seem to be everywhere.
            z = z.copy()
            for label in range(labels.max() + 1):
                own = labels == label
                middle = np.angle(weights[own] @ np.exp(1j * angles[own]))
                z[np.ix_(own, self._angles)] = middle + fold(angles[own] - middle)
        start = from_labels(z, weights, labels, covariance=self.covariance, rank=self.rank, floor=self.covariance_floor)
        start.means[:, self._angles] = fold(start.means[:, self._angles])
        return Gaussians(start.weights, start.means, start.covariances)

    def model(self) -> dict[str, Any]:
        return {name: getattr(self.mixture_, name) for name in ("weights", "means", "covariances")}

    def restore(self, model: Mapping[str, Any]) -> None:
        self.show(Gaussians(*(np.array(model[name], np.float64) for name in ("weights", "means", "covariances"))))
