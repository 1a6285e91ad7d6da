"""What came out of a study: settings in numbers, the transitions that they take, and the best of a search."""

from __future__ import annotations

from typing import Any

import polars as pl

from constrained_maxent.reproduction.grid.run import SETTING
from constrained_maxent.reproduction.grid.worlds import BEST_STATIONARY, UNCONSTRAINED_COST

LATE_SHARE = 0.2
"""Of a run's iterations, at its end: the last 3000 of the paper's 15,000."""

_LATE = ["late_std", "late_entropy_std", "late_std_spread"]

SHARES = (0.05, 0.01)
"""Close to the optimum: within 5 %, and within 1 %."""

KEPT_VIOLATION = 0.05
"""Mean violation up to which a setting counts as keeping the limit, that of the environment's defaults."""


def last_policies(rows: pl.DataFrame) -> pl.DataFrame:
    """Of every run its last policy that is known."""
    return rows.sort("iteration", maintain_order=True).group_by(*SETTING, "seed", maintain_order=True).last()


def summarize(rows: pl.DataFrame) -> pl.DataFrame:
    """A line for each setting, in the order in which they come first, with means over seeds.

    Columns: those of ``SETTING``; how many ``seeds``; ``entropy``, ``entropy_std``, ``value`` and ``value_std`` of the
    last policies, with the standard deviations over seeds; ``least_entropy`` and ``largest_value`` of the worst seeds;
    the mean ``violation`` [value - limit]₊; ``late_std`` and ``late_entropy_std``, the standard deviations of value and
    entropy along the last fifth of a run, mean over seeds, NaN where that has fewer than two evaluated policies; and
    ``late_std_spread``, the standard deviation of the former over seeds.
    """
    settings = rows.select(*SETTING).unique(maintain_order=True)
    last = (
        last_policies(rows)
        .group_by(*SETTING)
        .agg(
            pl.len().cast(pl.Int64).alias("seeds"),
            pl.col("entropy").mean(),
            _deviation("entropy", ddof=1).alias("entropy_std"),
            pl.col("value").mean(),
            _deviation("value", ddof=1).alias("value_std"),
            pl.col("entropy").min().alias("least_entropy"),
            pl.col("value").max().alias("largest_value"),
            (pl.col("value") - pl.col("limit")).clip(lower_bound=0.0).mean().alias("violation"),
        )
    )
    late = (
        rows.filter(pl.col("iteration") >= (1.0 - LATE_SHARE) * pl.col("iteration").max().over(*SETTING))
        .group_by(*SETTING, "seed")
        .agg(
            pl.len(),
            _deviation("value").alias("late_std"),
            _deviation("entropy").alias("late_entropy_std"),
        )
        .filter(pl.col("len") > 1)
        .group_by(*SETTING)
        .agg(pl.col(_LATE[:2]).mean(), _deviation("late_std", ddof=1).alias(_LATE[2]))
    )
    return (
        settings.join(last, on=list(SETTING), how="left", maintain_order="left")
        .join(late, on=list(SETTING), how="left", maintain_order="left")
        .with_columns(pl.col(_LATE).fill_null(float("nan")))
    )


def _deviation(column: str, *, ddof: int = 0) -> pl.Expr:
    """Standard deviation of each group, 0 of one number: NumPy's, which the published tables have to the last digit."""

    def of(values: pl.Series) -> float:
        if values.is_empty():  # where a table has no groups
            return float("nan")
        return float(values.to_numpy().std(ddof=min(ddof, len(values) - 1)))

    return pl.col(column).map_batches(of, return_dtype=pl.Float64, returns_scalar=True)


def transitions_until_close(rows: pl.DataFrame, *, optimum: float, violation: float) -> pl.DataFrame:
    """How many transitions each method needs to come, and stay, close to the optimum in both entropy and constraint.

    Args:
        rows: of settings with different methods.
        optimum: entropy of the best stationary policy that keeps the limit [nats].
        violation: that of the best policy without the constraint.

    Returns:
        For every ``method`` and ``share`` the ``transitions`` from which on all seeds are, at every evaluated policy
        until the end, at most this share of the optimum below it, and of ``violation`` above the limit; mean over
        seeds, infinite where that never begins. A seed that stopped is never so close.
    """
    within = (pl.col("entropy") >= optimum * (1.0 - pl.col("share"))) & (
        pl.col("value") - pl.col("limit") <= pl.col("share") * violation
    )
    here = [*SETTING, "share"]
    points = (
        rows.with_columns(pl.col("seed").n_unique().over(*SETTING).alias("seeds"))
        .join(pl.DataFrame({"share": SHARES}), how="cross", maintain_order="left_right")
        .sort("iteration", maintain_order=True)
        .group_by(*here, "iteration", maintain_order=True)
        .agg((within.all() & (pl.len() == pl.col("seeds").first())).alias("close"), pl.col("transitions").mean())
    )
    stays = pl.col("close").cum_min(reverse=True).cast(pl.Boolean)
    return (
        points.group_by(*here, maintain_order=True)
        .agg(pl.col("transitions").filter(stays).first().fill_null(float("inf")))
        .select("method", "share", "transitions")
    )


def search_table(summaries: pl.DataFrame) -> pl.DataFrame:
    """The search for step sizes: a line for each batch size, and momentum from 1 (none) down.

    Columns: ``episodes_per_batch`` and ``momentum``; how many ``settings``; how many of them are ``close`` at the end,
    with an entropy at most 5 % below the best stationary policy's and a violation of at most 5 % of the cost that the
    best stationary policy without the constraint has, means over seeds; how many are ``keeping`` the limit; then what
    ``best_of`` them is.
    """
    close = (pl.col("entropy") >= (1.0 - SHARES[0]) * BEST_STATIONARY) & (
        pl.col("violation") <= SHARES[0] * UNCONSTRAINED_COST
    )
    best = ("learning_rate", "dual_rate", "entropy", "entropy_std", "value", "value_std", "violation")
    return (
        _best_first(summaries)
        .group_by("episodes_per_batch", "momentum", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("settings"),
            close.sum().cast(pl.Int64).alias("close"),
            (pl.col("violation") <= KEPT_VIOLATION).sum().cast(pl.Int64).alias("keeping"),
            pl.col(*best).first(),
        )
        .sort("episodes_per_batch", "momentum", descending=[False, True])
    )


def best_of(settings: pl.DataFrame) -> dict[str, Any]:
    """The line with most entropy among those that keep the limit; with the least violation if none does."""
    return _best_first(settings).row(0, named=True)


def _best_first(settings: pl.DataFrame) -> pl.DataFrame:
    keeps = pl.col("violation") <= KEPT_VIOLATION
    return settings.sort(
        ~keeps, pl.when(keeps).then(-pl.col("entropy")).otherwise(pl.col("violation")), maintain_order=True
    )
