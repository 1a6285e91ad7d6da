"""Fresh rollouts of one policy: where it went, what it was charged, entropy and constraints, apart from training."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol, Self, runtime_checkable

import gymnasium as gym
import numpy as np

from constrained_maxent.agents.rollouts import Actor, Collector
from constrained_maxent.errors import ContradictedDynamics, InvalidSetting, UnsupportedPolicy
from constrained_maxent.evaluation.exact import exact_problem
from constrained_maxent.evaluation.limits import LimitVerdict, verdicts
from constrained_maxent.evaluation.state_measures import StateEvaluation, StateMeasures, evaluate_states, measures_of
from constrained_maxent.evaluation.statistics import (
    CostStatistics,
    Estimate,
    bootstrap_mean,
    cost_statistics,
    estimate_of,
)
from constrained_maxent.evaluation.witness import Witness
from constrained_maxent.seeds import EVALUATION, derived_reset_seed
from constrained_maxent.spaces import Environment, require_own_spaces, single_spaces
from constrained_maxent.tracker import NEW_BATCH, Tracker, find_tracker
from constrained_maxent.types import Batch, FloatArray, Trajectory, check_count, check_seed


@dataclass(frozen=True)
class RolloutEvaluation:
    """What a policy did on fresh episodes. Intervals are bootstrapped over episodes, at 95 %.

    Attributes:
        objective: of the occupancy estimated from all of them [nats]; a plug-in estimate, low for few episodes. Its
            interval holds that occupancy. ``None`` without an objective.
        constraints: R by name, with an interval where it is an expectation under λ: see :func:`estimate_of`.
        limits: whether each is kept, in words.
        length: of the episodes [steps].
        mass: of λ, a mean over episodes: 1 at scale ``normalized`` where all last the whole horizon. The entropy of
            densities says little without it.
        costs: of each recorded cost, by the key of ``info`` or, of a function, ``<constraint>()``.
        states: in continuous spaces: entropy, coverage, events.
        n_episodes: how many there were.
        label: what tables call the objective.
        contradiction: what in the episodes the published dynamics and costs, or the policy's own table, do not
            explain, where the environment is finite and publishes them: exact values are then of another process.
        cell_sizes: of the cells whose entropies they are, by term, of densities with a ``resolution``: those of the
            training, or of these episodes where there was none.
    """

    objective: Estimate | None
    constraints: Mapping[str, Estimate]
    limits: tuple[LimitVerdict, ...]
    length: Estimate
    mass: Estimate
    costs: Mapping[str, CostStatistics]
    states: StateEvaluation | None
    n_episodes: int
    label: str
    cell_sizes: Mapping[str, tuple[float, ...]]
    contradiction: str | None = None

    def figures(self) -> dict[str, Estimate]:
        """Everything measured, by the names that tables have."""
        figures = {} if self.objective is None else {self.label: self.objective}
        figures |= {"mass of λ": self.mass, "episode length (steps)": self.length}
        figures |= {constraint_figure(name): estimate for name, estimate in self.constraints.items()}
        for name, cost in self.costs.items():
            figures[f"{name}, mean per step"] = cost.mean
            figures[f"{name}, maximum"] = Estimate.exactly(cost.maximum)
            figures[f"{name}, share of episodes above 0"] = cost.violated
        if self.states is not None:
            figures |= self.states.figures()
        return figures

    def to_json(self) -> dict[str, Any]:
        """Plain data, by the names of the attributes."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """The evaluation that ``to_json`` described; ``KeyError`` or ``TypeError`` where it is none."""
        rest = dict(content)
        states, objective = rest.pop("states"), rest.pop("objective")
        return cls(
            objective=None if objective is None else Estimate(**objective),
            constraints=_estimates(rest.pop("constraints")),
            limits=tuple(LimitVerdict.from_json(verdict) for verdict in rest.pop("limits")),
            length=Estimate(**rest.pop("length")),
            mass=Estimate(**rest.pop("mass")),
            costs={name: CostStatistics.from_json(cost) for name, cost in rest.pop("costs").items()},
            states=None if states is None else StateEvaluation.from_json(states),
            cell_sizes={name: tuple(sizes) for name, sizes in rest.pop("cell_sizes").items()},
            **rest,
        )


def _estimates(content: Mapping[str, Any]) -> dict[str, Estimate]:
    return {name: Estimate(**estimate) for name, estimate in content.items()}


def constraint_figure(name: str) -> str:
    """How tables call R of that constraint."""
    return f"{name} - limit"


class Predictor(Protocol):
    """Whatever acts, as Stable-Baselines3's models do: anyone's agent, or an adapter of one.

    An agent that also has ``log_prob(observations, actions)``, log π [nats] of the rows of steps, ``(n,)``, makes
    densities of states ones of states and actions.
    """

    def predict(self, observation: Any, /, *, deterministic: bool) -> tuple[Any, Any]:
        """Actions for one observation or, in a vector environment, for a batch of them; and what is ignored here."""


@runtime_checkable
class HasTable(Protocol):
    """An agent whose policy may be a table, as that of ``PGP``."""

    @property
    def is_tabular(self) -> bool:
        """Whether it is one."""

    def policy_table(self) -> FloatArray:
        """π(a|s), ``(n_states, n_actions)``."""


def evaluate_rollouts(
    env: Environment, agent: Predictor, *, n_episodes: int, seed: int, measures: StateMeasures | None = None
) -> RolloutEvaluation:
    """Roll a policy out on its environment, without learning.

    A vector environment with as many copies as episodes is fastest. Where copies start staggered, their first episodes
    are left out.

    Args:
        env: the wrapped environment; where its batches are of steps, whole episodes are rolled out all the same. The
            batch under way is given up, and it has to be reset afterwards; estimate, multipliers and counts are what
            they were before.
        agent: whose policy acts, drawing its actions: ``PGP``, or anything that can ``predict``.
        n_episodes: at least so many episodes, in whole batches.
        seed: of environment, draws and intervals, and of the actions of ``PGP``; other agents draw theirs as they do.
        measures: what to measure of continuous states; by default what ``STATE_MEASURES`` has for the environment's id.

    Where the environment publishes its dynamics, the episodes are held against them, and the warning
    ``ContradictedDynamics`` says what does not agree.

    Raises:
        InvalidSetting: fewer than one episode, a negative seed, batches of steps of episodes that need not end, nothing
            that can predict, or measures where states are not continuous.
        InvalidData: the measures do not fit the states.
        UnsupportedPolicy: a model of Stable-Baselines3 itself, instead of ``adapters.sb3.as_agent(model)``.
        UnsupportedSpace: an agent for other observations or actions.
    """
    n_episodes, seed = check_count("n_episodes", n_episodes), check_seed("seed", seed)
    batch = Batch.from_trajectories(_whole_episodes(env, find_tracker(env), agent, n_episodes, seed))
    contradiction = _contradiction(env, agent, batch)
    if contradiction is not None:
        warnings.warn(
            f"{contradiction} Exact values and certificates are of the dynamics that the environment publishes, and it "
            "does something else.",
            ContradictedDynamics,
            stacklevel=2,
        )
    return replace(evaluate_batch(env, batch, seed=seed, measures=measures), contradiction=contradiction)


def evaluate_batch(
    env: Environment, batch: Batch, *, seed: int, measures: StateMeasures | None = None
) -> RolloutEvaluation:
    """Measure whole episodes, whoever stepped them, by the problem of a stack; the stack stays as it is.

    Args:
        env: the wrapped environment that the episodes are of.
        batch: the episodes, with what its tracker records of each step.
        seed: of the intervals.
        measures: as in :func:`evaluate_rollouts`.

    Raises:
        InvalidSetting: measures where states are not continuous.
        InvalidData: the measures do not fit the states.
        MissingCost: the batch lacks a cost that a constraint watches.
    """
    tracker = find_tracker(env)
    # Memory and buffer would mix in the occupancy of training.
    estimator = tracker.fresh_estimator().fit(batch)
    measure, points = estimator.measure(), estimator.points_of(batch)
    problem = tracker.problem.resolved(measure, tracker.estimator.periodic)
    states = None
    if estimator.table_shape() is None:
        if measures is None:
            measures = measures_of(env, batch)
        periodic, counted = tracker.estimator.periodic, estimator.counts_few
        states = evaluate_states(batch, measures, periodic=periodic, counted=counted, seed=seed)
    elif measures is not None:
        raise InvalidSetting("measures= are those of continuous states; here they are cells.")
    objective = problem.objective
    constraints = {
        name: estimate_of(constraint.functional, measure, batch, points, seed=seed)
        for name, constraint in problem.constraints.items()
    }
    return RolloutEvaluation(
        objective=None if objective is None else estimate_of(objective, measure, batch, points, seed=seed),
        constraints=constraints,
        limits=verdicts(problem.constraints, constraints, n_episodes=len(batch)),
        length=bootstrap_mean(batch.lengths, seed=seed),
        mass=bootstrap_mean([part.sum() for part in batch.split(batch.weights)], seed=seed),
        costs={name: cost_statistics(batch, name, seed=seed) for name in sorted(batch.costs)},
        states=states,
        n_episodes=len(batch),
        label="objective" if objective is None else objective.label,
        cell_sizes=problem.cell_sizes,
    )


def _contradiction(env: Environment, agent: Predictor, batch: Batch) -> str | None:
    """What the published process does not explain of the episodes, or of the policy of an agent with a table."""
    exact, _ = exact_problem(env)
    if exact is None:
        return None
    witness = Witness(exact)
    witness.see(batch)
    table = agent.policy_table() if isinstance(agent, HasTable) and agent.is_tabular else None
    return witness.contradiction(table)


def _whole_episodes(
    env: Environment, tracker: Tracker, agent: Predictor, n_episodes: int, seed: int
) -> list[Trajectory]:
    is_staggered = tracker.episode_count.is_staggered
    if tracker.whole_episodes and not is_staggered:
        with tracker.frozen():
            return _roll_out(env, tracker, agent, n_episodes, seed)
    if tracker.weighting.horizon is None and not tracker.whole_episodes:
        raise InvalidSetting(
            "Evaluation needs whole episodes, and those of this environment need not end: give it a time limit."
        )
    copies = env.num_envs if isinstance(env, gym.vector.VectorEnv) else 1
    n_staggered = copies if is_staggered else 0
    with tracker.frozen(n_episodes=n_staggered + max(n_episodes, copies)):
        # Batches have episodes in the order in which they started: the first ones of the copies come first.
        return _roll_out(env, tracker, agent, 1, seed)[n_staggered:]


def _roll_out(env: Environment, tracker: Tracker, agent: Predictor, n_episodes: int, seed: int) -> list[Trajectory]:
    policy, rng = getattr(agent, "policy", None), np.random.default_rng(seed)
    if not isinstance(policy, Actor) and not callable(getattr(agent, "predict", None)):
        raise InvalidSetting(f"agent= is a {type(agent).__name__}: it needs predict(observation, deterministic=False).")
    if any(kind.__module__.startswith("stable_baselines3.") for kind in type(agent).__mro__):
        # As it is, it tells neither its log-probabilities nor how its observations were normalized.
        raise UnsupportedPolicy(f"agent= is a {type(agent).__name__} itself: give adapters.sb3.as_agent(model).")
    require_own_spaces(agent, *single_spaces(env))
    collector = Collector(env)
    trajectories: list[Trajectory] = []
    while len(trajectories) < n_episodes:
        batch_seed = derived_reset_seed(env, seed, len(trajectories), EVALUATION)
        if isinstance(policy, Actor):
            collector.restart(seed=batch_seed)
            collector.collect(policy, rng)
        else:
            _predict_batch(env, tracker, agent, seed=batch_seed)
        assert tracker.last_batch is not None
        trajectories += tracker.last_batch
    return trajectories


def _predict_batch(env: Environment, tracker: Tracker, agent: Predictor, *, seed: Any) -> None:
    """Act until a batch is complete."""
    observation, _ = env.reset(seed=seed, options={NEW_BATCH: True})
    is_scalar, begun = isinstance(env, gym.Env), tracker.iteration
    with tracker.acting(log_prob=getattr(agent, "log_prob", None)):
        while tracker.iteration == begun:
            action, _ = agent.predict(observation, deterministic=False)
            observation, _, terminated, truncated, _ = env.step(action)
            if is_scalar and (terminated or truncated) and tracker.iteration == begun:
                observation, _ = env.reset()  # for layers below, this may be what ends the episode, and the batch
