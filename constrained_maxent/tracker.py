"""Batches in, pseudo-rewards out: the one place where a stack of wrappers and whoever learns on it meet.

Wrappers, scalar and vector, record steps and hand batches over; a :class:`Tracker` fits λ̂, turns it into the
pseudo-rewards of the penalized problem, and lets penalties follow. It knows no environment. An agent finds it by
:func:`find_tracker`, reads what it needs, and acts within ``with tracker.acting(log_prob=...)``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from constrained_maxent.density_watch import DensityWatch
from constrained_maxent.errors import (
    CheckpointMismatch,
    InvalidData,
    InvalidSetting,
    MissingTracker,
    UnplannedRun,
)
from constrained_maxent.functionals import Functional
from constrained_maxent.functionals.base import Source
from constrained_maxent.occupancy.base import OccupancyEstimator
from constrained_maxent.occupancy.episode_count import EpisodeCount
from constrained_maxent.occupancy.weighting import Weighting
from constrained_maxent.penalties import Penalty
from constrained_maxent.problem import Constraint, Problem, ProblemValue, RewardFunction
from constrained_maxent.records import Fragment, Leads, Report, Violations
from constrained_maxent.reward_scale import RewardScale
from constrained_maxent.schedules import Geometric, Plan
from constrained_maxent.spaces import Space
from constrained_maxent.types import Batch, FloatArray, Measure, Points, as_array, require_finite

Pairing = Literal["split", "same", "previous"]
"""Which estimate goes with which reward: fitted on the batch's first half and used on its second (the paper's
Algorithm 1), fitted on the whole batch and handed over at its end, or fitted on the batch before and live."""

LogProb = Callable[[NDArray[Any], NDArray[Any]], ArrayLike]
"""log π(a|s) [nats], ``(n,)``, of recorded observations and actions, ``(n, ...)`` each."""

_RETURN_DISCOUNT = 0.99
"""γ of an agent's returns where the occupancy weighs all steps alike and nobody says another."""

NEW_BATCH = "new_batch"
"""``reset(options={NEW_BATCH: True})`` forgets the batch under way: for an agent whose policy has just changed."""


