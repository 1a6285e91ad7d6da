"""The paper's experiments of continuous control as runs of ``cmaxent train``: cartpole and point mass, over seeds."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import polars as pl

from constrained_maxent.agents import PGPSettings
from constrained_maxent.evaluation import Estimate, over_seeds
from constrained_maxent.evaluation.state_measures import STATE_MEASURES, evaluate_states
from constrained_maxent.occupancy import Weighting
from constrained_maxent.occupancy.horizon import find_horizon
from constrained_maxent.penalties import QuadraticContinuation
from constrained_maxent.references import shipped
from constrained_maxent.references.rollouts import roll_out
from constrained_maxent.reporting import Curve, Panel, curves_figure
from constrained_maxent.reporting.style import save_figure
from constrained_maxent.reproduction import ControlStudyName
from constrained_maxent.reproduction.measured_once import plain_name, side_by_side
from constrained_maxent.reproduction.trained_once import trained_once
from constrained_maxent.runs import RunEvaluation, RunFolder, TrainSettings, evaluate
from constrained_maxent.tasks import PresetName

EPISODES = 64
"""Fresh episodes that each last policy is evaluated on."""

EXPERT = "the expert"
"""What tables call it."""


class Case(NamedTuple):
    """One setting of ``cmaxent train``, run with several seeds, under its name in tables, figures and folders."""

    label: str
    settings: TrainSettings


_STATES = {"state_entropy": "state entropy [nats]", "coverage": "share of grid cells"}
_CARTPOLE = _STATES | {"share_pole_up": "share of steps with the pole up", "constraint_cost": "mean cost [m per step]"}


@dataclass(frozen=True)
class ControlStudy:
    """Cases that are shown together, each with as many seeds unless something else is asked for."""

    name: ControlStudyName
    cases: Sequence[Case]
    seeds: int
    env_id: str = "SafeCartpole-PGP-v0"
    curves: Mapping[str, str] = field(default_factory=lambda: _CARTPOLE)
    """Columns of ``metrics.csv`` to draw, with what to write beside the axis."""
    expert: str | None = None
    """Environment whose shipped reference stands beside the cases."""


def _case(
    label: str,
    preset: PresetName = "default",
    *,
    evaluate_every: int = 5,
    agent: PGPSettings | None = None,
    iterations: int | None = None,
    **environment: Any,
) -> Case:
    settings = TrainSettings(
        preset=preset,
        iterations=iterations,
        log_every=1,
        evaluate_every=evaluate_every,
        agent=agent or PGPSettings(),
        env_kwargs=json.dumps(environment),
    )
    return Case(label, settings)


# The default preset at the limit that binds, with one of its choices undone.
_option = partial(_case, slider_limit=1.5)

# A tenth of the paper's run, a million steps, at the limit that binds, with something beyond the paper added.
_paper_option = partial(_case, preset="paper", evaluate_every=10, iterations=240, slider_limit=1.5)


_ALL = (
    ControlStudy(
        "cartpole",
        [
            _case("limit 2.0", slider_limit=2.0),
            _case("limit 1.5", slider_limit=1.5),
            _case("limit 1.5, no penalty", slider_limit=1.5, beta=0.0),
        ],
        seeds=10,
    ),
    ControlStudy(
        "cartpole-options",
        [
            _option("default"),
            _option("one step a batch", agent=PGPSettings(epochs=1, minibatch_size=0)),
            _option("last iterate", agent=PGPSettings(averaging=0.0)),
            _option("whole returns", agent=PGPSettings(gae_lambda=1.0)),
            _option("beta 3000", beta=3000.0),
            _option("beta 30 to 3000", penalty=QuadraticContinuation(30.0, 3000.0).to_config()),
            _option("states of 1 batch", buffer_size=8000),
            _option("states of 8 batches", buffer_size=64_000),
        ],
        seeds=3,
    ),
    ControlStudy(
        "cartpole-paper",
        [_case("the paper's settings", "paper", evaluate_every=20)],
        seeds=2,
        curves={
            "objective": "entropy of λ̂, plain mean [nats]",
            "self_weighted_objective": "the same, self-weighted [nats]",
            **_CARTPOLE,
        },
    ),
    ControlStudy(
        "cartpole-paper-options",
        [
            _paper_option("the paper's settings"),
            _paper_option("epochs, clipped ratio", agent=PGPSettings(epochs=4, minibatch_size=1024, clip_range=0.2)),
            _paper_option("beta 10 to 3000", penalty=QuadraticContinuation(10.0, 3000.0).to_config()),
            _paper_option("occupancy memory 0.5", memory=0.5),
        ],
        seeds=3,
    ),
    ControlStudy(
        "point-mass",
        [_case(f"r_max = {r_max}", limit=r_max) for r_max in (2, 20, 200)],
        seeds=3,
        env_id="PointMass-PGP-v0",
        curves=_STATES | {"constraint_imitation": "KL to the reference - r_max [nats]"},
        expert="PointMass-v0",
    ),
)

STUDIES: dict[str, ControlStudy] = {study.name: study for study in _ALL}
"""By name, in the order of ``ControlStudyName``."""


class CaseResult(NamedTuple):
    """What came out of one case, seed by seed: seconds of training, and the evaluation of the last policy."""

    case: Case
    seconds: Sequence[float]
    evaluations: Sequence[RunEvaluation]

    def figures(self) -> dict[str, Estimate]:
        """Means over seeds with their intervals, by the names of ``cmaxent evaluate``."""
        return over_seeds([evaluation.rollouts.figures() for evaluation in self.evaluations])


def run_study(
    study: ControlStudy,
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
    jobs = {}
    for case in study.cases:
        for seed in range(n_seeds):
            settings = replace(case.settings, seed=seed, iterations=iterations or case.settings.iterations)
            path = _path(folder, case, seed)
            jobs[path.name] = study.env_id, settings, path
    outcomes = side_by_side(_train_and_evaluate, jobs, workers=workers, progress=progress)
    parts = [outcomes[i : i + n_seeds] for i in range(0, len(jobs), n_seeds)]
    return [CaseResult(case, *zip(*part, strict=True)) for case, part in zip(study.cases, parts, strict=True)]


def _path(folder: Path, case: Case, seed: int) -> Path:
    return folder / f"{plain_name(case.label)}-seed{seed}"


def _train_and_evaluate(env_id: str, settings: TrainSettings, path: Path) -> tuple[float, RunEvaluation]:
    folder, summary = trained_once(env_id, settings, path)
    return float(summary["seconds"]), evaluate(folder, n_episodes=EPISODES)


def expert_figures(study: ControlStudy, *, seeds: int) -> list[dict[str, Estimate]]:
    """How the expert's states measure, seed by seed, on as many episodes as policies get; empty without an expert."""
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


