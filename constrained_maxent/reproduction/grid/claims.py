"""Which of the paper's claims the numbers of a study bear out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from constrained_maxent.reproduction import Effort
from constrained_maxent.reproduction.grid.tables import KEPT_VIOLATION, best_of, search_table
from constrained_maxent.reproduction.grid.worlds import BEST_STATIONARY, DISCOUNT

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


class Claim(NamedTuple):
    """A sentence of the paper, whether the numbers bear it out, and the numbers."""

    text: str
    holds: bool
    numbers: str


def claims(summaries: pl.DataFrame) -> list[Claim]:
    """What the paper says about a study, held against the numbers of its settings, a table of ``summarize``."""
    match summaries["study"][0]:
        case "fig1":
            return _claims_of_figure_1(summaries)
        case "defaults" | "defaults-short":
            return _claims_of_defaults(summaries)
        case "norm" | "norm-beta":  # at the stiffest penalty
            return _claims_of_norm(summaries.filter(pl.col("beta") == pl.col("beta").max()).sort("limit"))
        case "ablation" | "relaxed" | "robustness":
            return _claims_of_beta(summaries)
        case "primal-dual-search":
            return [_claim_of_best_pair(summaries), *_claims_of_search(summaries)]
        case "primal-dual-batches":
            return _claims_of_batches(summaries)
    return []


def claims_table(study: str, effort: Effort, found: Sequence[Claim]) -> pl.DataFrame:
    """The claims as a table: ``holds`` is "yes" or "no", where a smoke test is no evidence "no evidence"."""
    verdicts = {True: "yes", False: "no"} if effort == "paper" else dict.fromkeys((True, False), "no evidence")
    lines = [(study, effort, claim.text, verdicts[bool(claim.holds)], claim.numbers) for claim in found]
    return pl.DataFrame(lines, schema=["study", "scale", "claim", "holds", "numbers"], orient="row")


def _claims_of_figure_1(summaries: pl.DataFrame) -> list[Claim]:
    by_method = {line["method"]: line for line in summaries.rows(named=True)}
    pgp, free, dual = (by_method[name] for name in ("pgp", "unconstrained", "primal-dual"))
    share = pgp["entropy"] / free["entropy"]
    ratio = dual["late_std"] / pgp["late_std"] if pgp["late_std"] > 0.0 else np.inf
    return [
        Claim(
            "PGP's entropy is slightly below the unconstrained one",
            0.85 < share < 1.0,
            f"{pgp['entropy']:.2f} against {free['entropy']:.2f} nats, {100 * (1 - share):.1f} % less",
        ),
        Claim(
            "PGP violates the constraint far less than the unconstrained policy",
            pgp["violation"] < 0.1 * free["violation"],
            f"violation {pgp['violation']:.2f} against {free['violation']:.2f}",
        ),
        Claim(
            "primal-dual oscillates, PGP does not",
            ratio > 2.0,
            "standard deviation of the cost over the last fifth: "
            f"{dual['late_std']:.3f} ± {dual['late_std_spread']:.3f} against "
            f"{pgp['late_std']:.3f} ± {pgp['late_std_spread']:.3f}",
        ),
        Claim(
            "primal-dual explores less than PGP",
            dual["entropy"] < pgp["entropy"],
            f"{dual['entropy']:.2f} against {pgp['entropy']:.2f} nats",
        ),
    ]


def _claims_of_defaults(summaries: pl.DataFrame) -> list[Claim]:
    least, largest = summaries["least_entropy"][0], summaries["largest_value"][0]
    return [
        Claim(
            f"entropy within 0.1 % of the best stationary {BEST_STATIONARY} in every seed",
            least >= (1.0 - 0.001) * BEST_STATIONARY,
            f"at least {least:.3f} nats",
        ),
        Claim("cost at most 0.05 in every seed", largest <= 0.05, f"at most {largest:.3f}"),
    ]


def _claims_of_norm(summaries: pl.DataFrame) -> list[Claim]:
    lines = summaries.rows(named=True)
    beta, distance = f"(β = {lines[0]['beta']:g})", lines[0]["value"]
    share = distance / REFERENCE_NORM
    found = [
        Claim(
            f"the distance to the reference stays within b + {DISTANCE_TOLERANCE:g} {beta}",
            all(line["value"] <= line["limit"] + DISTANCE_TOLERANCE for line in lines),
            "; ".join(f"b = {line['limit']:g}: {line['value']:.3f} ± {line['value_std']:.3f}" for line in lines),
        ),
        Claim(
            f"entropy increases with b {beta}",
            summaries["entropy"].diff().drop_nulls().gt(0.0).all(),
            "; ".join(f"b = {line['limit']:g}: {line['entropy']:.3f}" for line in lines),
        ),
        Claim(
            f"at b = 0 the policy follows the reference {beta}",
            share <= FOLLOWED_SHARE,
            f"distance {distance:.4f}, {100 * share:.2f} % of ‖λ_ref‖₂ = {REFERENCE_NORM:.3f}",
        ),
    ]
    return found if lines[0]["limit"] == 0.0 else found[:2]


def _claims_of_beta(summaries: pl.DataFrame) -> list[Claim]:
    violation, entropy = pl.col("violation"), pl.col("entropy")
    pairs = (
        summaries.sort("beta")
        .group_by("episodes_per_batch", "learning_rate")
        .agg(
            (violation <= (1.0 + MONOTONE_SLACK) * violation.shift()).all().alias("falls"),
            # Relative to the highest: how much entropy the choice of β costs at most.
            (1.0 - entropy.min() / entropy.max()).alias("loss"),
        )
    )
    falls, loss = pairs["falls"], pairs["loss"]
    stays, shares = loss < ENTROPY_LOSS, 100 * loss.to_numpy()
    return [
        Claim(
            "violation falls monotonically in β",
            bool(falls.all()),
            f"in {falls.sum()} of {len(falls)} pairs of batch size and step size",
        ),
        Claim(
            "entropy stays as β grows",
            bool(stays.all()),
            f"in {stays.sum()} of {len(loss)} pairs it varies by less than {100 * ENTROPY_LOSS:g} %; in all by "
            f"{shares.min():.1f} to {shares.max():.1f} %",
        ),
    ]


def _claim_of_best_pair(summaries: pl.DataFrame) -> Claim:
    best = best_of(search_table(summaries).filter(pl.col("momentum") == 1.0))
    return Claim(
        "the best pair without momentum is α_θ = 0.01, α_μ = 0.001",
        (best["learning_rate"], best["dual_rate"]) == (0.01, 0.001),
        f"{_described(best)}; {_counts(best)}",
    )


def _claims_of_search(summaries: pl.DataFrame) -> list[Claim]:
    search = search_table(summaries)
    plain = best_of(search.filter(pl.col("momentum") == 1.0))
    reduced = best_of(search.filter(pl.col("momentum") != 1.0))
    plain_keeps, reduced_keeps = (line["violation"] <= KEPT_VIOLATION for line in (plain, reduced))
    return [
        Claim(
            "momentum brings no improvement",
            not reduced_keeps or (plain_keeps and reduced["entropy"] <= plain["entropy"]),
            f"without {_described(plain)}, {_counts(plain)}; with {_described(reduced)}, {_counts(reduced)}",
        ),
        claim_of_oscillation(summaries),
    ]


def claim_of_oscillation(summaries: pl.DataFrame) -> Claim:
    """Whether primal-dual's cost oscillates at most pairs of step sizes, by a table of ``summarize``."""
    late_std = summaries.filter(pl.col("method") == "primal-dual")["late_std"]
    oscillates = late_std.is_finite() & (late_std > OSCILLATION)
    return Claim(
        "primal-dual oscillates",
        2 * int(oscillates.sum()) > len(oscillates),
        f"at {oscillates.sum()} of {len(oscillates)} pairs the cost's standard deviation over the last fifth "
        f"exceeds {OSCILLATION:g}",
    )


