"""Every transition that a training pays for, as a data set of its own. What ``cmaxent train --record`` does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np

from constrained_maxent.adapters import minari
from constrained_maxent.adapters.minari.store import PART_BYTES
from constrained_maxent.adapters.stacks import tracking_of
from constrained_maxent.errors import InvalidDataset
from constrained_maxent.runs.environments import bare_spec
from constrained_maxent.runs.lock import Lock
from constrained_maxent.runs.provenance import described, metadata, train_command
from constrained_maxent.runs.run_folder import LOCK
from constrained_maxent.runs.settings import WRITTEN, TrainSettings
from constrained_maxent.spaces import Environment, single_spaces

_MAY_CHANGE = ("iterations", "seed", "agent", "device", *WRITTEN)
"""Settings that may differ when a training is resumed; the seed and each of the agent's are compared by themselves."""


class Ledger:
    """Records what is stepped below ``TrackOccupancy``, with the iteration under way, from 1, in ``infos/iteration``.

    Episodes that a reset or the end of the training cuts are truncated there. Those of a physics error are left out.

    Args:
        env_id, settings: of the run.
        env: its stack; it is recorded from here on.
        since: iteration that the run goes on from; what was recorded later than that, before a kill, is dropped.
        replaces: whether the run begins anew in the place of one that recorded into the same data set.

    Raises:
        InvalidSetting: no name of a data set, or names that cannot be recorded.
        InvalidDataset: there is a data set of this name, or a beginning of one, from another training; or what this
            one recorded before is not there.
        gymnasium.error.DependencyNotInstalled: without Minari.
    """

    def __init__(
        self, env_id: str, settings: TrainSettings, env: Environment, *, since: int, replaces: bool = False
    ) -> None:
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
        self._require_own(since, replaces)
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
        with ledger.held():
            ledger.begin()
            ledger.publish(until=until)
        return f", and its data set {settings.record!r} is made now"

    def held(self) -> AbstractContextManager[None]:
        """The folder of the data set, for this process alone, as :func:`held` has it."""
        return held(self._store)

    def _require_own(self, since: int, replaces: bool) -> None:
        """Raise ``InvalidDataset`` where something is there that is not this run's, or what it recorded is not."""
        store = self._store
        if since == 0:
            if store.is_published or (store.has_parts and not replaces):
                what = "a data set" if store.is_published else "the beginning of a data set"
                raise InvalidDataset(
                    f"There is {what} {store.name!r} already: take another name or version, or delete {store.folder}."
                )
            return
        published = int(store.metadata()[minari.OURS]["iterations"]) if store.is_published else 0
        reached = max([published, *(int(column.max()) for column in store.column("infos/iteration"))])
        if published > since or reached < since:
            raise InvalidDataset(
                f"The run goes on from iteration {since}, but {store.folder} has what was recorded until iteration "
                f"{max(published, reached)}: put the run's own data set {store.name!r} back there, or set "
                "MINARI_DATASETS_PATH to where it is. If it is lost, train anew; or go on without one, with record "
                "set to null in the run's config.json."
            )

    def begin(self) -> None:
        """See what is there; what the run left that this one replaces goes."""
        if self._since == 0:
            self._store.discard()
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


@contextmanager
def held(store: minari.Store) -> Iterator[None]:
    """The folder of a data set, made if need be, for this process alone.

    Raises:
        FolderInUse: another process has it.
        InvalidDataset: another one has made something else of it meanwhile.
    """
    store.begin()
    try:
        with Lock(store.parts_folder / LOCK) as lock, lock.renewed():
            store.check_source()
            yield
    finally:
        store.leave()


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
    content, problem = settings.to_json(), described(settings)
    left_out = (*problem, *_MAY_CHANGE)
    given = {name: value for name, value in (content | content["agent"]).items() if value is not None}
    training = {name: value for name, value in given.items() if name not in left_out}
    about = {"kind": "recorded", "env_id": env_id, "settings": problem, "training": training, "seed": settings.seed}
    return minari.Store(settings.record, about)
