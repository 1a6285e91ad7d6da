"""How widely states are spread: their entropy, from the distances between them, and the cells of a grid they visit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import ArrayLike

from constrained_maxent.errors import InvalidData, InvalidSetting
from constrained_maxent.evaluation.statistics import Estimate, bootstrap_ratio
from constrained_maxent.occupancy import NearestNeighbors
from constrained_maxent.occupancy.mixed import few_valued
from constrained_maxent.types import Batch, FloatArray, as_array, check_count, check_seed, require_finite

_MOST_FOLDS = 32
"""Beyond so many, leaving out one episode or a few makes no difference, but takes time."""


def state_entropy(
    episodes: Sequence[FloatArray],
    *,
    periodic: Sequence[int] = (),
    n_neighbors: int = 8,
    max_samples: int = 4096,
    counted: Sequence[int] | None = None,
    seed: int = 0,
) -> Estimate:
    r"""Differential entropy of the state at a random step [nats], by nearest neighbors of *other* episodes.

    .. math:: \hat H = -\frac1n\sum_i \log\hat d_{-e(i)}(s_i)

    Kozachenko and Leonenko's estimate (see :class:`~constrained_maxent.occupancy.NearestNeighbors`), with the density
    :math:`\hat d_{-e}` from all episodes but the state's own, whose steps just before and after would be the nearest
    neighbors and the entropy too low, by nats, however many steps there are. More than 32 episodes are left out in 32
    groups. A single episode has only its own steps as neighbors, and its estimate is low.

    The unit of the density is one over the product of the coordinates' units (angles: rad), so values compare only in
    the same coordinates. The distance of states that recur exactly, such as a deterministic start, counts as 1e-5
    standard deviations (angles: rad): each lowers the mean by a bounded amount.

    Args:
        episodes: states of each, ``(n_steps, n_coordinates)``, at least one step.
        periodic: coordinates that are angles in radians.
        n_neighbors: which neighbor's distance counts; fewer where there are not so many.
        max_samples: steps looked at; of more, so many are drawn at random without replacement.
        counted: coordinates that take few values, such as contacts: their combinations are counted, and the entropy is
            that of counts and of the density of the others within each. ``None``: those found in these episodes; give
            the same where figures are to compare.
        seed: of the draw, and of the interval.

    Returns:
        The estimate with its 95 % bootstrap interval over episodes, the density held.

    Raises:
        InvalidData: no episode, or states of different shapes.
        InvalidSetting: ``periodic``, ``n_neighbors`` or ``max_samples`` make no sense.
        NonFiniteValue: NaN or infinity among the states.
    """
    check_count("max_samples", max_samples)
    if len({np.shape(states)[1:] for states in episodes}) != 1 or any(np.ndim(states) != 2 for states in episodes):
        raise InvalidData("episodes must be arrays (n_steps, n_coordinates) of one number of coordinates.")
    rows = np.concatenate([np.asarray(states, dtype=np.float64) for states in episodes])
    lengths = [len(states) for states in episodes]
    few = few_valued(rows, lengths) if counted is None else counted
    owner = np.repeat(np.arange(len(episodes)), lengths)
    if len(rows) > max_samples:
        drawn = np.sort(np.random.default_rng(check_seed("seed", seed)).choice(len(rows), max_samples, replace=False))
        rows, owner = rows[drawn], owner[drawn]
    fold = np.unique(owner, return_inverse=True)[1] % _MOST_FOLDS
    surprise = np.empty(len(rows))
    for i in range(fold.max() + 1):
        own = fold == i
        others = rows if own.all() else rows[~own]
        surprise[own] = -_log_density(others, rows[own], periodic, n_neighbors, few)
    sizes = np.bincount(owner)
    totals = np.bincount(owner, weights=surprise)
    return bootstrap_ratio(totals[sizes > 0], sizes[sizes > 0], seed=seed)


def _log_density(
    samples: FloatArray, places: FloatArray, periodic: Sequence[int], n_neighbors: int, counted: Sequence[int]
) -> FloatArray:
    space = Box(-np.inf, np.inf, samples.shape[1:])
    estimator = NearestNeighbors(n_neighbors=n_neighbors, periodic=tuple(periodic), counted=tuple(counted))
    estimator.bind(space, Box(-1.0, 1.0))
    estimator.fit(Batch(observations=samples, actions=np.zeros(len(samples)), lengths=np.array([len(samples)])))
    return estimator.log_prob(places, np.zeros(len(places)))


@dataclass(frozen=True)
class Coverage:
    r"""How much of a grid was visited.

    Attributes:
        share: of all the grid's cells, those with at least one state in them.
        effective: share of all cells that, visited equally often, would have the entropy of the visits' frequencies:
            :math:`\exp(-\sum_i p_i \log p_i)` cells, Hill's number of order 1. One visit on the way hardly counts.
        outside: share of the states that lie in no cell.
        n_states: how many states were looked at, those outside included.
    """

    share: float
    effective: float
    outside: float
    n_states: int


@dataclass(frozen=True)
class Grid:
    """Equal cells in a box. A cell holds its lower bounds; the last one of each coordinate its upper bound as well.

    Args:
        low, high: bounds of each coordinate, in its unit.
        cells: how many cells each coordinate is cut into.

    Raises:
        InvalidSetting: bounds and cells differ in number, a box without extent, or fewer than one cell.

    >>> Grid((0.0, -1.0), (4.0, 1.0), (4, 2)).coverage([[0.5, 0.5], [0.9, 0.1], [4.0, -1.0], [4.1, 0.0]])
    Coverage(share=0.25, effective=0.23..., outside=0.25, n_states=4)
    """

    low: Sequence[float]
    high: Sequence[float]
    cells: Sequence[int]

    def __post_init__(self) -> None:
        if not len(self.low) == len(self.high) == len(self.cells) > 0:
            raise InvalidSetting(
                f"low, high and cells must have one entry per coordinate, got {len(self.low)}, {len(self.high)} and "
                f"{len(self.cells)}."
            )
        for i, (low, high, count) in enumerate(zip(self.low, self.high, self.cells, strict=True)):
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise InvalidSetting(f"Coordinate {i} of the grid runs from {low!r} to {high!r}: take low < high.")
            check_count("cells", count)

    @property
    def n_cells(self) -> int:
        return math.prod(self.cells)

    def coverage(self, states: ArrayLike) -> Coverage:
        """How much of the grid the states ``(n, n_coordinates)`` visit.

        Raises:
            InvalidData: no states, or states of another number of coordinates.
            NonFiniteValue: NaN or infinity among them.
        """
        rows = as_array("states", states, np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.cells) or not len(rows):
            raise InvalidData(f"states must have shape (n, {len(self.cells)}), n > 0, got shape {rows.shape}.")
        require_finite("states", rows)
        low, high, cells = (np.asarray(bound) for bound in (self.low, self.high, self.cells))
        inside = ((rows >= low) & (rows <= high)).all(axis=1)
        digits = np.minimum(((rows[inside] - low) / (high - low) * cells).astype(np.int64), cells - 1)
        _, visits = np.unique(np.ravel_multi_index(tuple(digits.T), tuple(self.cells)), return_counts=True)
        frequencies = visits / max(visits.sum(), 1)
        effective = math.exp(-(frequencies * np.log(frequencies)).sum()) if len(visits) else 0.0
        return Coverage(
            share=len(visits) / self.n_cells,
            effective=effective / self.n_cells,
            outside=float((~inside).mean()),
            n_states=len(rows),
        )
