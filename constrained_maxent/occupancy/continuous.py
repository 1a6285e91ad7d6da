r"""What all densities over continuous states share: samples, coordinates, masses and costs.

.. math:: \hat\lambda(s,a) = m\,\hat d(s)\,\pi(a|s) \qquad\text{(paper eq. }\lambda^{\mathrm{MLE}}_H\text{-Est)}

with the mass *m* of the batch and a density :math:`\hat d` of its states, which each estimator learns in its own way.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self, get_args

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidData, InvalidSetting, NonFiniteValue, UnsupportedSpace
from constrained_maxent.occupancy.base import OccupancyEstimator, check_memory, memory_at, require_keys
from constrained_maxent.occupancy.degeneracy import (
    LEAST_SAMPLES,
    UNFITTED,
    dependent,
    independent_gaussians,
    recurring,
)
from constrained_maxent.occupancy.gaussians import Mixture, floor_below, fold
from constrained_maxent.occupancy.memory import require_memory
from constrained_maxent.occupancy.mixed import MOST_VALUES, Mixed, few_valued, values_of
from constrained_maxent.occupancy.samples import LARGEST, Samples
from constrained_maxent.schedules import Schedule
from constrained_maxent.types import (
    Batch,
    FloatArray,
    IntArray,
    Measure,
    Points,
    check_count,
    check_seed,
    require_finite,
)

Domain = Literal["state", "state-action"]

_LARGEST_LOG = 700.0
"""exp overflows shortly above."""

_LEAST_LOG = -660.0
"""Below it a density loses digits in float64, and soon all of them."""

_MOST_TRAJECTORIES = 10**9
"""Of a batch, so that those of all batches have numbers of their own."""

_DEGREES = ((-180.0, 180.0), (0.0, 360.0))

_LOOKED_AT = 64
"""Samples whose mean log-density says where they lie."""


@dataclass(kw_only=True, eq=False, repr=False)
class ContinuousEstimator(OccupancyEstimator):
    """A density over the state, or over state and action together, learnt from the samples of a batch.

    A density of your own is a dataclass like :class:`~constrained_maxent.occupancy.NearestNeighbors` that implements
    ``learn`` and ``log_density``, over ``"state-action"`` also ``log_state_density``, and ``model`` and ``restore`` if
    the same samples would teach it something else the next time.

    Args:
        over: ``"state"``: the density is one of states; times π(a|s) where batches carry log π (``policy_log_prob`` of
            ``TrackOccupancy``), and otherwise λ̂ is that density of states alone. ``"state-action"``: one over (s, a),
            for ``Box`` actions.
        periodic: state coordinates that are angles in radians: -π and π are neighbors there.
        buffer_size: number of steps that the density is fitted to [steps]: the batch's own and before them the latest
            of earlier batches. ``None``: the batch's own alone, as the theory asks; a long buffer makes every policy
            answer to the average of its predecessors. Mass, costs and ``measure`` are the batch's own in any case.
        counted: state coordinates that take few values, such as contacts and flags, and have no density: λ̂ counts their
            combinations, and has a density of the other coordinates within each. ``None``: those that take 16 values at
            most in the first batches that have 64 steps together, as a warning then says (``MixedState``), until they
            take more.
        memory: as in ``Counts``, of mass and costs too. Steps whose share has faded below 1 % are dropped, or earlier
            where ``buffer_size`` says so.
        seed: of everything random in a fit.
    """

    over: Domain = "state"
    periodic: Sequence[int] = ()
    counted: Sequence[int] | None = None
    buffer_size: int | None = None
    memory: Schedule = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.over not in get_args(Domain):
            raise InvalidSetting(f"over={self.over!r} must be one of {', '.join(get_args(Domain))}.")
        self._angles = list(self.periodic)
        for angle in self._angles:
            check_count("periodic", angle, least=0)
        if len(set(self._angles)) != len(self._angles):
            raise InvalidSetting(f"periodic={self.periodic!r} lists a coordinate of the state twice.")
        for column in self.counted or ():
            check_count("counted", column, least=0)
        if self.buffer_size is not None:
            check_count("buffer_size", self.buffer_size)
        check_memory(self.memory)
        check_seed("seed", self.seed)
        self._samples: Samples
        self._n_states: int
        self._n_fits: int
        self._log_floor = floor_below(0.0)
        self._mixed: Mixed | None = None
        self._agreed: Sequence[int] | None = None  # what another estimate counts
        self._left: list[int] = []  # what was counted, and is not any more
        self._small: list[FloatArray | IntArray] = []  # states and lengths of batches too small to tell what to count
        self.trajectories: IntArray = np.zeros(0, dtype=np.int64)
        # The latest batch, where the samples of measure() are just its steps, and λ̂ there once somebody has asked.
        self._batch: Batch | None = None
        self._batch_points: Points | None = None

    @abstractmethod
    def learn(self, rows: FloatArray, weights: FloatArray, rng: np.random.Generator) -> None:
        """Fit the density to weighted samples.

        Args:
            rows: ``(n, n_features)``, the state and, over ``"state-action"``, the action after it; angles in [-π, π).
            weights: positive, ``(n,)``.
            rng: the same for the same fit.
        """

    @abstractmethod
    def log_density(self, rows: FloatArray) -> FloatArray:
        """Logarithm of the density learnt, ``(n,)``, at rows like those of ``learn``."""

    def log_state_density(self, states: FloatArray) -> FloatArray:
        """Logarithm of the state marginal, ``(n,)``, at states ``(n, n_states)``; asked over ``"state-action"`` only.

        Raises:
            UnsupportedSpace: this density has no marginal.
        """
        raise UnsupportedSpace(f"{type(self).__name__} has no marginal over states: take over='state'.")

    @property
    def asks_for_trajectories(self) -> bool:
        """Whether ``learn`` looks at ``trajectories``, the number of the trajectory of each row, ``(n,)``."""
        return False

    def influence(self, rows: FloatArray) -> FloatArray | None:
        """What :attr:`Points.influence` asks for, ``(n,)``, at rows like those of ``learn``; ``None`` for 1."""
        return None

    def state_influence(self, states: FloatArray) -> FloatArray | None:
        """The same of the state marginal, at states ``(n, n_states)``; asked over ``"state-action"`` only."""
        return None

    def state_measure(self) -> Mixture | None:
        """The state marginal, times the mass, if it is a mixture of Gaussians."""
        return None

    def forget(self) -> None:
        """Drop what ``learn`` learnt."""

    def model(self) -> dict[str, Any]:
        """What ``learn`` learnt as numbers and arrays; nothing, if learning again from the samples gives the same."""
        return {}

    def restore(self, model: Mapping[str, Any]) -> None:
        """Put back what ``model`` returned, for samples that are there already."""
        self._relearn()

    def fresh(self) -> Self:
        return type(self)(**self.get_params() | {"memory": 0.0, "buffer_size": None})

    @property
    def remembers(self) -> bool:
        return self.memory != 0.0 or self.buffer_size is not None

    def bind(self, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> Self:
        if not isinstance(observation_space, gym.spaces.Box):
            raise UnsupportedSpace(
                f"{type(self).__name__} needs states in a Box, not {observation_space}: give TrackOccupancy a state=, "
                "or take Counts."
            )
        if self.over == "state-action" and not isinstance(action_space, gym.spaces.Box):
            raise UnsupportedSpace(
                f"over='state-action' needs actions in a Box, not {action_space}: take over='state'."
            )
        if 0 in observation_space.shape:
            raise UnsupportedSpace(
                f"States in {observation_space} have no coordinates: give TrackOccupancy another state=."
            )
        if observation_space.shape:  # else the first batch will tell how many coordinates there are
            self._check_states(math.prod(observation_space.shape))
        spans = list(zip(observation_space.low.ravel().tolist(), observation_space.high.ravel().tolist(), strict=True))
        for angle in self._angles:
            if angle < len(spans) and spans[angle] in _DEGREES:
                raise InvalidSetting(
                    f"periodic={self.periodic!r}: coordinate {angle} lies between {spans[angle][0]:g} and "
                    f"{spans[angle][1]:g}, as degrees do, and angles are in radians here: convert it by state=, or "
                    "below TrackOccupancy."
                )
        self.is_bound = True
        self._forget_all()
        return self

    def _forget_all(self) -> None:
        for name in ("mass_", "expected_costs_", "_samples", "_n_states", "_n_fits"):
            self.__dict__.pop(name, None)
        self._batch = self._batch_points = self._mixed = None
        self._left, self._small = [], []
        self.forget()

    def fit(self, batch: Batch, *, progress: float = 0.0) -> Self:
        self.require_bound()
        n_fits = self._n_fits + 1 if self.is_fitted else 0
        known = memory_at(self.memory, progress) if n_fits else 0.0
        states = flat(batch.places)
        _require_squares(states)
        if not self.is_fitted:
            self._check_states(states.shape[1])
        columns: dict[str, NDArray[Any]] = {"states": states, "actions": batch.actions}
        # Functionals may ask for observations, densities do not.
        if batch.states is not None and batch.observations.size:
            columns["observations"] = batch.observations
        if batch.log_probs is not None:
            columns["log_probs"] = batch.log_probs
        columns |= {f"cost {name}": cost for name, cost in batch.costs.items()}
        if self.asks_for_trajectories:  # fragments of one episode in two batches are two
            columns["trajectory"] = np.repeat(np.arange(len(batch)) + _MOST_TRAJECTORIES * n_fits, batch.lengths)
        samples = Samples(columns, batch.weights / batch.n_episodes, np.zeros(batch.n_steps, dtype=np.int64))
        mass = float(samples.weights.sum())
        if self.buffer_size is not None:
            samples = samples.thinned(self.buffer_size, np.random.default_rng((self.seed, n_fits, 1)))
        if self.is_fitted and (self.memory or self.buffer_size is not None):
            samples = self._samples.followed_by(samples, memory=known, size=self.buffer_size)
        elif self.is_fitted and states.shape[1] != self._n_states:
            raise InvalidData(f"States have {states.shape[1]} coordinates, in earlier batches {self._n_states}.")
        self._batch = self._batch_points = None
        self._samples, self._n_states = samples, states.shape[1]
        self._count_few(states, batch.lengths, is_first=not self.is_fitted)
        self._n_fits = n_fits
        self._relearn()
        self.remember_costs(batch, known)
        self.mass_ = known * self.mass_ + (1.0 - known) * mass if known else mass
        if not self.memory and (self.buffer_size is None or batch.n_steps <= self.buffer_size):
            self._batch = batch
        return self

    def count_as(self, other: OccupancyEstimator) -> None:
        self._agreed = other.counts_few

    @property
    def counts_few(self) -> tuple[int, ...]:
        return () if self._mixed is None else tuple(self._mixed.columns)

    def _count_few(self, states: FloatArray, lengths: IntArray, *, is_first: bool) -> None:
        """Find the coordinates that take few values, as soon as samples tell, and later those that do not any more."""
        given = self.counted if self._agreed is None else self._agreed
        if is_first:
            self._small = [] if given is not None else [states[:0], lengths[:0]]
            self._count(given or ())
        if self._small:
            before_this, their_lengths = self._small
            seen: FloatArray = np.concatenate((before_this, states))
            parts: IntArray = np.concatenate((their_lengths, lengths))
            is_enough = len(seen) >= LEAST_SAMPLES
            self._small = [] if is_enough else [seen, parts]
            if is_enough and (found := few_valued(seen, parts.tolist())):
                self.forget()
                self._count(found)
        elif given is None and (before := self.counts_few):
            known = self._samples.columns["states"]
            left = [i for i in before if len(values_of(known[:, i])) > MOST_VALUES]
            if left:
                self.forget()
                self._count([i for i in before if i not in left])
                self._left += left

    def _count(self, columns: Sequence[int]) -> None:
        self._mixed = Mixed(columns, partial(self._within, columns)) if columns else None

    def shortage(self, n_samples: int, n_features: int) -> str | None:
        """What so many samples are too few for, and what to do, as a sentence; ``None``: for nothing that is known."""
        return None

    def _within(self, columns: Sequence[int], share: float) -> Self:
        """The density of a category with a share of the samples, over the coordinates that are not counted."""
        kept = [i for i in range(self._n_states) if i not in columns]
        angles = tuple(kept.index(i) for i in self._angles if i in kept)
        settings = {"periodic": angles, "counted": (), "memory": 0.0, "buffer_size": None}
        if not kept:  # of actions alone, which have no marginal over states
            settings["over"] = "state"
        parameters = self.get_params() | settings
        if "n_components" in parameters:  # as many for all categories as there would be without them
            parameters["n_components"] = max(1, round(share * parameters["n_components"]))
        density = type(self)(**parameters)
        density._n_states = len(kept)
        return density

    @property
    def notice(self) -> str | None:
        said = [] if self._mixed is None or self.counted is not None else [self._mixed.notice()]
        if self._left:
            said.append(
                f"Coordinates {', '.join(map(str, self._left))} of the state take more than {MOST_VALUES} values now: "
                "from here on they are measured, and entropies do not compare with those before."
            )
        return " ".join([*said, "Say by counted= which are, or leave them out by state=."]) if said else None

    def __getstate__(self) -> dict[str, Any]:
        # A copy need not carry the batch: its samples are all that it knows.
        return self.__dict__ | {"_batch": None, "_batch_points": None}

    def _check_states(self, n_states: int) -> None:
        if max(self.counted or (), default=-1) >= n_states:
            raise InvalidSetting(f"counted={self.counted!r}: states have only {n_states} coordinates, from 0.")
        if self._angles and max(self._angles) >= n_states:
            raise InvalidSetting(f"periodic={self.periodic!r}: states have only {n_states} coordinates, from 0.")
        require_memory(
            8 * self.size(n_states),
            f"{type(self).__name__} over {n_states} coordinates",
            "give TrackOccupancy a state= of fewer, such as a key of info or a function of the observation",
        )

    def size(self, n_features: int) -> int:
        """Float64 numbers that a fit over so many coordinates holds, at least: what does not fit is refused."""
        return n_features

    def _relearn(self) -> None:
        samples, rng = self._samples, np.random.default_rng((self.seed, self._n_fits))
        rows = self._rows(samples.columns["states"], samples.columns["actions"])
        weights, counted = samples.weights, samples.weights > 0.0
        if not counted.all():
            # Weights may underflow far into an episode. A batch without any mass still has a place.
            if not counted.any():
                counted, weights = np.ones(len(rows), dtype=bool), np.ones(len(rows))
            weights, rows = weights[counted], rows[counted]
        self.trajectories = samples.columns.get("trajectory", np.zeros(len(samples), dtype=np.int64))[counted]
        if self._mixed is None:
            self.learn(rows, weights, rng)
        else:
            self._mixed.learn(rows, weights, rng, self.trajectories)
        self._set_floor()

    def _set_floor(self) -> None:
        """Where the density ends, seen from samples of it."""
        columns, step = self._samples.columns, -(-len(self._samples) // _LOOKED_AT)
        typical = float(self._log_density_at(self._rows(columns["states"][::step], columns["actions"][::step])).mean())
        self._typical, self._log_floor = typical, floor_below(typical)

    def _log_density_at(self, rows: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):  # of squares, far away: then the log-density is -inf
            if self._mixed is None:
                return self.log_density(rows)
            return self._mixed.log_density(rows, type(self).log_density)

    def _log_state_density_at(self, states: FloatArray) -> FloatArray:
        if self._mixed is None:
            return self.log_state_density(states)
        return self._mixed.log_density(states, type(self).log_state_density)

    def _influence_at(self, rows: FloatArray, *, of_states: bool) -> FloatArray | None:
        ask = type(self).state_influence if of_states else type(self).influence
        return ask(self, rows) if self._mixed is None else self._mixed.influence(rows, ask)

    def _rows(self, states: NDArray[Any], actions: NDArray[Any]) -> FloatArray:
        """States, and actions where the density is over both, as ``learn`` gets them."""
        rows = flat(states)
        if rows.shape[1] != self._n_states:
            raise InvalidData(f"A state has {rows.shape[1]} coordinates here, {self._n_states} in the batch.")
        if self._angles:
            rows = rows.copy()
            for angle in self._angles:
                rows[:, angle] = fold(rows[:, angle])
        return np.concatenate((rows, flat(actions)), axis=1) if self.over == "state-action" else rows

    def log_prob(self, observations: NDArray[Any], actions: NDArray[Any]) -> FloatArray:
        """Logarithm of the density, ``(n,)``; where batches have states, they stand in place of the observations."""
        self.require_fit()
        log_density = self._log_density_at(self._rows(observations, actions))
        self._require_density(log_density)
        return log_density

    def points(
        self,
        observations: NDArray[Any],
        actions: NDArray[Any],
        costs: Mapping[str, FloatArray] | None = None,
        *,
        states: NDArray[Any] | None = None,
        log_probs: FloatArray | None = None,
    ) -> Points:
        self.require_fit()
        places = observations if states is None else states
        rows = self._rows(places, actions)
        log_density = log_state_density = self._log_density_at(rows)
        density = state_density = self._times_mass(log_density)
        influence = state_influence = self._influence_at(rows, of_states=False)
        if self.over == "state-action":
            log_state_density = self._log_state_density_at(rows[:, : self._n_states])
            state_density = self._times_mass(log_state_density)
            state_influence = self._influence_at(rows[:, : self._n_states], of_states=True)
        elif log_probs is not None:
            log_density = log_density + log_probs
            density = self._times_mass(log_density)
        return Points(
            density=density,
            state_density=state_density,
            observations=observations,
            actions=actions,
            states=places,
            costs=costs or {},
            is_over_actions=self.over == "state-action" or log_probs is not None,
            log_density=(log := self._log_of(log_density)),
            log_state_density=log if log_density is log_state_density else self._log_of(log_state_density),
            influence=influence,
            state_influence=state_influence,
            counted=self.counts_few,
        )

    def _times_mass(self, log_density: FloatArray) -> FloatArray:
        density: FloatArray = self.mass_ * np.exp(np.minimum(log_density, _LARGEST_LOG))
        return density

    def _log_of(self, log_density: FloatArray) -> FloatArray | None:
        """Logarithm of λ, no deeper than the floor, if λ itself would not do."""
        if len(log_density) == 1:
            low = high = log_density.item()
        else:
            low, high = float(log_density.min(initial=0.0)), float(log_density.max(initial=0.0))
        if low > _LEAST_LOG and high < _LARGEST_LOG:
            return None
        self._require_density(log_density)
        if not self.mass_ > 0.0 or (high < _LARGEST_LOG and self._log_floor == floor_below(0.0)):
            return None  # what underflows lies nowhere near the samples, and any small σ says so
        return np.logaddexp(log_density + math.log(self.mass_), self._log_floor)

    def share_beyond(self, points: Points) -> float:
        if points.log_state_density is not None:
            return float((points.log_state_density < self._log_floor + 1.0).mean())
        return float((points.state_density < math.exp(floor_below(0.0))).mean()) if self.mass_ > 0.0 else 0.0

    @property
    def doubt(self) -> str | None:
        columns = self._samples.columns
        rows, n = self._rows(columns["states"], columns["actions"]), self._n_states
        measured = [i for i in range(rows.shape[1]) if i not in self.counts_few]
        if len(rows) < LEAST_SAMPLES or not measured:
            return None
        if len(measured) < rows.shape[1]:
            rows = rows[:, measured]
        angles = [measured.index(i) for i in self._angles if i in measured]
        if same := np.flatnonzero(recurring(rows)).tolist():
            what = "the same values over and over, up to rounding, where a density needs them to differ"
        elif same := dependent(rows, angles):
            what = "one follows from the others, like a copy, a sum or the sine of a cosine: they have no density"
        elif (missed := independent_gaussians(rows) - self._typical) > UNFITTED * rows.shape[1]:
            return (
                f"At its samples {type(self).__name__} is {missed:.0f} nats below independent Gaussians: it has not "
                "reached them, as where they have far outliers, or other units than it begins in. Give the state in "
                "units of its standard deviations and without outliers by state=, or take GaussianMixture."
            )
        else:
            n_densities = 1 if self._mixed is None else max(1, len(self._mixed.densities))
            return self.shortage(len(rows) // n_densities, rows.shape[1])
        same = [measured[i] for i in same]
        listed = [f"coordinate {i} of the state" if i < n else f"coordinate {i - n} of the action" for i in same]
        more = f" and {len(listed) - 5} more" if len(listed) > 5 else ""
        remedy = "Leave such coordinates out by state=." if same[0] < n else "Take over='state'."
        return (
            f"{', '.join(listed[:5])}{more}: {what}. Entropies then also say how narrow {type(self).__name__} can be, "
            f"by nats. {remedy}"
        )

    def _require_density(self, log_density: FloatArray) -> None:
        if np.isnan(log_density).any():
            raise NonFiniteValue(
                f"{type(self).__name__} cannot tell the density of a state: its numbers are too large. Clip the "
                "observations, or choose coordinates by state=."
            )

    def points_of(self, batch: Batch) -> Points:
        """λ̂ at every step of a batch; at those of the batch that was fitted last it is evaluated only once."""
        if batch is not self._batch:
            return super().points_of(batch)
        if self._batch_points is None:
            self._batch_points = super().points_of(batch)
        return self._batch_points

    def measure(self) -> Measure:
        """The plain (weighted) mean over samples: those of the batch, or, with memory, all that are remembered."""
        self.require_fit()
        samples = self._samples if self.memory else self._samples.fresh()
        if self._batch is not None:
            points = self.points_of(self._batch)
        else:
            columns, costs = samples.columns, [name for name in samples.columns if name.startswith("cost ")]
            points = self.points(
                columns.get("observations", columns["states"]),
                columns["actions"],
                {name.removeprefix("cost "): columns[name] for name in costs},
                states=columns["states"],
                log_probs=columns.get("log_probs"),
            )
        total = float(samples.weights.sum())
        # What memory or the buffer dropped is stood for by what they kept.
        weights = samples.weights * (self.mass_ / total) if total > 0.0 else samples.weights
        states = self.state_measure() if self._mixed is None else None
        return Measure(points=points, weights=weights, expected_costs=self.expected_costs_, states=states)

    def state_dict(self) -> dict[str, Any]:
        self.require_bound()
        state: dict[str, Any] = {"kind": type(self).__name__, "over": self.over}
        if not self.is_fitted:
            return state
        return state | {
            "n_fits": self._n_fits,
            "mass": self.mass_,
            "expected_costs": dict(self.expected_costs_),
            "samples": self._samples.state_dict(),
            "counted": np.array(self.counts_few, dtype=np.int64),
            "left": np.array(self._left, dtype=np.int64),
            "small": dict(zip(("states", "lengths"), self._small, strict=False)),
            "model": (self if self._mixed is None else self._mixed).model(),
        }

    def live_state(self) -> dict[str, Any]:
        """Without the samples, but for those by which the floor is found; but where nothing else was learnt, all."""
        state = self.state_dict()
        if state.get("model"):
            step = -(-len(self._samples) // _LOOKED_AT)
            # None has an age: the few are no batch, and nobody remembers them.
            few = replace(self._samples[::step], ages=np.zeros(len(range(0, len(self._samples), step)), dtype=np.int64))
            state["samples"] = few.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.require_bound()
        if state.get("kind") != type(self).__name__ or state.get("over") != self.over:
            raise InvalidData(
                f"This state holds {state.get('kind')} over {state.get('over')!r}, here is {type(self).__name__} over "
                f"{self.over!r}."
            )
        if "samples" not in state:
            self._forget_all()
            return
        require_keys(state, "n_fits", "mass", "expected_costs", "model")
        samples = Samples.from_state(state["samples"])
        states = samples.columns.get("states")
        if states is None or len(states) != len(samples) or "actions" not in samples.columns:
            raise InvalidData(f"The samples of this state of {type(self).__name__} are not complete.")
        require_finite("states", states)
        self._check_states(states.shape[1])
        self._batch = self._batch_points = None
        self._samples, self._n_states, self._n_fits = samples, states.shape[1], int(state["n_fits"])
        self._count(np.array(state.get("counted", ()), dtype=np.int64).tolist())
        self._left = np.array(state.get("left", ()), dtype=np.int64).tolist()
        self._small = [np.array(part) for part in state.get("small", {}).values()]
        if self._mixed is None:
            self.restore(state["model"])
        elif state["model"]:
            self._mixed.restore(state["model"])
        else:
            self._relearn()
        self._set_floor()
        self.mass_ = float(state["mass"])
        self.expected_costs_ = {name: float(cost) for name, cost in state["expected_costs"].items()}


def flat(values: NDArray[Any]) -> FloatArray:
    """Rows of numbers, ``(n, n_features)`` in float64."""
    rows = np.asarray(values, dtype=np.float64)
    return rows if rows.ndim == 2 else rows.reshape(len(rows), -1)


def _require_squares(states: FloatArray) -> None:
    """Raise ``NonFiniteValue`` where squares of the states would overflow."""
    if np.abs(states).max(initial=0.0) > LARGEST:
        row, column = np.argwhere(np.abs(states) > LARGEST)[0]
        raise NonFiniteValue(
            f"Coordinate {column} of the state is {states[row, column]:g}: a density needs its square, which float64 "
            "does not hold. Clip the observations, or choose coordinates by state=."
        )


def check_positive(name: str, value: Any) -> None:
    """Raise ``InvalidSetting`` unless the value is a finite number above 0."""
    if not 0.0 < value < np.inf:
        raise InvalidSetting(f"{name}={value!r} must be a positive number.")
