"""Holds the episodes that are seen against the horizon that λ̂ is weighted for."""

from __future__ import annotations

import math
import warnings
from typing import Literal

from constrained_maxent.errors import EndlessEpisode, HorizonMismatch, InvalidSetting
from constrained_maxent.occupancy import Weighting
from constrained_maxent.types import Batch

End = Literal["terminated", "truncated", "reset"]
"""How an episode ended: by the environment, or by a bare ``reset()`` from above."""

_NEGLIGIBLE = 0.01  # share of an episode's mass that may be missing without a word
_FADED = 1e-6
_LONG = 10_000  # steps
_TOO_OFTEN = 4  # episodes in a row


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
                f"{found} steps: they have only {1 - weighting.share_after(found):.2g} of the mass of a full one. Leave "
                "horizon= out, or give the true one.",
                HorizonMismatch,
                stacklevel=5,
            )
        self._has_warned = self._has_warned_of_endless = False
        # How long the latest episodes of each copy were, and what cut them, while it is the same.
        self._cut: dict[int, list[tuple[int, End]]] = {}
        discount = weighting.discount
        self.limit: float = math.inf
        if weighting.horizon is not None:
            self.limit = weighting.horizon
        elif discount < 1.0:
            self.limit = max(_LONG, math.ceil(math.log(_FADED) / math.log(discount)))

    def reached(self) -> None:
        """An episode goes on at the time ``limit``. Raises InvalidSetting: that is past its horizon."""
        horizon = self._weighting.horizon
        if horizon is None:
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

        What the environment truncates contradicts at once a horizon that was found. Resets from above, and truncations
        before a horizon that the user gave, are the user's right, but not if all episodes of a copy end so.
        """
        if self._has_warned:
            return
        if how == "terminated" or time >= self.limit or self._weighting.share_after(time) < _NEGLIGIBLE:
            self._cut.pop(copy, None)
            return
        if how == "truncated" and self._staggered:
            return
        cuts = self._cut.get(copy, [])
        cuts = self._cut[copy] = [*(cuts if cuts and cuts[-1][1] == how else ()), (time, how)]
        if how == "truncated" and not self._is_given:
            self._warn_of_cut(time, f"The environment truncated an episode after {time} steps")
        elif cuts[-2:-1] == cuts[-1:] or (how == "reset" and len(cuts) == _TOO_OFTEN):
            who = "the environment" if how == "truncated" else "reset(), so by something above TrackOccupancy"
            self._warn_of_cut(time, f"Episode after episode is cut by {who}, the last one after {time} steps")

    def closed(self, batch: Batch) -> None:
        """A batch of fragments is complete."""
        if self._weighting.horizon is None and not self._has_warned_of_endless:
            times = self._weighting.weights(batch.starts)
            if times.max() < _NEGLIGIBLE * self._weighting.constant:
                begun = int(batch.starts.min())
                self._warn_of_endless(f"All episodes of a batch had begun at least {begun} steps before it")

    def _warn_of_cut(self, time: int, what: str) -> None:
        self._has_warned = True
        weighting = self._weighting
        horizon = "infinite" if weighting.horizon is None else f"{weighting.horizon} steps"
        origin = "given as horizon=" if self._is_given else "found"
        if weighting.horizon is None and not self._is_given:
            origin = "as no time limit was found"
        warnings.warn(
            f"{what}, but the horizon is {horizon} ({origin}): such an episode has {1 - weighting.share_after(time):.2g} "
            "of the mass of a full one, and costs and entropies are smaller by as much. If this is where episodes end, "
            f"give TrackOccupancy horizon={time}, and put a TimeLimit, or what repeats actions, below it. If episodes "
            "may end early like this, all is well: filter this warning, HorizonMismatch.",
            HorizonMismatch,
            stacklevel=4,
        )

    def _warn_of_endless(self, what: str) -> None:
        self._has_warned_of_endless, self.limit = True, math.inf
        warnings.warn(f"{what}: {ENDLESS}", EndlessEpisode, stacklevel=4)


ENDLESS = (
    "the weights of its steps have faded to nothing, and a batch of whole episodes may never be complete. If episodes "
    "have no end, put a TimeLimit below TrackOccupancy, or give steps_per_batch= and reset at every batch."
)
