"""A finite MDP as the arrays that sampling looks up."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.engine.compiled import inner
from constrained_maxent.engine.mdp import FiniteMDP, no_mdp
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.occupancy import Scale
from constrained_maxent.types import FloatArray

Indices = NDArray[np.int32]

END = -1
"""Instead of a next state: the episode is over."""

DRAWN = -2
"""Instead of a next state: there are several outcomes, one is drawn."""


class Dynamics(NamedTuple):
    """The MDP as arrays. Cells are numbered ``state * n_actions + action``.

    Attributes:
        n_states, n_actions: sizes.
        certain: next state of each cell that has one outcome only, else ``DRAWN``, ``(n_cells,)``.
        first: where the outcomes of each cell begin in the next two, ``(n_cells + 1,)``.
        successors: next state, or ``END``, ``(n_outcomes,)``.
        cumulative: sums of the probabilities within each cell; the last is 1, ``(n_outcomes,)``.
        starts: possible first states, ``(n_starts,)``.
        start_cumulative: sums of their probabilities; the last is 1, ``(n_starts,)``.
        weights: w_t of the occupancy, ``(horizon,)``.
    """

    n_states: int
    n_actions: int
    certain: Indices
    first: Indices
    successors: Indices
    cumulative: FloatArray
    starts: Indices
    start_cumulative: FloatArray
    weights: FloatArray


def tabulate(mdp: FiniteMDP, scale: Scale) -> Dynamics:
    """The arrays of an MDP.

    Raises:
        InvalidSetting: it has no horizon, so that an episode might never end; or it is no MDP.
    """
    if not isinstance(mdp, FiniteMDP):
        raise InvalidSetting(no_mdp(mdp))
    if mdp.horizon is None:
        raise InvalidSetting(
            "The MDP has no horizon, so that a policy may never end an episode: give it one, for example "
            "dataclasses.replace(mdp, horizon=500); what comes later has the weight discount**500."
        )
    # In canonical form, outcomes are in the order of the states; all ways of ending come last, as one.
    moves = mdp.transition.tocoo()
    ending = np.asarray(mdp.ending.sum(axis=1)).reshape(-1)
    ends = np.flatnonzero(ending > 0.0)
    rows = np.concatenate([moves.row, ends])
    order = np.argsort(rows, kind="stable")
    likely = np.concatenate([moves.data, ending[ends]])[order] > 0.0
    rows = rows[order][likely]
    successors = np.concatenate([moves.col, np.full(len(ends), END)])[order][likely].astype(np.int32)
    probabilities = np.concatenate([moves.data, ending[ends]])[order][likely]
    counts = np.bincount(rows, minlength=mdp.n_states * mdp.n_actions)
    first = np.concatenate([[0], np.cumsum(counts)])
    starts = np.flatnonzero(mdp.initial > 0.0)
    return Dynamics(
        n_states=int(mdp.n_states),
        n_actions=int(mdp.n_actions),
        certain=np.where(counts == 1, successors[first[:-1]], DRAWN).astype(np.int32),
        first=first.astype(np.int32),
        successors=successors,
        cumulative=_cumulative(probabilities, first),
        starts=starts.astype(np.int32),
        start_cumulative=_cumulative(mdp.initial[starts], np.array([0, len(starts)])),
        weights=mdp.weighting(scale).weights(np.arange(mdp.horizon)),
    )


def _cumulative(probabilities: FloatArray, first: NDArray[np.int64]) -> FloatArray:
    """Sums within each section. Its last is 1 whatever was rounded before: u < 1 always finds an outcome."""
    sums = np.empty_like(probabilities)
    for begin, end in zip(first[:-1].tolist(), first[1:].tolist(), strict=True):
        sums[begin:end] = np.cumsum(probabilities[begin:end])
        sums[end - 1] = 1.0
    return sums


@inner
def draw(cumulative: FloatArray, begin: int, end: int, u: float) -> int:
    """The first position in ``begin .. end - 1`` whose cumulative probability exceeds u, by bisection."""
    low, high = begin, end - 1
    while low < high:
        middle = (low + high) >> 1
        if cumulative[middle] > u:
            high = middle
        else:
            low = middle + 1
    return low
