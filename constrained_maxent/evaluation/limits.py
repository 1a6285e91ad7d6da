"""Is a limit kept? In words, with what to do where it is not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from constrained_maxent.evaluation.exact import ExactEvaluation
from constrained_maxent.evaluation.statistics import Estimate, estimate_of
from constrained_maxent.problem import Constraint
from constrained_maxent.records import Violations
from constrained_maxent.spaces import Environment
from constrained_maxent.tracker import Tracker, find_tracker

_LEAST_EPISODES = 6
"""Of fewer episodes not even the range holds the median with 95 % confidence: 1 - 2/2ⁿ."""
_ROUNDING = 1e-9
"""Exact values are sums: below this share of the limit, or of 1 where it is 0, their sign is rounding."""


@dataclass(frozen=True, kw_only=True)
class LimitVerdict:
    """Whether a limit is kept, by how much, and what to do.

    Attributes:
        name: of the constraint.
        limit: of its functional.
        violation: R, with its interval where it was sampled; kept where ≤ 0.
        n_episodes: that it was sampled from; ``None`` where it is exact.
        status: ``"undecided"`` where the interval holds 0, or there are too few episodes for one.
        remedy: what to do unless it is kept, a sentence; empty where it is.
    """

    name: str
    limit: float
    violation: Estimate
    n_episodes: int | None
    status: Literal["kept", "broken", "undecided"]
    remedy: str

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """The verdict that ``dataclasses.asdict`` described."""
        return cls(**{**content, "violation": Estimate(**content["violation"])})

    def __str__(self) -> str:
        found = self.violation
        if self.status == "undecided" or (self.status == "kept" and found.mean > 0.0):
            how = f"value - limit is {_signed(found.mean)}"
        else:
            how = f"by {abs(found.mean):.4g}"
            if self.status == "broken" and self.limit:
                how += f" ({abs(found.mean / self.limit):.0%} of it)"
        source = "exactly" if self.n_episodes is None else f"in {self.n_episodes} episodes"
        if self.n_episodes is not None and found.low < found.high:
            source += f", 95 % interval of value - limit {_signed(found.low)} to {_signed(found.high)}"
        elif self.n_episodes is not None and self.status != "undecided":
            source += ", without an interval"
        words = f"{self.name}: limit {self.limit:.4g} {self.status}, {how}, {source}."
        return f"{words} {self.remedy}" if self.remedy else words


def judge(name: str, constraint: Constraint, violation: Estimate, *, n_episodes: int | None = None) -> LimitVerdict:
    """Say whether a limit is kept.

    Args:
        name: of the constraint.
        constraint: with the penalty that was to enforce it.
        violation: R.
        n_episodes: that R was sampled from; ``None`` where it is exact.
    """
    limit = constraint.functional.limit
    status: Literal["kept", "broken", "undecided"]
    if math.isnan(violation.mean):
        status = "undecided"
    elif n_episodes is None:
        status = "kept" if is_kept(violation.mean, limit) else "broken"
    elif n_episodes < _LEAST_EPISODES:
        status = "undecided"
    elif violation.high <= 0.0:
        status = "kept"
    else:
        status = "broken" if violation.low > 0.0 else "undecided"
    remedy = ""
    if status == "broken":
        remedy = constraint.penalty.remedy
    elif status == "undecided":
        remedy = _more_episodes(violation, n_episodes or 0)
    return LimitVerdict(
        name=name, limit=limit, violation=violation, n_episodes=n_episodes, status=status, remedy=remedy
    )


def is_kept(violation: float, limit: float) -> bool:
    """Whether R ≤ 0, but for rounding."""
    return violation <= _ROUNDING * (abs(limit) or 1.0)


def _more_episodes(violation: Estimate, n_episodes: int) -> str:
    """About how many decide: an interval narrows with the square root of their number."""
    if math.isnan(violation.mean):
        return "The value is no number: look at the cost, or at the functional."
    if n_episodes < _LEAST_EPISODES:
        return f"Fewer than {_LEAST_EPISODES} episodes decide nothing: evaluate more."
    half = max(violation.high - violation.mean, violation.mean - violation.low)
    if not math.isfinite(half):
        return "The interval has no end: evaluate more episodes."
    if abs(violation.mean) < 0.03 * half:
        return "The value is so near to the limit that no number of episodes will decide: it is kept but for noise."
    needed = n_episodes * (half / abs(violation.mean)) ** 2
    digits = 10 ** max(math.floor(math.log10(needed)) - 1, 0)
    return f"Evaluate about {math.ceil(1.2 * needed / digits) * digits} episodes to decide."


def judge_exactly(constraints: Mapping[str, Constraint], exact: ExactEvaluation) -> tuple[LimitVerdict, ...]:
    """:func:`judge` of every constraint, by exact values."""
    return verdicts(constraints, {name: Estimate.exactly(value) for name, value in exact.constraints.items()})


def judge_last_batch(tracker: Tracker) -> tuple[LimitVerdict, ...]:
    """:func:`judge` of every constraint, by the last batch alone, of the policy that collected it.

    A batch of fragments stands for as many episodes as their steps make up.
    """
    batch = tracker.last_batch
    if batch is None or not batch.n_steps:
        return ()
    estimator = tracker.alone(batch)
    measure, points = estimator.measure(), estimator.points_of(batch)
    values = {
        name: estimate_of(constraint.functional, measure, batch, points, seed=0)
        for name, constraint in tracker.problem.constraints.items()
    }
    return verdicts(tracker.problem.constraints, values, n_episodes=round(batch.n_episodes))


def describe_training(env: Environment) -> list[str]:
    """What learning on an environment ended with and what it has cost, in sentences.

    Args:
        env: the wrapped environment that anyone's agent has learnt on.

    Returns:
        Of each constraint, whether the last batch kept its limit, and how far it was broken on the way. Fresh episodes
        (:func:`~constrained_maxent.evaluation.evaluate_rollouts`) tell more of the policy that came out.
    """
    tracker = find_tracker(env)
    return [str(verdict) for verdict in judge_last_batch(tracker)] + on_the_way(tracker)


def on_the_way(tracker: Tracker) -> list[str]:
    """How far each constraint was broken while an agent learnt, in words."""
    return [
        _on_the_way(name, tracker.violations[name], tracker.recorded_steps)
        for name in tracker.problem.constraints
        if name in tracker.violations
    ]


def _on_the_way(name: str, record: Violations, steps: int) -> str:
    if record.total == 0.0:
        return f"{name}: no batch of the training was above its limit; the nearest was {_signed(record.worst)}."
    return (
        f"{name}, while training: {record.steps / steps:.0%} of all steps were in batches above the limit, the worst "
        f"(iteration {record.worst_iteration + 1}) by {record.worst:.4g}; all batches together by "
        f"{record.total:.4g}."
    )


def _signed(value: float) -> str:
    return f"{value:+.4g}"


def verdicts(
    constraints: Mapping[str, Constraint], values: Mapping[str, Estimate], *, n_episodes: int | None = None
) -> tuple[LimitVerdict, ...]:
    """:func:`judge` of every constraint."""
    return tuple(
        judge(name, constraint, values[name], n_episodes=n_episodes) for name, constraint in constraints.items()
    )
