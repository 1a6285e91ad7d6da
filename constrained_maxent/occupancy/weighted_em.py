r"""Expectation maximization for Gaussian mixtures of weighted samples, on lines and circles.

.. math:: \max_{w, m, \Sigma} \sum_i \omega_i \log \sum_k w_k\, \mathcal N(x_i; m_k, \Sigma_k), \qquad
   \textstyle\sum_i \omega_i = 1

With equal ω this is scikit-learn's algorithm, which takes no weights. A periodic feature sums each component over whole
turns; which turn a sample took is hidden like the component it came from, so the same two steps raise that likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from constrained_maxent.errors import InvalidData
from constrained_maxent.occupancy.gaussians import Gaussians, fold, images
from constrained_maxent.types import FloatArray, IntArray

Covariance = Literal["full", "diagonal", "tied", "low-rank"]

_LEAST_SHARE = 1e-12
"""Of a component's largest variance: what remains of it after changes of units."""
_EMPTY = 1e-10
"""A component with a smaller share of the samples keeps its place and shape: nothing tells it where to go."""


_FAR = 1e3
"""Samples so far from 0 are taken relative to each component: sums of their squares would be rounding."""


_SETTLED, _MOST_ROUNDS = 0.01, 50
"""Variances of factor analysis are found when none changes by more than this share, or after so many rounds."""


