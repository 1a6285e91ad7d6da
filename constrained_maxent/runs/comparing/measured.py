"""What runs are compared by: values at their end or at equal cost, and learning curves, from one source for all."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from constrained_maxent.errors import InvalidRun
from constrained_maxent.evaluation.rollouts import constraint_figure
from constrained_maxent.runs.reading import Run
from constrained_maxent.runs.run_folder import estimates
from constrained_maxent.types import FloatArray

At = Literal["steps", "seconds"]
AXES: Mapping[At, str] = {"steps": "timesteps", "seconds": "seconds"}
"""Columns of metrics.csv that curves are over."""
OBJECTIVE, MASS, ENTROPY, COVERAGE = (
    *("objective", "mass of λ"),
    *("state entropy (nats)", "grid cells visited, share"),
)
GRID_POINTS = 100
"""Of learning curves."""
Values = dict[str, float]
Series = dict[str, tuple[FloatArray, FloatArray]]


@dataclass(frozen=True)
class Source:
    """Where values come from.

    Attributes:
        words: as tables say it.
        is_one_batch: whether each value is a plug-in estimate of one batch, which is low if the batch is small.
    """

    words: str
    is_one_batch: bool = False


def final_values(runs: Sequence[Run]) -> tuple[Source, list[Values], list[str]]:
    """Of each run what its last policy is worth, by quantity, from the best source that all of them have.

    Exact values come first, which have no error of sampling; then fresh episodes; then the last batch alone. In
    sentences, which better sources only some have.

    Raises:
        InvalidRun: a run without a summary; fresh episodes of another iteration than the last, or of different numbers;
            no source that all have; a value that is NaN or infinite.
    """
    for run in runs:
        if not run.summary:
            raise InvalidRun(
                f"{run.path} has no summary.json: it was killed, or is under way. Finish it (cmaxent train --resume "
                f"{run.path}), leave it out, or compare as far as all runs have come: --at steps."
            )
        if run.evaluation is not None and run.evaluation.get("iteration") != run.summary.get("iterations"):
            raise InvalidRun(
                f"{run.path} was evaluated after {run.evaluation.get('iteration')} iterations, and trained for "
                f"{run.summary.get('iterations')}: evaluate it anew, cmaxent evaluate {run.path}."
            )
    notes: list[str] = []
    for source, read in _FINAL:
        values = [read(run) for run in runs]
        if all(values):
            if source.words == _EPISODES:
                _require_as_many_episodes(runs)
            for run, known in zip(runs, values, strict=True):
                for name, value in known.items():
                    if not math.isfinite(value):
                        raise InvalidRun(f"{run.path} ended with {name} = {value}: no mean holds it. Leave it out.")
            return source, values, notes
        if any(values):
            without = next(run.path for run, known in zip(runs, values, strict=True) if not known)
            notes.append(
                f"Only {sum(map(bool, values))} of {len(runs)} runs have {source.words}, {without} for one has none: "
                "they are not used. Runs that have them compare by them alone."
            )
    raise InvalidRun(
        "The runs have no values in common: let cmaxent evaluate write an evaluation.json for all of them."
    )


def best_values(run: Run) -> tuple[str, Values]:
    """Of one run by itself, the best that is known of its last policy, and what that is: "exact", for example."""
    for name, (_, read) in zip(("exact", "fresh episodes", "last batch"), _FINAL, strict=True):
        if run.summary and (values := read(run)):
            return name, values
    return "", {}


def _require_as_many_episodes(runs: Sequence[Run]) -> None:
    by_environment: dict[str, tuple[Run, int]] = {}
    for run in runs:
        n = (run.evaluation or {})["rollouts"]["n_episodes"]
        first, others = by_environment.setdefault(run.env_id, (run, n))
        if n != others:
            raise InvalidRun(
                f"{first.path} was evaluated on {others} episodes and {run.path} on {n}: an entropy estimated from "
                "fewer episodes is lower. Evaluate both alike: cmaxent evaluate RUN... --episodes N."
            )


def _exact(run: Run) -> Values:
    # Fresh episodes may have contradicted what the training took for exact: their word is the later one.
    content = run.summary if run.evaluation is None or "exact" not in run.evaluation else run.evaluation
    exact = (content or {}).get("exact")
    return {} if exact is None else _named(exact["objective"], exact["constraints"], exact.get("mass"))


def _episodes(run: Run) -> Values:
    if run.evaluation is None:
        return {}
    rollouts = run.evaluation["rollouts"]
    constraints = {name: estimate["mean"] for name, estimate in rollouts["constraints"].items()}
    objective = None if rollouts["objective"] is None else rollouts["objective"]["mean"]
    values = _named(objective, constraints, rollouts["mass"]["mean"])
    if (states := rollouts.get("states")) is not None:
        values[ENTROPY] = states["entropy"]["mean"]
        if states.get("coverage") is not None:
            values[COVERAGE] = states["coverage"]["share"]
    return values


def _last_batch(run: Run) -> Values:
    estimate = run.summary.get("estimate") or {}
    return _named(estimate.get("objective_fresh"), estimate.get("constraints_fresh") or {}, estimate.get("mass_fresh"))


def _named(objective: float | None, constraints: Mapping[str, float], mass: float | None) -> Values:
    values = {} if objective is None else {OBJECTIVE: float(objective)}
    values |= {constraint_figure(name): float(value) for name, value in constraints.items()}
    return values if mass is None or not values else {**values, MASS: float(mass)}


_EPISODES = "fresh episodes of the last policies (evaluation.json)"
_FINAL: tuple[tuple[Source, Callable[[Run], Values]], ...] = (
    (Source("exact values of the last policies"), _exact),
    (Source(_EPISODES), _episodes),
    (Source("the last batch of each run alone (summary.json)", is_one_batch=True), _last_batch),
)


def curves(runs: Sequence[Run], over: At) -> tuple[Source, list[Series]]:
    """Of each run what its metrics.csv tells of each quantity: over steps or seconds ``(n,)``, values ``(n,)``.

    The best columns that all have: exact values, else those of each batch alone, else those of the estimate.

    Raises:
        InvalidRun: no metrics, damaged ones, or none in common; no seconds in them.
    """
    axis = AXES[over]
    for run in runs:
        if axis not in run.metrics or np.isnan(run.metrics[axis]).any():
            raise InvalidRun(
                f"{run.folder.metrics_path} has no {axis} of each row"
                + (
                    ": it was made before they were written down, or by the compiled engine. Compare at steps."
                    if over == "seconds"
                    else "."
                )
            )
        if not len(run.metrics[axis]):
            raise InvalidRun(f"{run.folder.metrics_path} has no rows yet.")
    for source, columns in _COLUMNS:
        # What fresh episodes or the end of the training have contradicted is in the columns still.
        if source.words == _EXACT_CURVES and any(run.summary and not _exact(run) for run in runs):
            continue
        series = [_series(run, axis, columns(run.metrics)) for run in runs]
        if all(set(known) - {ENTROPY, COVERAGE} for known in series):
            return source, series
    raise InvalidRun("The metrics.csv of the runs have no values in common.")


def _series(run: Run, axis: str, columns: Mapping[str, str]) -> Series:
    series = {}
    for quantity, column in {**columns, ENTROPY: "state_entropy", COVERAGE: "coverage"}.items():
        if (values := run.metrics.get(column)) is not None and (known := np.isfinite(values)).any():
            series[quantity] = (run.metrics[axis][known], values[known])
    return series


def _columns(before: str, after: str) -> Callable[[Mapping[str, Any]], dict[str, str]]:
    def columns(metrics: Mapping[str, Any]) -> dict[str, str]:
        constraints = {
            constraint_figure(name.removeprefix("constraint_")): f"{before}{name}{after}"
            for name in estimates(metrics)
            if name != "objective"
        }
        return {OBJECTIVE: f"{before}objective{after}", **constraints}

    return columns


_EXACT_CURVES = "exact values while training (metrics.csv)"
_COLUMNS = (
    (Source(_EXACT_CURVES), _columns("exact_", "")),
    (Source("each batch alone while training (metrics.csv)", is_one_batch=True), _columns("", "_fresh")),
    (Source("the running estimate while training (metrics.csv)"), _columns("", "")),
)


def grid(series: Sequence[tuple[FloatArray, FloatArray]], *, end: float) -> FloatArray:
    """Where curves are compared: where one of them has a value, from where all have one to ``end``; ``(n,)``.

    At most :data:`GRID_POINTS`, the ends among them. Empty where one begins later than ``end``.
    """
    begin = max(x[0] for x, _ in series)
    points = np.unique(np.concatenate([[begin, end], *(x for x, _ in series)]))
    points = points[(points >= begin) & (points <= end)]
    chosen: FloatArray = points[
        np.unique(np.linspace(0, len(points) - 1, min(len(points), GRID_POINTS)).round().astype(int))
    ]
    return chosen


def at_or_before(x: FloatArray, values: FloatArray, points: FloatArray) -> FloatArray:
    """The last value that was known by each point, NaN where there was none: nothing of the future, no line between.

    Args:
        x: where the values came, ascending ``(n,)``.
        values: ``(n,)``.
        points: ``(m,)``; so is what is returned.
    """
    last = np.searchsorted(x, points, side="right") - 1
    return np.where(last >= 0, values[np.maximum(last, 0)], np.nan)
