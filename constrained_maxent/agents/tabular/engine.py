"""Many runs of PGP on one finite MDP, side by side in compiled code."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from constrained_maxent.agents.mdp import FiniteMDP
from constrained_maxent.agents.tabular.dynamics import tabulate
from constrained_maxent.agents.tabular.kernel import DIVERGED, ITERATION, STEPS, State, Trace, advance
from constrained_maxent.agents.tabular.result import TabularResult
from constrained_maxent.agents.tabular.settings import RunSettings
from constrained_maxent.agents.tabular.store import Store, prepare
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.occupancy import Scale

_CHUNK_TRANSITIONS = 10_000_000  # of each thread between two calls of a callback: some tenths of a second


@dataclass(frozen=True)
class EngineProgress:
    """How far the runs are, as callbacks get it.

    Attributes:
        iterations: batches that every run has done, unless it diverged.
        target: batches that each is to do.
        transitions: steps taken in the MDP so far, all runs together.
        seconds: since ``run`` was called [s].
    """

    iterations: int
    target: int
    transitions: int
    seconds: float


Callback = Callable[["TabularEngine", EngineProgress], bool | None]
"""Called after every chunk of batches with the engine and its progress; returning False ends the call of ``run``."""


class TabularEngine:
    r"""Algorithm 1 of the paper on softmax tables, for many settings and seeds at once.

    Each run is what :class:`~constrained_maxent.agents.PGP` does on a wrapped environment whose dynamics, costs and
    references are known as tables. Only the random numbers differ: here they are a function of seed and position (see
    :mod:`constrained_maxent.agents.tabular.streams`), there a generator's, so that the same seed gives another sample
    of the same distribution. What a run does depends on its own settings alone, not on what runs beside it, on the
    number of threads, or on interruptions.

    Args:
        mdp: dynamics, discount and horizon; a :class:`~constrained_maxent.oracle.TabularMDP`.
        runs: their settings. All have constraints of the same names.
        scale: of λ̂, as in ``TrackOccupancy``; limits and β are in its units.
        snapshot_every: batches between snapshots of θ; ``None`` for none.
        record_every: batches between records of objective and constraints; ``None`` for none.
        threads: how many runs to work on at a time; by default as many as there are processors.
        memory_limit: most memory for results [bytes].

    Raises:
        InvalidSetting: no runs, different names of constraints, an MDP without horizon, a functional or penalty
            that is not known in compiled form, or numbers out of range.
        InvalidData: a functional's table has another size than the MDP.

    >>> import constrained_maxent as cmx
    >>> from constrained_maxent.agents.tabular import RunSettings, TabularEngine
    >>> mdp = cmx.oracle.TabularMDP.random(3, 2, seed=0, discount=0.9, horizon=5)
    >>> engine = TabularEngine(mdp, [RunSettings(seed=seed) for seed in range(4)])
    >>> engine.run(100)
    TabularResult(4 runs of 100 batches, 16,000 transitions)
    """

    def __init__(
        self,
        mdp: FiniteMDP,
        runs: Sequence[RunSettings],
        *,
        scale: Scale = "normalised",
        snapshot_every: int | None = None,
        record_every: int | None = None,
        threads: int | None = None,
        memory_limit: int = 4 * 2**30,
    ) -> None:
        if not runs:
            raise InvalidSetting("runs= is empty: give at least one RunSettings.")
        for name, number in (("snapshot_every", snapshot_every), ("record_every", record_every), ("threads", threads)):
            if number is not None and not (number >= 1 and number % 1 == 0):
                raise InvalidSetting(f"{name}={number!r} must be a whole number of at least 1, or None.")
        self.runs, self.scale = tuple(runs), scale
        names = tuple(runs[0].constraints)
        for settings in runs:
            if tuple(settings.constraints) != names:
                raise InvalidSetting(
                    f"One run has the constraints {', '.join(names) or 'none'}, another "
                    f"{', '.join(settings.constraints) or 'none'}: give all the same, with beta=0 where one is to have "
                    "no effect, or use an engine for each."
                )
        self._dynamics = tabulate(mdp, scale)
        shape = (self._dynamics.n_states, self._dynamics.n_actions)
        self._prepared = prepare(self.runs, *shape)
        self._store = Store(
            self._prepared,
            names,
            shape,
            snapshot_every=int(snapshot_every or 0),
            record_every=int(record_every or 0),
            memory_limit=memory_limit,
        )
        self._threads = min(int(threads) if threads is not None else available_processors(), len(self.runs))
        # Long runs go first, so that the threads finish together.
        self._order = sorted(range(len(runs)), key=lambda i: -runs[i].episodes_per_batch)

    def run(
        self, iterations: int, *, callback: Callback | None = None, chunk_iterations: int | None = None
    ) -> TabularResult:
        """Train until every run has done so many batches in all, those of earlier calls included.

        After an interruption (Ctrl-C, or an exception of the callback) the same call goes on where it was.

        Args:
            iterations: batches of each run, from its beginning.
            callback: called after every chunk.
            chunk_iterations: batches of a chunk; by default what takes some tenths of a second.

        Returns:
            Everything from the first batch on.

        Raises:
            InvalidSetting: a negative or fractional number; or results that would exceed ``memory_limit``.
        """
        if isinstance(iterations, bool) or not iterations >= 0 or iterations % 1:
            raise InvalidSetting(f"iterations={iterations!r} must be a whole number of at least 0.")
        if chunk_iterations is not None and not (chunk_iterations >= 1 and chunk_iterations % 1 == 0):
            raise InvalidSetting(
                f"chunk_iterations={chunk_iterations!r} must be a whole number of at least 1, or None."
            )
        target, begun = int(iterations), time.perf_counter()
        chunk = self._usual_chunk() if chunk_iterations is None else int(chunk_iterations)
        self._store.reserve(target)
        views = [(self._store.state(i), self._store.trace(i)) for i in range(len(self.runs))]
        pool = ThreadPoolExecutor(self._threads, thread_name_prefix="tabular-engine")
        try:
            while (done := self._least_done(target)) < target:
                goal = min(done + chunk, target)
                # The compiled code does not hold the interpreter's lock, so that threads are enough.
                futures = [pool.submit(self._advance, i, *views[i], goal) for i in self._order]
                for future in futures:
                    future.result()
                progress = EngineProgress(
                    iterations=self._least_done(target),
                    target=target,
                    transitions=int(self._store.counters[:, STEPS].sum()),
                    seconds=time.perf_counter() - begun,
                )
                answer = None if callback is None else callback(self, progress)
                if answer is not None and not answer:
                    break
        finally:
            # What a thread works on is finished, the rest is left: every run stays whole.
            pool.shutdown(wait=True, cancel_futures=True)
        return self.result()

    def result(self) -> TabularResult:
        """Everything so far; copies."""
        return self._store.result()

    def _advance(self, i: int, state: State, trace: Trace, goal: int) -> None:
        terms, penalties, hyper, key, *_ = self._prepared[i]
        if state.counters[DIVERGED] < 0:
            advance(self._dynamics, terms, penalties, hyper, key, state, trace, goal)

    def _least_done(self, target: int) -> int:
        """Batches done by the run that is furthest behind; the target if none is under way."""
        counters = self._store.counters
        return int(counters[counters[:, DIVERGED] < 0, ITERATION].min(initial=target))

    def _usual_chunk(self) -> int:
        batches = sum(settings.episodes_per_batch for settings in self.runs) * len(self._dynamics.weights)
        return max(1, self._threads * _CHUNK_TRANSITIONS // batches)

    # Checkpoints.

    def state_dict(self) -> dict[str, Any]:
        """All arrays, those written down included, and a fingerprint of the settings; safe to take in a callback.

        ``numpy.savez(path, **engine.state_dict())`` keeps them, and what ``numpy.load(path)`` returns can be loaded.
        """
        return self._store.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what ``state_dict`` of an engine with the same runs returned, to go on from there.

        Raises:
            CheckpointMismatch: the arrays belong to other runs. Nothing is changed then.
        """
        self._store.load_state_dict(state)


def available_processors() -> int:
    """Processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1