class Tracker:
    """Fits λ̂ at the end of every batch and turns it into the pseudo-rewards of the penalized problem.

    Args:
        estimator: bound to the spaces, and not fitted yet.
        weighting: discount weights and scale.
        pairing: see :data:`Pairing`.
        episodes_per_batch: size of a batch in whole episodes, or
        steps_per_batch: in steps [steps], of fragments of episodes.
        staggered: whether the first episode of each copy is cut short, so that the copies are out of step.
        spaces: of states and actions, as the estimator was bound to them, for others like it.
        is_over_observations: whether λ̂ is over the observations themselves, and not over states made of them.
        policy_log_prob: log π(a|s) of the policy that acts where no agent says it by ``acting``, for estimates
            λ̂(s,a) = d̂(s)·π(a|s); ``None`` where unknown.
        suggestions: hyperparameters that suit this problem, by their names in ``PGPSettings``: what the -PGP- ids
            suggest to ``PGP``.

    Attributes:
        episode_count: how many whole episodes the fragments of a batch stand for.
        problem: objective and constraints, which the wrappers above ``TrackOccupancy`` declare.
        iteration: batches closed so far.
        timesteps: calls of ``step`` so far times the number of copies, as agents count their steps.
        live: the pseudo-reward of the latest fit, ``None`` before the first.
        live_is_ready: whether ``live`` belongs to the gradient of the policy that acts now.
        sources: where each observed quantity comes from, by the name that it is recorded under.
        last_batch: the batch closed last.
        last_report: what it ended with.
        last_step: what was recorded of the latest step of a vector, by name, one row for each copy: ``observation``,
            ``action``, where they are known ``state`` and ``log_prob``, and ``cost <key>`` (see :func:`cost_column`).
        violations: how far each constraint was broken while an agent learnt, by name.
        recorded_steps: steps of all batches that an agent learnt from.
        generation: changes where the steps under way are to be forgotten; recording wrappers look at it.
    """

    def __init__(
        self,
        estimator: OccupancyEstimator,
        weighting: Weighting,
        *,
        pairing: Pairing,
        episodes_per_batch: int | None = None,
        steps_per_batch: int | None = None,
        staggered: bool = False,
        spaces: tuple[Space, Space] | None = None,
        is_over_observations: bool = True,
        policy_log_prob: LogProb | None = None,
        suggestions: Mapping[str, Any] | None = None,
    ) -> None:
        if pairing not in get_args(Pairing):
            raise InvalidSetting(f"pairing={pairing!r} must be one of {', '.join(get_args(Pairing))}.")
        self.estimator = estimator
        self.weighting = weighting
        self.pairing = pairing
        self.episodes_per_batch = episodes_per_batch
        self.steps_per_batch = steps_per_batch
        self.spaces = spaces
        self.is_over_observations = is_over_observations
        self.suggestions = dict(suggestions or {})
        self.episode_count = EpisodeCount(weighting, staggered=staggered)
        self.problem = Problem()
        self.iteration = 0
        self.timesteps = 0
        self.live: RewardFunction | None = None
        self.live_is_ready = False
        self.sources: dict[str, Source] = {}
        self.last_batch: Batch | None = None
        self.last_report: Report | None = None
        self.last_step: Mapping[str, NDArray[Any]] | None = None
        self.violations: dict[str, Violations] = {}
        self.recorded_steps = 0
        self.generation = 0
        self._unfitted = deepcopy(estimator)  # a first fit remembers nothing
        self._log_prob = policy_log_prob
        self._value: ProblemValue | None = None
        self._plan: Plan | None = None
        self._half_is_fitted = False
        self._progress_of_batch = 0.0  # where the run stood when the batch under way began
        self._is_open = True
        self._is_acting = False
        self._is_frozen = False
        self._has_looked_for_schedules = False
        self._density_watch = DensityWatch()
        self._reward_scale: RewardScale | None = None
        self._leader: Leads | None = None
        self._number = 0  # among those who follow it
        self._version = -1  # of what the leader told last

    # Declarations, by the wrappers above.

    def set_objective(self, objective: Functional) -> None:
        """Declare the objective, before the first reset. A functional that is known to be convex only is refused."""
        functional, sources = self._declared("objective", objective)
        if functional.curvature == "convex":
            raise InvalidSetting(
                f"objective={type(functional).__name__} is convex, and a maximum of it is no convex problem: maximize "
                "a concave functional, for example -1.0 times this one."
            )
        self.problem.set_objective(functional)
        self.sources |= sources

    def add_constraint(self, name: str, functional: Functional, penalty: Penalty) -> None:
        """Declare a constraint, before the first reset. A functional that is known to be concave only is refused."""
        functional, sources = self._declared(name, functional)
        if functional.curvature == "concave":
            raise InvalidSetting(
                f"The functional {type(functional).__name__} of the constraint {name!r} is concave: F(λ) ≤ limit is a "
                "convex constraint for convex functionals only."
            )
        self.problem.add_constraint(name, Constraint(functional, penalty))
        self.sources |= sources

    def normalize_rewards(self) -> None:
        """Keep a scale that whoever hands rewards to an agent divides them by, see :attr:`reward_scale`."""
        self._reward_scale = RewardScale(self.return_discount)

    @property
    def return_discount(self) -> float:
        """γ of the returns of an agent that learns from live rewards: suggested, or the occupancy's if below 1."""
        usual = self.weighting.discount if self.weighting.discount < 1.0 else _RETURN_DISCOUNT
        return float(self.suggestions.get("return_discount", usual))

    @property
    def reward_scale(self) -> float:
        """Standard deviation of an agent's discounted returns, about; 1 where nobody asked to normalize rewards.

        It changes only where batches end. Reports and ``info`` have pseudo-rewards as they are.
        """
        return 1.0 if self._reward_scale is None else self._reward_scale.value

    def _declared(self, name: str, functional: Functional) -> tuple[Functional, dict[str, Source]]:
        """The functional as one of recorded quantities, and where these come from, by name."""
        if not self._is_open:
            raise InvalidSetting(
                "Objective and constraints are declared before the first reset(): wrap first, then reset."
            )
        if not isinstance(functional, Functional):
            raise InvalidSetting(f"The functional of {name!r} is {functional!r}: give a functionals.Functional.")
        functional.require_trainable()
        shape = self.estimator.table_shape()
        if shape is not None:
            functional.check(*shape)
        elif functional.needs_table:
            raise InvalidSetting(
                f"The functional of {name!r} is of the cells of a finite space, and {type(self.estimator).__name__} "
                "estimates a density: take Counts, with states binned by state= and cells=, or functions of steps and "
                "of points in the place of tables."
            )
        self._require_same_angles(functional)
        functional, sources = functional.observing(name)
        for key, source in sources.items():
            if self.sources.get(key, source) != source:
                raise InvalidSetting(f"Two terms record different things under {key!r}: give one another name=.")
        return functional, sources

    def _require_same_angles(self, functional: Functional) -> None:
        """Of two densities over different circles, one has mass where the other has none."""
        ours, theirs = self.estimator.periodic, functional.periodic
        if theirs is not None and self.estimator.table_shape() is None and set(ours) != set(theirs):
            raise InvalidData(
                f"The reference has the angles periodic={sorted(theirs)}, the estimator periodic={sorted(ours)}: "
                "densities are compared over one state, so give both the same periodic=."
            )

    @property
    def sees_places(self) -> bool:
        """Whether objective or a constraint look at the observations of the places where they are asked.

        Of cells none does, where these are not the observations.
        """
        if self.estimator.table_shape() is not None and not self.is_over_observations:
            return False
        constraints = [constraint.functional for constraint in self.problem.constraints.values()]
        objective = [] if self.problem.objective is None else [self.problem.objective]
        return any(functional.sees_places for functional in objective + constraints)

    def seal(self) -> None:
        """The environment is in use: nothing more can be declared."""
        self._is_open = False

    # The agent's side.

    @property
    def whole_episodes(self) -> bool:
        """Whether batches are of whole episodes, and not of fragments."""
        return self.steps_per_batch is None

    @property
    def steps_of_full_batch(self) -> int | None:
        """Steps of a batch whose episodes all last the whole horizon; ``None`` where episodes have no last step."""
        if self.episodes_per_batch is None or self.weighting.horizon is None:
            return self.steps_per_batch
        return self.episodes_per_batch * self.weighting.horizon

    @property
    def takes_log_prob(self) -> bool:
        """Whether λ̂ is a density that log π of the policy that acts makes one of states and actions."""
        return self.estimator.table_shape() is None

    @property
    def knows_log_prob(self) -> bool:
        """Whether anybody says log π of the policy that acts."""
        return self._log_prob is not None

    @contextmanager
    def acting(self, *, log_prob: LogProb | None = None) -> Iterator[None]:
        """While an agent acts: λ̂(s,a) = d̂(s)·π(a|s) with its own log π. What was known before is put back after.

        Args:
            log_prob: log π(a|s) of recorded observations and actions, called once with the rows of every step; an
                agent that keeps pre-squashing actions may return what it knows of those that it has just sampled.
                ``None`` leaves what ``TrackOccupancy(policy_log_prob=)`` says.

        Raises:
            InvalidSetting: another agent is acting.
        """
        if self._is_acting:
            raise InvalidSetting("An agent is acting on this environment already: leave its acting() first.")
        before, self._is_acting = self._log_prob, True
        self._log_prob = before if log_prob is None else log_prob
        try:
            yield
        finally:
            self._log_prob, self._is_acting = before, False

    @contextmanager
    def frozen(self, *, n_episodes: int | None = None) -> Iterator[None]:
        """Within it batches are scored and reported, but nothing is learnt from them: λ̂, multipliers and counts stay.

        The batch under way is forgotten, at the beginning and at the end, so that the environment has to be reset
        after it.

        Args:
            n_episodes: within it batches are of so many whole episodes; by default as in training.
        """
        counts = ("iteration", "timesteps", "last_batch", "last_report", "_version")
        kept = {name: getattr(self, name) for name in (*counts, "episodes_per_batch", "steps_per_batch")}
        was_frozen, self._is_frozen = self._is_frozen, True
        if n_episodes is not None:
            self.episodes_per_batch, self.steps_per_batch = n_episodes, None
        self._forget_steps()
        try:
            yield
        finally:
            self._is_frozen = was_frozen
            for name, value in kept.items():
                setattr(self, name, value)
            self._forget_steps()

    def _forget_steps(self) -> None:
        self.generation += 1
        if self._reward_scale is not None:
            self._reward_scale.forget_episodes()
        self.restart_batch()

    # One λ̂ over many trackers, in processes of their own for example.

    def follow(self, leader: Leads, *, number: int = 0, followers: int = 1) -> None:
        """Learn nothing from now on: hand batches to a leader, and take λ̂, multipliers and counts from it.

        A batch here is a share of the leader's, and no report comes of it: ``info`` has no ``batch``. Rewards stay as
        they are until ``catch_up``.

        Args:
            leader: for example an ``adapters.leader.Leader``.
            number: of this follower, by which the shares of a batch are ordered.
            followers: how many there are.

        Raises:
            InvalidSetting: a pairing that gives rewards to the very batch that λ̂ is fitted to.
        """
        if self.pairing != "previous":
            raise InvalidSetting(
                f"pairing={self.pairing!r} needs λ̂ of the batch whose rewards it gives, and a tracker that follows "
                "another learns that later: take pairing='previous'."
            )
        if self._leader is None:
            share = {name: getattr(self, name) for name in ("episodes_per_batch", "steps_per_batch")}
            for name, size in share.items():
                setattr(self, name, None if size is None else math.ceil(size / followers))
        self._leader, self._number, self._version = leader, number, -1
        self._forget_steps()
        self.catch_up()

    @property
    def follows(self) -> bool:
        """Whether another tracker learns in the place of this one."""
        return self._leader is not None

    @property
    def hands_in(self) -> bool:
        """Whether batches go to a leader, so that none ends here with a report."""
        return self._leader is not None and not self._is_frozen

    def _require_no_leader(self) -> None:
        if self._leader is not None:
            raise InvalidSetting(
                "This tracker follows another, whose plan and state its are: ask the leader, before or after."
            )

    def catch_up(self) -> None:
        """Take the newest λ̂, multipliers and counts of the leader, if there are newer ones than those known here.

        An agent calls it where it begins to collect: then one λ̂ gives the rewards of all that it learns from at once.
        """
        news = None if self._leader is None else self._leader.newest(self._version)
        if news is not None:
            self._version, state = news
            self.load_live_state(state)

    def _hand_in(self, batch: Batch, sub_environments: list[int], started_ago: list[int]) -> None:
        assert self._leader is not None
        self.restart_batch()
        self._leader.hand_in(
            Fragment.of(
                batch,
                sees_places=self.sees_places,
                sub_environments=sub_environments,
                started_ago=started_ago,
                version=self._version,
                follower=self._number,
            )
        )

    def live_state(self) -> dict[str, Any]:
        """What gives these live rewards elsewhere, at a batch's end: λ̂, values, multipliers, counts, plan.

        Plain data and arrays, as of ``state_dict``, but of a density without its samples, unless a functional asks for
        them.
        """
        estimator = self.estimator
        return {
            "estimator": estimator.state_dict() if self.problem.sees_samples else estimator.live_state(),
            "value": None if self._value is None else asdict(self._value),
            "penalties": self._penalty_states(),
            "settled": self.problem.settled(),
            "iteration": self.iteration,
            "timesteps": self.timesteps,
            "plan": None if self._plan is None else self._plan.state_dict(),
            "reward_scale": None if self._reward_scale is None else self._reward_scale.state_dict(),
        }

    def load_live_state(self, state: Mapping[str, Any]) -> None:
        """Give rewards, from now on, as ``live_state`` says; the steps under way are kept."""
        self.estimator.load_state_dict(state["estimator"])
        self.problem.become(self.problem.with_settled(state["settled"], is_begun=False))
        for name, penalty in state["penalties"].items():
            constraint = self.problem.constraints[name]
            self.problem.constraints[name] = replace(constraint, penalty=constraint.penalty.with_state(penalty))
        self.iteration, self.timesteps = state["iteration"], state["timesteps"]
        self._plan = Plan.from_state(state["plan"])
        self._reward_scale = self._scale_of(state["reward_scale"])
        self._value = None if state["value"] is None else ProblemValue(**state["value"])
        self.live = None if self._value is None else self.problem.reward_function(self.estimator.measure(), self._value)
        self.restart_batch()

    def announce(
        self, *, iterations: int | None = None, timesteps: int | None = None, replace_plan: bool = False
    ) -> None:
        """Say where the run is planned to end, counted from its beginning: there ``progress``, and schedules, reach 1.

        The first announcement holds, so that a run in parts is what one run would be; a later one changes nothing
        unless it is to replace the plan.

        Args:
            iterations: batches of the whole run, or
            timesteps: its calls of ``step`` times the number of copies, as agents count their steps.
            replace_plan: whether it goes before what was announced earlier.

        Raises:
            InvalidSetting: not exactly one of the two, or not a whole number of at least 1; or this tracker follows
                another.
        """
        self._require_no_leader()
        if (iterations is None) == (timesteps is None):
            raise InvalidSetting("Announce one of iterations= and timesteps=.")
        plan = Plan("iterations", iterations) if timesteps is None else Plan("timesteps", timesteps)
        if self._plan is None or replace_plan:
            self._plan = plan
            self._progress_of_batch = self.progress

    @property
    def is_planned(self) -> bool:
        """Whether the end of the run is known."""
        return self._plan is not None

    @property
    def progress(self) -> float:
        """Share of the planned run that is over, from 0 to 1; 0 as long as nobody has announced its end."""
        return 0.0 if self._plan is None else self._plan.progress(self.iteration, self.timesteps)

    # Steps.

    def log_probs(self, observations: NDArray[Any], actions: NDArray[Any]) -> FloatArray | None:
        """Log π of one step's actions, ``(n,)``; ``None`` where the policy is unknown.

        Raises:
            InvalidData, NonFiniteValue: log π is not one finite number per row.
        """
        if self._log_prob is None:
            return None
        # Copies: what a user's function writes into must not be what is recorded.
        log_probs = as_array("log_prob(...)", self._log_prob(np.array(observations), np.array(actions)), np.float64)
        if log_probs.shape != (len(observations),):
            raise InvalidData(f"log_prob must return shape ({len(observations)},), got {log_probs.shape}.")
        require_finite("log_prob(...)", log_probs)
        return log_probs

    def points(
        self,
        observations: NDArray[Any],
        actions: NDArray[Any],
        observed: Mapping[str, FloatArray],
        states: NDArray[Any] | None,
        log_probs: FloatArray | None,
    ) -> Points:
        """λ̂ at the given places; what is ``None`` is unknown, and no estimator is asked about it."""
        known: dict[str, Any] = {} if states is None else {"states": states}
        if log_probs is not None:
            known["log_probs"] = log_probs
        return self.estimator.points(observations, actions, observed, **known)

    def live_parts(
        self,
        observations: NDArray[Any],
        actions: NDArray[Any],
        observed: Mapping[str, FloatArray],
        states: NDArray[Any] | None,
        log_probs: FloatArray | None,
    ) -> dict[str, FloatArray]:
        """The live pseudo-reward of rows by parts, ``(n,)`` each; zeros before the first fit.

        Raises:
            InvalidData: an observation or action is outside its space.
        """
        if self.live is None:
            if self.estimator.table_shape() is not None:
                self.estimator.encode(observations if states is None else states, actions)
            return {name: np.zeros(len(actions)) for name in self.problem.term_names}
        if self.live.is_tabular:
            cells = self.estimator.encode(observations if states is None else states, actions)
            return self.live.at_cells(cells, observed)
        return self.live.at(self.points(observations, actions, observed, states, log_probs))

    # Batches.

    def counted(self, batch: Batch) -> Batch:
        """A batch with the number of episodes that it stands for; fragments count less than whole ones."""
        return batch if self.whole_episodes else replace(batch, episodes=self.episode_count.of(batch))

    def fit_half(self, first_half: Batch) -> None:
        """Pairing ``split``: fit the first half as soon as it is complete, so that the second gets live rewards."""
        self._fit(first_half)
        self._half_is_fitted = self.live_is_ready = True

    def close(
        self, batch: Batch, *, n_first: int, sub_environments: list[int], started_ago: list[int]
    ) -> Report | None:
        """End a batch: fit, evaluate, hand over the rewards, let penalties follow; or hand it to the leader: ``None``.

        Args:
            batch: the trajectories, in the order in which they started.
            n_first: how many of them are the first half; only pairing ``split`` asks.
            sub_environments, started_ago: for the report.
        """
        if self.hands_in:
            self._hand_in(batch, sub_environments, started_ago)
            return None
        try:
            rewards, ready = self._close(batch, n_first)
            value = self._value if self._value is not None else ProblemValue(None, {}, 0.0)
            fresh = self._evaluate_alone(batch, value)
        finally:
            self.restart_batch()
        self.last_batch = batch
        self.last_report = Report(
            iteration=self.iteration,
            episodes=len(batch),
            steps=batch.n_steps,
            episode_count=batch.n_episodes,
            objective=value.objective,
            constraints=dict(value.constraints),
            objective_fresh=fresh.objective,
            constraints_fresh=dict(fresh.constraints),
            multipliers={
                name: self.problem.constraints[name].penalty.slope(r) for name, r in value.constraints.items()
            },
            penalty=value.penalty,
            discount=self.weighting.discount,
            pseudo_rewards=batch.split(_read_only(rewards)),
            weights=batch.split(_read_only(batch.weights)),
            ready=ready,
            sub_environments=sub_environments,
            started_ago=started_ago,
            whole_episodes=self.whole_episodes,
        )
        self.iteration += 1
        self._progress_of_batch = self.progress
        if not self._is_frozen:
            self._count_violations(self.last_report)
            self._warn_without_plan()
            if not self.whole_episodes:
                self.episode_count.add(batch)
                self._density_watch.look_at_times(batch, len(set(sub_environments)), remembers=self.estimator.remembers)
            self._density_watch.look_at_fitted(self.estimator)
            self.problem.update_penalties(value, self.progress)
            assert self.live is not None
            self.live = self.live.with_coefficients(self.problem.terms(value))
            if self._reward_scale is not None:  # of the rewards to come, as far as this batch can tell
                self._reward_scale.add(self.rewards_of(batch), batch, sub_environments)
        return self.last_report

    def _close(self, batch: Batch, n_first: int) -> tuple[FloatArray, list[bool]]:
        if self.pairing == "previous":
            rewards, ready = self.rewards_of(batch), [self.live is not None] * len(batch)
            self._fit(batch)
            return rewards, ready
        if self.pairing == "same":
            self._fit(batch)
        elif not self._half_is_fitted:
            self._fit(batch.take(0, n_first))
        return self.rewards_of(batch), [self.pairing == "same" or i >= n_first for i in range(len(batch))]

    def _fit(self, batch: Batch) -> None:
        if not self._is_frozen:
            self.estimator.fit(batch, progress=self._progress_of_batch)
            measure = self.estimator.measure()
            self.problem.become(self.problem.resolved(measure, self.estimator.periodic))
            if any(constraint.penalty.asks_for_spread for constraint in self.problem.constraints.values()):
                weights = batch.weights / batch.n_episodes
                self.problem.measure_spreads(measure, self.estimator.points_of(batch), weights)
            self._evaluate(measure)
            self._density_watch.look_at_ends(batch, self.weighting.horizon, self.problem.objective, measure)

    def fresh_estimator(self) -> OccupancyEstimator:
        """An unfitted estimator of the same kind and spaces, which remembers nothing but the last batch.

        Of densities it counts the coordinates that λ̂ counts, so that entropies of the two compare.
        """
        if self.spaces is None:
            raise InvalidSetting("This tracker was not told its spaces=.")
        estimator = self.estimator.fresh().bind(*self.spaces)
        if self.estimator.is_fitted:
            estimator.count_as(self.estimator)
        return estimator

    def alone(self, batch: Batch) -> OccupancyEstimator:
        """An estimator like this one that knows one batch and nothing else."""
        estimator = deepcopy(self._unfitted)
        if self.estimator.is_fitted:
            estimator.count_as(self.estimator)
        return estimator.fit(batch)

    def _evaluate_alone(self, batch: Batch, value: ProblemValue) -> ProblemValue:
        """The problem's value by this batch alone; ``value`` is that by λ̂, the same where it knows nothing else."""
        if self.estimator.remembers or self.pairing == "split" or self._is_frozen:
            measure = self.alone(batch).measure()
            return self.problem.resolved(measure, self.estimator.periodic).evaluate(measure)
        return value

    def _count_violations(self, report: Report) -> None:
        self.recorded_steps += report.steps
        for name, violation in report.constraints_fresh.items():
            before = self.violations.get(name, Violations())
            self.violations[name] = before.after(violation, steps=report.steps, iteration=report.iteration)

    def _evaluate(self, measure: Measure) -> None:
        self._value = self.problem.evaluate(measure)
        self.live = self.problem.reward_function(measure, self._value)

    def _warn_without_plan(self) -> None:
        if self._plan is not None or self._has_looked_for_schedules:
            return
        self._has_looked_for_schedules = True  # nothing more can be declared: once is enough
        penalties = [constraint.penalty for constraint in self.problem.constraints.values()]
        scheduled = [f"penalty {type(penalty).__name__}" for penalty in penalties if penalty.has_schedule]
        if any(isinstance(value, Geometric) for value in self.estimator.get_params().values()):
            scheduled.append(f"estimator {type(self.estimator).__name__}")
        if scheduled:
            warnings.warn(
                f"Schedules ({', '.join(scheduled)}) run over the progress of the run, and nobody has said where it "
                "ends: they stay where they begin. Give gym.make(..., iterations=), or call "
                "find_tracker(env).announce(iterations=) or announce(timesteps=).",
                UnplannedRun,
                stacklevel=2,
            )

    def restart_batch(self) -> None:
        """The batch under way is forgotten: its second half has no estimate of its own any more."""
        self._half_is_fitted = False
        self._progress_of_batch = self.progress
        self.live_is_ready = self.pairing == "previous" and self.live is not None

    def rewards_of(self, batch: Batch) -> FloatArray:
        """Live pseudo-rewards of every step, ``(n_steps,)``; zeros before the first fit."""
        if self.live is None:
            return np.zeros(batch.n_steps)
        if self.live.is_tabular:
            parts = self.live.at_cells(self.estimator.encode(batch.places, batch.actions), batch.costs)
        else:
            points = self.estimator.points_of(batch)
            if not self._is_frozen:  # nobody learns from those
                self._density_watch.look_at_rewarded(self.estimator, points)
            parts = self.live.at(points)
        return sum(parts.values(), np.zeros(batch.n_steps))

    # Checkpoints.

    def state_dict(self) -> dict[str, Any]:
        """What continues a run at a batch's end: estimate, multipliers, counts, plan. Plain data and arrays.

        Raises:
            InvalidSetting: this tracker follows another; so does ``load_state_dict``.
        """
        self._require_no_leader()
        penalties = self._penalty_states()
        return {
            "estimator": self.estimator.state_dict(),
            "penalties": {name: state for name, state in penalties.items() if state},
            "terms": list(self.problem.term_names),
            "settled": self.problem.settled(),
            "iteration": self.iteration,
            "timesteps": self.timesteps,
            "recorded_steps": self.recorded_steps,
            "violations": {name: asdict(record) for name, record in self.violations.items()},
            "plan": None if self._plan is None else self._plan.state_dict(),
            "fragments": self.episode_count.state_dict(),
            "reward_scale": None if self._reward_scale is None else self._reward_scale.state_dict(),
        }

    def _penalty_states(self) -> dict[str, dict[str, float | None]]:
        return {name: constraint.penalty.state_dict() for name, constraint in self.problem.constraints.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what ``state_dict`` returned.

        Raises:
            CheckpointMismatch: it belongs to other constraints, spaces or another estimator. Nothing is changed then.
        """
        self._require_no_leader()
        if list(state["terms"]) != list(self.problem.term_names):
            raise CheckpointMismatch(
                f"The checkpoint was made with the terms {', '.join(state['terms'])}; this environment has "
                f"{', '.join(self.problem.term_names)}. Build the same stack of wrappers."
            )
        penalties = {}
        for name, here in self._penalty_states().items():
            there = state["penalties"].get(name, {})
            if there.keys() != here.keys():
                raise CheckpointMismatch(
                    f"The checkpoint's penalty of {name!r} changes its {', '.join(there) or 'nothing'}, this "
                    f"environment's its {', '.join(here) or 'nothing'}: give the constraint the same penalty."
                )
            try:
                penalties[name] = self.problem.constraints[name].penalty.with_state(there)
            except InvalidSetting as error:
                raise CheckpointMismatch(
                    f"The checkpoint's penalty of {name!r} does not fit this environment's: {error}"
                ) from error
        plan = Plan.from_state(state["plan"]) or self._plan
        settled = self.problem.with_settled(state.get("settled", {}), is_begun="samples" in state["estimator"])
        scale = self._scale_of(state.get("reward_scale"))
        recorded_steps = int(state["recorded_steps"])
        violations = {name: Violations(**record) for name, record in state["violations"].items()}
        try:
            self.estimator.load_state_dict(state["estimator"])
        except InvalidData as error:
            raise CheckpointMismatch(f"The checkpoint's occupancy does not fit this environment: {error}") from error
        self.problem.become(settled)
        for name, penalty in penalties.items():
            self.problem.constraints[name] = replace(self.problem.constraints[name], penalty=penalty)
        self.iteration, self.timesteps = int(state["iteration"]), int(state["timesteps"])
        self.recorded_steps, self.violations = recorded_steps, violations
        self._plan, self._reward_scale = plan, scale
        self.episode_count.load_state_dict(state.get("fragments", ()))
        self.live = self._value = None
        if self.estimator.is_fitted:
            self._evaluate(self.estimator.measure())
        self._forget_steps()

    def _scale_of(self, state: Mapping[str, Any] | None) -> RewardScale | None:
        if self._reward_scale is None:
            if state is not None:
                raise CheckpointMismatch(
                    "The checkpoint was made with normalized rewards, and this environment gives them as they are: "
                    "build the same stack, PseudoReward(normalize=True) or constrain(normalize_reward=True)."
                )
            return None
        scale = RewardScale(self._reward_scale.discount)
        if state is not None:
            scale.load_state_dict(state)
        return scale


def cost_column(key: str) -> str:
    """Name of an observed quantity among recorded columns, some of which could be called like it."""
    return f"cost {key}"


def _read_only(column: FloatArray) -> FloatArray:
    view = column.view()
    view.flags.writeable = False
    return view


def find_tracker(env: object) -> Tracker:
    """The tracker of the nearest ``TrackOccupancy`` in a stack of wrappers, scalar or vector.

    Args:
        env: an environment; layers are followed by their attribute ``env``.

    Raises:
        MissingTracker: there is none, or each copy in a vector environment has one of its own.
    """
    layer: Any = env
    while layer is not None:
        tracker = getattr(layer, "__dict__", {}).get("tracker")
        if isinstance(tracker, Tracker):
            return tracker
        inner = getattr(layer, "__dict__", {}).get("env")
        if inner is None and copies_have_trackers(layer):
            raise MissingTracker(
                f"Every copy in {env} has an occupancy estimate of its own, and no agent can follow many. Wrap the "
                "vector environment instead: wrappers.constrain(gym.make_vec(...)); for the ids of this package, leave "
                "out vectorization_mode."
            )
        layer = inner
    raise MissingTracker(
        f"There is no TrackOccupancy in {env}: wrap it first, for example by "
        "wrappers.constrain(env, episodes_per_batch=8)."
    )


def copies_have_trackers(env: Any) -> bool:
    """Whether the copies that a vector environment manages are stacks with trackers, as far as can be seen here."""
    copies = getattr(getattr(env, "unwrapped", env), "envs", None) or []
    for copy in copies:
        try:
            find_tracker(copy)
        except MissingTracker:
            continue
        return True
    return False
