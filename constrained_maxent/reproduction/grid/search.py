"""What the primal-dual search found: for each batch size and momentum, how many settings are good, and the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from constrained_maxent.reproduction.grid.analysis import BEST_STATIONARY, UNCONSTRAINED_COST, Summary
from constrained_maxent.reproduction.grid.reach import SHARES

KEPT_VIOLATION = 0.05
"""Mean violation up to which a setting counts as keeping the limit, that of the environment's defaults."""

SHARE = SHARES[0]


@dataclass(frozen=True)
class Found:
    """All pairs of step sizes at one batch size and momentum.

    Attributes:
        episodes_per_batch, momentum: B and α_t; 1 is primal-dual without momentum.
        settings: how many.
        close: how many have, at the end, an entropy at most 5 % below the best stationary policy's, and a violation of
            at most 5 % of the cost that the best stationary policy without the constraint has; means over seeds.
        keeping: how many have a violation of at most ``KEPT_VIOLATION``.
        learning_rate, dual_rate: α_θ and α_μ of the best: most entropy among those; least violation, if there are none.
        entropy, entropy_std: its own [nats].
        value, value_std: its cost.
        violation: its violation.
    """

    episodes_per_batch: int
    momentum: float
    settings: int
    close: int
    keeping: int
    learning_rate: float
    dual_rate: float
    entropy: float
    entropy_std: float
    value: float
    value_std: float
    violation: float

    @property
    def keeps(self) -> bool:
        """Whether the best keeps the limit."""
        return _keeps(self)

    def __str__(self) -> str:
        rates = f"α_θ = {self.learning_rate:g}, α_μ = {self.dual_rate:g}, α_t = {self.momentum:g}"
        return f"{self.entropy:.2f} nats at {self.value:.3f} with {rates}"


Measured = TypeVar("Measured", Summary, Found)


def search_results(summaries: Sequence[Summary]) -> list[Found]:
    """The search by batch size, and by momentum from 1 down."""
    groups: dict[tuple[int, float], list[Summary]] = {}
    for summary in sorted(summaries, key=lambda s: (s.episodes_per_batch, -s.momentum)):
        groups.setdefault((summary.episodes_per_batch, summary.momentum), []).append(summary)
    return [_found(group) for group in groups.values()]


def best_of(settings: Sequence[Measured]) -> Measured:
    """Most entropy among those that keep the limit; the least violation if none does."""
    keeping = [one for one in settings if _keeps(one)]
    return max(keeping, key=lambda one: one.entropy) if keeping else min(settings, key=lambda one: one.violation)


def _keeps(setting: Summary | Found) -> bool:
    return setting.violation <= KEPT_VIOLATION


def _found(group: Sequence[Summary]) -> Found:
    best = best_of(group)
    return Found(
        episodes_per_batch=best.episodes_per_batch,
        momentum=best.momentum,
        settings=len(group),
        close=sum(
            s.entropy >= (1.0 - SHARE) * BEST_STATIONARY and s.violation <= SHARE * UNCONSTRAINED_COST for s in group
        ),
        keeping=sum(map(_keeps, group)),
        learning_rate=best.learning_rate,
        dual_rate=best.dual_rate,
        entropy=best.entropy,
        entropy_std=best.entropy_std,
        value=best.value,
        value_std=best.value_std,
        violation=best.violation,
    )
