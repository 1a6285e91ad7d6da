"""Says once, by name, what makes the estimate of a batch mean little, or pays for the end of episodes."""

from __future__ import annotations

import warnings

import numpy as np

from constrained_maxent.errors import DegenerateDensity, EndsRewarded, MixedState, PartialEpisodes
from constrained_maxent.functionals import Functional
from constrained_maxent.occupancy import OccupancyEstimator
from constrained_maxent.types import Batch, Measure, Points

_SHARE = 0.05
"""A smaller share of a batch may lie beyond all samples: some states of a new policy always do."""

_MOST = 0.8  # of the times of an episode; the mass of λ̂ is then at most a quarter too large
_SEVERAL = 3  # episodes, of which one may have been longer than most


class DensityWatch:
    """Looks at the estimates of one run, each fault until it has been named."""

    def __init__(self) -> None:
        self._named: set[str] = set()
        self._partial = 0.0  # episodes of batches in a row that show parts

    def look_at_rewarded(self, estimator: OccupancyEstimator, points: Points) -> None:
        """Name a batch whose rewards come from where the density was not fitted."""
        if "beyond" in self._named or points.are_cells or (share := estimator.share_beyond(points)) < _SHARE:
            return
        self._warn(
            "beyond",
            f"{share:.0%} of the steps of a batch lie so far from all samples of λ̂ that it does not tell how far: "
            "their pseudo-rewards are one large number, 690 nats. Take larger batches, a buffer_size, a smoothing, or "
            "fewer coordinates by state=.",
            DegenerateDensity,
        )

    def look_at_fitted(self, estimator: OccupancyEstimator) -> None:
        """Name states that have no density, and what is counted instead."""
        if (notice := estimator.notice) is not None and notice not in self._named:
            self._warn(notice, notice, MixedState)
        if "ties" not in self._named and (doubt := estimator.doubt) is not None:
            self._warn("ties", doubt, DegenerateDensity)

    def look_at_times(self, batch: Batch, copies: int, *, remembers: bool) -> None:
        """Name batches of fragments that do not show most of the times of an episode, once each copy had one.

        Copies that start together and whose episodes last equally long stay so; others soon show all times.
        """
        if "times" in self._named or remembers:
            return
        length = batch.n_steps / batch.n_episodes
        seen = np.zeros(int((batch.starts + batch.lengths).max()), dtype=bool)
        for start, steps in zip(batch.starts.tolist(), batch.lengths.tolist(), strict=True):
            seen[start : start + steps] = True
        times = int(np.count_nonzero(seen))
        if times >= _MOST * length:
            self._partial = 0.0
            return
        self._partial += batch.n_episodes
        if self._partial >= max(copies, _SEVERAL):
            self._warn(
                "times",
                f"Batches of {batch.n_steps} steps of {copies} copies show {times} times of an episode each, not most "
                "of it, now its beginning, then its end: λ̂ is not the occupancy of the policy, its entropy is too "
                "small, and values of constraints swing. Take whole episodes, episodes_per_batch=, or steps_per_batch= "
                "of at least one episode of each copy, copies that do not start together, or an estimator that "
                "remembers earlier batches.",
                PartialEpisodes,
            )

    def look_at_ends(self, batch: Batch, horizon: int | None, objective: Functional | None, measure: Measure) -> None:
        """Name an entropy that is negative, in the units used, where episodes are terminated early."""
        if "ends" in self._named or objective is None or measure.points.are_cells:
            return
        ends = batch.starts + batch.lengths
        if not (batch.terminated & (ends < (np.inf if horizon is None else horizon))).any():
            return
        if (entropy := objective.rewards_ends(measure)) is None:
            return
        remedy = (
            "give the size of a cell, Entropy(resolution=0.01), a hundredth of the first batch's standard deviations"
            if objective.cell_sizes is None
            else "take smaller cells, resolution="
        )
        self._warn(
            "ends",
            f"Episodes are terminated early, and the entropy of the states is {entropy:.1f} nats in the units used: "
            f"every step of life lowers the objective, so that the agent is paid for ending its episodes. Not the "
            f"behavior but the units are at fault: {remedy}.",
            EndsRewarded,
        )

    def _warn(self, fault: str, message: str, category: type[Warning]) -> None:
        self._named.add(fault)
        warnings.warn(message, category, stacklevel=2)
