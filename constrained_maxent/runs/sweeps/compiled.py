"""Runs of a sweep on the compiled engine: finite problems of known dynamics, without an agent's checkpoint.

The engine does what PGP does on a table, of other random numbers: the same seed is another sample of the same
distribution.
"""

from __future__ import annotations

import csv
import io
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from constrained_maxent.agents.settings import Hyperparameters, PGPSettings, complete, is_table
from constrained_maxent.atomic import write_text
from constrained_maxent.engine import RunSettings, TabularEngine, TabularResult
from constrained_maxent.errors import InvalidSetting, NonFiniteValue
from constrained_maxent.evaluation import ExactProblem, exact_problem
from constrained_maxent.evaluation.limits import judge_exactly
from constrained_maxent.functionals import Functional
from constrained_maxent.occupancy import Counts
from constrained_maxent.problem import Constraint
from constrained_maxent.runs.environments import make_environment
from constrained_maxent.runs.lock import Lock
from constrained_maxent.runs.provenance import versions
from constrained_maxent.runs.recorder import is_due
from constrained_maxent.runs.run_folder import RunFolder
from constrained_maxent.runs.settings import TrainSettings
from constrained_maxent.runs.states import VectorEnv
from constrained_maxent.runs.summary import add_certificate, summary_of
from constrained_maxent.runs.warned import KeptWarnings, kept_warnings
from constrained_maxent.schedules import Geometric
from constrained_maxent.tracker import Tracker, find_tracker

_AS_USUAL = (
    *("averaging", "normalize_advantages", "normalize_observations", "epochs", "minibatch_size", "clip_range"),
    "max_gradient_norm",
)
"""Hyperparameters of which the engine has only what is usual for tables."""


def require_counterpart(env_id: str, settings: TrainSettings) -> None:
    """Raise ``InvalidSetting`` where the engine cannot do what PGP would do with these settings, and say why."""
    with closing(make_environment(env_id, settings)) as env:
        problem = _problem_of(env_id, env)
        TabularEngine(problem.mdp, [run_settings(env, problem, settings)], scale=problem.scale, threads=1)


def run_settings(env: VectorEnv, problem: ExactProblem, settings: TrainSettings) -> RunSettings:
    """What PGP would do with these settings on this stack, as the engine takes it.

    Raises:
        InvalidSetting: the engine has no counterpart; every setting without one is named.
    """
    tracker, given = find_tracker(env), settings.agent
    spaces = env.single_observation_space, env.single_action_space
    if given.policy == "mlp" or not is_table(*spaces, kind=given.policy):
        raise InvalidSetting("policy: the compiled engine learns tables only")
    # What is suggested suits the usual kind of policy.
    suggestions = tracker.suggestions if is_table(*spaces, kind="auto") else {}
    chosen = complete(given, suggestions, is_table=True)
    if missing := [*_missing(chosen, tracker)]:
        raise InvalidSetting("\n".join(f"{line}: the compiled engine has no counterpart" for line in missing))
    estimator = tracker.estimator
    assert isinstance(estimator, Counts), "it would be missing"
    rate, final = chosen.learning_rate, chosen.final_learning_rate

    def tabulated(functional: Functional) -> Functional:
        return functional.tabulated(problem.cost_tables.__getitem__)

    objective = tracker.problem.objective
    return RunSettings(
        seed=settings.seed,
        objective=None if objective is None else tabulated(objective),
        constraints={
            name: Constraint(tabulated(constraint.functional), constraint.penalty)
            for name, constraint in tracker.problem.constraints.items()
        },
        episodes_per_batch=int(tracker.episodes_per_batch or 0),
        pairing=tracker.pairing,
        memory=estimator.memory,
        learning_rate=rate if final is None else Geometric(rate, final),
        optimizer=chosen.optimizer,
        damping=chosen.damping,
        proximal_weight=chosen.proximal_weight or None,
        inner_iterations=chosen.inner_iterations,
        baseline="batch-mean" if chosen.baseline == "batch-mean" else "none",
        projection_radius=None if math.isinf(chosen.projection_radius) else chosen.projection_radius,
    )


def _missing(chosen: Hyperparameters, tracker: Tracker) -> Iterator[str]:
    """What the engine cannot do, in words."""
    usual = complete(PGPSettings(), {}, is_table=True)
    for name in _AS_USUAL:
        if getattr(chosen, name) != getattr(usual, name):
            yield f"{name} = {getattr(chosen, name)!r}"
    if chosen.baseline == "critic":
        yield "baseline = 'critic'"
    if chosen.return_discount not in (None, tracker.weighting.discount):
        yield f"return_discount = {chosen.return_discount!r}, other than the occupancy's"
    if not tracker.whole_episodes:
        yield f"steps_per_batch = {tracker.steps_per_batch}"
    if type(tracker.estimator) is not Counts or tracker.estimator.smoothing:
        yield f"the estimator {tracker.estimator!r}"
    if callables := [name for name, source in tracker.sources.items() if callable(source)]:
        yield f"a cost by a function of the user's ({', '.join(callables)})"


