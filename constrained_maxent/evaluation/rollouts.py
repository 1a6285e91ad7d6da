"""Fresh rollouts of one policy: entropy and constraint values apart from training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from constrained_maxent.agents import PGP
from constrained_maxent.agents.rollouts import Collector, Environment, single_spaces
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.evaluation.statistics import Estimate, bootstrap_mean
from constrained_maxent.functionals import LinearCost
from constrained_maxent.occupancy import estimator_config, estimator_from_config
from constrained_maxent.types import Batch, Trajectory
from constrained_maxent.wrappers import find_tracker
from constrained_maxent.wrappers.states import STATE_SPACE


@dataclass(frozen=True)
class RolloutEvaluation:
    """What a policy did on fresh episodes.

    Attributes:
        objective: of the occupancy estimated from all of them [nats]; a plug-in estimate, low for few episodes.
        constraints: R by name; with a 95 % interval over episodes where R is linear in λ.
        length: of the episodes [steps].
        n_episodes: how many there were.
    """

    objective: float | None
    constraints: Mapping[str, Estimate]
    length: Estimate
    n_episodes: int


def evaluate_rollouts(env: Environment, agent: PGP, *, n_episodes: int, seed: int) -> RolloutEvaluation:
    """Roll a policy out on its environment, without learning.

    Args:
        env: the wrapped environment; batches of whole episodes. A batch under way is given up; estimate and multipliers
            are afterwards what they were before.
        agent: whose policy acts.
        n_episodes: at least so many episodes, in whole batches.
        seed: of environment and actions.

    Raises:
        InvalidSetting: fewer than one episode, a negative seed, or batches of steps.
    """
    if n_episodes < 1:
        raise InvalidSetting(f"episodes={n_episodes} must be at least 1.")
    if seed < 0:
        raise InvalidSetting(f"seed={seed} must be at least 0.")
    tracker = find_tracker(env)
    before = tracker.state_dict()
    try:
        trajectories = _roll_out(env, agent, n_episodes, seed)
    finally:
        tracker.load_state_dict(before)
    batch = Batch.from_trajectories(trajectories)
    # Memory and buffer would mix in the occupancy of training.
    config = estimator_config(tracker.estimator)
    own = {name: value for name, value in config.items() if name not in ("memory", "buffer_size")}
    observation_space, action_space = single_spaces(env)
    state_space = observation_space if batch.states is None else STATE_SPACE
    estimator = estimator_from_config(own).bind(state_space, action_space).fit(batch)
    measure = estimator.measure()
    evaluation = tracker.problem.evaluate(measure)
    points = estimator.points_of(batch)
    constraints = {}
    for name, constraint in tracker.problem.constraints.items():
        functional = constraint.functional
        if isinstance(functional, LinearCost):
            costs = batch.split(batch.weights * functional.derivative(measure, points))
            constraints[name] = bootstrap_mean([cost.sum() - functional.limit for cost in costs], seed=seed)
        else:
            value = evaluation.constraints[name]
            constraints[name] = Estimate(value, value, value)
    length = bootstrap_mean(batch.lengths, seed=seed)
    return RolloutEvaluation(evaluation.objective, constraints, length, len(batch))


def _roll_out(env: Environment, agent: PGP, n_episodes: int, seed: int) -> list[Trajectory]:
    tracker, collector, rng = find_tracker(env), Collector(env), np.random.default_rng(seed)
    trajectories: list[Trajectory] = []
    while len(trajectories) < n_episodes:
        collector.restart(seed=seed + len(trajectories))
        report = collector.collect(agent.policy, rng).report
        if not report["whole_episodes"]:
            raise InvalidSetting("Evaluation needs batches of whole episodes: give episodes_per_batch.")
        assert tracker.last_batch is not None
        trajectories += tracker.last_batch
    return trajectories
