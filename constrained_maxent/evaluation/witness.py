r"""Holds steps against the dynamics and costs that an environment publishes: what is called exact must be of these.

Whatever was done before, the next state of a pair (s, a), its end, the first state and the action of a state are drawn
anew each time, so how often each outcome came is a sum of coin flips. By Chernoff's bound *k* of *N* have a probability
of at most :math:`2 e^{-N\,\mathrm{kl}(k/N\,\|\,p)}`; costs, which have a range, are bounded by Freedman's inequality.
Where the policy is known, so is what λ an episode has in each pair, a number between 0 and its mass, of which Chernoff's
bound holds as well: processes that remember, or end episodes early, show there. All hold for any number of steps,
however rare what is counted: few episodes make no false alarm. The level is that of all outcomes that could come and of
all numbers of steps together, since both are up to chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr

from constrained_maxent.evaluation.exact import ExactProblem
from constrained_maxent.types import Batch, FloatArray, IntArray

_LEVEL = 1e-5  # probability of a false alarm, of all that is held against the model together
_ROUNDING = 1e-12  # probabilities are known as well as this
_ENDED, _UNKNOWN = -1, -2  # what came next, where it is no state that an action was taken in


class Witness:
    """Remembers steps of a finite environment, and says what in them the published model does not explain.

    Args:
        problem: read off the environment; of one built by hand nothing is known to hold steps against.
    """

    def __init__(self, problem: ExactProblem) -> None:
        self.problem = problem
        self.n_steps = 0
        self._columns: dict[str, list[NDArray[Any]]] = {
            name: [] for name in ("pair", "weight", "outcome", "first", *map(_column, problem.cost_tables))
        }
        self._n_episodes: int | None = 0  # None: some are not whole

    def see(self, batch: Batch) -> None:
        """Remember the steps of a batch, of whatever policy."""
        mdp = self.problem.mdp
        if mdp.elements is None:
            return
        states = mdp.elements[0].numbers.encode(batch.observations)
        actions = mdp.elements[1].numbers.encode(batch.actions)
        last = np.cumsum(batch.lengths) - 1
        outcome = np.append(states[1:], _UNKNOWN)
        outcome[last] = np.where(batch.terminated, _ENDED, _UNKNOWN)
        found = {"pair": states * mdp.n_actions + actions, "weight": batch.weights, "outcome": outcome}
        found["first"] = states[(last - batch.lengths + 1)[batch.starts == 0]]
        is_whole = (batch.starts == 0) & (batch.terminated | batch.truncated)
        self._n_episodes = self._n_episodes + len(batch) if self._n_episodes is not None and is_whole.all() else None
        for name in self.problem.cost_tables:
            found[_column(name)] = batch.costs[name]
        for name, values in found.items():
            self._columns[name].append(values)
        self.n_steps += len(states)

    def contradiction(self, policy: FloatArray | None = None) -> str | None:
        """What the model does not explain, if anything.

        Args:
            policy: π(a|s) by which all steps were taken, ``(n_states, n_actions)``; not held against them if not given.
        """
        if not self.n_steps:
            return None
        columns = {name: np.concatenate(values) for name, values in self._columns.items()}
        claims = self._claims(columns["pair"], columns["outcome"], columns["first"])
        if policy is not None:
            claims += self._policy_claims(columns["pair"], columns["weight"], policy)
        mdp = self.problem.mdp
        n_claims = mdp.transition.nnz + 3 * mdp.transition.shape[0] + mdp.n_states + len(self.problem.cost_tables)
        level = math.log(2.0 * n_claims * self.n_steps / _LEVEL)
        for claim in claims:
            surprise = claim.surprise()
            if surprise.max(initial=0.0) > level:
                return claim.sentence(int(surprise.argmax()))
        return self._costs(columns, level)

    def _claims(self, pair: IntArray, outcome: IntArray, first: IntArray) -> list[_Claim]:
        mdp = self.problem.mdp
        going_on = np.asarray(mdp.transition.sum(axis=1)).reshape(-1)
        visits = np.bincount(pair, minlength=going_on.size).astype(np.float64)
        seen = np.flatnonzero(visits)

        on = outcome >= 0
        moves, k = np.unique(pair[on] * mdp.n_states + outcome[on], return_counts=True)
        source, successor = np.divmod(moves, mdp.n_states)
        n = np.bincount(pair[on], minlength=going_on.size)[source]
        p = np.zeros(len(k))
        if len(k):  # of no entries at all SciPy makes a matrix
            p += mdp.transition[source, successor] / np.maximum(going_on[source], _ROUNDING)
        ends = np.bincount(pair[outcome == _ENDED], minlength=going_on.size)[seen]
        begun, starts = np.unique(first, return_counts=True)
        return [
            _Claim(k, n, p, lambda i: f"State {successor[i]} came next {self._step(source[i])}"),
            _Claim(ends, visits[seen], 1.0 - going_on[seen], lambda i: f"The episode ended {self._step(seen[i])}"),
            _Claim(
                starts, np.full(len(begun), len(first)), mdp.initial[begun], lambda i: f"State {begun[i]} came first"
            ),
        ]

    def _policy_claims(self, pair: IntArray, weight: FloatArray, policy: FloatArray) -> list[_Claim]:
        mdp = self.problem.mdp
        visits = np.bincount(pair, minlength=policy.size).astype(np.float64)
        seen = np.flatnonzero(visits)
        of_state = visits.reshape(mdp.shape).sum(axis=1).repeat(mdp.n_actions)[seen]
        chosen = policy.reshape(-1)[seen]
        claims = [_Claim(visits[seen], of_state, chosen, lambda i: f"The policy acted {self._step(seen[i])}")]
        if self._n_episodes:
            n, full = self._n_episodes, mdp.weighting(self.problem.scale).full_mass
            of_pair = np.bincount(pair, weights=weight, minlength=policy.size)
            exact = mdp.occupancy(policy, scale=self.problem.scale).reshape(-1)
            k, p = (np.append(part, part.sum()) / full for part in (of_pair, exact))
            claims.append(
                _Claim(
                    k, np.full(len(k), n), p, lambda i: self._step(i) if i < policy.size else "in all", is_mass=True
                )
            )
        return claims

    def _step(self, pair: int) -> str:
        state, action = divmod(int(pair), self.problem.mdp.n_actions)
        return f"in state {state} with action {action}"

    def _costs(self, columns: dict[str, NDArray[Any]], level: float) -> str | None:
        pair = columns["pair"]
        known = self._all_outcomes_before(pair, columns["outcome"])
        for name, table in self.problem.cost_tables.items():
            charged, mean = columns[_column(name)][known], table.reshape(-1)[pair][known]
            if not len(charged):
                continue
            low, high = min(charged.min(), mean.min()), max(charged.max(), mean.max())
            off = charged - mean
            off[np.abs(off) <= 1e-6 * max(abs(low), abs(high))] = 0.0  # costs in single precision
            # Of all that stays within a range and has that mean, coin flips between its ends vary most.
            variance, total = float(((mean - low) * (high - mean)).sum()), abs(float(off.sum()))
            if total > 0.0 and total**2 / (2.0 * variance + 2.0 / 3.0 * (high - low) * total) > level:
                return (
                    f"The cost {name!r} was {charged.mean():.4g} per step where its table says {mean.mean():.4g}, in "
                    f"{len(charged)} steps."
                )
        return None

    def _all_outcomes_before(self, pair: IntArray, outcome: IntArray) -> NDArray[np.bool_]:
        """Steps from pairs all of whose outcomes had been seen before: others may bring a cost that nobody has seen.

        Before, and not ever, so that the choice says nothing about what came.
        """
        mdp = self.problem.mdp
        at = np.flatnonzero(outcome != _UNKNOWN)
        kinds, first = np.unique(pair[at] * (mdp.n_states + 1) + outcome[at] + 1, return_index=True)
        of_pair = kinds // (mdp.n_states + 1)
        n_pairs = mdp.n_states * mdp.n_actions
        wanted = np.diff(mdp.transition.indptr) + (np.diff(mdp.ending.indptr) > 0)
        complete = np.bincount(of_pair, minlength=n_pairs) >= wanted
        since = np.zeros(n_pairs)
        np.maximum.at(since, of_pair, at[first])
        before: NDArray[np.bool_] = complete[pair] & (np.arange(len(pair)) > since[pair])
        return before


class _Claim(NamedTuple):
    """Outcomes that came *k* times of *n*, each with probability *p*, and what the i-th of them is.

    With ``is_mass`` they are parts of the mass of n episodes, added up, and *p* their means.
    """

    k: NDArray[np.float64] | IntArray
    n: NDArray[np.float64] | IntArray
    p: FloatArray
    what: Callable[[int], str]
    is_mass: bool = False

    def surprise(self) -> FloatArray:
        """N · kl(k/N ‖ p) of each [nats]."""
        p, share = np.clip(self.p, _ROUNDING, 1.0 - _ROUNDING), np.clip(self.k / np.maximum(self.n, 1), 0.0, 1.0)
        surprise: FloatArray = self.n * (rel_entr(share, p) + rel_entr(1.0 - share, 1.0 - p))
        if not self.is_mass:
            # What cannot be is one too many.
            surprise[((p <= _ROUNDING) & (self.k > 0)) | ((p >= 1.0 - _ROUNDING) & (self.k < self.n))] = math.inf
        return surprise

    def sentence(self, i: int) -> str:
        p = f"{min(max(float(self.p[i]), 0.0), 1.0):.10g}"
        if self.is_mass:
            return f"Episodes had {self.k[i] / self.n[i]:.4g} of their mass {self.what(i)}, and by the dynamics it is {p}."
        return f"{self.what(i)} {self.k[i]:.0f} times of {self.n[i]:.0f}, which has a probability of {p} each time."


def _column(cost: str) -> str:
    return f"cost {cost}"
