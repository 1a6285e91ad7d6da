"""What was seen, and what is known of λ: trajectories, batches, points and measures, all frozen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from constrained_maxent.errors import InvalidData, InvalidSetting, NonFiniteValue

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def require_finite(name: str, values: NDArray[Any]) -> None:
    """Raise ``NonFiniteValue`` if a numeric array holds NaN or infinity."""
    if values.dtype.kind not in "biuf":
        raise InvalidData(f"{name} must be numbers, got dtype {values.dtype}.")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values))[0][0]) if values.ndim else 0
        raise NonFiniteValue(f"{name} must be finite; entry {row} is {values[row] if values.ndim else values}.")


def is_number(value: object) -> bool:
    """Whether this is a real number of Python or NumPy; a truth value is none."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def check_count(name: str, value: object, *, least: int = 1) -> int:
    """The value, a whole number of at least ``least``; ``InvalidSetting`` if it is something else."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InvalidSetting(f"{name}={value!r} must be a whole number of at least {least}.")
    return int(value)


def check_seed(name: str, value: object) -> int:
    """The value, a whole number of Python or NumPy in [0, 2**64), which all generators here take.

    Raises:
        InvalidSetting: it is something else.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value < 2**64:
        raise InvalidSetting(f"{name}={value!r} must be a whole number of at least 0 and below 2**64.")
    return int(value)


def random_numbers(seed: int | np.random.Generator) -> np.random.Generator:
    """The generator itself, or one of a seed; ``InvalidSetting`` for what is neither."""
    return seed if isinstance(seed, np.random.Generator) else np.random.default_rng(check_seed("seed", seed))


