"""Every transition that a training pays for, as a data set of its own. What ``cmaxent train --record`` does."""

from __future__ import annotations

import numpy as np

from constrained_maxent.adapters import minari
from constrained_maxent.adapters.minari.store import PART_BYTES
from constrained_maxent.adapters.stacks import tracking_of
from constrained_maxent.errors import InvalidDataset
from constrained_maxent.runs.environments import bare_spec
from constrained_maxent.runs.provenance import described, metadata, train_command
from constrained_maxent.runs.settings import TrainSettings
from constrained_maxent.spaces import Environment, single_spaces


class Ledger:
    """Records what is stepped below ``TrackOccupancy``, with the iteration under way, from 1, in ``infos/iteration``.

    Episodes that a reset or the end of the training cuts are truncated there. Those of a physics error are left out.

    Args:
        env_id, settings: of the run.
        env: its stack; it is recorded from here on.
        since: iteration that the run goes on from; what was recorded later than that, before a kill, is dropped.
    """

    def __init__(self, env_id: str, settings: TrainSettings, env: Environment, *, since: int) -> None:
        self._store = _store(env_id, settings)
        self._spec = bare_spec(env_id, settings)
        self._stack = env
        tracking = tracking_of(env)
        tracker = tracking.tracker
        self._recording = minari.Recording(
            tracking.env,
            self._take,
            sources=tracker.sources,
            reader=tracking.state_reader,
            stamp=lambda: {"iteration": tracker.iteration + 1},
        )
        if since == 0 and self._store.is_published:
            raise InvalidDataset(
                f"There is a data set {self._store.name!r} already: take another name or version, or delete it."
            )
        self._since, self._void, self._next = since, 0, 0
        self._command = train_command(env_id, settings)
        self._waiting: dict[int, minari.Episode] = {}
        self._bytes = 0
        tracking.env = self._recording
        self._spaces = single_spaces(self._recording)

    @classmethod
    def finish(cls, env_id: str, settings: TrainSettings, env: Environment, *, until: int) -> str:
        """Make the data set of a run that was killed as it made it. Returns words that say so, or nothing."""
        if settings.record is None or not _store(env_id, settings).has_parts:
            return ""
        ledger = cls(env_id, settings, env, since=until)
        ledger.begin()
        ledger.publish(until=until)
        return f", and its data set {settings.record!r} is made now"

    def begin(self) -> None:
        """Make the folder; what a run of the same kind left, which was killed, goes if this one starts anew."""
        if self._since == 0:
            self._store.clear()
        self._store.begin()
        self._store.end_under_way(self._first_free())
        self._store.keep(lambda episode: _until(episode, self._since))  # what came later will be done again
        self._next = self._first_free()
        self._waiting = {self._next + i: episode for i, episode in enumerate(self._waiting.values())}
        self._next += len(self._waiting)

    def _first_free(self) -> int:
        return max([self._store.n_numbered - 1, *self._store.lengths()]) + 1

    def write(self) -> None:
        """Write everything; before each checkpoint, so that what is learnt from is there."""
        self._store.write(self._waiting, self._recording.under_way())
        self._waiting, self._bytes = {}, 0

    def write_if_much(self) -> None:
        """Write everything if what is complete takes much memory."""
        if self._bytes >= PART_BYTES:
            self.write()

    def publish(self, *, until: int) -> None:
        """End the episodes under way, and make the data set of all."""
        self._recording.cut()
        self.write()
        self._store.keep(lambda episode: _until(episode, until))
        numbers = sorted(self._store.lengths())
        about = metadata(self._stack, iterations=until, void=self._void, command=self._command)
        self._store.publish(numbers, self._spaces, self._spec, lambda data: about)

    def _take(self, copy: int, episode: minari.Episode | None) -> None:
        if episode is None:
            self._void += 1
            return
        self._waiting[self._next] = episode
        self._bytes += episode.nbytes
        self._next += 1


def _until(episode: minari.Episode, iteration: int) -> minari.Episode | None:
    """The steps of an episode that belong to iterations up to this one; a rest of it was cut."""
    n = int(np.count_nonzero(episode.columns["infos/iteration"] <= iteration))
    if n in (0, len(episode)):
        return episode if n else None
    longer = {name for name, column in episode.columns.items() if len(column) > len(episode)}
    columns = {name: column[: n + (name in longer)] for name, column in episode.columns.items()}
    columns["truncations"] = np.arange(n) == n - 1
    return minari.Episode(episode.seed, columns)


def _store(env_id: str, settings: TrainSettings) -> minari.Store:
    assert settings.record is not None
    about = {"kind": "recorded", "env_id": env_id, "settings": described(settings), "seed": settings.seed}
    return minari.Store(settings.record, about)
