"""The state density from the distance to the nearest samples (Kozachenko and Leonenko)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from constrained_maxent.occupancy.continuous import ContinuousEstimator
from constrained_maxent.occupancy.gaussians import PERIOD
from constrained_maxent.occupancy.samples import Frame
from constrained_maxent.types import FloatArray, IntArray, check_count

_LEAST_DISTANCE = 1e-5
"""In standard deviations (angles: rad); identical states get a finite density by it."""

_MOST_BRANCHES = 8
"""In more coordinates a tree looks at nearly every sample, and slower than a matrix product looks at all."""

_FAR = 1e3
"""Squares of samples further out would cost the differences of near ones their digits: a tree has no squares."""

_BEYOND = 1e8
"""From further away all samples look equally far."""


@dataclass(kw_only=True, eq=False, repr=False)
class NearestNeighbors(ContinuousEstimator):
    r"""Mass of the *k* nearest samples over the volume of the ball that holds them.

    .. math:: \log\hat d(s) = \psi(k) - \psi(n) + \log\frac{W_k(s)\,(n-1)}{W\,k} - \log V_p - p\,\log r_k(s)

    with the distance :math:`r_k` to the *k*-th of the other samples, in coordinates of variance 1 (angles in radians,
    measured around the circle), their share :math:`W_k/W` of the weight and the unit ball's volume :math:`V_p`. For
    equal weights :math:`-\frac1n\sum_i\log\hat d(s_i)` is the Kozachenko-Leonenko estimate of the entropy,
    consistent for any density. A sample does not count as its own neighbor, and no distance as less than 1e-5 standard
    deviations. The estimate has no shape to be wrong about; it is noisy, and does not integrate to exactly 1.

    The pseudo-reward of the entropy is the exact derivative of that estimate by the weight :math:`w_j` of a step, at
    the standard deviations of the samples, which stay as they are until the next fit:

    .. math:: p\,\log r_k(s_j) - \sum_{i:\,j\in N_k(i)} \frac{w_i}{W_k(s_i)} + \text{const.}

    The sum is over the samples that have it among their neighbors. Its mean is 1, but in many coordinates it is larger
    amid the samples than at their rim, where the logarithm alone is too small: of a Gaussian in 27 coordinates and 8192
    samples that follows two thirds of the true derivative, both together 93 %. At a place that is no sample it is the
    mean over the nearest samples.

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

    def influence(self, rows: FloatArray) -> FloatArray:
        return self._all.influence(rows)

    def state_influence(self, states: FloatArray) -> FloatArray:
        return self._marginal.influence(states)


class _Balls:
    """Samples in standardized coordinates, and the density from the balls around a place."""

    def __init__(self, rows: FloatArray, weights: FloatArray, periodic: Sequence[int], k: int) -> None:
        # SciPy and scikit-learn take long to import: only who asks for neighbors pays.
        from scipy.special import gammaln

        self.frame = Frame.of(rows, weights, periodic)
        self.periodic = list(periodic)
        self.z = self._standardized(rows)
        self.weights, self.total = weights, float(weights.sum())
        (self.n, p), self.k = rows.shape, k
        self.log_ball = 0.5 * p * math.log(math.pi) - float(gammaln(0.5 * p + 1.0)) + self.frame.log_volume
        self.search = self._search()
        self.latest: _Near | None = None

    def __getstate__(self) -> dict[str, Any]:
        # What was asked can be asked again.
        return {name: part for name, part in vars(self).items() if name not in ("own", "influences")} | {"latest": None}

    def _standardized(self, rows: FloatArray) -> FloatArray:
        z = self.frame.standardized(rows)
        # The tree's circles run from 0 to 2π; rounding may reach the end itself.
        z[:, self.periodic] = np.remainder(z[:, self.periodic], PERIOD) % PERIOD
        return z

    def _search(self) -> Any:
        p = self.z.shape[1]
        if p > _MOST_BRANCHES and not self.periodic and np.abs(self.z).max() < _FAR:
            from sklearn.neighbors import NearestNeighbors as Search

            return Search(algorithm="brute").fit(self.z)
        from scipy.spatial import KDTree

        periods = np.zeros(p)
        periods[self.periodic] = PERIOD
        return KDTree(self.z, boxsize=periods if self.periodic else None)

    def _found(self, z: FloatArray, n: int) -> tuple[FloatArray, IntArray]:
        """Distances to the nearest samples, in order, and their indices, ``(len(z), n)``."""
        if hasattr(self.search, "query"):
            distance, index = self.search.query(z, k=[*range(1, n + 1)])
            return distance, np.minimum(index, self.n - 1)  # a distance that overflows has no neighbor
        # Who is near is told by squares, and how near by differences: a sample is at 0 from itself.
        index = self.search.kneighbors(np.clip(z, -_BEYOND, _BEYOND), n, return_distance=False)
        distance = np.sqrt(sum((z[:, j, None] - self.z[index, j]) ** 2 for j in range(z.shape[1])))
        order = np.argsort(distance, axis=1, kind="stable")
        return np.take_along_axis(distance, order, axis=1), np.take_along_axis(index, order, axis=1)

    @cached_property
    def own(self) -> _Near:
        return self._near(self.z)

    def near(self, rows: FloatArray) -> _Near:
        z = self._standardized(rows)
        if z.shape == self.z.shape and np.array_equal(z, self.z):
            return self.own
        if self.latest is None or not np.array_equal(z, self.latest.z):
            self.latest = self._near(z)
        return self.latest

    def _near(self, z: FloatArray) -> _Near:
        wanted = min(self.k + 1, self.n)
        distance, index = self._found(z, wanted)
        # A sample finds itself at distance 0; what is no sample has one neighbor too many.
        # The only sample there is must do as its own.
        is_sample = (distance[:, 0] == 0.0) & (self.n > 1)
        k = max(1, wanted - 1)
        others = np.where(is_sample[:, None], index[:, -k:], index[:, :k])
        radius = np.where(is_sample, distance[:, -1], distance[:, k - 1])
        return _Near(z, np.where(is_sample, index[:, 0], -1), others, radius)

    def log_density(self, rows: FloatArray) -> FloatArray:
        from scipy.special import digamma

        near = self.near(rows)
        is_sample, k = near.itself >= 0, near.others.shape[1]
        share = self.weights[near.others].sum(axis=1)
        others = self.total - np.where(is_sample, self.weights[near.itself], 0.0)
        counted = self.n - is_sample.astype(np.float64)
        expected: Any = digamma(k) - digamma(counted + 1.0) + np.log(share / others * counted / k)
        distance = np.maximum(near.radius, _LEAST_DISTANCE)
        log_density: FloatArray = expected - self.log_ball - near.z.shape[1] * np.log(distance)
        return log_density

    @cached_property
    def influences(self) -> FloatArray:
        """Of each sample: the shares that it has of the weight in the balls around the others, summed by weight."""
        others = self.own.others
        shares = self.weights / self.weights[others].sum(axis=1)
        sums = np.bincount(others.reshape(-1), np.repeat(shares, others.shape[1]), minlength=self.n)
        return sums.astype(np.float64)

    def influence(self, rows: FloatArray) -> FloatArray:
        near = self.near(rows)
        around = self.influences[near.others].mean(axis=1)
        influence: FloatArray = np.where(near.itself >= 0, self.influences[near.itself], around)
        return influence


@dataclass(frozen=True, eq=False)
class _Near:
    """Places and what is near: the sample that each is, or -1, its *k* neighbors, and the distance to the last."""

    z: FloatArray
    itself: IntArray
    others: IntArray
    radius: FloatArray
