"""The arrays of all runs: what they carry from batch to batch, what they write down, and the result made of it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from constrained_maxent.engine.compiled import UserFunction
from constrained_maxent.engine.kernel import DIVERGED, ITERATION, STEPS, State, Trace
from constrained_maxent.engine.multipliers import ADAPTIVE, Penalties, penalties_of
from constrained_maxent.engine.sampling import Dynamics, stream_key
from constrained_maxent.engine.settings import ADAM, CompiledSettings, RunSettings
from constrained_maxent.engine.terms import Terms, terms_of
from constrained_maxent.errors import CheckpointMismatch, InvalidSetting
from constrained_maxent.functionals import Functional
from constrained_maxent.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False, repr=False)
class TabularResult:
    """All runs, from their first batch on. The first axis of every array is the run.

    What is recorded is what the run itself sees: λ̂ with its memory, entropies with their smoothing. A batch that a run
    did not reach, because it diverged or was interrupted, is NaN.

    Attributes:
        iterations: batches done, ``(n_runs,)``.
        transitions: steps taken in the MDP, ``(n_runs,)``.
        diverged: the batch in which the gradient or the step was no longer finite, -1 where they always were,
            ``(n_runs,)``. Such a run stops there, with the θ that it had.
        theta: θ at the end, ``(n_runs, n_states, n_actions)``.
        multipliers: μ of the penalties at the end, by constraint, each ``(n_runs,)``.
        snapshot_iterations: after how many batches the snapshots were taken, ``(n_snapshots,)``.
        snapshots: θ there, ``(n_runs, n_snapshots, n_states, n_actions)``.
        record_iterations: numbers of the recorded batches, ``(n_records,)``.
        objective: F(λ̂) of these batches, ``(n_runs, n_records)``.
        constraints: R(λ̂) by name, each ``(n_runs, n_records)``; satisfied where ≤ 0.
        slopes: ℒ'(R) by name, each ``(n_runs, n_records)``: what multiplies the constraint's pseudo-reward.
    """

    iterations: IntArray
    transitions: IntArray
    diverged: IntArray
    theta: FloatArray
    multipliers: Mapping[str, FloatArray]
    snapshot_iterations: IntArray
    snapshots: FloatArray
    record_iterations: IntArray
    objective: FloatArray
    constraints: Mapping[str, FloatArray]
    slopes: Mapping[str, FloatArray]

    @property
    def policies(self) -> FloatArray:
        """π(a|s) at the end, ``(n_runs, n_states, n_actions)``."""
        return _policies(self.theta)

    @property
    def snapshot_policies(self) -> FloatArray:
        """π(a|s) at the snapshots, ``(n_runs, n_snapshots, n_states, n_actions)``."""
        return _policies(self.snapshots)

    def __repr__(self) -> str:
        runs, least, most = len(self.iterations), min(self.iterations), max(self.iterations)
        done = f"{least}" if least == most else f"{least} to {most}"
        return f"TabularResult({runs} runs of {done} batches, {int(self.transitions.sum()):,} transitions)"


def _policies(theta: FloatArray) -> FloatArray:
    with np.errstate(invalid="ignore", over="ignore"):  # NaN where a run never came; θ may be as large as floats get
        policies: FloatArray = softmax(theta, axis=-1)
    return policies


class PreparedRun(NamedTuple):
    """A run in compiled form, multipliers and largest violations at its start, and what its terms point to."""

    terms: Terms
    penalties: Penalties
    settings: CompiledSettings
    key: np.uint64
    multipliers: FloatArray
    peaks: FloatArray
    functions: tuple[UserFunction, ...]


def prepare(runs: Sequence[RunSettings], n_states: int, n_actions: int) -> list[PreparedRun]:
    """The compiled form of all runs; those with the same functionals share their tables."""
    known: dict[tuple[Functional | None, ...], tuple[Terms, tuple[UserFunction, ...]]] = {}
    prepared = []
    for run in runs:
        # Functionals compare by identity.
        functionals = (run.objective, *(constraint.functional for constraint in run.constraints.values()))
        if functionals not in known:
            known[functionals] = terms_of(functionals, n_states, n_actions)
        terms, functions = known[functionals]
        penalties, multipliers, peaks = penalties_of([constraint.penalty for constraint in run.constraints.values()])
        settings, key = CompiledSettings.of(run), stream_key(run.seed)
        prepared.append(PreparedRun(terms, penalties, settings, key, multipliers, peaks, functions))
    return prepared


def _digest(parts: Iterable[object]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else np.asarray(part).tobytes())
    return digest.hexdigest()


def _parts(run: PreparedRun) -> Iterator[object]:
    """All that determines what a run does, but for the MDP."""
    yield repr((run.settings, int(run.key), [function.digest for function in run.functions]))
    yield from run.terms._replace(addresses=np.zeros(0, dtype=np.int64))  # other ones in every process
    yield from (*run.penalties, run.multipliers, run.peaks)


def scratch_bytes(dynamics: Dynamics, settings: CompiledSettings) -> int:
    """What a thread takes to work on a run: a batch's cells, and a dozen tables; with momentum half as many more."""
    tables = (18 if settings.use_momentum else 12) * dynamics.n_states * dynamics.n_actions
    return settings.n_episodes * (4 * len(dynamics.weights) + 20) + 8 * tables


