"""Finds what makes a density mean little: values that recur, coordinates that follow from others, a fit that is none."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.occupancy.samples import RESOLVED, ROUNDING, SMALLEST, Frame
from constrained_maxent.types import FloatArray

UNFITTED = 10.0
"""A density that is so many nats a coordinate below independent Gaussians, at its own samples, is none of them. Half of
it is what AdamGaussianMixture may have to cover from its first σ."""

LEAST_SAMPLES = 64
"""Fewer tell nothing."""

_LOOKED_AT = 1024
"""Most samples that are looked at."""

_RECURS = 64
"""A value recurs that a 64th of the samples share."""

_SHARE = 0.1
"""Of samples at values that recur; fewer change an entropy by less than a nat."""

_NEAR = 6.0
"""Samples further out, in units of the spread, hide what the others have in common."""

_DEPENDENT = 1e-8
"""Variance across a curve relative to that along it: a ten-thousandth in distance."""


def recurring(rows: FloatArray) -> NDArray[np.bool_]:
    """Whether many samples ``(n, n_features)`` share their value with many others, up to rounding, by coordinate."""
    ordered = np.sort(rows[:: -(-len(rows) // _LOOKED_AT)], axis=0)
    reach = max(4, len(ordered) // _RECURS)
    rounding = np.maximum(RESOLVED * rows.std(axis=0), ROUNDING * np.abs(rows).max(axis=0))
    same = ordered[reach:] - ordered[:-reach] <= np.maximum(rounding, SMALLEST)
    found: NDArray[np.bool_] = same.mean(axis=0) > _SHARE
    return found


def dependent(rows: FloatArray, periodic: Collection[int] = ()) -> list[int]:
    """Coordinates of samples ``(n, n_features)`` that satisfy one equation Σ aᵢxᵢ + bᵢxᵢ² = c; none if there is none.

    Copies and sums are found by it, circles and spheres, such as cosine and sine of an angle, or a quaternion. Angles
    are left out.
    """
    numbers = np.array([i for i in range(rows.shape[1]) if i not in periodic], dtype=np.intp)
    rows = rows[:: -(-len(rows) // _LOOKED_AT), numbers]
    z = Frame.of(rows, np.ones(len(rows)), ()).standardized(rows)
    z = z[(np.abs(z) <= _NEAR).all(axis=1)]
    for terms in (z, np.concatenate((z, z**2), axis=1)):
        if len(terms) < 2 * terms.shape[1] or not numbers.size:
            break
        with np.errstate(invalid="ignore", divide="ignore"):
            correlations = np.corrcoef(terms, rowvar=False).reshape(terms.shape[1], -1)
        if not np.isfinite(correlations).all():
            break
        variances, directions = np.linalg.eigh(correlations)
        if variances[0] < _DEPENDENT:
            involved = np.flatnonzero(np.abs(directions[:, 0]) > 1e-3) % len(numbers)
            return sorted({int(numbers[i]) for i in involved})
    return []


def independent_gaussians(rows: FloatArray) -> float:
    """Mean log-density [nats] of samples ``(n, n_features)`` under Gaussians of their means and deviations."""
    return -float((0.5 * np.log(2.0 * np.pi * np.e) + np.log(rows.std(axis=0))).sum())