def as_array(name: str, values: ArrayLike, dtype: Any = None) -> NDArray[Any]:
    """``np.asarray``, with a named error for ragged lists and for what is not a number."""
    try:
        return np.asarray(values, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise InvalidData(f"{name} cannot be made an array: {error}.") from error


def _column(name: str, values: ArrayLike, length: int) -> NDArray[Any]:
    column = as_array(name, values)
    if column.ndim == 0 or len(column) != length:
        raise InvalidData(f"{name} must have one entry per step ({length}), got shape {column.shape}.")
    require_finite(name, column)
    return column


def _scalar_column(name: str, values: ArrayLike, length: int) -> FloatArray:
    column = as_array(name, values, np.float64)
    if column.shape != (length,):
        raise InvalidData(f"{name} must have one number per step, shape ({length},), got shape {column.shape}.")
    require_finite(name, column)
    return column


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Trajectory:
    """Consecutive steps of one episode, usually all of them.

    Args:
        observations: where each action was taken, ``(n_steps, ...)``.
        actions: the actions, ``(n_steps, ...)``.
        weights: discount weights w_t of λ, ``(n_steps,)``; ones if not given.
        costs: c(s_t, a_t) by name, each ``(n_steps,)``; positive means bad.
        log_probs: log π(a_t|s_t) of the policy that acted, ``(n_steps,)``, or ``None`` where unknown.
        states: what the occupancy is over, coordinates or cells, ``(n_steps, ...)``; ``None`` means the observations.
        start: time of the first step within its episode [steps]; above 0 for a later fragment of an episode.
        terminated: the environment ended the episode here.
        truncated: a time limit, or a reset, ended it.

    Raises:
        InvalidData: no steps, columns of different length, or negative weights.
        NonFiniteValue: NaN or infinity anywhere.
    """

    observations: NDArray[Any]
    actions: NDArray[Any]
    weights: FloatArray = None  # type: ignore[assignment]  # filled in below
    costs: Mapping[str, FloatArray] = field(default_factory=dict)
    log_probs: FloatArray | None = None
    states: NDArray[Any] | None = None
    start: int = 0
    terminated: bool = False
    truncated: bool = False

    def __post_init__(self) -> None:
        _validate_columns(self, len(np.atleast_1d(as_array("observations", self.observations))))
        if self.start < 0:
            raise InvalidData(f"start={self.start} must be a time of at least 0.")

    def __len__(self) -> int:
        return len(self.observations)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Batch:
    r"""Trajectories of one policy, end to end in flat columns.

    Its estimate of the occupancy measure is :math:`\hat\lambda = \frac1E \sum_i w_i\,\delta_{s_i,a_i}` (paper
    eq. :math:`\lambda^{\mathrm{MC}}_H`-Est), with *E* = ``n_episodes``.

    Args:
        observations: ``(n_steps, ...)``; ``(n_steps, 0)`` where there are states, and nobody looks at observations.
        actions: ``(n_steps, ...)``.
        lengths: steps of each trajectory, ``(n_trajectories,)``, summing to ``n_steps``.
        weights: discount weights w_t, ``(n_steps,)``; ones if not given.
        costs: by name, each ``(n_steps,)``.
        log_probs: ``(n_steps,)`` or ``None``.
        states: what the occupancy is over, coordinates or cells, ``(n_steps, ...)``; ``None`` means the observations.
        starts: time of each trajectory's first step within its episode, ``(n_trajectories,)``; zeros if not given.
        terminated, truncated: how each trajectory ended, ``(n_trajectories,)``; a fragment whose episode goes on has
            neither.
        episodes: how many whole episodes the batch stands for; by default the number of trajectories. Fragments count
            less.

    Raises:
        InvalidData: no steps, columns of different length, or negative weights.
        NonFiniteValue: NaN or infinity anywhere.
    """

    observations: NDArray[Any]
    actions: NDArray[Any]
    lengths: IntArray
    weights: FloatArray = None  # type: ignore[assignment]  # filled in below
    costs: Mapping[str, FloatArray] = field(default_factory=dict)
    log_probs: FloatArray | None = None
    states: NDArray[Any] | None = None
    starts: IntArray = None  # type: ignore[assignment]
    terminated: NDArray[np.bool_] = None  # type: ignore[assignment]
    truncated: NDArray[np.bool_] = None  # type: ignore[assignment]
    episodes: float | None = None

    def __post_init__(self) -> None:
        lengths = as_array("lengths", self.lengths)
        if lengths.ndim != 1 or len(lengths) == 0 or lengths.dtype.kind not in "iu" or lengths.min() < 1:
            raise InvalidData("lengths must list the whole number of steps, at least 1, of at least one trajectory.")
        n = len(lengths)
        object.__setattr__(self, "lengths", lengths.astype(np.int64))
        _validate_columns(self, int(lengths.sum()))
        for name, dtype in (("starts", np.int64), ("terminated", np.bool_), ("truncated", np.bool_)):
            given = getattr(self, name)
            column = np.zeros(n, dtype) if given is None else as_array(name, given, dtype)
            if column.shape != (n,):
                raise InvalidData(f"{name} must have one entry per trajectory ({n}), got shape {column.shape}.")
            object.__setattr__(self, name, column)
        if self.starts.min() < 0:
            raise InvalidData(f"starts must be times of at least 0, got {self.starts.min()}.")
        if self.episodes is not None and not 0.0 < self.episodes < np.inf:
            raise InvalidData(f"episodes={self.episodes!r} must be a positive number.")

    @classmethod
    def from_trajectories(cls, trajectories: Sequence[Trajectory]) -> Batch:
        """Put trajectories end to end. All must report the same costs, and all or none have states.

        Log-probabilities are kept if all have them.
        """
        if not trajectories:
            raise InvalidData("A batch needs at least one trajectory.")
        names = set(trajectories[0].costs)
        if any(set(t.costs) != names for t in trajectories):
            raise InvalidData("All trajectories of a batch must report the same costs.")
        for column in ("observations", "actions"):
            shapes = {getattr(t, column).shape[1:] for t in trajectories}
            if len(shapes) > 1:
                raise InvalidData(f"All trajectories of a batch must have {column} of one shape, got {sorted(shapes)}.")
        log_probs = [t.log_probs for t in trajectories if t.log_probs is not None]
        states = [t.states for t in trajectories if t.states is not None]
        if len(states) not in (0, len(trajectories)) or len({rows.shape[1:] for rows in states}) > 1:
            raise InvalidData("All trajectories of a batch must have states of one shape, or none.")
        return cls(
            observations=np.concatenate([t.observations for t in trajectories]),
            actions=np.concatenate([t.actions for t in trajectories]),
            lengths=np.array([len(t) for t in trajectories]),
            weights=np.concatenate([t.weights for t in trajectories]),
            costs={name: np.concatenate([t.costs[name] for t in trajectories]) for name in sorted(names)},
            log_probs=np.concatenate(log_probs) if len(log_probs) == len(trajectories) else None,
            states=np.concatenate(states) if states else None,
            starts=np.array([t.start for t in trajectories]),
            terminated=np.array([t.terminated for t in trajectories]),
            truncated=np.array([t.truncated for t in trajectories]),
        )

    @property
    def places(self) -> NDArray[Any]:
        """What λ̂ is over, ``(n_steps, ...)``: the states, or the observations where there are none."""
        return self.observations if self.states is None else self.states

    @property
    def n_episodes(self) -> float:
        """How many whole episodes the batch stands for."""
        return float(len(self.lengths)) if self.episodes is None else self.episodes

    def __len__(self) -> int:
        """Number of trajectories."""
        return len(self.lengths)

    @property
    def n_steps(self) -> int:
        """Number of steps of all trajectories."""
        return len(self.observations)

    def split(self, column: NDArray[Any]) -> list[NDArray[Any]]:
        """Cut a column ``(n_steps, ...)`` into one view per trajectory."""
        ends = np.cumsum(self.lengths)
        return [column[end - length : end] for end, length in zip(ends.tolist(), self.lengths.tolist(), strict=True)]

    def take(self, start: int, stop: int) -> Batch:
        """The trajectories ``start`` to ``stop - 1`` as a batch that stands for its share of the episodes."""
        bounds = np.concatenate(([0], np.cumsum(self.lengths)))
        steps = slice(int(bounds[start]), int(bounds[stop]))
        share = (stop - start) / len(self) if (self.starts == 0).all() else (steps.stop - steps.start) / self.n_steps
        return Batch(
            observations=self.observations[steps],
            actions=self.actions[steps],
            lengths=self.lengths[start:stop],
            weights=self.weights[steps],
            costs={name: cost[steps] for name, cost in self.costs.items()},
            log_probs=None if self.log_probs is None else self.log_probs[steps],
            states=None if self.states is None else self.states[steps],
            starts=self.starts[start:stop],
            terminated=self.terminated[start:stop],
            truncated=self.truncated[start:stop],
            episodes=self.n_episodes * share,
        )

    def __iter__(self) -> Iterator[Trajectory]:
        columns = (self.observations, self.actions, self.weights)
        for i, (observations, actions, weights) in enumerate(zip(*map(self.split, columns), strict=True)):
            yield Trajectory(
                observations=observations,
                actions=actions,
                weights=weights,
                costs={name: self.split(cost)[i] for name, cost in self.costs.items()},
                log_probs=None if self.log_probs is None else self.split(self.log_probs)[i],
                states=None if self.states is None else self.split(self.states)[i],
                start=int(self.starts[i]),
                terminated=bool(self.terminated[i]),
                truncated=bool(self.truncated[i]),
            )


def _validate_columns(record: Trajectory | Batch, n_steps: int) -> None:
    """Convert and check the per-step columns that trajectories and batches share."""
    if n_steps == 0:
        raise InvalidData("A trajectory needs at least one step.")
    weights = np.ones(n_steps) if record.weights is None else record.weights
    columns: dict[str, Any] = {
        "observations": _column("observations", record.observations, n_steps),
        "actions": _column("actions", record.actions, n_steps),
        "weights": _scalar_column("weights", weights, n_steps),
        "costs": {name: _scalar_column(f"costs[{name!r}]", cost, n_steps) for name, cost in dict(record.costs).items()},
    }
    if columns["weights"].min() < 0.0:
        raise InvalidData(f"weights must not be negative, the smallest is {columns['weights'].min():g}.")
    if record.log_probs is not None:
        columns["log_probs"] = _scalar_column("log_probs", record.log_probs, n_steps)
    if record.states is not None:
        columns["states"] = _column("states", record.states, n_steps)
    for name, column in columns.items():
        object.__setattr__(record, name, column)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Points:
    """Places (s, a) at which λ is known: where functionals are differentiated.

    Args:
        density: λ there, of any shape: the mass of a cell in finite spaces, a density elsewhere.
        state_density: its state marginal d(s) there, same shape.
        cells: in finite spaces the cell's number s·|A| + a, same shape; ``None`` means all cells in order.
        observations, actions: the places themselves, for functionals that ask for them (continuous spaces).
        states: what λ is a density over there, where it is one: the observations, unless the batch had states.
        costs: what the environment charged there, by name, same shape.
        is_over_actions: whether λ is one of states and actions; if not, where log π is unknown, it is one of states
            alone (continuous spaces).
        log_density, log_state_density: logarithms of the two [nats], same shape, where a density is so small or so
            large that float64 does not hold it at some of the places; ``None``: the two above tell all.
        influence, state_influence: by how much weight at a place raises log λ̂ at the samples, Σ_i w_i ∂ log λ̂(s_i)/∂w,
            same shape; ``None`` for 1, which it is on average, and everywhere where λ̂ is linear in its samples.
        counted: coordinates of the state that a density counts: λ is one of the others, for each of their values.
    """

    density: FloatArray
    state_density: FloatArray
    cells: IntArray | None = None
    observations: NDArray[Any] | None = None
    actions: NDArray[Any] | None = None
    states: NDArray[Any] | None = None
    costs: Mapping[str, FloatArray] = field(default_factory=dict)
    is_over_actions: bool = True
    log_density: FloatArray | None = None
    log_state_density: FloatArray | None = None
    influence: FloatArray | None = None
    state_influence: FloatArray | None = None
    counted: tuple[int, ...] = ()

    @property
    def are_cells(self) -> bool:
        """Whether λ is the mass of cells here, numbered or as a whole table, and not a density."""
        return self.cells is not None or self.density.ndim == 2


class StateMeasure(Protocol):
    """A measure of states that is known as a formula, not only at points, so that two of them can be compared."""

    def density(self, states: NDArray[Any]) -> FloatArray:
        """Mass times density, ``(n,)``, at states ``(n, n_states)``."""

    def squared_distance(self, other: Any) -> float:
        """∫ (d - d')² over all states."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Measure:
    """An occupancy measure as functionals see it: ∫ f dλ = Σ weights · f(points).

    In finite spaces the points are cells and the weights are their masses. Elsewhere the points are samples.

    Args:
        points: where λ is known. Cells that are not among them have mass 0.
        weights: of the shape of ``points.density``.
        expected_costs: ⟨c, λ⟩ of each cost that the environment reported, by name.
        states: the state marginal as a formula, from estimators that have one (mixtures of Gaussians).
    """

    points: Points
    weights: FloatArray
    expected_costs: Mapping[str, float] = field(default_factory=dict)
    states: StateMeasure | None = None

    @classmethod
    def from_table(cls, table: ArrayLike, expected_costs: Mapping[str, float] | None = None) -> Measure:
        """The measure of a whole table λ(s, a), ``(n_states, n_actions)``.

        Raises:
            InvalidData: not a table, or a negative mass.
            NonFiniteValue: NaN or infinity.
        """
        mass = as_array("λ", table, np.float64)
        if mass.ndim != 2:
            raise InvalidData(f"λ must be a table of shape (n_states, n_actions), got shape {mass.shape}.")
        require_finite("λ", mass)
        if mass.size and mass.min() < 0.0:
            raise InvalidData(f"λ must not be negative, its smallest entry is {mass.min():g}.")
        marginal = np.broadcast_to(mass.sum(axis=1, keepdims=True), mass.shape)
        return cls(
            points=Points(density=mass, state_density=marginal), weights=mass, expected_costs=dict(expected_costs or {})
        )
