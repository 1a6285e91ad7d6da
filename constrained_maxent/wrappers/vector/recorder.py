"""Sorts the steps of parallel sub-environments into trajectories, in the order in which their episodes started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.types import IntArray

NO_EPISODE = -1

Columns = dict[str, NDArray[Any]]
"""Flat columns of steps, sorted by episode and, within one, by time."""


class VectorRecorder:
    """The steps not yet handed out, each tagged with the number of its episode.

    Episodes are numbered as they start (ties by sub-environment), so that the first B of them are an unbiased sample of
    episodes; in the order of finishing, short ones would be counted too often.

    Args:
        num_envs: number of sub-environments.

    Attributes:
        episode: number of the episode under way in each sub-environment, ``NO_EPISODE`` between two, ``(num_envs,)``.
        time: steps taken in it, ``(num_envs,)`` [steps].
        queue: numbers of the episodes that started and are not handed out, in order.
        ended: (terminated, truncated) of those of them that are over, by number.
        n_steps: steps recorded and not handed out.
        calls: calls of ``record`` so far.
    """

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.episode: IntArray = np.full(num_envs, NO_EPISODE, dtype=np.int64)
        self.time: IntArray = np.zeros(num_envs, dtype=np.int64)
        self.queue: list[int] = []
        self.ended: dict[int, tuple[bool, bool]] = {}
        self.n_steps = 0
        self.calls = 0
        self._numbers = 0
        self._env = np.arange(num_envs)
        self._rows: list[Columns] = []
        self._rest: Columns = {}

    @property
    def active(self) -> NDArray[np.bool_]:
        """Sub-environments in which an episode is under way, ``(num_envs,)``."""
        active: NDArray[np.bool_] = self.episode != NO_EPISODE
        return active

    def start(self, mask: NDArray[np.bool_]) -> None:
        """Episodes start in the sub-environments of the mask."""
        count = int(np.count_nonzero(mask))
        numbers = np.arange(self._numbers, self._numbers + count)
        self.episode[mask] = numbers
        self.time[mask] = 0
        self.queue.extend(numbers.tolist())
        self._numbers += count

    def record(self, columns: Columns) -> None:
        """One step of every sub-environment; rows without an episode are ignored."""
        active = self.active
        self._rows.append(columns | {"episode": self.episode.copy(), "time": self.time.copy()})
        self.n_steps += int(np.count_nonzero(active))
        self.time += active
        self.calls += 1

    def end(self, mask: NDArray[np.bool_], terminated: NDArray[np.bool_]) -> None:
        """The episodes under way in the sub-environments of the mask end: terminated, or else truncated."""
        ending = np.flatnonzero(mask & self.active)
        for number, flag in zip(self.episode[ending].tolist(), terminated[ending].tolist(), strict=True):
            self.ended[number] = (flag, not flag)
        self.episode[ending] = NO_EPISODE

    def drop(self, mask: NDArray[np.bool_]) -> None:
        """Forget the episodes under way in the sub-environments of the mask, and their steps."""
        numbers = self.episode[mask & self.active]
        if len(numbers):
            if columns := self._flatten():
                self._keep(columns, ~np.isin(columns["episode"], numbers))
            gone = set(numbers.tolist())
            self.queue = [number for number in self.queue if number not in gone]
        self.episode[mask] = NO_EPISODE

    def count_ended(self, n_episodes: int) -> int:
        """How many of the first episodes of the queue, up to ``n_episodes``, are over without a gap."""
        for i, number in enumerate(self.queue[:n_episodes]):
            if number not in self.ended:
                return i
        return min(n_episodes, len(self.queue))

    def take_episodes(self, n_episodes: int) -> Columns:
        """Hand out the first episodes of the queue, whole; they must be over."""
        last = self.queue[n_episodes - 1]
        columns = self._flatten()
        chosen = columns["episode"] <= last
        self._keep(columns, ~chosen)
        del self.queue[:n_episodes]
        return self._sorted({name: column[chosen] for name, column in columns.items()})

    def take_all(self) -> Columns:
        """Hand out every step recorded, at least one; episodes under way go on, as fragments."""
        columns = self._flatten()
        self._keep(columns, np.zeros(len(columns["episode"]), dtype=bool))
        self.queue = [number for number in self.queue if number not in self.ended]
        columns = self._sorted(columns)
        # A reset may have ended an episode of which all steps had been handed out before.
        self.ended.clear()
        return columns

    def _sorted(self, columns: Columns) -> Columns:
        order = np.argsort(columns["episode"], kind="stable")
        columns = {name: column[order] for name, column in columns.items()}
        numbers, first = np.unique(columns["episode"], return_index=True)
        ends = np.zeros((len(columns["episode"]), 2), dtype=bool)
        for number, start in zip(numbers.tolist(), first.tolist(), strict=True):
            ends[start] = self.ended.pop(number, (False, False))
        # How an episode ended stands on the first of its steps: a column like the others, cut and joined with them.
        return columns | {"terminated": ends[:, 0], "truncated": ends[:, 1]}

    def _flatten(self) -> Columns:
        """All steps recorded, in order of time, as flat columns; empties the rows."""
        if self._rows:
            episodes = np.concatenate([row["episode"] for row in self._rows])
            active = episodes != NO_EPISODE
            first_call = self.calls - len(self._rows)
            fresh = {
                name: np.concatenate([row[name] for row in self._rows])[active]
                for name in self._rows[0]
                if name != "episode"
            }
            fresh["episode"] = episodes[active]
            fresh["call"] = np.repeat(np.arange(first_call, self.calls), self.num_envs)[active]
            fresh["env"] = np.tile(self._env, len(self._rows))[active]
            rest = self._rest
            self._rest = (
                {name: np.concatenate((rest[name], column)) for name, column in fresh.items()} if rest else fresh
            )
            self._rows = []
        return self._rest

    def _keep(self, columns: Columns, kept: NDArray[np.bool_]) -> None:
        self._rest = {name: column[kept] for name, column in columns.items()} if kept.any() else {}
        self.n_steps = int(np.count_nonzero(kept))


def join(parts: Sequence[Columns]) -> tuple[Columns, IntArray, int]:
    """Put columns end to end and cut them into trajectories.

    Returns:
        The columns; the position of each trajectory's first step, ``(n_trajectories,)``; and how many
        trajectories the first part has. An episode that runs on from one part into the next is two trajectories.
    """
    firsts, offset = [], 0
    for part in parts:
        firsts.append(np.unique(part["episode"], return_index=True)[1] + offset)
        offset += len(part["episode"])
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return columns, np.concatenate(firsts), len(firsts[0])
