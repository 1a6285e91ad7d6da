"""What can be set about one run of the engine, and its compiled form."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

from constrained_maxent.engine.compiled import inner
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals import Entropy, Functional
from constrained_maxent.occupancy import fresh_share
from constrained_maxent.problem import Constraint, Problem
from constrained_maxent.schedules import Geometric, Schedule
from constrained_maxent.tracker import Pairing
from constrained_maxent.types import check_count, check_seed, is_number

Optimizer = Literal["sgd", "normalized", "natural", "adam"]
Baseline = Literal["none", "batch-mean"]

NORMALIZED, NATURAL, ADAM = 1, 2, 3
"""Places in ``Optimizer``."""


_SCHEDULES = ("memory", "learning_rate", "beta", "momentum")
_POSITIVE = (lambda number: 0.0 < number < math.inf), "above 0, and finite"
_RANGES: dict[str, tuple[Callable[[float], bool], str]] = {
    "memory": (lambda number: 0.0 <= number < 1.0, "at least 0, and below 1"),
    "learning_rate": _POSITIVE,
    "beta": _POSITIVE,
    "momentum": (lambda number: 0.0 < number <= 1.0, "above 0, and at most 1"),
    "damping": _POSITIVE,
    "importance_bound": (lambda number: 1.0 <= number < math.inf, "at least 1, and finite"),
    "proximal_weight": (lambda number: 0.0 <= number < math.inf, "at least 0, and finite"),
    "projection_radius": _POSITIVE,
}


@dataclass(frozen=True, kw_only=True, eq=False)
class RunSettings:
    """One run: a problem, the hyperparameters of PGP on a table, and a seed.

    With a ``Lagrangian`` penalty it is primal-dual (projected dual ascent), with ``momentum`` below 1 and normalized
    steps besides VR-PDPG (Ying et al., 2025), with ``proximal_weight`` the proximal point penalty method (Algorithm 2).

    Raises:
        InvalidSetting: a value out of range or of another kind.

    >>> RunSettings(seed=3, learning_rate=Geometric(0.03, 0.0005), optimizer="adam").episodes_per_batch
    8
    """

    seed: int = 0
    """The seed of everything random. Runs with one seed share their random numbers, whatever else differs."""
    objective: Functional | None = field(default_factory=Entropy)
    """F, to be maximized; ``None`` for none."""
    constraints: Mapping[str, Constraint] = field(default_factory=dict)
    """R ≤ 0 by name, each with its penalty."""
    episodes_per_batch: int = 8
    """B, whole episodes of each iteration."""
    pairing: Pairing = "same"
    """Which estimate goes with which reward, as in ``TrackOccupancy``."""
    memory: Schedule = 0.0
    """Share of the old λ̂ that each batch keeps, in [0, 1), as in ``Counts``. A schedule is geometric in 1 - memory, the
    weight of the new batch."""
    learning_rate: Schedule = 0.01
    """η > 0."""
    beta: Schedule | None = None
    """β of all penalties instead of their own, above 0; for raising it during a run, as a penalty of its own,
    ``QuadraticContinuation``, does for one constraint."""
    optimizer: Optimizer = "sgd"
    """Plain gradient steps (Algorithm 1); steps of length η whatever the gradient's norm; natural gradient steps; or
    Adam with its usual constants. See :mod:`constrained_maxent.engine.steps`."""
    damping: float = 0.01
    """δ > 0 of the natural gradient, as a share of the mass that λ has if no episode ends early: it bounds the steps
    in states that λ̂ hardly knows."""
    momentum: Schedule = 1.0
    """α in (0, 1], 1 = no momentum: weight of the new batch in the variance-reduced estimates of λ and of the gradient.
    Take it with ``pairing="previous"``. See :mod:`constrained_maxent.engine.gradient`."""
    importance_bound: float = 2.0
    """Largest importance weight of an episode, at least 1; only momentum asks for it."""
    proximal_weight: float | None = None
    """ρ̂ ≥ 0 of the proximal term [nats], for Algorithm 2; ``None`` for Algorithm 1."""
    inner_iterations: int = 50
    """T_in ≥ 1: batches, each with one step, until the proximal term's center moves to where θ is."""
    baseline: Baseline = "none"
    """What is subtracted from returns: nothing (Algorithm 1), or the batch's mean at the same time step."""
    projection_radius: float | None = None
    """R of the projection of θ onto [-R, R] after each step. Default: none."""

    def __post_init__(self) -> None:
        for name, kinds in (("pairing", Pairing), ("optimizer", Optimizer), ("baseline", Baseline)):
            if (value := getattr(self, name)) not in get_args(kinds):
                raise InvalidSetting(f"{name}={value!r} must be one of {', '.join(get_args(kinds))}.")
        check_seed("seed", self.seed)
        if check_count("episodes_per_batch", self.episodes_per_batch) == 1 and self.pairing == "split":
            raise InvalidSetting("episodes_per_batch=1 must be at least 2: split needs two halves.")
        check_count("inner_iterations", self.inner_iterations)
        problem = Problem.of(self.objective, self.constraints)  # checks the parts and their names
        for name, (is_in_range, words) in _RANGES.items():
            given = getattr(self, name)
            values = (given.start, given.end) if isinstance(given, Geometric) and name in _SCHEDULES else (given,)
            may_lack = given is None and name in ("beta", "proximal_weight", "projection_radius")
            if not (may_lack or all(is_number(value) and is_in_range(value) for value in values)):
                raise InvalidSetting(f"{name}={given!r} must be a number {words}.")
        if self.uses_momentum and self.memory != 0.0:
            raise InvalidSetting("memory= and momentum= both carry λ̂ from batch to batch: choose one of them.")
        if self.beta is not None:
            for name, constraint in problem.constraints.items():
                if constraint.penalty.has_schedule or not hasattr(constraint.penalty, "beta"):
                    raise InvalidSetting(
                        f"beta= is given, but the penalty of {name!r} has none, or a schedule of its own: leave it out."
                    )

    @property
    def uses_momentum(self) -> bool:
        """Whether estimates of λ and of the gradient are variance-reduced."""
        return self.momentum != 1.0


