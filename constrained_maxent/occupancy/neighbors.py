"""The state density from the distance to the nearest samples (Kozachenko and Leonenko)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from constrained_maxent.occupancy.continuous import ContinuousEstimator
from constrained_maxent.occupancy.gaussians import PERIOD
from constrained_maxent.occupancy.samples import Frame
from constrained_maxent.types import FloatArray, check_count

_LEAST_DISTANCE = 1e-5
"""In standard deviations (angles: rad); identical states get a finite density by it."""


@dataclass(kw_only=True, eq=False, repr=False)
class NearestNeighbors(ContinuousEstimator):
    r"""Mass of the *k* nearest samples over the volume of the ball that holds them.

    .. math:: \log\hat d(s) = \psi(k) - \psi(n) + \log\frac{W_k(s)\,(n-1)}{W\,k} - \log V_p - p\,\log r_k(s)

    with the distance :math:`r_k` to the *k*-th of the other samples, in coordinates of variance 1 (angles in radians,
    measured around the circle), their share :math:`W_k/W` of the weight and the unit ball's volume :math:`V_p`. For
    equal weights :math:`-\frac1n\sum_i\log\hat d(s_i)` is the Kozachenko-Leonenko estimate of the entropy,
    consistent for any density. A sample does not count as its own neighbor, and no distance as less than 1e-5 standard
    deviations. The estimate has no shape to be wrong about; it is noisy, and does not integrate to exactly 1.

    Args:
        n_neighbors: *k*.
        over, periodic, buffer_size, memory, seed: as in ``ContinuousEstimator``.
    """

    n_neighbors: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("n_neighbors", self.n_neighbors)

    def learn(self, rows: FloatArray, weights: FloatArray, rng: np.random.Generator) -> None:
        self._all = self._marginal = _Balls(rows, weights, self._angles, self.n_neighbors)
        if self.over == "state-action":
            self._marginal = _Balls(rows[:, : self._n_states], weights, self._angles, self.n_neighbors)

    def log_density(self, rows: FloatArray) -> FloatArray:
        return self._all.log_density(rows)

    def log_state_density(self, states: FloatArray) -> FloatArray:
        return self._marginal.log_density(states)


class _Balls:
    """Samples in a tree, and the density from the balls around a place."""

    def __init__(self, rows: FloatArray, weights: FloatArray, periodic: Sequence[int], k: int) -> None:
        # SciPy takes a third of a second to import: only who asks for neighbors pays.
        from scipy.spatial import KDTree
        from scipy.special import gammaln

        self.frame = Frame.of(rows, weights, periodic)
        self.periodic = list(periodic)
        periods = np.zeros(rows.shape[1])
        periods[self.periodic] = PERIOD
        self.tree = KDTree(self._on_tree(rows), boxsize=periods if self.periodic else None)
        self.weights, self.total = weights, float(weights.sum())
        self.n, self.k = len(rows), k
        p = rows.shape[1]
        self.log_ball = 0.5 * p * math.log(math.pi) - float(gammaln(0.5 * p + 1.0)) + self.frame.log_volume

    def _on_tree(self, rows: FloatArray) -> FloatArray:
        z = self.frame.standardized(rows)
        # The tree's circles run from 0 to 2π; rounding may reach the end itself.
        z[:, self.periodic] = np.remainder(z[:, self.periodic], PERIOD) % PERIOD
        return z

    def log_density(self, rows: FloatArray) -> FloatArray:
        from scipy.special import digamma

        z = self._on_tree(rows)
        wanted = min(self.k + 1, self.n)
        distance, index = self.tree.query(z, k=[*range(1, wanted + 1)])
        index = np.minimum(index, self.n - 1)  # a distance that overflows has no neighbor
        # A sample finds itself at distance 0; what is no sample has one neighbor too many.
        # The only sample there is must do as its own.
        is_sample = (distance[:, 0] == 0.0) & (self.n > 1)
        k = max(1, wanted - 1)
        near = np.where(is_sample[:, None], index[:, -k:], index[:, :k])
        radius = np.where(is_sample, distance[:, -1], distance[:, k - 1])
        share = self.weights[near].sum(axis=1)
        others = self.total - np.where(is_sample, self.weights[index[:, 0]], 0.0)
        counted = self.n - is_sample.astype(np.float64)
        expected: Any = digamma(k) - digamma(counted + 1.0) + np.log(share / others * counted / k)
        log_density: FloatArray = expected - self.log_ball - z.shape[1] * np.log(np.maximum(radius, _LEAST_DISTANCE))
        return log_density
