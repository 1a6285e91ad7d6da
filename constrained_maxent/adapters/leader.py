"""One λ̂ over many trackers: whom they follow, whichever process they are in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from constrained_maxent.records import Fragment
from constrained_maxent.tracker import Tracker
from constrained_maxent.types import Batch


class Leader:
    """Fits λ̂ to what all followers hand in, as soon as that is a batch, and tells it to who asks.

    Followers that are late, or gone, are not waited for: what they hand in counts in the batch under way when it comes,
    and what they never hand in is lost with them. One that starts anew takes λ̂ as it is then. So a batch may hold steps
    of more than one policy; how many batches its rewards lag behind, :attr:`lag` says.

    Args:
        tracker: which learns. Its batch is that of all followers together.

    Attributes:
        tracker: the same.
        lag: how many batches the oldest λ̂ that gave rewards to the latest batch was behind; 0 where all had caught up.

    >>> import gymnasium as gym
    >>> import constrained_maxent as cmx
    >>> leader = Leader(cmx.tracker.find_tracker(gym.make("FrozenLake-PGP-v0", pairing="previous")))
    >>> env = gym.make("FrozenLake-PGP-v0", pairing="previous")
    >>> cmx.tracker.find_tracker(env).follow(leader)
    """

    def __init__(self, tracker: Tracker) -> None:
        self.tracker = tracker
        self.lag = 0
        self._fragments: list[Fragment] = []
        self._n_trajectories = self._n_steps = 0  # of them
        self.version = 0
        self._places: dict[tuple[int, int], int] = {}

    def hand_in(self, fragment: Fragment) -> None:
        """Take a share of a batch; fit λ̂ if that completes it."""
        self.tracker.timesteps += fragment.n_steps
        self._fragments.append(fragment)
        self._n_trajectories += len(fragment)
        self._n_steps += fragment.n_steps
        size = self.tracker.episodes_per_batch
        count = self._n_trajectories if size is not None else self._n_steps
        size = self.tracker.steps_per_batch if size is None else size
        if size is not None and count >= size:
            # The order in which they come is chance; that of their followers is not.
            fragments = sorted(self._fragments, key=lambda share: share.follower)
            self._forget()
            self._close(fragments)

    def newest(self, version: int) -> tuple[int, Mapping[str, Any]] | None:
        """See :class:`~constrained_maxent.records.Leads`."""
        return None if version == self.version else (self.version, self.tracker.live_state())

    def state_dict(self) -> dict[str, Any]:
        """The tracker's: what was handed in for the batch under way is no part of it."""
        return self.tracker.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what ``state_dict`` returned; the batch under way is forgotten. Raises as the tracker's."""
        self.tracker.load_state_dict(state)
        self._forget()
        self.version += 1

    def _forget(self) -> None:
        self._fragments, self._n_trajectories, self._n_steps = [], 0, 0

    def _close(self, fragments: list[Fragment]) -> None:
        self.lag = self.version - min(share.version for share in fragments)
        self.tracker.close(
            self._joined(fragments),
            n_first=0,
            sub_environments=[self._place(share, i) for share in fragments for i in share.sub_environments],
            started_ago=[calls for share in fragments for calls in share.started_ago],
        )
        self.version += 1

    def _place(self, share: Fragment, sub_environment: int) -> int:
        """One number for each copy of each follower: episodes go on where they ran before."""
        return self._places.setdefault((share.follower, sub_environment), len(self._places))

    def _joined(self, fragments: list[Fragment]) -> Batch:
        # Log π is of all steps, or of none.
        names = set.intersection(*({*share.columns} for share in fragments)) - {"costs"} | {"observations"}
        columns: dict[str, Any] = {name: np.concatenate([share.column(name) for share in fragments]) for name in names}
        costs = [share.columns["costs"] for share in fragments]
        lengths, starts = columns["lengths"], columns["starts"]
        offsets = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
        batch = Batch(
            weights=self.tracker.weighting.weights(np.arange(len(offsets)) + offsets),
            costs={name: np.concatenate([cost[name] for cost in costs]) for name in costs[0]},
            **columns,
        )
        return self.tracker.counted(batch)