class CompiledSchedule(NamedTuple):
    """A constant or geometric schedule: its start, and the logarithm of end / start."""

    start: float
    log_ratio: float

    @classmethod
    def of(cls, schedule: Schedule) -> CompiledSchedule:
        """The compiled form."""
        if isinstance(schedule, Geometric):
            return cls(float(schedule.start), math.log(schedule.end / schedule.start))
        return cls(float(schedule), 0.0)


@inner
def schedule_at(schedule: CompiledSchedule, progress: float) -> float:
    """The value where this share of the run, at most 1, is over."""
    if schedule.log_ratio == 0.0:
        return schedule.start
    return schedule.start * math.exp(progress * schedule.log_ratio)


class CompiledSettings(NamedTuple):
    """The settings of a run but for its problem and seed, as numbers. Every entry has one type, whatever was given:
    one machine code serves all runs.

    λ̂ is fitted on the first ``n_first`` episodes, the gradient uses those from ``first_used`` on. What is not given has
    a ``has_`` or ``use_`` of 0.
    """

    n_episodes: int
    n_first: int
    first_used: int
    is_previous: int
    fresh_share: CompiledSchedule
    learning_rate: CompiledSchedule
    has_beta: int
    beta: CompiledSchedule
    optimizer: int
    damping: float
    use_momentum: int
    momentum: CompiledSchedule
    importance_bound: float
    use_proximal: int
    proximal_weight: float
    inner_iterations: int
    use_baseline: int
    radius: float

    @classmethod
    def of(cls, settings: RunSettings) -> CompiledSettings:
        """The compiled form."""
        episodes, schedule = int(settings.episodes_per_batch), CompiledSchedule.of
        half = episodes // 2 if settings.pairing == "split" else 0
        return cls(
            n_episodes=episodes,
            n_first=half or episodes,
            first_used=half,
            is_previous=int(settings.pairing == "previous"),
            fresh_share=schedule(fresh_share(settings.memory)),
            learning_rate=schedule(settings.learning_rate),
            has_beta=int(settings.beta is not None),
            beta=schedule(settings.beta or 0.0),
            optimizer=get_args(Optimizer).index(settings.optimizer),
            damping=float(settings.damping),
            use_momentum=int(settings.uses_momentum),
            momentum=schedule(settings.momentum),
            importance_bound=float(settings.importance_bound),
            use_proximal=int(settings.proximal_weight is not None),
            proximal_weight=float(settings.proximal_weight or 0.0),
            inner_iterations=int(settings.inner_iterations),
            use_baseline=int(settings.baseline == "batch-mean"),
            radius=float(settings.projection_radius or math.inf),
        )
