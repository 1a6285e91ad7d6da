r"""Batches of episodes of a finite MDP under a softmax table, and their visit counts.

Random numbers are a function of seed and position: SplitMix64 (Steele, Lea and Flood, 2014). The number at position *n*
of the stream with key *k* is :math:`\mathrm{mix}(k + (n + 1)\,\phi)` modulo :math:`2^{64}`, with :math:`\phi` =
``0x9E3779B97F4A7C15``. Nothing is carried from one number to the next: a run draws the same ones whatever runs beside
it, in however many threads, and wherever it was interrupted.

Iteration *i* of a run with *B* episodes of up to *H* steps uses ``B * (2 * H + 1)`` positions, from ``i`` times as
many on: the starts of the *B* episodes, then for each time step *B* for the actions and *B* for the next states. What
an ended episode or a certain outcome does not need is skipped.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from constrained_maxent.engine.compiled import flushed, inner
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.occupancy import Scale, Weighting
from constrained_maxent.types import FloatArray

Indices = NDArray[np.int32]
Flags = NDArray[np.uint8]

END = -1
"""Instead of a next state: the episode is over."""

DRAWN = -2
"""Instead of a next state: there are several outcomes, one is drawn."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ONE, _27, _30, _31, _11 = np.uint64(1), np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(11)
_UNIT = 2.0**-53


@runtime_checkable
class FiniteMDP(Protocol):
    """Dynamics, start and horizon, enough to sample episodes: a :class:`~constrained_maxent.oracle.TabularMDP`."""

    @property
    def transition(self) -> csr_array: ...
    @property
    def ending(self) -> csr_array: ...
    @property
    def initial(self) -> FloatArray: ...
    @property
    def n_states(self) -> int: ...
    @property
    def n_actions(self) -> int: ...
    @property
    def horizon(self) -> int | None: ...
    def weighting(self, scale: Scale = "normalized") -> Weighting: ...


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
        raise InvalidSetting(
            f"mdp= is a {type(mdp).__name__}, not a finite MDP. From an environment that publishes its dynamics: "
            "TabularMDP.from_env(env, discount=0.99, horizon=100)."
        )
    if mdp.horizon is None:
        raise InvalidSetting(
            "The MDP has no horizon, so that a policy may never end an episode: give it one, for example "
            "dataclasses.replace(mdp, horizon=500); what comes later has the weight discount**500."
        )
    # The last column holds all ways of ending together.
    outcomes = csr_array(hstack([mdp.transition, np.asarray(mdp.ending.sum(axis=1)).reshape(-1, 1)]))
    outcomes.eliminate_zeros()
    outcomes.sort_indices()
    successors = np.where(outcomes.indices == mdp.n_states, END, outcomes.indices).astype(np.int32)
    first = outcomes.indptr
    starts = np.flatnonzero(mdp.initial > 0.0)
    return Dynamics(
        n_states=int(mdp.n_states),
        n_actions=int(mdp.n_actions),
        certain=np.where(np.diff(first) == 1, successors[first[:-1]], DRAWN).astype(np.int32),
        first=first.astype(np.int32),
        successors=successors,
        cumulative=_cumulative(outcomes.data, first),
        starts=starts.astype(np.int32),
        start_cumulative=_cumulative(mdp.initial[starts], np.array([0, len(starts)])),
        weights=mdp.weighting(scale).weights(np.arange(mdp.horizon)),
    )


def _cumulative(probabilities: FloatArray, first: NDArray[np.integer]) -> FloatArray:
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


def stream_key(seed: int) -> np.uint64:
    """The key of a seed's stream, well mixed, so that neighboring seeds have nothing in common."""
    return np.uint64(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


@inner
def uniform(key: np.uint64, position: int) -> float:
    """The number at a position of a stream, in [0, 1), a multiple of 2⁻⁵³."""
    z = key + (np.uint64(position) + _ONE) * _GOLDEN
    z = (z ^ (z >> _30)) * _FIRST
    z = (z ^ (z >> _27)) * _SECOND
    z = z ^ (z >> _31)
    return np.float64(z >> _11) * _UNIT


@inner
def softmax_rows(theta: FloatArray, stale: Flags, policy: FloatArray, cumulative: FloatArray) -> None:
    """Refresh the stale rows of π and of its sums; the last action, which needs no sum, has none."""
    n_states, n_actions = theta.shape
    for s in range(n_states):
        if not stale[s]:
            continue
        stale[s] = 0
        largest = theta[s, 0]
        for a in range(1, n_actions):
            largest = max(largest, theta[s, a])
        total = 0.0
        for a in range(n_actions):
            policy[s, a] = math.exp(theta[s, a] - largest)
            total += policy[s, a]
        reached = 0.0
        for a in range(n_actions):
            policy[s, a] /= total
            reached += policy[s, a]
            if a < n_actions - 1:
                cumulative[s, a] = reached


@inner
def sample(
    dynamics: Dynamics, cumulative: FloatArray, key: np.uint64, iteration: int, states: Indices, cells: Indices
) -> int:
    """Sample batch number ``iteration`` under the policy with the sums ``cumulative``; the number of steps taken.

    ``cells``, ``(horizon, n_episodes)``, receives the cell of each step, ``END`` after an episode's last. Episodes go
    side by side, so that the processor works on several at once; ``states``, ``(n_episodes,)``, is scratch.
    """
    # Taken out of the tuple here, for good: in the loops, every access would count references.
    certain, first = dynamics.certain, dynamics.first
    successors, outcome_sums = dynamics.successors, dynamics.cumulative
    starts, start_sums = dynamics.starts, dynamics.start_cumulative
    horizon, n_episodes = cells.shape
    n_sums = cumulative.shape[1]
    n_actions = n_sums + 1
    position = iteration * n_episodes * (2 * horizon + 1)
    for b in range(n_episodes):
        start = 0 if len(starts) == 1 else draw(start_sums, 0, len(starts), uniform(key, position + b))
        states[b] = starts[start]
    position += n_episodes
    steps = 0
    for t in range(horizon):
        for b in range(n_episodes):
            state = states[b]
            if state == END:
                cells[t, b] = END
                continue
            u = uniform(key, position + b)
            action = 0
            for a in range(n_sums):
                action += cumulative[state, a] <= u
            cell = state * n_actions + action
            successor = certain[cell]
            if successor == DRAWN:
                u = uniform(key, position + n_episodes + b)
                successor = successors[draw(outcome_sums, first[cell], first[cell + 1], u)]
            cells[t, b] = cell
            states[b] = successor
            steps += 1
        position += 2 * n_episodes
    return steps


@inner
def count(weights: FloatArray, cells: Indices, n_first: int, fresh: FloatArray) -> None:
    """Discounted visits of the first episodes, on average over them, into ``fresh``."""
    fresh[:] = 0.0
    for t in range(len(weights)):
        for b in range(n_first):
            if cells[t, b] != END:
                fresh[cells[t, b]] += weights[t]
    for cell in range(len(fresh)):
        fresh[cell] /= n_first


@inner
def remember(occupancy: FloatArray, fresh: FloatArray, share: float) -> None:
    """λ̂ ← (1 - share) λ̂ + share λ̂(batch)."""
    for cell in range(len(occupancy)):
        occupancy[cell] = flushed((1.0 - share) * occupancy[cell] + share * fresh[cell])
