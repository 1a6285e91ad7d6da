"""Many runs of PGP on one finite MDP, side by side in compiled code."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import joblib

from constrained_maxent.engine.kernel import DIVERGED, ITERATION, STEPS, advance
from constrained_maxent.engine.sampling import FiniteMDP, tabulate
from constrained_maxent.engine.settings import RunSettings
from constrained_maxent.engine.store import Store, TabularResult, prepare
from constrained_maxent.errors import CheckpointMismatch, InvalidSetting
from constrained_maxent.occupancy import Scale
from constrained_maxent.types import check_count, is_number


class EngineProgress(NamedTuple):
    """Batches that every run has done, unless it diverged, and that each is to do; steps of all runs in the MDP."""

    iterations: int
    target: int
    transitions: int


Callback = Callable[["TabularEngine", EngineProgress], bool | None]
"""Called after every chunk of batches with the engine and its progress; returning False ends the call of ``run``."""


class TabularEngine:
    r"""Algorithm 1 of the paper on softmax tables, for many settings and seeds at once.

    Each run is what :class:`~constrained_maxent.agents.PGP` does on a wrapped environment whose dynamics, costs and
    references are known as tables. Only the random numbers differ: here they are a function of seed and position (see
    :mod:`constrained_maxent.engine.sampling`), there a generator's, so that the same seed gives another sample
    of the same distribution. What a run does depends on its own settings and the planned number of batches alone, not
    on what runs beside it, on the number of threads, or on interruptions.

    Args:
        mdp: dynamics, discount and horizon; a :class:`~constrained_maxent.oracle.TabularMDP`.
        runs: their settings. All have constraints of the same names.
        planned_iterations: the number of batches over which schedules run, and after which they stay at their end. By
            default it is what the first call of ``run`` is given; later calls do not change it, so that a loop of calls
            is one run only where it is given here.
        scale: of λ̂, as in ``TrackOccupancy``; limits and β are in its units.
        snapshot_every: batches between snapshots of θ; ``None`` for none.
        record_every: batches between records of objective and constraints; ``None`` for none.
        threads: how many runs to work on at a time; by default as many as there are processors.
        memory_limit: most memory for results, and for what the threads work on [bytes].

    Raises:
        UnsupportedFunctional: a functional does not say how it is a sum of terms, by ``engine_terms``.
        InvalidSetting: no MDP, no runs, different names of constraints, an MDP without horizon, a penalty that is not
            known in compiled form, or numbers out of range.
        InvalidData: a functional's table has another size than the MDP.

    >>> import constrained_maxent as cmx
    >>> from constrained_maxent.engine import RunSettings, TabularEngine
    >>> mdp = cmx.oracle.TabularMDP.random(3, 2, seed=0, discount=0.9, horizon=5)
    >>> engine = TabularEngine(mdp, [RunSettings(seed=seed) for seed in range(4)])
    >>> engine.run(100)
    TabularResult(4 runs of 100 batches, 16,000 transitions)
    """

    _advance = staticmethod(advance)
    """What a thread does of one run. A study of another parameterization of the policy has its own."""

    def __init__(
        self,
        mdp: FiniteMDP,
        runs: Iterable[RunSettings],
        *,
        planned_iterations: int | None = None,
        scale: Scale = "normalized",
        snapshot_every: int | None = None,
        record_every: int | None = None,
        threads: int | None = None,
        memory_limit: float = 4 * 2**30,
    ) -> None:
        for name, number in (
            ("planned_iterations", planned_iterations),
            ("snapshot_every", snapshot_every),
            ("record_every", record_every),
            ("threads", threads),
        ):
            if number is not None:
                check_count(name, number)
        if not (is_number(memory_limit) and memory_limit > 0):
            raise InvalidSetting(f"memory_limit={memory_limit!r} must be a number of bytes above 0.")
        self.runs = _checked(runs)
        self._dynamics = tabulate(mdp, scale)
        self._prepared = prepare(self.runs, self._dynamics.n_states, self._dynamics.n_actions)
        self._plan_is_given = planned_iterations is not None
        self.planned_iterations = int(planned_iterations or 0)
        """Number of batches over which schedules run; 0 before the first call of ``run``, if none was given."""
        self._threads = min(int(threads or joblib.cpu_count()), len(self.runs))
        self._store = Store(
            self._prepared,
            tuple(self.runs[0].constraints),
            self._dynamics,
            threads=self._threads,
            snapshot_every=int(snapshot_every or 0),
            record_every=int(record_every or 0),
            memory_limit=memory_limit,
        )
        # Long runs go first, so that the threads finish together.
        self._order = sorted(range(len(self.runs)), key=lambda i: -self.runs[i].episodes_per_batch)
        # Transitions alone do not tell what a batch takes: on large state spaces most of it goes into the cells'
        # logarithms.
        episodes = sum(settings.episodes_per_batch for settings in self.runs) / len(self.runs)
        work = episodes * len(self._dynamics.weights) + self._dynamics.n_states * self._dynamics.n_actions
        self._shortest_chunk = max(1, int(_LEAST_WORK / work))

    def run(
        self, iterations: int, *, callback: Callback | None = None, chunk_iterations: int | None = None
    ) -> TabularResult:
        """Train until every run has done so many batches in all, those of earlier calls included.

        After an interruption (Ctrl-C, or an exception of the callback) the same call goes on where it was.

        Args:
            iterations: batches of each run, from its beginning.
            callback: called after every chunk.
            chunk_iterations: batches of a chunk; by default what takes some tenths of a second, as measured. Results do
                not depend on it.

        Returns:
            Everything from the first batch on.

        Raises:
            InvalidSetting: no whole number, or a negative one; or results that would exceed ``memory_limit``.
        """
        target = check_count("iterations", iterations, least=0)
        if chunk_iterations is not None:
            check_count("chunk_iterations", chunk_iterations)
        pace = self._shortest_chunk
        self._store.reserve(target)
        self.planned_iterations = self.planned_iterations or target
        views = [(self._store.state(i), self._store.trace(i)) for i in range(len(self.runs))]
        fixed = [(self._dynamics, run.terms, run.penalties, run.settings, run.key) for run in self._prepared]
        pool = ThreadPoolExecutor(self._threads, thread_name_prefix="tabular-engine")
        try:
            while (done := self._least_done(target)) < target:
                goal = min(done + (chunk_iterations or pace), target)
                begun = time.perf_counter()
                # The compiled code does not hold the interpreter's lock, so that threads are enough.
                running = [
                    pool.submit(self._advance, *fixed[i], *views[i], float(self.planned_iterations), goal)
                    for i in self._order
                    if views[i][0].counters[DIVERGED] < 0
                ]
                for future in running:
                    future.result()
                if goal - done == pace:  # a shorter one, the last, tells less
                    pace = next_chunk(pace, time.perf_counter() - begun, self._shortest_chunk)
                transitions = int(self._store.arrays["counters"][:, STEPS].sum())
                progress = EngineProgress(self._least_done(target), target, transitions)
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

    def _least_done(self, target: int) -> int:
        """Batches done by the run that is furthest behind; the target if none is under way."""
        counters = self._store.arrays["counters"]
        return int(counters[counters[:, DIVERGED] < 0, ITERATION].min(initial=target))

    def state_dict(self) -> dict[str, Any]:
        """All arrays, those written down included, and what they belong to; safe to take in a callback.

        ``numpy.savez(path, **engine.state_dict())`` keeps them, and what ``numpy.load(path)`` returns can be loaded.
        """
        return {"planned_iterations": self.planned_iterations, **self._store.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what ``state_dict`` of an engine with the same MDP, scale, runs and intervals returned, to go on.

        The number of planned batches comes along.

        Raises:
            CheckpointMismatch: the arrays belong to another one, or the number of planned batches is another one than
                was given here. Nothing is changed then.
        """
        planned = int(state.get("planned_iterations", -1))
        if planned < 0 or (self._plan_is_given and planned not in (0, self.planned_iterations)):
            raise CheckpointMismatch(
                f"The state's planned_iterations is {planned if planned >= 0 else 'missing'}, here it is "
                f"{self.planned_iterations}: build the engine with the same number, or with none."
            )
        self._store.load_state_dict(state)
        if not self._plan_is_given:
            self.planned_iterations = planned