def _problem_of(env_id: str, env: VectorEnv) -> ExactProblem:
    problem, reason = exact_problem(env)
    if problem is None:
        raise InvalidSetting(
            f"{env_id}: --compiled takes finite environments whose dynamics are known. "
            f"{reason or 'This one publishes none.'}"
        )
    return problem


def run_compiled_held(config: Mapping[str, Any], settings: TrainSettings, folder: RunFolder, lock: Lock) -> None:
    """Do a run in a folder that is this process's already, replacing what was unfinished in it.

    ``metrics.csv`` and ``summary.json`` are those of a training of PGP, without what only its agent knows; there is no
    checkpoint.

    Raises:
        InvalidSetting: the engine has no counterpart of a setting.
        NonFiniteValue: the run diverged.
    """
    with kept_warnings() as warned:
        _run(config, settings, folder, lock, warned)


def _run(
    config: Mapping[str, Any], settings: TrainSettings, folder: RunFolder, lock: Lock, warned: KeptWarnings
) -> None:
    folder.create(overwrite=True)
    with closing(make_environment(config["env_id"], settings)) as env:
        tracker, problem = find_tracker(env), _problem_of(config["env_id"], env)
        chosen = run_settings(env, problem, settings)
    iterations = int(settings.iterations or 0)
    begun = time.perf_counter()
    engine = TabularEngine(
        problem.mdp, [chosen], scale=problem.scale, planned_iterations=iterations, record_every=1, threads=1
    )
    exact: dict[int, dict[str, float | None]] = {}
    with lock.renewed():
        for iteration in range(1, iterations + 1):
            if iteration == iterations or is_due(iteration, settings.evaluate_every, dense=4):
                result = engine.run(iteration)
                if result.diverged[0] >= 0:
                    raise NonFiniteValue(f"The compiled run diverged in iteration {int(result.diverged[0]) + 1}.")
                found = problem.evaluate(result.policies[0])
                exact[iteration] = {
                    "exact_objective": found.objective,
                    **{f"exact_constraint_{name}": value for name, value in found.constraints.items()},
                }
    seconds = time.perf_counter() - begun
    lock.check()
    folder.clear()
    folder.write_json(folder.config_path, config)
    rows = [*_rows(result, settings, exact)]
    _write_table(folder, rows)
    policy, steps = result.policies[0], int(result.transitions[0])
    summary = summary_of(
        config,
        interrupted=False,
        iterations=iterations,
        timesteps=steps,
        seconds=seconds,
        steps_per_second=steps / seconds,
        estimate={
            "objective": rows[-1]["objective"],
            "constraints": {name: float(values[0, -1]) for name, values in result.constraints.items()},
        },
        problem=problem,
        exact=found,
        no_exact=None,
        limits=judge_exactly(tracker.problem.constraints, found),
        warnings=warned.entries,
        versions=versions("numba"),
    )
    add_certificate(folder, summary, problem, policy)


def _rows(
    result: TabularResult, settings: TrainSettings, exact: Mapping[int, Mapping[str, float | None]]
) -> Iterator[dict[str, float | int | None]]:
    """The rows of ``metrics.csv``. The steps of iterations are shared out evenly over the run."""
    done = int(result.iterations[0])
    per_iteration = int(result.transitions[0]) / done
    for iteration in range(1, done + 1):
        if iteration in exact or is_due(iteration, settings.log_every, dense=16):
            at = iteration - 1
            objective = float(result.objective[0, at])
            yield {
                "iteration": iteration,
                "timesteps": round(per_iteration * iteration),
                "objective": None if math.isnan(objective) else objective,
                **{f"constraint_{name}": float(values[0, at]) for name, values in result.constraints.items()},
                **{f"multiplier_{name}": float(values[0, at]) for name, values in result.slopes.items()},
                **exact.get(iteration, {}),
            }


def _write_table(folder: RunFolder, rows: list[dict[str, float | int | None]]) -> None:
    from torch.utils.tensorboard import SummaryWriter

    names = list(dict.fromkeys(name for row in rows for name in row))
    written = io.StringIO()
    table = csv.DictWriter(written, names, lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    write_text(folder.metrics_path, written.getvalue())
    events = SummaryWriter(str(folder.path))
    for row in rows:
        for name, value in row.items():
            if value is not None and name != "iteration":
                events.add_scalar(name, value, row["iteration"])
    events.close()