_BELONGS = {
    "fingerprint": "runs with other settings",
    "dynamics": "another MDP, or to another discount, horizon or scale of it",
    "snapshot_every": "an engine with another snapshot_every=",
    "record_every": "an engine with another record_every=",
}
_GROWING = ("snapshots", "objective", "violations", "slopes")


class Store:
    """Arrays with the run as first axis, by their names in ``State`` and ``Trace``, and the views of each run.

    Raises:
        InvalidSetting: they would need more memory than ``memory_limit``, with what ``threads`` work on [bytes].
    """

    def __init__(
        self,
        prepared: Sequence[PreparedRun],
        names: Sequence[str],
        dynamics: Dynamics,
        *,
        threads: int,
        snapshot_every: int,
        record_every: int,
        memory_limit: float,
    ) -> None:
        self._prepared, self._names = prepared, tuple(names)
        self._table = (dynamics.n_states, dynamics.n_actions)
        self._snapshot_every, self._record_every = snapshot_every, record_every
        self._memory_limit = memory_limit
        largest = sorted((scratch_bytes(dynamics, run.settings) for run in prepared), reverse=True)
        self._scratch = sum(largest[:threads])
        self._origin = {
            "fingerprint": _digest(part for run in prepared for part in _parts(run)),
            "dynamics": _digest(dynamics),
            "snapshot_every": snapshot_every,
            "record_every": record_every,
        }
        shapes = self._shapes(n_snapshots=0, n_records=0)
        self.arrays: dict[str, NDArray[Any]] = {name: np.zeros(shape) for name, shape in shapes.items()}
        for name, starts in (
            ("multipliers", [run.multipliers for run in prepared]),
            ("peaks", [run.peaks for run in prepared]),
            ("counters", np.array([0, 0, 0, -1])),
        ):
            self.arrays[name] = np.broadcast_to(starts, shapes[name]).copy()

    def _shapes(self, *, n_snapshots: int, n_records: int) -> dict[str, tuple[int, ...]]:
        """Shapes of all arrays. Raises ``InvalidSetting`` where they exceed the memory limit."""
        n, table, constraints = len(self._prepared), self._table, len(self._names)
        settings = [run.settings for run in self._prepared]
        # What only some kinds of step carry has no rows where no run takes them.
        adam = n * any(run.optimizer == ADAM for run in settings)
        momentum = n * any(run.use_momentum for run in settings)
        proximal = n * any(run.use_proximal for run in settings)
        shapes = {
            "theta": (n, *table),
            "occupancy": (n, table[0] * table[1]),
            **dict.fromkeys(("mean", "square"), (adam, *table)),
            **dict.fromkeys(("previous_theta", "previous_rewards", "direction"), (momentum, *table)),
            "center": (proximal, *table),
            **dict.fromkeys(("multipliers", "peaks"), (n, constraints)),
            "counters": (n, 4),
            "snapshots": (n, n_snapshots, *table),
            "objective": (n, n_records),
            **dict.fromkeys(("violations", "slopes"), (n, n_records, constraints)),
        }
        needed = 8 * sum(map(math.prod, shapes.values())) + self._scratch
        if needed > self._memory_limit:
            raise InvalidSetting(
                f"{n} runs with {n_snapshots} snapshots and {n_records} records each need {needed / 2**30:.3g} GiB, of "
                f"which {self._scratch / 2**30:.3g} for the batches under way: more than memory_limit allows "
                f"({self._memory_limit / 2**30:.3g} GiB). Take fewer runs at a time, fewer threads= or "
                "episodes_per_batch, or a larger snapshot_every= or record_every=."
            )
        return shapes

    def reserve(self, iterations: int) -> None:
        """Make room for what so many batches write down. Raises ``InvalidSetting`` beyond the memory limit."""
        shapes = self._shapes(
            n_snapshots=iterations // self._snapshot_every + 1 if self._snapshot_every else 0,
            n_records=-(-iterations // self._record_every) if self._record_every else 0,
        )
        for name in _GROWING:
            array, shape = self.arrays[name], shapes[name]
            if array.shape[1] < shape[1]:
                self.arrays[name] = np.full(shape, np.nan)
                self.arrays[name][:, : array.shape[1]] = array

    def state(self, i: int) -> State:
        """What run *i* carries, as views."""
        arrays = {name: self.arrays[name] for name in State._fields}
        return State(**{name: array[i] if len(array) else array[:, 0] for name, array in arrays.items()})

    def trace(self, i: int) -> Trace:
        """Where run *i* writes, as views; valid until the next ``reserve``."""
        return Trace(self._record_every, self._snapshot_every, **{name: self.arrays[name][i] for name in _GROWING})

    def result(self) -> TabularResult:
        """Copies of everything, for the user to keep."""
        arrays = {name: self.arrays[name].copy() for name in ("theta", "multipliers", "counters", *_GROWING)}
        counters, multipliers, peaks = arrays["counters"], arrays["multipliers"], self.arrays["peaks"]
        # In place of a multiplier, an adaptive Lagrangian has a price of its largest violation.
        adapts = np.array([run.penalties.kinds for run in self._prepared]) == ADAPTIVE
        multipliers[adapts] *= peaks[adapts] > 0.0
        multipliers[adapts] /= np.where(peaks[adapts] > 0.0, peaks[adapts], 1.0)

        def by_name(array: FloatArray) -> dict[str, FloatArray]:
            return {name: array[..., i] for i, name in enumerate(self._names)}

        return TabularResult(
            iterations=counters[:, ITERATION],
            transitions=counters[:, STEPS],
            diverged=counters[:, DIVERGED],
            theta=arrays["theta"],
            multipliers=by_name(multipliers),
            snapshot_iterations=np.arange(arrays["snapshots"].shape[1]) * self._snapshot_every,
            snapshots=arrays["snapshots"],
            record_iterations=np.arange(arrays["objective"].shape[1]) * self._record_every,
            objective=arrays["objective"],
            constraints=by_name(arrays["violations"]),
            slopes=by_name(arrays["slopes"]),
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything as arrays, copied, and what they belong to: digests of settings and MDP, and the intervals."""
        return {**self._origin, **{name: array.copy() for name, array in self.arrays.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what ``state_dict`` returned.

        Raises:
            CheckpointMismatch: the arrays belong to other runs, another MDP or other intervals. Nothing is changed.
        """
        for name, here in self._origin.items():
            if str(state.get(name)) != str(here):
                raise CheckpointMismatch(f"The state belongs to {_BELONGS[name]}: build the engine with the same.")
        arrays = {}
        for name, mine in self.arrays.items():
            array, shape = np.array(state.get(name)), list(mine.shape)
            if name in _GROWING:
                shape[1:2] = array.shape[1:2]
            if array.shape != tuple(shape):
                raise CheckpointMismatch(f"The state's {name} has shape {array.shape}, here it has {mine.shape}.")
            arrays[name] = np.ascontiguousarray(array, dtype=mine.dtype)
        self.arrays = arrays