def _checked(runs: Iterable[RunSettings]) -> tuple[RunSettings, ...]:
    if isinstance(runs, RunSettings) or not isinstance(runs, Iterable):
        raise InvalidSetting(f"runs= is a {type(runs).__name__}: give a list of RunSettings, even for one run.")
    checked = tuple(runs)
    if not checked:
        raise InvalidSetting("runs= is empty: give at least one RunSettings.")
    for settings in checked:
        if not isinstance(settings, RunSettings):
            raise InvalidSetting(f"runs= has an entry {settings!r}, which is no RunSettings.")
        one, other = (", ".join(run.constraints) or "none" for run in (checked[0], settings))
        if one != other:
            raise InvalidSetting(
                f"One run has the constraints {one}, another {other}: give all the same, with beta=0 where one is to "
                "have no effect, or use an engine for each."
            )
    return checked


CHUNK_SECONDS = 0.3
"""What a chunk is to take [s]: for so long Ctrl-C may have to wait, and progress stands still."""

_LEAST_WORK = 4_000  # transitions and cells of a run in one chunk: to begin and end it costs as much as some hundred
_SHRINKAGE, _GROWTH = 1 / 32, 8.0  # from one chunk to the next at most; the first may have waited for the compiler


def next_chunk(batches: int, seconds: float, shortest: int) -> int:
    """Batches of the next chunk, where so many took so long; at least ``shortest``, which are worth the overhead."""
    factor = min(max(CHUNK_SECONDS / max(seconds, 1e-9), _SHRINKAGE), _GROWTH)
    return max(shortest, int(batches * factor))
