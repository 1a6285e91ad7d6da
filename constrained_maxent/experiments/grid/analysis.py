"""What came out of a study: mean ± standard deviation over seeds, and which of the paper's claims hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby, pairwise

import numpy as np

from constrained_maxent.errors import InfeasibleProblem
from constrained_maxent.experiments.grid.run import Row
from constrained_maxent.experiments.grid.sweep import World
from constrained_maxent.experiments.grid.worlds import OCCUPANCY, place_of
from constrained_maxent.types import FloatArray, IntArray

BEST_STATIONARY = 34.5415
"""Entropy of the best stationary policy at zero cost, as ``stationary_optimum`` finds it in some seconds [nats]."""

LATE_SHARE = 0.2
"""Of a run's iterations, at its end: the last 3000 of the paper's 15,000."""

MONOTONE_SLACK = 0.02
"""By which share a mean may rise from one β to the next and still count as falling: sampling noise."""

KEPT_VIOLATION = 0.84
"""Violation up to which a setting of the search counts as keeping the limit: PGP's at the paper's settings."""

OSCILLATION = 1.0
"""Standard deviation of the cost along a run's end from which it counts as oscillating; a step in a hole costs 50."""

ENTROPY_LOSS = 0.1
"""Share of the entropy that the choice of β may cost for it to count as staying."""


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
        late_std: standard deviation of the value along the last fifth of a run, mean over seeds.
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


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, whether the numbers bear it out, and the numbers."""

    text: str
    holds: bool
    numbers: str


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


def claims(summaries: Sequence[Summary]) -> list[Claim]:
    """What the paper says about a study, held against the numbers of its settings."""
    name = summaries[0].study
    if name == "fig1":
        return _claims_of_figure_1({summary.method: summary for summary in summaries})
    if name in ("defaults", "defaults-short"):
        return _claims_of_defaults(summaries[0])
    if name == "norm":
        return _claims_of_norm(summaries)
    if name == "norm-beta":
        stiffest = max(summary.beta for summary in summaries)
        return _claims_of_norm([summary for summary in summaries if summary.beta == stiffest])
    if name in ("ablation", "relaxed", "robustness"):
        return _claims_of_beta(summaries)
    if name == "primal-dual-search":
        return _claims_of_search(summaries)
    return []


def _claims_of_figure_1(by_method: dict[str, Summary]) -> list[Claim]:
    pgp, free, dual = (by_method[name] for name in ("pgp", "unconstrained", "primal-dual"))
    share = pgp.entropy / free.entropy
    ratio = dual.late_std / pgp.late_std if pgp.late_std > 0.0 else np.inf
    return [
        Claim(
            "PGP's entropy is slightly below the unconstrained one",
            0.85 < share < 1.0,
            f"{pgp.entropy:.2f} against {free.entropy:.2f} nats, {100 * (1 - share):.1f} % less",
        ),
        Claim(
            "PGP violates the constraint far less than the unconstrained policy",
            pgp.violation < 0.1 * free.violation,
            f"violation {pgp.violation:.2f} against {free.violation:.2f}",
        ),
        Claim(
            "primal-dual oscillates, PGP does not",
            ratio > 2.0,
            f"standard deviation of the cost over the last fifth: {dual.late_std:.2f} against {pgp.late_std:.2f}",
        ),
        Claim(
            "primal-dual explores less than PGP",
            dual.entropy < pgp.entropy,
            f"{dual.entropy:.2f} against {pgp.entropy:.2f} nats",
        ),
    ]


def _claims_of_defaults(summary: Summary) -> list[Claim]:
    return [
        Claim(
            f"entropy within 0.1 % of the best stationary {BEST_STATIONARY} in every seed",
            summary.least_entropy >= (1.0 - 0.001) * BEST_STATIONARY,
            f"at least {summary.least_entropy:.3f} nats",
        ),
        Claim("cost at most 0.05 in every seed", summary.largest_value <= 0.05, f"at most {summary.largest_value:.3f}"),
    ]


def _claims_of_norm(summaries: Sequence[Summary]) -> list[Claim]:
    ordered = sorted(summaries, key=lambda summary: summary.limit)
    return [
        Claim(
            f"the distance to the reference stays within b (β = {ordered[0].beta:g})",
            all(s.value - 2.0 * s.value_std <= s.limit for s in ordered),
            "; ".join(f"b = {s.limit:g}: {s.value:.3f} ± {s.value_std:.3f}" for s in ordered),
        ),
        Claim(
            "entropy increases with b",
            all(one.entropy < next_.entropy for one, next_ in pairwise(ordered)),
            "; ".join(f"b = {s.limit:g}: {s.entropy:.3f}" for s in ordered),
        ),
    ]


def _claims_of_beta(summaries: Sequence[Summary]) -> list[Claim]:
    def key(summary: Summary) -> tuple[int, float]:
        return summary.episodes_per_batch, summary.learning_rate

    groups = [
        sorted(group, key=lambda summary: summary.beta) for _, group in groupby(sorted(summaries, key=key), key=key)
    ]
    falling = [_all_pairs(group, lambda a, b: b.violation <= (1.0 + MONOTONE_SLACK) * a.violation) for group in groups]
    # Relative to the highest: how much entropy the choice of β costs at most.
    losses = [1.0 - min(s.entropy for s in group) / max(s.entropy for s in group) for group in groups]
    return [
        Claim(
            "violation falls monotonically in β",
            all(falling),
            f"in {sum(falling)} of {len(falling)} pairs of batch size and step size",
        ),
        Claim(
            "entropy stays as β grows",
            max(losses) < ENTROPY_LOSS,
            f"in {sum(loss < ENTROPY_LOSS for loss in losses)} of {len(losses)} pairs it varies by less than "
            f"{100 * ENTROPY_LOSS:g} %; in all by {100 * min(losses):.1f} to {100 * max(losses):.1f} %",
        ),
    ]


def _claims_of_search(summaries: Sequence[Summary]) -> list[Claim]:
    def best(group: list[Summary]) -> Summary:
        """Most entropy among those that keep the limit as well as PGP at the paper's settings does."""
        keeping = [s for s in group if s.violation <= KEPT_VIOLATION]
        return max(keeping, key=lambda s: s.entropy) if keeping else min(group, key=lambda s: s.violation)

    plain, reduced = (best([s for s in summaries if s.method == name]) for name in ("primal-dual", "vr-pdpg"))

    def described(s: Summary) -> str:
        rates = f"α_θ = {s.learning_rate:g}, α_μ = {s.dual_rate:g}, α_t = {s.momentum:g}"
        return f"{s.entropy:.2f} nats at {s.value:.3f} with {rates}"

    oscillating = [s for s in summaries if s.method == "primal-dual" and s.late_std > OSCILLATION]
    n_plain = sum(s.method == "primal-dual" for s in summaries)
    return [
        Claim(
            "momentum brings no improvement",
            reduced.violation > KEPT_VIOLATION or reduced.entropy <= plain.entropy,
            f"without {described(plain)}; with {described(reduced)}",
        ),
        Claim(
            "primal-dual oscillates",
            2 * len(oscillating) > n_plain,
            f"at {len(oscillating)} of {n_plain} pairs the cost's standard deviation over the last fifth exceeds "
            f"{OSCILLATION:g}",
        ),
    ]


def _all_pairs(group: Sequence[Summary], test: Callable[[Summary, Summary], bool]) -> bool:
    return all(test(one, next_) for one, next_ in pairwise(group))


def _last(values: FloatArray) -> FloatArray:
    """Of every seed the last value that is known."""
    known = np.isfinite(values)
    last = values.shape[1] - 1 - np.argmax(known[:, ::-1], axis=1)
    picked: FloatArray = values[np.arange(len(values)), last]
    return picked


def _deviation_along(values: FloatArray) -> float:
    """Standard deviation over time, mean over the seeds that came so far; NaN if none did."""
    deviations = [series[np.isfinite(series)].std() for series in values if np.isfinite(series).any()]
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
