"""The arrays of all runs: what they carry from batch to batch, what they write down, and the result made of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
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
    for settings in runs:
        # Functionals compare by identity.
        functionals = (settings.objective, *(constraint.functional for constraint in settings.constraints.values()))
        if functionals not in known:
            known[functionals] = terms_of(functionals, n_states, n_actions)
        terms, functions = known[functionals]
        penalties, multipliers, peaks = penalties_of([c.penalty for c in settings.constraints.values()])
        prepared.append(
            PreparedRun(
                terms=terms,
                penalties=penalties,
                settings=CompiledSettings.of(settings),
                key=stream_key(settings.seed),
                multipliers=multipliers,
                peaks=peaks,
                functions=functions,
            )
        )
    return prepared


def fingerprint(prepared: Sequence[PreparedRun]) -> str:
    """A digest of everything that determines what the runs do, but for the MDP."""
    digest = hashlib.sha256()
    for run in prepared:
        functions = [function.digest for function in run.functions]
        digest.update(repr((run.settings, int(run.key), functions)).encode())
        terms = run.terms._replace(addresses=np.zeros(0, dtype=np.int64))  # other ones in every process
        for entry in (*terms, *run.penalties, run.multipliers, run.peaks):
            digest.update(np.asarray(entry).tobytes())
    return digest.hexdigest()


def fingerprint_of_dynamics(dynamics: Dynamics) -> str:
    """A digest of the MDP: moves, start, and the weights of its steps, which discount, horizon and scale give."""
    digest = hashlib.sha256()
    for entry in dynamics:
        digest.update(np.asarray(entry).tobytes())
    return digest.hexdigest()


def scratch_bytes(dynamics: Dynamics, settings: CompiledSettings) -> int:
    """What a thread takes to work on a run: a batch's cells, and a dozen tables; with momentum half as many more."""
    n_cells = dynamics.n_states * dynamics.n_actions
    tables = (18 if settings.use_momentum else 12) * n_cells
    return settings.n_episodes * (4 * len(dynamics.weights) + 20) + 8 * tables


