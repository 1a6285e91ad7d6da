"""Methods held against each other over seeds and environments. What ``cmaxent compare`` does."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from constrained_maxent.errors import InvalidRun, InvalidSetting, UnevenRuns
from constrained_maxent.evaluation.comparison import (
    LEAST_SEEDS,
    aggregate,
    aggregate_curve,
    difference_of_means,
    probability_of_improvement,
)
from constrained_maxent.evaluation.limits import is_kept
from constrained_maxent.evaluation.rollouts import constraint_figure
from constrained_maxent.evaluation.statistics import Estimate
from constrained_maxent.runs.comparing.measured import (
    AXES,
    COVERAGE,
    ENTROPY,
    MASS,
    OBJECTIVE,
    At,
    Series,
    Source,
    Values,
    at_or_before,
    curves,
    final_values,
    grid,
)
from constrained_maxent.runs.comparing.methods import by_method, read_runs
from constrained_maxent.runs.reading import Run
from constrained_maxent.types import FloatArray

_ALIKE = 0.05
"""Share by which runs may differ in steps, and batches in size, and still be called alike: lengths of episodes vary."""
_FEW = 10
Groups = Mapping[str, Mapping[str, Sequence[Run]]]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One quantity of one method. Intervals are at 95 %; where there is none, ``low`` and ``high`` are the mean.

    Attributes:
        environment: its id; of several, ``all 3 environments``.
        quantity, method: what and whose.
        n_seeds: how many runs there are.
        mean, iqm: over them, and interquartile; ``None`` over environments whose units differ.
        kept: of a constraint, the share of runs that keep its limit.
        difference: of the mean from the baseline's; ``None`` for the baseline, or where it has none.
        paired: whether its interval is by seeds that both have; ``None`` where there is no difference.
        improvement: probability that a run of this method is better than one of the baseline: higher, or of a
            constraint lower; ``None`` for what is neither good nor bad.
    """

    environment: str
    quantity: str
    method: str
    n_seeds: int
    mean: Estimate | None
    iqm: Estimate | None
    kept: float | None
    difference: Estimate | None
    paired: bool | None
    improvement: Estimate | None


