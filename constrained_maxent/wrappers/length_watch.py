"""Holds the episodes that are seen against the horizon that λ̂ is weighted for."""

from __future__ import annotations

import math
import sys
import warnings
from types import FrameType
from typing import Literal

import gymnasium as gym

from constrained_maxent.errors import EndlessEpisode, HorizonMismatch, InvalidSetting
from constrained_maxent.occupancy import Weighting
from constrained_maxent.occupancy.horizon import step_limit
from constrained_maxent.types import Batch

End = Literal["terminated", "truncated", "reset"]
"""How an episode ended: by the environment, or by a bare ``reset()`` from above."""

_NEGLIGIBLE = 0.01  # share of an episode's mass that may be missing without a word
_FADED = 1e-6
_LONG = 10_000  # steps
_SEVERAL = 3  # episodes that do not end alike by chance


class LengthWatch:
    """Warns, once each, of episodes that are cut before the horizon, and of those that have no end.

    Args:
        weighting: the weights of λ, with the horizon.
        found: the horizon that the environment says, if it does.
        is_given: whether the user gave another.
        staggered: whether copies have a first episode that is cut short by design.

    Attributes:
        limit: the time at which :meth:`reached` has something to say [steps].
    """

    def __init__(self, weighting: Weighting, found: int | None, *, is_given: bool, staggered: bool) -> None:
        self._weighting, self._is_given, self._staggered = weighting, is_given, staggered
        if is_given and found is not None and weighting.horizon is not None and found < weighting.horizon:
            warnings.warn(
                f"horizon={weighting.horizon} is given, but a time limit of the environment ends its episodes after "
                f"{found} steps: they have {1 - weighting.share_after(found):.2g} of the mass of a full one. Leave "
                "horizon= out, or give the true one.",
                HorizonMismatch,
                stacklevel=5,
            )
        self._has_warned = self._has_warned_of_endless = False
        # Of each copy: its longest episode, and whether a reset ended one that long.
        self._longest: dict[int, tuple[int, bool]] = {}
        self._cut_at: int | None = None  # what is above seems to end episodes after so many steps
        self._horizon: float = math.inf if weighting.horizon is None else weighting.horizon
        endless: float = math.inf
        if weighting.discount < 1.0:
            faded = math.ceil(math.log(_FADED) / math.log(weighting.discount))
            # A horizon says that there is an end, so that it may be far away.
            endless = max(_LONG if weighting.horizon is None else 10 * _LONG, faded)
        self.limit = min(self._horizon, endless)

    def reached(self) -> None:
        """An episode goes on at the time ``limit``. Raises InvalidSetting: that is past its horizon."""
        horizon = self._weighting.horizon
        if self.limit < self._horizon:
            self._warn_of_endless(f"An episode has not ended within {self.limit:.0f} steps")
            return
        if self._is_given:
            raise InvalidSetting(f"An episode runs past horizon={horizon}: give TrackOccupancy the true horizon=.")
        raise InvalidSetting(
            f"An episode runs past the horizon of {horizon} steps that a time limit or an attribute of the environment "
            "says: its episodes are longer than that. Give TrackOccupancy horizon=, the steps of the longest episode."
        )

    def ended(self, copy: int, time: int, how: End) -> None:
        """An episode of a copy ended after so many steps.

        One that the environment truncates contradicts a horizon that was found. Resets from above are the user's right,
        but not those of a time limit, nor if it is always after the same time.
        """
        if self._has_warned:
            return
        longest, was_reset = self._longest.get(copy, (0, False))
        if time > longest:  # nothing cuts episodes after a time if one was longer
            longest, was_reset, self._cut_at = time, False, None
        self._longest[copy] = longest, was_reset
        if how == "terminated" or not self._is_early(time):
            return
        if how == "truncated":
            if not (self._is_given or self._staggered):
                self._warn_of_cut(time, f"The environment truncated an episode after {time} steps")
        elif (limit := _limit_above(time)) is not None:
            self._warn_of_cut(time, f"{limit} above TrackOccupancy ends episodes after {time} steps")
        elif time == longest:
            self._longest[copy] = longest, True
            self._cut_at = time if was_reset else None  # a batch may show it: else somebody is only trying things out

    def closed(self, batch: Batch) -> None:
        """A batch is complete. Truncations before a horizon that was given are meant, but not if all are the same."""
        ages = batch.starts + batch.lengths
        cut = ages[batch.truncated]
        if (time := self._cut_at) is not None and (ages == time).any() and not self._has_warned:
            self._warn_of_cut(
                time,
                f"Again and again episodes are ended by reset() after {time} steps, by something above TrackOccupancy",
            )
        if self._is_given and not self._has_warned and len(cut) >= _SEVERAL and not self._staggered:
            time = int(ages.max())
            if cut.min() == time and not batch.terminated.any() and self._is_early(time):
                self._warn_of_cut(time, f"All episodes of a batch were truncated after {time} steps")
        if not self._has_warned_of_endless:
            weights = self._weighting.weights(batch.starts)
            if weights.max() < _NEGLIGIBLE * self._weighting.constant:
                begun = int(batch.starts.min())
                self._warn_of_endless(f"All episodes of a batch had begun at least {begun} steps before it")

    def _is_early(self, time: int) -> bool:
        return self._weighting.share_after(time) >= _NEGLIGIBLE

    def _warn_of_cut(self, time: int, what: str) -> None:
        self._has_warned = True
        weighting = self._weighting
        horizon = "infinite" if weighting.horizon is None else f"{weighting.horizon} steps"
        origin = "given as horizon=" if self._is_given else "found"
        if weighting.horizon is None and not self._is_given:
            origin = "as no time limit was found"
        mass = 1.0 - weighting.share_after(time)
        warnings.warn(
            f"{what}, but the horizon is {horizon} ({origin}): such an episode has {mass:.2g} "
            "of the mass of a full one, and costs and entropies are smaller by as much. If this is where episodes end, "
            f"give TrackOccupancy horizon={time}, and put a TimeLimit, or what repeats actions, below it. If episodes "
            "may end early like this, all is well: filter this warning, HorizonMismatch.",
            HorizonMismatch,
            stacklevel=4,
        )

    def _warn_of_endless(self, what: str) -> None:
        self._has_warned_of_endless, self.limit = True, self._horizon
        warnings.warn(f"{what}: {ENDLESS}", EndlessEpisode, stacklevel=4)


def _limit_above(time: int) -> str | None:
    """The layer that resets this stack after so many steps because that is its time limit, if there is one.

    A stack does not know what is above it; but who resets it stands on the call stack.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, gym.Wrapper) and step_limit(owner) == time:
            return type(owner).__name__
        frame = frame.f_back
    return None


ENDLESS = (
    "the weights of its steps have faded to nothing, and a batch of whole episodes may never be complete. If episodes "
    "have no end, put a TimeLimit below TrackOccupancy, or give steps_per_batch= and reset at every batch."
)
