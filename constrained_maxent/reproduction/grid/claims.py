"""Which of the paper's claims the numbers of a study bear out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

import numpy as np

from constrained_maxent.reproduction.grid.analysis import BEST_STATIONARY, Summary
from constrained_maxent.reproduction.grid.search import KEPT_VIOLATION, Found, best_of, search_results
from constrained_maxent.reproduction.grid.sweep import ScaleName
from constrained_maxent.reproduction.grid.worlds import DISCOUNT

MONOTONE_SLACK = 0.02
"""By which share a mean may rise from one β to the next and still count as falling: sampling noise."""

DISTANCE_TOLERANCE = 0.01
"""By how much a mean distance may exceed b: sampling error, and at b = 0 that no softmax is quite deterministic."""

FOLLOWED_SHARE = 0.01
"""Of the norm of the reference's occupancy, the distance up to which a policy counts as following the reference."""

REFERENCE_NORM = float(np.linalg.norm(DISCOUNT ** np.arange(10)))
"""‖λ_ref‖₂: ten steps, each in a cell of its own."""

OSCILLATION = 1.0
"""Standard deviation of the cost along a run's end from which it counts as oscillating; a step in a hole costs 50."""

ENTROPY_LOSS = 0.1
"""Share of the entropy that the choice of β may cost for it to count as staying."""

BATCH_EFFECT = 0.02
"""Share of the entropy by which the best at different batch sizes may differ for it to count as much the same."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, whether the numbers bear it out, and the numbers."""

    text: str
    holds: bool
    numbers: str


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
        return [_claim_of_best_pair(summaries), *_claims_of_search(summaries)]
    if name == "primal-dual-batches":
        return _claims_of_batches(summaries)
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
    beta = f"(β = {ordered[0].beta:g})"
    found = [
        Claim(
            f"the distance to the reference stays within b + {DISTANCE_TOLERANCE:g} {beta}",
            all(s.value <= s.limit + DISTANCE_TOLERANCE for s in ordered),
            "; ".join(f"b = {s.limit:g}: {s.value:.3f} ± {s.value_std:.3f}" for s in ordered),
        ),
        Claim(
            f"entropy increases with b {beta}",
            all(one.entropy < next_.entropy for one, next_ in pairwise(ordered)),
            "; ".join(f"b = {s.limit:g}: {s.entropy:.3f}" for s in ordered),
        ),
    ]
    for s in ordered:
        if s.limit == 0.0:
            share = s.value / REFERENCE_NORM
            found.append(
                Claim(
                    f"at b = 0 the policy follows the reference {beta}",
                    share <= FOLLOWED_SHARE,
                    f"distance {s.value:.4f}, {100 * share:.2f} % of ‖λ_ref‖₂ = {REFERENCE_NORM:.3f}",
                )
            )
    return found


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


def _claim_of_best_pair(summaries: Sequence[Summary]) -> Claim:
    (best,) = [found for found in search_results(summaries) if found.momentum == 1.0]
    return Claim(
        "the best pair without momentum is α_θ = 0.01, α_μ = 0.001",
        (best.learning_rate, best.dual_rate) == (0.01, 0.001),
        f"{best}; {_counts(best)}",
    )


def _claims_of_search(summaries: Sequence[Summary]) -> list[Claim]:
    found = search_results(summaries)
    plain = best_of([one for one in found if one.momentum == 1.0])
    reduced = best_of([one for one in found if one.momentum != 1.0])
    oscillating = [s for s in summaries if s.method == "primal-dual" and s.late_std > OSCILLATION]
    n_plain = sum(s.method == "primal-dual" for s in summaries)
    return [
        Claim(
            "momentum brings no improvement",
            not reduced.keeps or (plain.keeps and reduced.entropy <= plain.entropy),
            f"without {plain}, {_counts(plain)}; with {reduced}, {_counts(reduced)}",
        ),
        Claim(
            "primal-dual oscillates",
            2 * len(oscillating) > n_plain,
            f"at {len(oscillating)} of {n_plain} pairs the cost's standard deviation over the last fifth exceeds "
            f"{OSCILLATION:g}",
        ),
    ]


def _counts(found: Found) -> str:
    return (
        f"{found.close} of {found.settings} pairs are within 5 % at the end, {found.keeping} have a violation of at "
        f"most {KEPT_VIOLATION:g}"
    )


def _claims_of_batches(summaries: Sequence[Summary]) -> list[Claim]:
    batches = sorted({s.episodes_per_batch for s in summaries})
    best = [found for found in search_results(summaries) if found.momentum == 1.0]
    entropies = [found.entropy for found in best]
    return [
        Claim(
            "the batch size does not change primal-dual's performance much",
            max(entropies) - min(entropies) < BATCH_EFFECT * max(entropies),
            "; ".join(f"B = {found.episodes_per_batch}: {found}" for found in best),
        ),
        *(
            replace(claim, text=f"{claim.text}, B = {episodes}")
            for episodes in batches
            for claim in _claims_of_search([s for s in summaries if s.episodes_per_batch == episodes])
        ),
    ]


def _all_pairs(group: Sequence[Summary], test: Callable[[Summary, Summary], bool]) -> bool:
    return all(test(one, next_) for one, next_ in pairwise(group))


@dataclass(frozen=True)
class Judgement:
    """A line of a study's table of claims.

    Attributes:
        study, scale: whose numbers.
        claim: a sentence of the paper.
        holds: ``"yes"`` or ``"no"``; at smoke scale ``"no evidence"``.
        numbers: why.
    """

    study: str
    scale: str
    claim: str
    holds: str
    numbers: str


def judgements(study: str, scale: ScaleName, found: Sequence[Claim]) -> list[Judgement]:
    """The claims as rows of a table."""

    def verdict(claim: Claim) -> str:
        return "no evidence" if scale == "smoke" else "yes" if claim.holds else "no"

    return [Judgement(study, scale, claim.text, verdict(claim), claim.numbers) for claim in found]