@dataclass(frozen=True, kw_only=True, eq=False)
class LearningCurve:
    """One quantity of one method in one environment, over steps or seconds.

    Attributes:
        x: where; ``(n,)``.
        values: of each seed, the last one known there; ``(n_seeds, n)``.
        mean, iqm: over seeds, with the bounds of their 95 % intervals or ``None``; ``(n,)`` each.
    """

    environment: str
    quantity: str
    method: str
    x: FloatArray
    values: FloatArray
    mean: tuple[FloatArray, FloatArray | None, FloatArray | None]
    iqm: tuple[FloatArray, FloatArray | None, FloatArray | None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """What :func:`compare` found.

    Attributes:
        rows: by environment, quantity and method.
        curves: where all runs have metrics.
        baseline: the method that the others are held against.
        source: where the values of the rows come from, in words.
        over: what the curves are over.
        curve_source: where they come from, in words; empty without curves.
        notes: what has to be known to read the figures, in sentences.
    """

    rows: tuple[Row, ...]
    curves: tuple[LearningCurve, ...]
    baseline: str
    source: str
    over: At
    curve_source: str
    notes: tuple[str, ...]


def compare(paths: Sequence[str | os.PathLike[str]], *, at: At | None = None) -> Comparison:
    """Hold methods against each other: their values over seeds, and the curves of their learning.

    Args:
        paths: run folders, and folders of sweeps for all the runs in them. The method of the first run is the baseline.
        at: ``"steps"`` or ``"seconds"``: the values that every run of an environment had where the shortest of them
            ended, by its metrics.csv; and what curves are over. By default the values of the last policies.

    Whatever makes the comparison uneven is in the ``notes``, and warned of as ``UnevenRuns``.

    Raises:
        InvalidRun: something else than runs, runs of different problems, the same run twice, or no values that all
            have; without ``at``, runs that have not ended.
        InvalidSetting: another ``at``.
    """
    if at is not None and at not in get_args(At):
        raise InvalidSetting(f"at={at!r} must be one of {', '.join(get_args(At))}.")
    runs, uneven = read_runs(paths)
    groups, notes = by_method(runs)
    over: At = at or "steps"
    found: tuple[Source, list[Series]] | None = None
    try:
        found = curves(runs, over)
    except InvalidRun as error:
        if at is not None:
            raise
        notes.append(f"There are no curves. {error}")
    if at is None:
        source, values, unused = final_values(runs)
        notes += unused
        words = source.words
    else:
        assert found is not None
        source, values = found[0], _at_the_end(runs, found[1], over)
        ends = "; ".join(f"{env_id}: {_end(runs, env_id, over):,.6g}" for env_id in groups)
        words = f"{source.words}, at equal {over} ({ends})"
    uneven += _uneven(groups, source, at)
    for note in uneven:
        warnings.warn(note, UnevenRuns, stacklevel=2)
    rows = _rows(groups, dict(zip(map(id, runs), values, strict=True)), notes)
    return Comparison(
        rows=tuple(rows),
        curves=() if found is None else tuple(_curves(groups, over, dict(zip(map(id, runs), found[1], strict=True)))),
        baseline=_baseline(groups),
        source=words,
        over=over,
        curve_source="" if found is None else found[0].words,
        notes=(*uneven, *notes, *_of_seeds(groups, rows)),
    )


def _baseline(groups: Groups) -> str:
    return next(iter(next(iter(groups.values()))))


def _end(runs: Sequence[Run], env_id: str, over: At) -> float:
    """The largest step or second of an environment that all its runs have come to."""
    return min(float(run.metrics[AXES[over]][-1]) for run in runs if run.env_id == env_id)


def _at_the_end(runs: Sequence[Run], series: Sequence[Series], over: At) -> list[Values]:
    values = []
    for run, known in zip(runs, series, strict=True):
        end = _end(runs, run.env_id, over)
        last = {name: float(at_or_before(x, y, np.array([end]))[0]) for name, (x, y) in known.items()}
        if unknown := [name for name, value in last.items() if np.isnan(value)]:
            raise InvalidRun(
                f"{run.path} has no {', '.join(unknown)} by the {over[:-1]} that all runs have come to, {end:,.6g}: "
                "let the shortest go on, or leave it out."
            )
        values.append(last)
    return values


def _rows(groups: Groups, measured: Mapping[int, Values], notes: list[str]) -> list[Row]:
    rows = []
    for env_id, methods in groups.items():
        everyone = [measured[id(run)] for group in methods.values() for run in group]
        quantities = [name for name in everyone[0] if all(name in values for values in everyone)]
        if dropped := sorted({name for values in everyone for name in values} - set(quantities)):
            notes.append(f"{env_id}: not all runs have {', '.join(dropped)}, which is left out.")
        masses = [values[MASS] for values in everyone if MASS in values]
        if MASS in quantities and np.ptp(masses) <= 1e-9 * max(masses):
            quantities.remove(MASS)  # there is nothing to compare
        strata = {label: [group] for label, group in methods.items()}
        rows += [row for name in quantities for row in _of_quantity(env_id, name, strata, measured, groups)]
    if len(groups) > 1:
        rows += _over_all(groups, measured, rows, notes)
    return rows


def _over_all(groups: Groups, measured: Mapping[int, Values], rows: Sequence[Row], notes: list[str]) -> list[Row]:
    """What methods that were trained in every environment are worth in all of them together."""
    shared = [label for label in next(iter(groups.values())) if all(label in methods for methods in groups.values())]
    places: dict[str, set[str]] = {}
    for row in rows:
        places.setdefault(row.quantity, set()).add(row.environment)
    names = [name for name, of_quantity in places.items() if len(of_quantity) == len(groups)]
    if not shared or not names:
        return []
    strata = {label: [methods[label] for methods in groups.values()] for label in shared}
    if uneven := [label for label, of_method in strata.items() if len({len(group) for group in of_method}) > 1]:
        # Means over all runs would be those of the environments that have more of them.
        notes.append(f"Nothing is said over all environments: not every one has as many seeds of {'; '.join(uneven)}.")
        return []
    notes.append(
        "Over all environments values are taken as they are: where their scales differ, the larger one decides means. "
        "The probability of being better knows no scale."
    )
    place = f"all {len(groups)} environments"
    return [row for name in names for row in _of_quantity(place, name, strata, measured, groups)]


def _of_quantity(
    environment: str,
    quantity: str,
    strata: Mapping[str, Sequence[Sequence[Run]]],
    measured: Mapping[int, Values],
    groups: Groups,
) -> list[Row]:
    """A row for each method; ``strata`` are its runs in each environment."""
    is_constraint = quantity.endswith(constraint_figure(""))
    has_unit = len(next(iter(strata.values()))) == 1 or quantity in (OBJECTIVE, ENTROPY, COVERAGE)
    numbers = {
        label: [[measured[id(run)][quantity] for run in group] for group in groups_of]
        for label, groups_of in strata.items()
    }
    baseline = _baseline(groups)
    rows = []
    for label, of_method in strata.items():
        values, kept, difference, paired, improvement = numbers[label], None, None, None, None
        if is_constraint:
            name = quantity.removesuffix(constraint_figure(""))
            every = [run for group in of_method for run in group]
            kept = float(np.mean([is_kept(measured[id(run)][quantity], run.limits.get(name, 0.0)) for run in every]))
        if label != baseline and baseline in strata:
            others = numbers[baseline]
            if has_unit:
                paired = _seeds(of_method) == _seeds(strata[baseline])
                difference = difference_of_means(values, others, paired=paired)
            if quantity != MASS:
                better = (others, values) if is_constraint else (values, others)
                improvement = probability_of_improvement(*better)
        rows.append(
            Row(
                environment=environment,
                quantity=quantity,
                method=label,
                n_seeds=sum(map(len, values)),
                mean=aggregate(values, "mean") if has_unit else None,
                iqm=aggregate(values, "iqm") if has_unit else None,
                kept=kept,
                difference=difference,
                paired=paired,
                improvement=improvement,
            )
        )
    return rows


def _seeds(strata: Sequence[Sequence[Run]]) -> list[list[int]]:
    return [[run.seed for run in group] for group in strata]


def _curves(groups: Groups, over: At, series: Mapping[int, Series]) -> list[LearningCurve]:
    lines = []
    for env_id, methods in groups.items():
        everyone = [run for group in methods.values() for run in group]
        known = [series[id(run)] for run in everyone]
        for quantity in (name for name in known[0] if all(name in each for each in known)):
            x = grid([each[quantity] for each in known], end=_end(everyone, env_id, over))
            if not len(x):
                continue
            for label, group in methods.items():
                values = np.array([at_or_before(*series[id(run)][quantity], x) for run in group])
                lines.append(
                    LearningCurve(
                        environment=env_id,
                        quantity=quantity,
                        method=label,
                        x=x,
                        values=values,
                        mean=aggregate_curve(values, "mean"),
                        iqm=aggregate_curve(values, "iqm"),
                    )
                )
    return lines


def _uneven(groups: Groups, source: Source, at: At | None) -> list[str]:
    """What gives some runs another chance than others, in sentences."""
    notes = []
    for env_id, methods in groups.items():
        runs = [run for group in methods.values() for run in group]
        unfinished = [str(run.path) for run in runs if not run.summary or run.told("status") != "finished"]
        if unfinished:
            notes.append(f"Not finished: {', '.join(unfinished)}.")
        steps = [run.told("timesteps") for run in runs if run.summary]
        if at is None and max(steps) > (1.0 + _ALIKE) * min(steps):
            notes.append(
                f"{env_id}: the runs took {min(steps):,} to {max(steps):,} steps. At equal steps they compare with "
                "--at steps."
            )
        if at == "seconds":
            notes.append(f"{env_id}: seconds are those of each run's own machine, and of what else it did.")
        if source.is_one_batch:
            sizes = [size for run in runs if (size := _steps_per_batch(run)) is not None]
            if sizes and max(sizes) > (1.0 + _ALIKE) * min(sizes):
                notes.append(
                    f"{env_id}: batches have {min(sizes):,.0f} to {max(sizes):,.0f} steps, and entropies estimated "
                    "from a small batch are lower. Evaluate all runs on as many fresh episodes: cmaxent evaluate."
                )
        if (shift := _shift_by_cells(runs)) > 0.01:
            notes.append(
                f"{env_id}: the entropies are those of cells whose size each run took from its first batch. That alone "
                f"moves them by up to {shift:.2g} nats; an objective with numbers for its resolution would not."
            )
    return notes


def _steps_per_batch(run: Run) -> float | None:
    if run.summary:
        return float(run.told("timesteps") / run.told("iterations"))
    iterations = run.metrics.get("iteration")
    return None if iterations is None else float(run.metrics["timesteps"][-1] / iterations[-1])


def _shift_by_cells(runs: Sequence[Run]) -> float:
    """Nats by which entropies differ as their cells do, at mass 1: the logarithm of the cells' volumes."""
    volumes: dict[str, list[float]] = {}
    for run in runs:
        for term, sizes in (run.summary.get("cell_sizes") or {}).items():
            volumes.setdefault(term, []).append(float(np.log(sizes).sum()))
    return max((float(np.ptp(of_term)) for of_term in volumes.values()), default=0.0)


def _of_seeds(groups: Groups, rows: Sequence[Row]) -> list[str]:
    """What few seeds mean for intervals, and seeds that all agree."""
    fewest = min(len(group) for methods in groups.values() for group in methods.values())
    if fewest < LEAST_SEEDS:
        return [f"Where a method has fewer than {LEAST_SEEDS} seeds in an environment, there is no interval."]
    notes = []
    certain = [row.improvement for row in rows if row.improvement is not None and row.improvement.mean in (0.0, 1.0)]
    if certain:
        notes.append("A probability of 0 or 1 has no interval: all seeds say so, which does not make it certain.")
    if fewest < _FEW:
        notes.append(
            "Bootstrap intervals of few seeds are too narrow: of 3, 5 and 10 normal numbers those at 95 % hold the "
            "mean in 74, 85 and 90 of 100 cases."
        )
    return notes