def claims_of_scale(strict: pl.DataFrame, relaxed: pl.DataFrame) -> list[Claim]:
    """Whether a cost whose scale is 1/c asks for c times the β, by three measures of what comes out.

    Each is compared with what the cost of scale 1 gives at two β: at the one by which β goes with the inverse scale,
    and at the one by which it goes with the inverse square. The claim holds where the former is nearer at all pairs of
    batch and step size.

    Args:
        strict: settings at the cost of scale 1 and these two β, a table of ``summarize`` with ``mass_in_holes``.
        relaxed: the same at the smaller scale, and one β.
    """
    pairs, beta = ["episodes_per_batch", "learning_rate"], pl.col("beta")
    joined = relaxed.join(strict.filter(beta == beta.max()), on=pairs, suffix="_inverse").join(
        strict.filter(beta == beta.min()), on=pairs, suffix="_square"
    )
    found = []
    for measure, words in (
        ("mass_in_holes", "the mass in holes"),
        ("entropy", "the entropy"),
        ("violation", "the violation in the cost's own unit"),
    ):
        here, inverse, square = (joined[f"{measure}{suffix}"] for suffix in ("", "_inverse", "_square"))
        nearer = (here - inverse).abs() < (here - square).abs()
        got, by_inverse, by_square = (
            f"{values.to_numpy().min():.3g} to {values.to_numpy().max():.3g}" for values in (here, inverse, square)
        )
        found.append(
            Claim(
                f"β goes with the inverse scale of the cost, by {words}",
                bool(nearer.all()),
                f"at {nearer.sum()} of {len(nearer)} pairs; {got} against {by_inverse} by the inverse and {by_square} "
                "by the inverse square",
            )
        )
    return found


def _claims_of_batches(summaries: pl.DataFrame) -> list[Claim]:
    best = {line["episodes_per_batch"]: line for line in search_table(summaries).filter(momentum=1.0).rows(named=True)}
    entropies = [line["entropy"] for line in best.values()]
    found = [
        Claim(
            "the batch size does not change primal-dual's performance much",
            max(entropies) - min(entropies) < BATCH_EFFECT * max(entropies),
            "; ".join(f"B = {episodes}: {_described(line)}" for episodes, line in best.items()),
        )
    ]
    for episodes in best:
        for claim in _claims_of_search(summaries.filter(episodes_per_batch=episodes)):
            found.append(claim._replace(text=f"{claim.text}, B = {episodes}"))
    return found


def _described(line: Mapping[str, Any]) -> str:
    rates = f"α_θ = {line['learning_rate']:g}, α_μ = {line['dual_rate']:g}, α_t = {line['momentum']:g}"
    return f"{line['entropy']:.2f} nats at {line['value']:.3f} with {rates}"


def _counts(line: Mapping[str, Any]) -> str:
    return (
        f"{line['close']} of {line['settings']} pairs are within 5 % at the end, {line['keeping']} have a violation of "
        f"at most {KEPT_VIOLATION:g}"
    )
