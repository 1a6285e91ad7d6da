"""Fresh rollouts of one policy: where it went, what it was charged, entropy and constraints, apart from training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from constrained_maxent.agents import PGP
from constrained_maxent.agents.rollouts import Collector, Environment, single_spaces
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.evaluation.functional_estimates import estimate_of
from constrained_maxent.evaluation.state_measures import (
    StateEvaluation,
    StateMeasures,
    evaluate_states,
    measures_of,
    n_coordinates,
)
from constrained_maxent.evaluation.statistics import CostStatistics, Estimate, bootstrap_mean, cost_statistics
from constrained_maxent.occupancy import estimator_config, estimator_from_config
from constrained_maxent.types import Batch, Trajectory
from constrained_maxent.wrappers import find_tracker
from constrained_maxent.wrappers.layers import STATE_SPACE


@dataclass(frozen=True)
class RolloutEvaluation:
    """What a policy did on fresh episodes. Intervals are bootstrapped over episodes, at 95 %.

    Attributes:
        objective: of the occupancy estimated from all of them [nats]; a plug-in estimate, low for few episodes. Its
            interval holds that occupancy. ``None`` without an objective.
        constraints: R by name; with an interval where R is linear in λ, and, holding the occupancy, where it is a KL
            divergence.
        length: of the episodes [steps].
        costs: of each recorded cost, by the key of ``info`` or, of a function, ``<constraint>()``.
        states: in continuous spaces: entropy, coverage, events.
        n_episodes: how many there were.
    """

    objective: Estimate | None
    constraints: Mapping[str, Estimate]
    length: Estimate
    costs: Mapping[str, CostStatistics]
    states: StateEvaluation | None
    n_episodes: int

    def figures(self) -> dict[str, Estimate]:
        """Everything measured, by the names that tables have."""
        figures = {} if self.objective is None else {OBJECTIVE: self.objective}
        figures |= {constraint_figure(name): estimate for name, estimate in self.constraints.items()}
        for name, cost in self.costs.items():
            figures[f"{name}, mean per step"] = cost.mean
            figures[f"{name}, maximum"] = Estimate.exactly(cost.maximum)
            figures[f"{name}, share of episodes above 0"] = cost.violated
        if self.states is not None:
            figures |= self.states.figures()
        return figures | {"episode length (steps)": self.length}

    def to_json(self) -> dict[str, Any]:
        """Plain data, by the names of the attributes."""
        return asdict(self)


OBJECTIVE = "entropy (nats)"


def constraint_figure(name: str) -> str:
    """How tables call R of that constraint."""
    return f"{name} - limit"


def evaluate_rollouts(
    env: Environment, agent: PGP, *, n_episodes: int, seed: int, measures: StateMeasures | None = None
) -> RolloutEvaluation:
    """Roll a policy out on its environment, without learning.

    A vector environment with as many copies as episodes is fastest. Episodes start as the environment says: for a fair
    sample let them not be staggered.

    Args:
        env: the wrapped environment; batches of whole episodes. A batch under way is given up; estimate and multipliers
            are afterwards what they were before.
        agent: whose policy acts.
        n_episodes: at least so many episodes, in whole batches.
        seed: of environment, actions, draws and intervals.
        measures: what to measure of continuous states; by default what is known for the environment's id, see
            :data:`~constrained_maxent.evaluation.state_measures.STATE_MEASURES`.

    Raises:
        InvalidSetting: fewer than one episode, a negative seed, batches of steps, or measures where states are not
            continuous.
        InvalidData: the measures do not fit the states.
    """
    if isinstance(n_episodes, bool) or not isinstance(n_episodes, (int, np.integer)) or n_episodes < 1:
        raise InvalidSetting(f"episodes={n_episodes!r} must be at least 1.")
    if not getattr(agent, "is_single_policy", True):
        raise InvalidSetting(
            f"{type(agent).__name__} is a mixture of policies, and rollouts are of one: evaluate its policies one by "
            "one, or where the dynamics are known its mixture() exactly."
        )
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise InvalidSetting(f"seed={seed!r} must be at least 0.")
    tracker = find_tracker(env)
    before = tracker.state_dict()
    try:
        # No live pseudo-rewards: nobody looks at them.
        tracker.live = None
        trajectories = _roll_out(env, agent, int(n_episodes), int(seed))
    finally:
        tracker.load_state_dict(before)
    batch = Batch.from_trajectories(trajectories)
    # Memory and buffer would mix in the occupancy of training.
    config = estimator_config(tracker.estimator)
    own = {name: value for name, value in config.items() if name not in ("memory", "buffer_size")}
    observation_space, action_space = single_spaces(env)
    state_space = observation_space if batch.states is None else STATE_SPACE
    estimator = estimator_from_config(own).bind(state_space, action_space).fit(batch)
    measure, points = estimator.measure(), estimator.points_of(batch)
    problem = tracker.problem
    objective = problem.objective
    states = None
    if isinstance(state_space, gym.spaces.Box):
        if measures is None:
            measures = measures_of(env, n_coordinates(batch))
        states = evaluate_states(batch, measures, periodic=getattr(tracker.estimator, "periodic", ()), seed=seed)
    elif measures is not None:
        raise InvalidSetting(f"measures= are those of continuous states; observations here are {observation_space}.")
    return RolloutEvaluation(
        objective=None if objective is None else estimate_of(objective, measure, batch, points, seed=seed),
        constraints={
            name: estimate_of(constraint.functional, measure, batch, points, seed=seed)
            for name, constraint in problem.constraints.items()
        },
        length=bootstrap_mean(batch.lengths, seed=seed),
        costs={name: cost_statistics(batch, name, seed=seed) for name in sorted(batch.costs)},
        states=states,
        n_episodes=len(batch),
    )


def _roll_out(env: Environment, agent: PGP, n_episodes: int, seed: int) -> list[Trajectory]:
    tracker, collector, rng = find_tracker(env), Collector(env), np.random.default_rng(seed)
    trajectories: list[Trajectory] = []
    while len(trajectories) < n_episodes:
        collector.restart(seed=seed + len(trajectories))
        report = collector.collect(agent.policy, rng).report
        if not report["whole_episodes"]:
            raise InvalidSetting(
                "Evaluation needs batches of whole episodes: make the environment with episodes_per_batch. "
                "experiments.evaluation.evaluate_run does so for the folder of a run."
            )
        assert tracker.last_batch is not None
        trajectories += tracker.last_batch
    return trajectories
