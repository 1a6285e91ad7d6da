"""What can be set about one run of the engine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

from constrained_maxent.agents.tabular.schedules import Course, course_of
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals import Entropy, Functional
from constrained_maxent.problem import Constraint, Problem
from constrained_maxent.schedules import Geometric, Schedule

Pairing = Literal["split", "same", "previous"]
Optimizer = Literal["sgd", "adam"]
Baseline = Literal["none", "batch-mean"]

SAME, SPLIT, PREVIOUS = range(3)
_PAIRINGS = {"same": SAME, "split": SPLIT, "previous": PREVIOUS}


@dataclass(frozen=True, kw_only=True, eq=False)
class RunSettings:
    """One run: a problem, the hyperparameters of PGP on a table, and a seed.

    Raises:
        InvalidSetting: a value out of range.

    >>> RunSettings(seed=3, learning_rate=Geometric(0.03, 0.0005, 20_000), optimizer="adam").episodes_per_batch
    8
    """

    seed: int = 0
    """Of everything random. Runs with one seed share their random numbers, whatever else distinguishes them."""
    objective: Functional | None = field(default_factory=Entropy)
    """F, to be maximised; ``None`` for none."""
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
    """β of all penalties instead of their own, above 0; for raising it during a run."""
    optimizer: Optimizer = "sgd"
    """Plain gradient steps (Algorithm 1), or Adam with its usual constants."""
    baseline: Baseline = "none"
    """What is subtracted from returns: nothing (Algorithm 1), or the batch's mean at the same time step."""
    projection_radius: float | None = None
    """R of the projection of θ onto [-R, R] after each step. Default: none."""

    def __post_init__(self) -> None:
        for name, kinds in (("pairing", Pairing), ("optimizer", Optimizer), ("baseline", Baseline)):
            if getattr(self, name) not in get_args(kinds):
                raise InvalidSetting(f"{name}={getattr(self, name)!r} must be one of {', '.join(get_args(kinds))}.")
        if isinstance(self.seed, bool) or not self.seed >= 0 or self.seed % 1:
            raise InvalidSetting(f"seed={self.seed!r} must be a whole number of at least 0.")
        least = 2 if self.pairing == "split" else 1
        if not self.episodes_per_batch >= least or self.episodes_per_batch % 1:
            raise InvalidSetting(
                f"episodes_per_batch={self.episodes_per_batch!r} must be a whole number of at least {least}"
                f"{': split needs two halves' if least == 2 else ''}."
            )
        _check("memory", self.memory, 0.0, 1.0)
        _check("learning_rate", self.learning_rate, math.ulp(0.0), math.inf)
        if self.beta is not None:
            _check("beta", self.beta, math.ulp(0.0), math.inf)
            for name, constraint in self.constraints.items():
                if not hasattr(constraint.penalty, "beta"):
                    raise InvalidSetting(f"beta= is given, but the penalty of {name!r} has none: leave it out.")
        if self.projection_radius is not None:
            _check("projection_radius", self.projection_radius, math.ulp(0.0), math.inf)
        self.problem()  # checks the names

    def problem(self) -> Problem:
        """Objective and constraints as the single place that adds them up knows them."""
        problem = Problem(self.objective)
        for name, constraint in self.constraints.items():
            problem.add_constraint(name, constraint)
        return problem


class Hyperparameters(NamedTuple):
    """Settings in compiled form.

    Attributes:
        n_episodes: B.
        n_first: episodes that λ̂ is fitted on; the first half with ``SPLIT``.
        first_used: the first episode whose rewards belong to the gradient.
        pairing: ``SAME``, ``SPLIT`` or ``PREVIOUS``.
        fresh_share: 1 - memory.
        has_beta: whether ``beta`` replaces that of the penalties.
        use_adam, use_baseline: 0 or 1.
        radius: of the projection; infinite for none.
    """

    n_episodes: int
    n_first: int
    first_used: int
    pairing: int
    fresh_share: Course
    learning_rate: Course
    has_beta: int
    beta: Course
    use_adam: int
    use_baseline: int
    radius: float


def hyperparameters_of(settings: RunSettings) -> Hyperparameters:
    """The compiled form. Every entry has one type, whatever was given: one machine code serves all runs."""
    episodes = int(settings.episodes_per_batch)
    half = episodes // 2 if settings.pairing == "split" else 0
    return Hyperparameters(
        n_episodes=episodes,
        n_first=half or episodes,
        first_used=half,
        pairing=_PAIRINGS[settings.pairing],
        fresh_share=course_of(fresh_share(settings.memory)),
        learning_rate=course_of(settings.learning_rate),
        has_beta=int(settings.beta is not None),
        beta=course_of(0.0 if settings.beta is None else settings.beta),
        use_adam=int(settings.optimizer == "adam"),
        use_baseline=int(settings.baseline == "batch-mean"),
        radius=math.inf if settings.projection_radius is None else float(settings.projection_radius),
    )


def fresh_share(memory: Schedule) -> Schedule:
    """1 - memory: the weight of the new batch in λ̂."""
    if isinstance(memory, Geometric):
        return Geometric(1.0 - memory.start, 1.0 - memory.end, memory.iterations)
    return 1.0 - memory


def _check(name: str, schedule: Schedule, least: float, bound: float) -> None:
    for value in (schedule.start, schedule.end) if isinstance(schedule, Geometric) else (schedule,):
        if isinstance(value, bool) or not least <= value < bound:
            limits = f"lie in [0, {bound:g})" if least == 0.0 else "be a finite number above 0"
            raise InvalidSetting(f"{name}={value!r} must {limits}.")