def control_table(
    study: ControlStudy, results: Sequence[CaseResult], expert: Sequence[Mapping[str, Estimate]] = ()
) -> pl.DataFrame:
    """One row for each run and of the expert: study, case, seed, seconds of training, what ``cmaxent evaluate`` says.

    Figures have six digits, seconds one decimal; what was not measured is empty.
    """
    runs: list[tuple[str, int, float | None, Mapping[str, Estimate]]] = [
        (result.case.label, seed, seconds, evaluation.rollouts.figures())
        for result in results
        for seed, (seconds, evaluation) in enumerate(zip(result.seconds, result.evaluations, strict=True))
    ]
    runs += [(EXPERT, seed, None, figures) for seed, figures in enumerate(expert)]
    names = list(dict.fromkeys(name for *_, figures in runs for name in figures))
    rows = [
        [study.name, label, seed, seconds, *(figures[name].mean if name in figures else None for name in names)]
        for label, seed, seconds, figures in runs
    ]
    schema = {"study": pl.String, "case": pl.String, "seed": pl.Int64, "seconds": pl.Float64}
    table = pl.DataFrame(rows, schema=schema | dict.fromkeys(names, pl.Float64), orient="row")
    return table.with_columns(pl.col("seconds").round(1), *(pl.col(name).round_sig_figs(6) for name in names))


def draw_curves(path: Path, study: ControlStudy, folder: Path, *, seeds: int) -> Path:
    """Training curves with 95 % intervals of the mean over seeds; of three seeds or fewer, every run. The file."""

    def curve(case: Case, column: str) -> Curve:
        runs = [RunFolder(_path(folder, case, seed)).read_metrics() for seed in range(seeds)]
        measured = np.isfinite(runs[0][column])
        x = 1e-3 * runs[0]["timesteps"][measured]
        return Curve(case.label, x, np.array([run[column][measured] for run in runs]))

    panels = [
        Panel([curve(case, column) for case in study.cases], xlabel="thousand environment steps", ylabel=label)
        for column, label in study.curves.items()
    ]
    # Rows are equally long: two panels each, or all of an odd number in one.
    width = len(panels) if len(panels) % 2 else 2
    rows = [panels[i : i + width] for i in range(0, len(panels), width)]
    # Of three seeds the interval is four standard errors to either side, of two thirteen: it would hide the runs.
    return save_figure(curves_figure(rows, band="interval" if seeds > 3 else "runs"), path, dpi=110)