class Store:
    """Arrays with the run as first axis, and the views that the compiled code works on.

    Args:
        prepared: the runs.
        names: of the constraints.
        dynamics: the MDP.
        threads: how many runs are worked on at a time.
        snapshot_every, record_every: batches between entries; 0 for none.
        memory_limit: most memory for all arrays together [bytes].

    Raises:
        InvalidSetting: more memory would be needed.
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
        self.names, self.shape = tuple(names), (dynamics.n_states, dynamics.n_actions)
        shape = self.shape
        self.n_runs, self.n_cells = len(prepared), shape[0] * shape[1]
        self.snapshot_every, self.record_every = snapshot_every, record_every
        self._memory_limit = memory_limit
        largest = sorted((scratch_bytes(dynamics, run.settings) for run in prepared), reverse=True)
        self._scratch = sum(largest[:threads])
        self._origin = {
            "fingerprint": fingerprint(prepared),
            "dynamics": fingerprint_of_dynamics(dynamics),
            "snapshot_every": snapshot_every,
            "record_every": record_every,
        }
        # What only some kinds of step carry exists for the runs that take them.
        adam = np.array([run.settings.optimizer == ADAM for run in prepared])
        momentum = np.array([bool(run.settings.use_momentum) for run in prepared])
        proximal = np.array([bool(run.settings.use_proximal) for run in prepared])
        self._users = {
            "mean": adam,
            "square": adam,
            "previous_theta": momentum,
            "previous_rewards": momentum,
            "direction": momentum,
            "center": proximal,
        }
        self._require_memory(n_snapshots=0, n_records=0)
        self.theta = np.zeros((self.n_runs, *shape))
        self.occupancy = np.zeros((self.n_runs, self.n_cells))
        self.optional: dict[str, FloatArray] = {
            name: np.zeros((int(users.sum()), *shape)) for name, users in self._users.items()
        }
        self.multipliers = np.array([run.multipliers for run in prepared]).reshape(self.n_runs, len(self.names))
        kinds = np.array([run.penalties.kinds for run in prepared], dtype=np.int64)
        self._adapts = kinds.reshape(self.multipliers.shape) == ADAPTIVE
        self.peaks = np.array([run.peaks for run in prepared]).reshape(self.n_runs, len(self.names))
        self.counters: IntArray = np.zeros((self.n_runs, 4), dtype=np.int64)
        self.counters[:, DIVERGED] = -1
        self.snapshots = np.empty((self.n_runs, 0, *shape))
        self.objective = np.empty((self.n_runs, 0))
        self.violations = np.empty((self.n_runs, 0, len(self.names)))
        self.slopes = np.empty((self.n_runs, 0, len(self.names)))

    def reserve(self, iterations: int) -> None:
        """Make room for what so many batches write down.

        Raises:
            InvalidSetting: it would exceed the memory limit.
        """
        n_snapshots = iterations // self.snapshot_every + 1 if self.snapshot_every else 0
        n_records = -(-iterations // self.record_every) if self.record_every else 0
        self._require_memory(n_snapshots=n_snapshots, n_records=n_records)
        self.snapshots = _longer(self.snapshots, n_snapshots)
        self.objective, self.violations, self.slopes = (
            _longer(array, n_records) for array in (self.objective, self.violations, self.slopes)
        )

    def _require_memory(self, *, n_snapshots: int, n_records: int) -> None:
        tables = (2 + n_snapshots) * self.n_runs + sum(int(users.sum()) for users in self._users.values())
        numbers = tables * self.n_cells + self.n_runs * n_records * (1 + 2 * len(self.names))
        needed = 8 * numbers + self._scratch
        if needed > self._memory_limit:
            raise InvalidSetting(
                f"{self.n_runs} runs with {n_snapshots} snapshots and {n_records} records each need "
                f"{needed / 2**30:.3g} GiB, of which {self._scratch / 2**30:.3g} for the batches under way: more than "
                f"memory_limit allows ({self._memory_limit / 2**30:.3g} GiB). Take fewer runs at a time, fewer "
                "threads= or episodes_per_batch, or a larger snapshot_every= or record_every=."
            )

    def state(self, i: int) -> State:
        """What run *i* carries, as views."""

        def table(name: str) -> FloatArray:
            users = self._users[name]
            row = int(users[:i].sum())
            return self.optional[name][row : row + int(users[i])].reshape(-1, self.shape[1])

        return State(
            theta=self.theta[i],
            occupancy=self.occupancy[i],
            **{name: table(name) for name in self._users},
            multipliers=self.multipliers[i],
            peaks=self.peaks[i],
            counters=self.counters[i],
        )

    def trace(self, i: int) -> Trace:
        """Where run *i* writes, as views; valid until the next ``reserve``."""
        return Trace(
            record_every=self.record_every,
            snapshot_every=self.snapshot_every,
            objective=self.objective[i],
            violations=self.violations[i],
            slopes=self.slopes[i],
            snapshots=self.snapshots[i],
        )

    def result(self) -> TabularResult:
        """Copies of everything, for the user to keep."""

        def by_name(array: FloatArray) -> dict[str, FloatArray]:
            return {name: array[..., i].copy() for i, name in enumerate(self.names)}

        return TabularResult(
            iterations=self.counters[:, ITERATION].copy(),
            transitions=self.counters[:, STEPS].copy(),
            diverged=self.counters[:, DIVERGED].copy(),
            theta=self.theta.copy(),
            multipliers=by_name(self._multipliers()),
            snapshot_iterations=np.arange(self.snapshots.shape[1]) * self.snapshot_every,
            snapshots=self.snapshots.copy(),
            record_iterations=np.arange(self.objective.shape[1]) * self.record_every,
            objective=self.objective.copy(),
            constraints=by_name(self.violations),
            slopes=by_name(self.slopes),
        )

    def _multipliers(self) -> FloatArray:
        """μ of every run, ``(n_runs, n_constraints)``: an adaptive Lagrangian has a price of its largest violation."""
        units = np.where(self._adapts & (self.peaks > 0.0), self.peaks, 1.0)
        return np.where(self._adapts & (self.peaks == 0.0), 0.0, self.multipliers / units)

    # Checkpoints.

    _ARRAYS = (
        "theta", "occupancy", "multipliers", "peaks", "counters",
        "snapshots", "objective", "violations", "slopes",
    )  # fmt: skip

    def state_dict(self) -> dict[str, Any]:
        """Everything as arrays, copied, and what they belong to: digests of settings and MDP, and the intervals."""
        arrays = {name: getattr(self, name) for name in self._ARRAYS} | self.optional
        return {**self._origin, **{name: array.copy() for name, array in arrays.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what ``state_dict`` returned.

        Raises:
            CheckpointMismatch: the arrays belong to other runs, another MDP or other intervals. Nothing is changed.
        """
        self._require_same_origin(state)
        arrays: dict[str, Any] = {}
        for name in (*self._ARRAYS, *self.optional):
            mine = self.optional[name] if name in self.optional else getattr(self, name)
            array = np.array(state[name]) if name in state else np.zeros(())
            grows = name in ("snapshots", "objective", "violations", "slopes")
            if (
                array.ndim != mine.ndim
                or array.shape[2 * grows :] != mine.shape[2 * grows :]
                or len(array) != len(mine)
            ):
                raise CheckpointMismatch(f"The state's {name} has shape {array.shape}, here it has {mine.shape}.")
            arrays[name] = np.ascontiguousarray(array, dtype=mine.dtype)
        for name, array in arrays.items():
            if name in self.optional:
                self.optional[name] = array
            else:
                setattr(self, name, array)

    def _require_same_origin(self, state: Mapping[str, Any]) -> None:
        belongs = {
            "fingerprint": "to runs with other settings",
            "dynamics": "to another MDP, or to another discount, horizon or scale of it",
            "snapshot_every": "to an engine with another snapshot_every=",
            "record_every": "to an engine with another record_every=",
        }
        for name, here in self._origin.items():
            if name not in state or str(state[name]) != str(here):
                raise CheckpointMismatch(f"The state belongs {belongs[name]}: build the engine with the same.")


def _longer(array: FloatArray, length: int) -> FloatArray:
    """The array with at least so many entries along its second axis, NaN in the new ones."""
    missing = length - array.shape[1]
    if missing <= 0:
        return array
    room = np.full((array.shape[0], missing, *array.shape[2:]), np.nan)
    return np.concatenate([array, room], axis=1)