class _Moments:
    """Samples as the monomials 1, x, x xᵀ, so that each of the two steps is one matrix product."""

    def __init__(self, rows: FloatArray, *, diagonal: bool) -> None:
        n, self.n_features = rows.shape
        self.diagonal = diagonal
        self.i, self.j = (np.arange(self.n_features),) * 2 if diagonal else np.triu_indices(self.n_features)
        self.monomials = np.concatenate((rows[:, self.i] * rows[:, self.j], rows, np.ones((n, 1))), axis=1)

    def log_density(self, mixture: Gaussians) -> FloatArray:
        """Log w_k N(x_i; m_k, Σ_k), ``(n, n_components)``."""
        precisions = np.linalg.inv(mixture.covariances)
        linear = np.einsum("kij,kj->ki", precisions, mixture.means)
        # Off the diagonal each product of two features stands for two.
        factor = np.where(self.i == self.j, -0.5, -1.0)
        quadratic = factor * precisions[:, self.i, self.j]
        constant = mixture._log_scale - 0.5 * np.einsum("ki,ki->k", linear, mixture.means)
        logs: FloatArray = self.monomials @ np.concatenate((quadratic, linear, constant[:, None]), axis=1).T
        return logs

    def sums(self, shares: FloatArray, about: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Σ r, Σ r x and Σ r x xᵀ for shares r ``(n, n_components)``, about 0 whatever is asked."""
        sums = shares.T @ self.monomials
        second = np.zeros((len(sums), self.n_features, self.n_features))
        second[:, self.i, self.j] = second[:, self.j, self.i] = sums[:, : len(self.i)]
        return sums[:, -1], sums[:, len(self.i) : -1], second


class _Differences:
    """What :class:`_Moments` does, slower, by the difference of each sample from each component."""

    def __init__(self, rows: FloatArray) -> None:
        self.rows = rows

    def log_density(self, mixture: Gaussians) -> FloatArray:
        return mixture.log_parts(self.rows)

    def sums(self, shares: FloatArray, about: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Σ r, Σ r (x - c) and Σ r (x - c) (x - c)ᵀ about the places c of the components."""
        first, second = np.zeros_like(about), np.zeros((*about.shape, about.shape[1]))
        for k, place in enumerate(about):
            difference = self.rows - place
            weighted = shares[:, k, None] * difference
            first[k], second[k] = weighted.sum(axis=0), weighted.T @ difference
        return shares.sum(axis=0), first, second


def _prepared(rows: FloatArray, covariance: Covariance) -> _Moments | _Differences:
    if np.abs(rows).max(initial=0.0) > _FAR:
        return _Differences(rows)
    return _Moments(rows, diagonal=covariance == "diagonal")


def weighted_em(
    rows: FloatArray,
    weights: FloatArray,
    start: Gaussians,
    *,
    covariance: Covariance = "full",
    rank: int = 0,
    floor: float = 1e-6,
    periodic: Sequence[int] = (),
    max_iter: int = 100,
    tol: float = 1e-3,
) -> Gaussians:
    """Improve a mixture until the mean log-likelihood gains less than ``tol`` in a step.

    Args:
        rows: samples, ``(n, n_features)``; roughly standardized, the periodic features in radians within [-π, π).
        weights: ω, ``(n,)``, not all 0.
        start: where to begin.
        covariance, rank, floor, periodic, max_iter, tol: as in :class:`~constrained_maxent.occupancy.GaussianMixture`.
    """
    moments = _prepared(rows, covariance)
    omega = (weights / weights.sum())[:, None]
    mixture, before = start, -np.inf
    for _ in range(max_iter):
        component, shift = images(mixture.means, mixture.covariances, periodic) if periodic else (None, None)
        shown = mixture if component is None else mixture.on_circles(periodic)
        logs = moments.log_density(shown)
        largest = logs.max(axis=1, keepdims=True)
        logs -= largest
        shares = np.exp(logs, out=logs)
        totals = shares.sum(axis=1, keepdims=True)
        likelihood = float(np.sum(omega * (largest + np.log(totals))))
        shares *= omega / totals
        sums = moments.sums(shares, shown.means)
        about = mixture.means if isinstance(moments, _Differences) else None
        if component is not None and shift is not None:
            # Differences from an image are those from its component.
            moved = shift if about is None else np.zeros_like(shift)
            sums = _gathered(sums, component, moved, len(mixture.weights))
        mixture = _maximized(*sums, mixture, about, covariance=covariance, rank=rank, floor=floor, periodic=periodic)
        if abs(likelihood - before) < tol:
            break
        before = likelihood
    return mixture


def from_labels(
    rows: FloatArray, weights: FloatArray, labels: IntArray, *, covariance: Covariance, floor: float, rank: int = 0
) -> Gaussians:
    """The mixture of one Gaussian for each cluster; clusters are numbered from 0, none is empty of weight."""
    n, n_features = int(labels.max()) + 1, rows.shape[1]
    shares = np.zeros((len(rows), n))
    shares[np.arange(len(rows)), labels] = weights / weights.sum()
    blank = Gaussians(np.full(n, 1.0 / n), np.zeros((n, n_features)), np.tile(np.eye(n_features), (n, 1, 1)))
    moments = _prepared(rows, covariance)
    about = shares.T @ rows / shares.sum(axis=0)[:, None] if isinstance(moments, _Differences) else None
    sums = moments.sums(shares, blank.means if about is None else about)
    return _maximized(*sums, blank, about, covariance=covariance, rank=rank, floor=floor)


def _gathered(
    sums: tuple[FloatArray, FloatArray, FloatArray], component: IntArray, shift: FloatArray, n_components: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sums of the components from those of their images, each moved back by its turns."""
    share, first, second = sums
    moved = first - share[:, None] * shift
    cross = first[:, :, None] * shift[:, None, :]
    squares = second - cross - cross.transpose(0, 2, 1) + share[:, None, None] * shift[:, :, None] * shift[:, None, :]
    total = [np.zeros((n_components, *values.shape[1:])) for values in sums]
    for gathered, values in zip(total, (share, moved, squares), strict=True):
        np.add.at(gathered, component, values)
    return total[0], total[1], total[2]


def _maximized(
    share: FloatArray,
    first: FloatArray,
    second: FloatArray,
    before: Gaussians,
    about: FloatArray | None = None,
    *,
    covariance: Covariance,
    floor: float,
    rank: int = 0,
    periodic: Sequence[int] = (),
) -> Gaussians:
    """The mixture with the given shares and moments, which are about 0 or about a place for each component."""
    alive = share > _EMPTY
    divisor = np.where(alive, share, 1.0)[:, None]
    offsets = first / divisor
    means = np.where(alive[:, None], offsets if about is None else about + offsets, before.means)
    if about is None:
        offsets = means
    scatter = second / divisor[:, :, None] - offsets[:, :, None] * offsets[:, None, :]
    n_features = means.shape[1]
    if covariance == "tied":
        pooled = np.einsum("k,kij->ij", np.where(alive, share, 0.0), scatter) / share[alive].sum()
        scatter = np.tile(pooled, (len(share), 1, 1))
    elif covariance == "diagonal":
        scatter = scatter * np.eye(n_features)
    elif covariance == "low-rank" and rank < n_features:
        scatter = _of_factors(scatter, rank, floor)
    # Far outliers spread a component so much that the floor would be lost in rounding, here or in other units.
    least = np.maximum(floor, _LEAST_SHARE * np.diagonal(scatter, axis1=1, axis2=2).max(axis=1))[:, None, None]
    covariances = scatter + least * np.eye(n_features)
    if covariance != "tied":
        covariances = np.where(alive[:, None, None], covariances, before.covariances)
    if periodic:
        means[:, periodic] = fold(means[:, periodic])
    try:
        return Gaussians(share / share.sum(), means, covariances)
    except InvalidData:
        # Rounding, in the difference of two large numbers, took more than that.
        values, vectors = np.linalg.eigh(covariances)
        mended = (vectors * np.maximum(values, least[:, 0])[:, None, :]) @ vectors.transpose(0, 2, 1)
        return Gaussians(share / share.sum(), means, (mended + mended.transpose(0, 2, 1)) / 2.0)


def _of_factors(scatter: FloatArray, rank: int, floor: float) -> FloatArray:
    r"""The covariances :math:`\Lambda\Lambda^\top + \Psi` of maximum likelihood for given scatters ``(n, p, p)``.

    Λ has ``rank`` columns and Ψ is diagonal (factor analysis; Jöreskog 1967): each is best in turn for the other.
    """
    diagonal = np.diagonal(scatter, axis1=1, axis2=2)
    own = 0.5 * diagonal + floor
    for _ in range(_MOST_ROUNDS):
        root = np.sqrt(own)
        values, vectors = np.linalg.eigh(scatter / (root[:, :, None] * root[:, None, :]))
        strength = np.sqrt(np.maximum(values[:, None, -rank:] - 1.0, 0.0))
        loadings = root[:, :, None] * vectors[:, :, -rank:] * strength
        before, own = own, np.maximum(diagonal - (loadings**2).sum(axis=2), floor)
        if (np.abs(own - before) <= _SETTLED * before).all():
            break
    covariances: FloatArray = loadings @ loadings.transpose(0, 2, 1)
    covariances[:, np.arange(own.shape[1]), np.arange(own.shape[1])] += own
    return covariances
