"""What came out of a study: courses over iterations, mean ± standard deviation over seeds, and the optima."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

from constrained_maxent.errors import InfeasibleProblem
from constrained_maxent.reproduction.grid.run import Row
from constrained_maxent.reproduction.grid.sweep import World
from constrained_maxent.reproduction.grid.worlds import OCCUPANCY, place_of
from constrained_maxent.types import FloatArray, IntArray

BEST_STATIONARY = 34.5415
"""Entropy of the best stationary policy at zero cost, as ``stationary_optimum`` finds it in some seconds [nats]."""

UNCONSTRAINED_COST = 123.87
"""Cost of the best stationary policy without the constraint, as ``unconstrained_violation`` finds it."""

LATE_SHARE = 0.2
"""Of a run's iterations, at its end: the last 3000 of the paper's 15,000."""


@dataclass(frozen=True)
class Summary:
    """A setting: means over seeds, each with the standard deviation over seeds.

    Attributes:
        study, method, episodes_per_batch, learning_rate, beta, dual_rate, momentum, limit: which setting.
        seeds: how many.
        entropy, entropy_std: of the last policy [nats].
        value, value_std: its cost or distance.
        least_entropy, largest_value: of the worst seeds.
        violation: mean of [value - limit]₊.
        late_std: standard deviation of the value along the last fifth of a run, mean over seeds; NaN if that has fewer
            than two evaluated policies.
        late_entropy_std: the same of the entropy.
    """

    study: str
    method: str
    episodes_per_batch: int
    learning_rate: float
    beta: float
    dual_rate: float
    momentum: float
    limit: float
    seeds: int
    entropy: float
    entropy_std: float
    value: float
    value_std: float
    least_entropy: float
    largest_value: float
    violation: float
    late_std: float
    late_entropy_std: float


@dataclass(frozen=True, eq=False)
class Course:
    """A setting over its iterations: exact values, ``(n_seeds, n)``, NaN where a run never came.

    ``transitions`` are those before each policy, mean over the seeds that came there, ``(n,)``.
    """

    first: Row
    iterations: IntArray
    transitions: FloatArray
    entropy: FloatArray
    value: FloatArray

    def summary(self) -> Summary:
        """Its last policies in numbers."""
        last_entropy, last_value = _last(self.entropy), _last(self.value)
        late = self.iterations >= (1.0 - LATE_SHARE) * self.iterations[-1]
        row, several = self.first, min(len(last_value) - 1, 1)
        return Summary(
            study=row.study,
            method=row.method,
            episodes_per_batch=row.episodes_per_batch,
            learning_rate=row.learning_rate,
            beta=row.beta,
            dual_rate=row.dual_rate,
            momentum=row.momentum,
            limit=row.limit,
            seeds=len(last_value),
            entropy=float(last_entropy.mean()),
            entropy_std=float(last_entropy.std(ddof=several)),
            value=float(last_value.mean()),
            value_std=float(last_value.std(ddof=several)),
            least_entropy=float(last_entropy.min()),
            largest_value=float(last_value.max()),
            violation=float(np.maximum(last_value - row.limit, 0.0).mean()),
            late_std=_deviation_along(self.value[:, late]),
            late_entropy_std=_deviation_along(self.entropy[:, late]),
        )


def _setting(row: Row) -> tuple[str, str, int, float, float, float, float, float]:
    return (
        row.study,
        row.method,
        row.episodes_per_batch,
        row.learning_rate,
        row.beta,
        row.dual_rate,
        row.momentum,
        row.limit,
    )


def courses(rows: Iterable[Row]) -> list[Course]:
    """The rows by setting, in the order in which settings come first."""
    found = []
    by_setting: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        by_setting.setdefault(_setting(row), []).append(row)
    for group in by_setting.values():
        iterations = sorted({row.iteration for row in group})
        column = {iteration: i for i, iteration in enumerate(iterations)}
        line = {seed: i for i, seed in enumerate(sorted({row.seed for row in group}))}
        entropy, value, transitions = np.full((3, len(line), len(column)), np.nan)
        for row in group:
            entropy[line[row.seed], column[row.iteration]] = row.entropy
            value[line[row.seed], column[row.iteration]] = row.value
            transitions[line[row.seed], column[row.iteration]] = row.transitions
        mean = np.nanmean(transitions, axis=0)
        found.append(Course(group[0], np.array(iterations, dtype=np.int64), mean, entropy, value))
    return found


def _last(values: FloatArray) -> FloatArray:
    """Of every seed the last value that is known."""
    known = np.isfinite(values)
    last = values.shape[1] - 1 - np.argmax(known[:, ::-1], axis=1)
    picked: FloatArray = values[np.arange(len(values)), last]
    return picked


def _deviation_along(values: FloatArray) -> float:
    """Standard deviation over time, mean over the seeds of which two values are known; NaN if there is none."""
    deviations = [series[np.isfinite(series)].std() for series in values if np.isfinite(series).sum() > 1]
    return float(np.mean(deviations)) if deviations else float("nan")


@cache
def optimum(world: World, limit: float, *, constrained: bool = True) -> float | None:
    """Entropy that no policy exceeds, time-dependent ones included [nats]; ``None`` if no policy keeps the limit."""
    # Imported late: the convex solver takes a second.
    from constrained_maxent.oracle import solve

    place = place_of(world)
    try:
        constraints = {"constraint": place.at_limit(limit)} if constrained else {}
        return solve(place.mdp, constraints=constraints, scale=OCCUPANCY).value
    except InfeasibleProblem:
        return None


@cache
def stationary_optimum(world: World, limit: float, *, constrained: bool = True) -> float:
    """Entropy of the best stationary policy that exact gradients find from two starts [nats]; takes seconds."""
    from constrained_maxent.oracle import best_stationary

    place = place_of(world)
    constraints = {"constraint": place.at_limit(limit)} if constrained else {}
    return best_stationary(place.mdp, constraints=constraints, scale=OCCUPANCY, starts=2)[0].value


@cache
def unconstrained_violation(world: World) -> float:
    """Violation of the best stationary policy without the constraint, at limit 0; takes a second."""
    from constrained_maxent.oracle import best_stationary

    place = place_of(world)
    best = best_stationary(place.mdp, constraints={}, scale=OCCUPANCY, starts=1)[0]
    return max(place.measure(best.policy)[1], 0.0)
