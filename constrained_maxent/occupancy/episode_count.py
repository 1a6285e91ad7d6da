"""How many whole episodes a batch of fragments stands for: the E of λ̂ = (1/E) Σ w δ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from constrained_maxent.occupancy.weighting import Weighting
from constrained_maxent.types import Batch

ENOUGH = 64
"""Episodes that must have begun in the batches that are looked back at."""

_FADED = 0.01  # of the weight of a first step
_MOST_ENTRIES = 1024


class EpisodeCount:
    r"""Counts the episodes of fragments, so that :math:`\hat\lambda` has the mass :math:`E\sum_t w_t` of one episode.

    By the renewal theorem n steps hold n / E[L] episodes, in the long run. Where every episode lasts the whole horizon
    H, that is n / H, without noise; where weights fade long before it, at least so many that the mass is none that no
    policy has, as a batch of the first steps alone would make it. Else E[L] is told by the steps and the episodes begun
    in this batch and the latest before it: as many as hold ``ENOUGH`` of these. A batch of few steps would not do
    alone: the inverse of a small random number is, on average, too large, as long episodes make a batch that none
    begins in. (Counted back to a fixed number of episodes, the steps are a sum of so many lengths, and their mean has
    no such bias.)

    Args:
        weighting: the weights of λ, with the horizon.
        staggered: copies are out of step, as the first episode of each is truncated early: that tells nothing of how
            long episodes are.
    """

    def __init__(self, weighting: Weighting, *, staggered: bool = False) -> None:
        self._weighting, self.is_staggered = weighting, staggered
        # Of each earlier batch, the latest last: its steps, the episodes begun in it, and whether one ended early.
        self._batches: list[tuple[int, int, bool]] = []

    def of(self, batch: Batch) -> float:
        """Whole episodes that a batch of fragments stands for, whatever its own ``episodes`` say."""
        n_steps, begun, is_early = self._entry(batch)
        all_steps, all_begun = n_steps, begun
        for steps, before, was_early in reversed(self._batches):
            if all_begun >= ENOUGH:
                break
            all_steps, all_begun, is_early = all_steps + steps, all_begun + before, is_early or was_early
        weighting = self._weighting
        if weighting.horizon is None or is_early:
            return n_steps * max(all_begun, 1) / all_steps
        full = n_steps / weighting.horizon
        if weighting.discount**weighting.horizon > _FADED:
            return full
        return max(full, float(batch.weights.sum()) / weighting.full_mass)

    def add(self, batch: Batch) -> None:
        """Remember a batch that has been counted."""
        self._batches.append(self._entry(batch))
        begun = 0
        for i in range(len(self._batches) - 1, -1, -1):
            begun += self._batches[i][1]
            if begun >= ENOUGH:
                del self._batches[:i]
                break
        if len(self._batches) > _MOST_ENTRIES:  # of episodes that hardly end: the oldest two become one
            (steps, begun, early), (more, others, too) = self._batches[:2]
            self._batches[:2] = [(steps + more, begun + others, early or too)]

    def _entry(self, batch: Batch) -> tuple[int, int, bool]:
        horizon = self._weighting.horizon
        ended = batch.terminated if self.is_staggered else batch.terminated | batch.truncated
        is_early = horizon is not None and bool((ended & (batch.starts + batch.lengths < horizon)).any())
        return batch.n_steps, int(np.count_nonzero(batch.starts == 0)), is_early

    def state_dict(self) -> list[list[int]]:
        """Plain data."""
        return [[steps, begun, int(early)] for steps, begun, early in self._batches]

    def load_state_dict(self, state: Sequence[Any]) -> None:
        """Put back what ``state_dict`` returned."""
        self._batches = [(int(steps), int(begun), bool(early)) for steps, begun, early in state]
