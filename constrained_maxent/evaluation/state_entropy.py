"""Entropy of the states that episodes visit, from the distances between them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gymnasium.spaces import Box

from constrained_maxent.errors import InvalidData
from constrained_maxent.evaluation.statistics import Estimate, bootstrap_ratio
from constrained_maxent.occupancy import NearestNeighbors
from constrained_maxent.types import Batch, FloatArray, check_count
from constrained_maxent.wrappers.layers import STATE_SPACE

_MOST_FOLDS = 32
"""Beyond so many, leaving out one episode or a few makes no difference, but takes time."""


def state_entropy(
    episodes: Sequence[FloatArray],
    *,
    periodic: Sequence[int] = (),
    n_neighbors: int = 8,
    max_samples: int = 4096,
    seed: int = 0,
) -> Estimate:
    r"""Differential entropy of the state at a random step [nats], by nearest neighbors of *other* episodes.

    .. math:: \hat H = -\frac1n\sum_i \log\hat d_{-e(i)}(s_i)

    Kozachenko and Leonenko's estimate (see :class:`~constrained_maxent.occupancy.NearestNeighbors`), with the density
    :math:`\hat d_{-e}` from all episodes but the state's own. Steps of one episode lie on a curve: the nearest
    neighbors would be the steps just before and after, and the entropy too low, by nats, however many steps there
    are. Where there are more than 32 episodes, they are left out in 32 groups. A single episode has only its own steps
    as neighbors, and its estimate is low.

    The unit of the density is one over the product of the coordinates' units (angles: rad), so values compare only in
    the same coordinates. States that recur exactly, such as a deterministic start, have an infinite density; their
    distance counts as 1e-5 standard deviations (angles: rad), so each lowers the mean by a bounded amount and the
    estimate stays finite.

    Args:
        episodes: states of each, ``(n_steps, n_coordinates)``, at least one step.
        periodic: coordinates that are angles in radians.
        n_neighbors: which neighbor's distance counts; fewer where there are not so many.
        max_samples: steps looked at; of more, so many are drawn at random without replacement. It also thins
            the steps of an episode, which are far from independent.
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
    owner = np.repeat(np.arange(len(episodes)), [len(states) for states in episodes])
    if len(rows) > max_samples:
        drawn = np.sort(np.random.default_rng(seed).choice(len(rows), max_samples, replace=False))
        rows, owner = rows[drawn], owner[drawn]
    fold = np.unique(owner, return_inverse=True)[1] % _MOST_FOLDS
    surprise = np.empty(len(rows))
    for i in range(fold.max() + 1):
        own = fold == i
        others = rows if own.all() else rows[~own]
        surprise[own] = -_log_density(others, rows[own], periodic, n_neighbors)
    sizes = np.bincount(owner)
    totals = np.bincount(owner, weights=surprise)
    return bootstrap_ratio(totals[sizes > 0], sizes[sizes > 0], seed=seed)


def _log_density(samples: FloatArray, places: FloatArray, periodic: Sequence[int], n_neighbors: int) -> FloatArray:
    estimator = NearestNeighbors(n_neighbors=n_neighbors, periodic=tuple(periodic)).bind(STATE_SPACE, Box(-1.0, 1.0))
    estimator.fit(Batch(observations=samples, actions=np.zeros(len(samples)), lengths=np.array([len(samples)])))
    return estimator.log_prob(places, np.zeros(len(places)))
