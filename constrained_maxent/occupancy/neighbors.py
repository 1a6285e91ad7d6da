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

    Steps before and after are near each other whatever a policy does: in four coordinates or more they are the nearest
    neighbors of most, and distances tell how fast the state moves, not how rarely it is there. ``across_episodes``
    takes neighbors from the other trajectories of the batch only, as evaluation does.

    Args:
        n_neighbors: *k*.
        across_episodes: whether a step has its neighbors in other trajectories than its own; where there is only one,
            in that.
        over, periodic, counted, buffer_size, memory, seed: as in ``ContinuousEstimator``.
    """

    n_neighbors: int = 4
    across_episodes: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("n_neighbors", self.n_neighbors)

    @property
    def asks_for_trajectories(self) -> bool:
        return self.across_episodes

    def learn(self, rows: FloatArray, weights: FloatArray, rng: np.random.Generator) -> None:
        owners = self.trajectories if self.across_episodes else np.zeros(len(rows), dtype=np.int64)
        self._all = self._marginal = _Balls(rows, weights, owners, self._angles, self.n_neighbors)
        if self.over == "state-action":
            self._marginal = _Balls(rows[:, : self._n_states], weights, owners, self._angles, self.n_neighbors)

    def log_density(self, rows: FloatArray) -> FloatArray:
        return self._all.log_density(rows)

    def log_state_density(self, states: FloatArray) -> FloatArray:
        return self._marginal.log_density(states)

    def influence(self, rows: FloatArray) -> FloatArray:
        return self._all.influence(rows)

    def state_influence(self, states: FloatArray) -> FloatArray:
        return self._marginal.influence(states)


class _Balls:
    """Samples in standardized coordinates, and the density from the balls around a place.

    Args:
        rows, weights: the samples.
        owners: the trajectory of each; where there are several, samples have their neighbors in others than their own.
        periodic: angles among the coordinates.
        k: which neighbor's distance counts.
    """

    def __init__(
        self, rows: FloatArray, weights: FloatArray, owners: IntArray, periodic: Sequence[int], k: int
    ) -> None:
        # SciPy and scikit-learn take long to import: only who asks for neighbors pays.
        from scipy.special import gammaln

        self.frame = Frame.of(rows, weights, periodic)
        self.periodic = list(periodic)
        self.z = self._standardized(rows)
        self.weights, self.total, self.k = weights, float(weights.sum()), k
        p = rows.shape[1]
        self.log_ball = 0.5 * p * math.log(math.pi) - float(gammaln(0.5 * p + 1.0)) + self.frame.log_volume
        self.owners = np.unique(owners, return_inverse=True)[1].reshape(-1)
        # Alone, a trajectory has its neighbors in itself, each sample for itself.
        self.sums = np.bincount(self.owners, weights) if self.owners.max() else np.zeros(1)
        self.everywhere = np.arange(len(rows))
        self.among: dict[int, Any] = {-1: self._search(self.z)}
        self.latest: _Near | None = None

    def __getstate__(self) -> dict[str, Any]:
        # What was asked can be asked again.
        kept = {name: part for name, part in vars(self).items() if name not in ("own", "influences")}
        return kept | {"latest": None, "among": {-1: self.among[-1]}}

    def _standardized(self, rows: FloatArray) -> FloatArray:
        z = self.frame.standardized(rows)
        # The tree's circles run from 0 to 2π; rounding may reach the end itself.
        z[:, self.periodic] = np.remainder(z[:, self.periodic], PERIOD) % PERIOD
        return z

    def _search(self, z: FloatArray) -> Any:
        p = z.shape[1]
        if p > _MOST_BRANCHES and not self.periodic and np.abs(z).max() < _FAR:
            from sklearn.neighbors import NearestNeighbors as Search

            return Search(algorithm="brute").fit(z)
        from scipy.spatial import KDTree

        periods = np.zeros(p)
        periods[self.periodic] = PERIOD
        return KDTree(z, boxsize=periods if self.periodic else None)

    def _found(self, z: FloatArray, n: int, owner: int = -1) -> tuple[FloatArray, IntArray]:
        """Distances to the nearest samples that are not the owner's, in order, and their indices, ``(len(z), n)``."""
        samples = self.everywhere if owner < 0 else np.flatnonzero(self.owners != owner)
        if owner not in self.among:
            self.among[owner] = self._search(self.z[samples])
        search = self.among[owner]
        if hasattr(search, "query"):
            distance, index = search.query(z, k=[*range(1, n + 1)])
            return distance, samples[np.minimum(index, len(samples) - 1)]  # a distance that overflows has no neighbor
        # Who is near is told by squares, and how near by differences: a sample is at 0 from itself.
        index = samples[search.kneighbors(np.clip(z, -_BEYOND, _BEYOND), n, return_distance=False)]
        distance = np.sqrt(sum((z[:, j, None] - self.z[index, j]) ** 2 for j in range(z.shape[1])))
        order = np.argsort(distance, axis=1, kind="stable")
        return np.take_along_axis(distance, order, axis=1), np.take_along_axis(index, order, axis=1)

    @cached_property
    def own(self) -> _Near:
        if len(self.sums) == 1:
            return self._near(self.z)
        _, first, which = np.unique(self.z, axis=0, return_index=True, return_inverse=True)
        return self._near_others(self.z, first[which.reshape(-1)])

    def near(self, rows: FloatArray) -> _Near:
        z = self._standardized(rows)
        if z.shape == self.z.shape and np.array_equal(z, self.z):
            return self.own
        if self.latest is None or not np.array_equal(z, self.latest.z):
            self.latest = self._near(z)
        return self.latest

    def _near(self, z: FloatArray) -> _Near:
        n = len(self.z)
        wanted = min(self.k + 1, n)
        distance, index = self._found(z, wanted)
        # A sample finds itself at distance 0; what is no sample has one neighbor too many.
        # The only sample there is must do as its own.
        is_sample = (distance[:, 0] == 0.0) & (n > 1)
        itself = np.where(is_sample, index[:, 0], -1)
        if len(self.sums) > 1:
            return self._near_others(z, itself)
        k = max(1, wanted - 1)
        others = np.where(is_sample[:, None], index[:, -k:], index[:, :k])
        radius = np.where(is_sample, distance[:, -1], distance[:, k - 1])
        weight = self.total - np.where(is_sample, self.weights[itself], 0.0)
        return _Near(z, itself, others, radius, n - is_sample.astype(np.float64), weight)

    def _near_others(self, z: FloatArray, itself: IntArray) -> _Near:
        """What is near in other trajectories than that of the sample which each place is, or -1."""
        sizes = np.bincount(self.owners)
        k = min(self.k, len(self.z) - int(sizes.max()))
        others, radius = np.empty((len(z), k), dtype=np.int64), np.empty(len(z))
        owner = np.where(itself >= 0, self.owners[itself], -1)
        for one in np.unique(owner).tolist():
            rows = owner == one
            apart, others[rows] = self._found(z[rows], k, one)
            radius[rows] = apart[:, -1]
        excluded = np.append(sizes, 0.0)[owner]  # the last of them for -1
        weight = self.total - np.append(self.sums, 0.0)[owner]
        return _Near(z, itself, others, radius, len(self.z) - excluded, weight)

    def log_density(self, rows: FloatArray) -> FloatArray:
        from scipy.special import digamma

        near = self.near(rows)
        k = near.others.shape[1]
        share = self.weights[near.others].sum(axis=1)
        expected: Any = digamma(k) - digamma(near.count + 1.0) + np.log(share / near.weight * near.count / k)
        distance = np.maximum(near.radius, _LEAST_DISTANCE)
        log_density: FloatArray = expected - self.log_ball - near.z.shape[1] * np.log(distance)
        return log_density

    @cached_property
    def influences(self) -> FloatArray:
        """Of each sample: the shares that it has of the weight in the balls around the others, summed by weight."""
        others = self.own.others
        shares = self.weights / self.weights[others].sum(axis=1)
        sums = np.bincount(others.reshape(-1), np.repeat(shares, others.shape[1]), minlength=len(self.z))
        if len(self.sums) > 1:
            # Those of other trajectories are measured against all but their own.
            against = self.sums / (self.total - self.sums)
            sums += (1.0 - against.sum() + against)[self.owners]
        return sums.astype(np.float64)

    def influence(self, rows: FloatArray) -> FloatArray:
        near = self.near(rows)
        around = self.influences[near.others].mean(axis=1)
        influence: FloatArray = np.where(near.itself >= 0, self.influences[near.itself], around)
        return influence


@dataclass(frozen=True, eq=False)
class _Near:
    """Places and what is near.

    Attributes:
        z: the places, standardized.
        itself: the sample that each is, or -1.
        others: its *k* neighbors.
        radius: distance to the last of them.
        count, weight: of the samples that may be its neighbors.
    """

    z: FloatArray
    itself: IntArray
    others: IntArray
    radius: FloatArray
    count: FloatArray
    weight: FloatArray
