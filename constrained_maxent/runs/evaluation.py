"""Fresh rollouts of the last policy of a run. What ``cmaxent evaluate`` does."""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any

from constrained_maxent.errors import ContradictedDynamics, InvalidSetting
from constrained_maxent.evaluation import (
    ExactEvaluation,
    LimitVerdict,
    RolloutEvaluation,
    StateMeasures,
    UniformActions,
    evaluate_rollouts,
    exact_problem,
)
from constrained_maxent.evaluation.limits import judge_exactly
from constrained_maxent.runs.environments import make_environment
from constrained_maxent.runs.recorder import exact_evaluation
from constrained_maxent.runs.run_folder import RunFolder
from constrained_maxent.runs.settings import TrainSettings
from constrained_maxent.runs.states import VectorEnv
from constrained_maxent.runs.summary import exact_json
from constrained_maxent.runs.training import load_agent, load_config
from constrained_maxent.tracker import find_tracker

EPISODES = 20
"""Episodes where observations are continuous, if nothing is said."""
FINITE_EPISODES = 100
"""Episodes where observations are finite, if nothing is said: they are short, and rollouts cheap."""
SEED = 1_000_000
"""Of the rollouts, if nothing is said: no training begins there."""
_AT_ONCE = 32
"""Copies of an environment that run in parallel, unless the training had more."""


@dataclass(frozen=True)
class RunEvaluation:
    """A policy on fresh episodes.

    Attributes:
        env_id: of the run.
        iteration: of the run's last checkpoint.
        seed: of the rollouts.
        rollouts: what was measured in them.
        uniform: the same of uniform actions, for comparison.
        exact: exact values, where environment and policy are finite and known.
        no_exact: why there are none, where an environment publishes its dynamics.
        limits: whether each limit is kept: exactly, where that is known.
    """

    env_id: str
    iteration: int
    seed: int
    rollouts: RolloutEvaluation
    uniform: RolloutEvaluation
    exact: ExactEvaluation | None
    no_exact: str | None
    limits: tuple[LimitVerdict, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data, as in ``evaluation.json``."""
        return {
            "env_id": self.env_id,
            "iteration": self.iteration,
            "seed": self.seed,
            "rollouts": self.rollouts.to_json(),
            "uniform": self.uniform.to_json(),
            "exact": exact_json(self.exact),
            "no_exact": self.no_exact,
            "limits": [asdict(verdict) for verdict in self.limits],
        }


def evaluate(
    folder: RunFolder, *, n_episodes: int | None = None, seed: int = SEED, measures: StateMeasures | None = None
) -> RunEvaluation:
    """Roll the last policy of a run out on whole episodes from their true start, however it was trained.

    The run stays as it is; ``evaluation.json`` is written into its folder.

    Args:
        n_episodes: at least so many; by default ``EPISODES``, or ``FINITE_EPISODES`` where observations are finite.
        measures: of continuous states; by default what is known for the environment.

    Raises:
        InvalidRun: no run, or no checkpoint.
        DamagedCheckpoint, CheckpointMismatch: the checkpoint cannot be used.
        InvalidSetting: fewer than one episode, a negative seed, or an environment that brings its own wrappers and
            batches of steps.
        InvalidData: the measures do not fit the states.
    """
    env_id, settings = load_config(folder)
    if n_episodes is not None and n_episodes < 1:
        raise InvalidSetting(f"episodes={n_episodes!r} must be at least 1.")
    with closing(make_evaluation_environment(env_id, settings, EPISODES if n_episodes is None else n_episodes)) as env:
        if n_episodes is None:
            is_finite = find_tracker(env).estimator.table_shape() is not None
            n_episodes = FINITE_EPISODES if is_finite else EPISODES
        agent = load_agent(folder, env)
        problem, no_exact = exact_problem(env)
        rollouts = evaluate_rollouts(env, agent, n_episodes=n_episodes, seed=seed, measures=measures)
        if rollouts.contradiction is not None:
            problem, no_exact = None, rollouts.contradiction
        exact = exact_evaluation(problem, agent)
        actions = UniformActions(env, seed=seed)
        uniform = evaluate_rollouts(env, actions, n_episodes=n_episodes, seed=seed, measures=measures)
        constraints = find_tracker(env).problem.constraints
    limits = rollouts.limits if exact is None else judge_exactly(constraints, exact)
    evaluation = RunEvaluation(env_id, agent.iteration, seed, rollouts, uniform, exact, no_exact, limits)
    folder.write_json(folder.evaluation_path, evaluation.to_json())
    return evaluation


def contradiction(folder: RunFolder) -> str | None:
    """What in some fresh episodes of a run's last policy its environment's published dynamics do not explain.

    Nothing, where episodes need not end or batches are not of whole ones.

    Raises:
        InvalidRun, DamagedCheckpoint, CheckpointMismatch: the folder holds no run that can be evaluated.
    """
    env_id, settings = load_config(folder)
    with closing(make_evaluation_environment(env_id, settings, FINITE_EPISODES)) as env, warnings.catch_warnings():
        warnings.simplefilter("ignore", ContradictedDynamics)  # it is what is asked
        agent, tracker = load_agent(folder, env), find_tracker(env)
        if tracker.weighting.horizon is None or not tracker.whole_episodes:
            return None
        return evaluate_rollouts(env, agent, n_episodes=FINITE_EPISODES, seed=SEED).contradiction


def make_evaluation_environment(
    env_id: str, settings: TrainSettings, n_episodes: int, *, reported: Collection[str] | None = None
) -> VectorEnv:
    """The environment of a run, in batches of whole episodes that all begin as episodes do.

    Args:
        n_episodes: that shall be rolled out, in equal batches of one episode per copy.
        reported: as in :func:`make_environment`.

    Raises:
        InvalidSetting, UnsupportedSpace, DependencyNotInstalled: see :func:`make_environment`.
    """
    n_batches = -(-n_episodes // max(settings.num_envs or 1, _AT_ONCE))
    n_copies = -(-n_episodes // n_batches)
    # A split pairing needs two halves, though nothing is learnt here.
    whole: dict[str, Any] = {"num_envs": n_copies, "episodes_per_batch": n_copies, "pairing": "same"}
    kwargs = settings.environment_kwargs()
    kwargs.pop("staggered_starts", None)
    unstaggered = replace(settings, steps_per_batch=None, env_kwargs=json.dumps(kwargs))
    try:
        return make_environment(env_id, replace(unstaggered, **whole), reported=reported)
    except InvalidSetting:
        if settings != replace(settings, episodes_per_batch=None, steps_per_batch=None, pairing=None):
            raise
        # An environment that brings its own wrappers also brings the size of its batches.
        return make_environment(env_id, replace(settings, env_kwargs=json.dumps(kwargs)), reported=reported)
