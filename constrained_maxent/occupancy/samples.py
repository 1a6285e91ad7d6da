"""The samples that a density is fitted to: the batch's own and earlier ones, their coordinates, and draws of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidData
from constrained_maxent.types import FloatArray

FORGOTTEN = 0.01
"""Batches whose share under ``memory`` has faded below this are dropped."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Weighted samples, the latest last.

    Args:
        columns: what is known of each, ``(n, ...)``.
        weights: their part of λ̂, ``(n,)``.
        ages: fits since they came, ``(n,)``.
    """

    columns: Mapping[str, NDArray[Any]]
    weights: FloatArray
    ages: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, rows: Any) -> Samples:
        return Samples(
            {name: column[rows] for name, column in self.columns.items()}, self.weights[rows], self.ages[rows]
        )

    def thinned(self, size: int, rng: np.random.Generator) -> Samples:
        """At most so many of them, drawn at random and reweighted to the same mass."""
        if len(self) <= size:
            return self
        kept = self[np.sort(rng.choice(len(self), size, replace=False))]
        total = kept.weights.sum()
        return replace(kept, weights=kept.weights * (self.weights.sum() / total)) if total > 0.0 else kept

    def fresh(self) -> Samples:
        """The samples of the latest fit."""
        return self[len(self) - int(np.count_nonzero(self.ages == 0)) :]

    def followed_by(self, fresh: Samples, *, memory: float, size: int | None) -> Samples:
        """These, aged by one fit, and a fresh batch, ``size`` at most; without memory all weights stay as they are."""
        if set(self.columns) != set(fresh.columns):
            return fresh  # another kind of batch, for example one without log-probabilities
        for name, column in fresh.columns.items():
            if column.shape[1:] != self.columns[name].shape[1:]:
                raise InvalidData(
                    f"{name} has shape {column.shape[1:]} per step, in earlier batches {self.columns[name].shape[1:]}."
                )
        old = replace(self, ages=self.ages + 1)
        if memory:
            old = replace(old, weights=memory * old.weights)[memory**old.ages >= FORGOTTEN]
            fresh = replace(fresh, weights=(1.0 - memory) * fresh.weights)
        if size is not None:
            old = old[max(0, len(old) + len(fresh) - size) :]
        columns = {name: np.concatenate((old.columns[name], column)) for name, column in fresh.columns.items()}
        return Samples(columns, np.concatenate((old.weights, fresh.weights)), np.concatenate((old.ages, fresh.ages)))

    def state_dict(self) -> dict[str, Any]:
        return {"columns": dict(self.columns), "weights": self.weights, "ages": self.ages}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        columns = {name: np.array(column) for name, column in state["columns"].items()}
        return cls(columns, np.array(state["weights"], dtype=np.float64), np.array(state["ages"], dtype=np.int64))


ROUNDING = 64.0 * float(np.finfo(np.float64).eps)
"""Spread relative to a coordinate's size, below which it is constant up to rounding."""

SMALLEST, LARGEST = 1e-150, 1e150
"""Squares of what is smaller underflow, and of what is larger overflow."""

_LOOKED_AT = 1024
"""Most samples by which the spread of neighbors is judged."""

_NEAR = 0.1
"""A spread of neighbors below this share of the standard deviation is the scale instead: the deviation is then one of
outliers, or of clusters far apart."""

RESOLVED = 1e-10
"""Below this share of it, neighbors are the same state: the arithmetic could not tell them apart."""


def neighbors_spread(rows: FloatArray) -> FloatArray:
    """How far apart neighboring samples ``(n, n_features)`` are in each coordinate, ``(n_features,)``.

    In units of the standard deviation of a normal distribution: five times the median width of windows that hold a
    sixteenth of the samples. Far outliers do not change it, nor does the distance of clusters; 0 where most samples
    share their value with a sixteenth of all.
    """
    ordered = np.sort(rows[:: -(-len(rows) // _LOOKED_AT)], axis=0)
    reach = max(1, len(ordered) // 16)
    if len(ordered) <= reach:
        return np.zeros(rows.shape[1])
    spread: FloatArray = 5.0 * np.median(ordered[reach:] - ordered[:-reach], axis=0)
    return spread


@dataclass(frozen=True, eq=False)
class Frame:
    """Standardized coordinates: ``(x - center) / scale``. Angles stay in radians, constants in their unit.

    Args:
        center, scale: ``(n_features,)``.
    """

    center: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, rows: FloatArray, weights: FloatArray, periodic: Sequence[int]) -> Self:
        """Mean and standard deviation of weighted samples; median and spread of neighbors where that is far smaller."""
        share = weights / weights.sum()
        center = share @ rows
        spread = np.sqrt(share @ (rows - center) ** 2)
        largest = np.abs(rows).max(axis=0)
        if (far := spread < 1e-6 * largest).any():
            # The mean has rounding errors of its own, and here they are not small beside the spread.
            center[far] += share @ (rows[:, far] - center[far])
            spread[far] = np.sqrt(share @ (rows[:, far] - center[far]) ** 2)
        near = neighbors_spread(rows)
        clustered = (near < _NEAR * spread) & (near > RESOLVED * spread) & (near > ROUNDING * largest)
        if clustered.any():
            center[clustered], spread[clustered] = np.median(rows[:, clustered], axis=0), near[clustered]
        # What is constant up to rounding has no scale of its own.
        scale = np.where(spread > np.maximum(ROUNDING * largest, SMALLEST), spread, 1.0)
        center[list(periodic)], scale[list(periodic)] = 0.0, 1.0
        return cls(center, scale)

    def standardized(self, rows: FloatArray) -> FloatArray:
        return (rows - self.center) / self.scale

    @property
    def log_volume(self) -> float:
        """Logarithm of the volume of a standardized unit cube."""
        return float(np.log(self.scale).sum())


def resampled(weights: FloatArray, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Indices of ``n`` samples drawn by weight with replacement, evenly spread (systematic resampling)."""
    cumulative = np.cumsum(weights)
    places = (rng.random() + np.arange(n)) / n * cumulative[-1]
    indices: NDArray[np.int64] = np.minimum(np.searchsorted(cumulative, places, side="right"), len(weights) - 1)
    return indices


def drawn_by_weight(weights: FloatArray, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.int64]:
    """Indices of samples drawn by weight with replacement, independently, of the given shape."""
    if weights.min() == weights.max():
        # Places between equal weights need no search.
        places = rng.random(shape) * len(weights)
        return np.minimum(places.astype(np.int64), len(weights) - 1)
    cumulative = np.cumsum(weights)
    places = rng.random(shape).reshape(-1) * cumulative[-1]
    # In ascending order the search stays in the processor's cache: half the time, sorting included.
    order = np.argsort(places)
    indices = np.empty(len(places), dtype=np.int64)
    indices[order] = np.searchsorted(cumulative, places[order], side="right")
    return np.minimum(indices, len(weights) - 1).reshape(shape)
