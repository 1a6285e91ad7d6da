"""Where mass can be and how it flows: the support of policies, and the balance of what leaves and what arrives."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_diag, csr_array

from constrained_maxent.occupancy.weighting import Scale
from constrained_maxent.oracle.tabular import TabularMDP
from constrained_maxent.types import FloatArray

Bools = NDArray[np.bool_]


def possible_pairs(mdp: TabularMDP, support: Bools) -> Bools:
    """State-action pairs that some policy has mass on at each time, among policies that never leave a support.

    Args:
        mdp: the MDP.
        support: where mass is allowed, ``(n_states, n_actions)``.

    Returns:
        ``(horizon, n_states, n_actions)``, or ``(1, n_states, n_actions)`` at infinite horizon. Nothing at all if the
        support must be left.
    """

    def successors(pairs: Bools) -> Bools:
        reached: Bools = pairs.reshape(-1).astype(np.float64) @ mdp.transition > 0.0
        return reached

    # From the end: an action is allowed if all that may follow has an allowed action.
    allowed = [support]
    for _ in range((mdp.horizon or mdp.n_states + 1) - 1):
        stuck = ~allowed[-1].any(axis=1)
        before = support & ~(mdp.transition @ stuck.astype(np.float64) > 0.0).reshape(support.shape)
        if mdp.horizon is None and (before == allowed[-1]).all():
            break
        allowed.append(before)
    # From the start: what can be reached.
    present = mdp.initial > 0.0
    if mdp.horizon is None:
        while True:
            pairs = allowed[-1] & present[:, None]
            if not (successors(pairs) & ~present).any():
                return pairs[None]
            present = present | successors(pairs)
    possible = []
    for now in reversed(allowed):
        possible.append(now & present[:, None])
        present = successors(possible[-1])
    return np.array(possible)


def exact_occupancy(mdp: TabularMDP, policy: FloatArray, scale: Scale) -> FloatArray:
    """Occupancy of a policy, with exactly 0 where it never goes: rounding is enough to make a divergence infinite."""
    occupancy = mdp.occupancy(policy, scale=scale)
    if mdp.horizon is None:
        occupancy = np.where(possible_pairs(mdp, policy > 0.0)[0], occupancy, 0.0)
    return occupancy


def balance(mdp: TabularMDP, possible: Bools) -> tuple[csr_array, FloatArray]:
    """What leaves each state at each time less what arrives there: a matrix, and what starts there."""
    leaving, arriving = [], []
    states = [np.flatnonzero(pairs.any(axis=1)) for pairs in possible]
    cells = [np.flatnonzero(pairs) for pairs in possible]
    for t, (here, pairs) in enumerate(zip(states, cells, strict=True)):
        rows = np.searchsorted(here, pairs // mdp.n_actions)
        leaving.append(csr_array((np.ones(len(pairs)), (rows, np.arange(len(pairs)))), shape=(len(here), len(pairs))))
        if t + 1 < len(states):
            arriving.append(mdp.transition[pairs][:, states[t + 1]].T)
    if mdp.horizon is None:
        stationary = mdp.transition[cells[0]][:, states[0]].T
        return csr_array(leaving[0] - mdp.discount * stationary), mdp.initial[states[0]]
    out = block_diag(leaving, format="csr")
    # One block down from the diagonal: what leaves at one time arrives at the next.
    into = block_diag([csr_array((len(states[0]), 0)), *arriving, csr_array((0, len(cells[-1])))], format="csr")
    start = np.zeros(out.shape[0])
    start[: len(states[0])] = mdp.initial[states[0]]
    return csr_array(out - into), start
