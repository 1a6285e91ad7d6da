"""The paper's experiments of continuous control as runs of ``cmaxent train``: cartpole and point mass, over seeds."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from joblib import Parallel, delayed

from constrained_maxent.atomic import replacing
from constrained_maxent.errors import InvalidRun, InvalidSetting
from constrained_maxent.evaluation import Estimate, over_seeds
from constrained_maxent.evaluation.state_measures import STATE_MEASURES, evaluate_states
from constrained_maxent.occupancy import Weighting
from constrained_maxent.occupancy.horizon import find_horizon
from constrained_maxent.references import shipped
from constrained_maxent.references.rollouts import roll_out
from constrained_maxent.reproduction.control_cases import Case, Study
from constrained_maxent.runs.environments import completed
from constrained_maxent.runs.evaluation import RunEvaluation, evaluate_run
from constrained_maxent.runs.run_folder import RunFolder
from constrained_maxent.runs.settings import TrainSettings
from constrained_maxent.runs.training import load_config, one_thread, resume, train

if TYPE_CHECKING:
    from constrained_maxent.reporting import Curve

EPISODES = 64
"""Fresh episodes that each last policy is evaluated on."""

EXPERT = "the expert"
"""What tables call it."""


@dataclass(frozen=True)
class CaseResult:
    """What came out of one case.

    Attributes:
        case: the setting.
        seconds: of training, run by run, beside as many others as there were workers.
        evaluations: of the last policy of each run.
    """

    case: Case
    seconds: Sequence[float]
    evaluations: Sequence[RunEvaluation]

    def figures(self) -> dict[str, Estimate]:
        """Means over seeds with their intervals, by the names of ``cmaxent evaluate``."""
        return over_seeds([evaluation.rollouts.figures() for evaluation in self.evaluations])


def run_study(
    study: Study,
    folder: Path,
    *,
    seeds: int | None = None,
    iterations: int | None = None,
    workers: int = 1,
    progress: Callable[[str], None] = lambda label: None,
) -> list[CaseResult]:
    """Train and evaluate; runs that are finished in the folder are not done again, interrupted ones go on.

    Args:
        study: which.
        folder: of the results; a run folder for each case and seed below it.
        seeds: how many; by default the study's own number.
        iterations: of each run; by default those of the presets.
        workers: runs at a time, each in a process of its own.
        progress: called with the name of every run that is done.

    Raises:
        InvalidSetting: fewer than one seed or worker.
        InvalidRun: a folder holds another run.
    """
    n_seeds = study.seeds if seeds is None else seeds
    if n_seeds < 1 or workers < 1:
        raise InvalidSetting(f"seeds={n_seeds} and workers={workers} must be at least 1.")
    jobs = [
        (
            study.env_id,
            replace(case.settings, seed=seed, iterations=iterations or case.settings.iterations),
            run_path(folder, case, seed),
        )
        for case in study.cases
        for seed in range(n_seeds)
    ]
    done: Iterator[tuple[float, RunEvaluation]] = Parallel(n_jobs=workers, return_as="generator")(
        delayed(_train_and_evaluate)(*job) for job in jobs
    )
    outcomes = []
    for (_, _, path), outcome in zip(jobs, done, strict=True):
        outcomes.append(outcome)
        progress(path.name)
    parts = [outcomes[i * n_seeds : (i + 1) * n_seeds] for i in range(len(study.cases))]
    return [
        CaseResult(case, [seconds for seconds, _ in part], [evaluation for _, evaluation in part])
        for case, part in zip(study.cases, parts, strict=True)
    ]


def run_path(folder: Path, case: Case, seed: int) -> Path:
    """The folder of one run."""
    name = "".join(letter if letter.isalnum() or letter == "." else "-" for letter in case.label)
    return folder / f"{name}-seed{seed}"


def _train_and_evaluate(env_id: str, settings: TrainSettings, path: Path) -> tuple[float, RunEvaluation]:
    folder = RunFolder(path)
    # Runs side by side: a thread pool in each would make them wait for each other.
    with one_thread():
        return _finished(env_id, settings, folder)


def _finished(env_id: str, settings: TrainSettings, folder: RunFolder) -> tuple[float, RunEvaluation]:
    can_go_on = folder.checkpoint_path.exists() and folder.config_path.exists()
    if can_go_on and load_config(folder) != (env_id, completed(env_id, settings)):
        raise InvalidRun(f"{folder.path} holds a run of other settings: remove it, or take another --out.")
    if not folder.summary_path.exists():
        result = resume(folder) if can_go_on else train(env_id, settings, folder, overwrite=True)
        if result.interrupted:
            raise KeyboardInterrupt
    summary = folder.read_summary()
    if summary.get("status") != "finished" or summary.get("seed") != settings.seed:
        raise InvalidRun(f"{folder.path} holds another run, or an unfinished one: remove it, or take another --out.")
    return float(summary["seconds"]), evaluate_run(folder, n_episodes=EPISODES)


def expert_figures(study: Study, *, seeds: int) -> list[dict[str, Estimate]]:
    """How the states of the expert itself measure, by the names of ``cmaxent evaluate``; one entry for each seed.

    As many fresh episodes as every last policy is evaluated on. Empty where the study has no expert.
    """
    if study.expert is None:
        return []
    policy, measures = shipped(study.expert).policy, STATE_MEASURES[study.expert]
    assert policy is not None, "the references of this package have one"
    figures = []
    for seed in range(seeds):
        with contextlib.closing(gym.make(study.expert)) as env:
            weighting = Weighting(1.0, find_horizon(env))
            rolled = roll_out(policy, env, n_episodes=EPISODES, weighting=weighting, state="state", seed=seed)
        figures.append(evaluate_states(rolled.batch, measures, seed=seed).figures())
    return figures


def write_table(
    path: Path, study: Study, results: Sequence[CaseResult], expert: Sequence[Mapping[str, Estimate]] = ()
) -> None:
    """One row for each run, then the expert: case, seed, seconds of training, every figure of ``cmaxent evaluate``."""
    names = list(
        dict.fromkeys(name for found in [result.figures() for result in results] + [*expert] for name in found)
    )
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["study", "case", "seed", "seconds", *names])
        rows: list[tuple[str, int, str, Mapping[str, Estimate]]] = [
            (result.case.label, seed, f"{seconds:.1f}", evaluation.rollouts.figures())
            for result in results
            for seed, (seconds, evaluation) in enumerate(zip(result.seconds, result.evaluations, strict=True))
        ]
        rows += [(EXPERT, seed, "", figures) for seed, figures in enumerate(expert)]
        for label, seed, seconds, figures in rows:
            measured = [f"{figures[name].mean:.6g}" if name in figures else "" for name in names]
            writer.writerow([study.name, label, seed, seconds, *measured])


def draw_curves(path: Path, study: Study, folder: Path, *, seeds: int) -> None:
    """Training curves with 95 % intervals of the mean over seeds; of three seeds or fewer, every run."""
    # Imported late: Matplotlib would slow down every command.
    from constrained_maxent.reporting import Panel, curves_figure

    panels = []
    for column, label in study.curves.items():
        curves = [
            _curve(case.label, column, [RunFolder(run_path(folder, case, s)).read_metrics() for s in range(seeds)])
            for case in study.cases
        ]
        panels.append(Panel(curves, xlabel="thousand environment steps", ylabel=label))
    # Rows are equally long: two panels each, or all of an odd number in one.
    width = len(panels) if len(panels) % 2 else 2
    rows = [panels[i : i + width] for i in range(0, len(panels), width)]
    # Of three seeds the interval is four standard errors to either side, of two thirteen: it would hide the runs.
    curves_figure(rows, band="interval" if seeds > 3 else "runs").savefig(path, dpi=110)


def _curve(label: str, column: str, runs: Sequence[Mapping[str, Any]]) -> Curve:
    from constrained_maxent.reporting import Curve

    measured = np.isfinite(runs[0][column])
    x = 1e-3 * runs[0]["timesteps"][measured]
    return Curve(label, x, np.array([run[column][measured] for run in runs]))
