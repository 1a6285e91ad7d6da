"""What a model's policy is worth now: exactly where the dynamics are known, else by fresh episodes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from constrained_maxent.adapters.sb3.agents import as_agent
from constrained_maxent.adapters.sb3.policies import policy_table
from constrained_maxent.errors import ContradictedDynamics, InvalidSetting, UnsupportedPolicy
from constrained_maxent.evaluation import evaluate_rollouts, exact_problem
from constrained_maxent.evaluation.limits import LimitVerdict, judge_exactly
from constrained_maxent.evaluation.witness import Witness
from constrained_maxent.tracker import find_tracker
from constrained_maxent.types import Batch

_ENOUGH_EPISODES = 256
"""Of fewer episodes the plug-in entropy of a finite space is low by nats; of long ones so many need not be."""
_ENOUGH_STEPS = 8192
"""Up to so many steps, all episodes of an evaluation together, that many episodes are rolled out."""
_LEAST_EPISODES = 8
"""Of fewer no limit is decided."""
_WITNESSED_STEPS = 20_000
"""Steps of the training that the published dynamics are held against."""


@dataclass(frozen=True, kw_only=True)
class PolicyValues:
    """What a policy is worth.

    Attributes:
        objective: F of its occupancy; ``None`` without an objective.
        constraints: R by name; kept where ≤ 0.
        limits: whether each is kept, in words.
        n_episodes: that the values were estimated from; ``None`` where they are exact.
    """

    objective: float | None
    constraints: Mapping[str, float]
    limits: tuple[LimitVerdict, ...]
    n_episodes: int | None

    @property
    def violation(self) -> float:
        """The largest R, at least 0."""
        return max([0.0, *self.constraints.values()])

    @property
    def is_within(self) -> bool:
        """Whether no limit is broken, or seems to be."""
        return all(limit.status == "kept" or limit.violation.mean <= 0.0 for limit in self.limits)

    def is_better_than(self, other: PolicyValues) -> bool:
        """By objective within the limits; a policy within goes before one that is not, and else the less violation."""
        if self.is_within != other.is_within:
            return self.is_within
        if not self.is_within:
            return self.violation < other.violation
        return self.objective is not None and other.objective is not None and self.objective > other.objective

    def __str__(self) -> str:
        source = "exactly" if self.n_episodes is None else f"of {self.n_episodes} fresh episodes"
        return (
            f"Objective {self.objective:.4g}, {source}." if self.objective is not None else f"No objective, {source}."
        )


def stack_of(model: Any) -> Any:
    """The environment of this package that a model learns on, beneath the layers of Stable-Baselines3.

    Raises:
        MissingTracker: there is no ``TrackOccupancy``, or each of several copies has one.
        InvalidSetting: the model has no environment.
    """
    venv = model.get_env()
    if venv is None:
        raise InvalidSetting("The model has no environment: model.set_env(venv).")
    bare = venv.unwrapped
    copies: list[Any] = getattr(bare, "envs", [])
    env = copies[0] if len(copies) == 1 else getattr(bare, "env", bare)  # DummyVecEnv's only copy; our VecEnv's
    find_tracker(env)
    return env


class Evaluator:
    """Evaluates a model on its problem, and touches neither its environment nor λ̂.

    Args:
        model: with the environment that it learns on.
        eval_env: a stack of the same wrappers, scalar or vector; by default a copy of the model's, where that is needed
            and possible.

    Raises:
        MissingTracker: see :func:`stack_of`.
        InvalidSetting: the environment cannot be copied.
    """

    def __init__(self, model: Any, eval_env: Any = None) -> None:
        self._env = stack_of(model)
        self.tracker = find_tracker(self._env)
        self._problem, _ = exact_problem(self._env)
        self._witness = None if self._problem is None else Witness(self._problem)
        self._is_witnessed = self._problem is None
        self._copy = None if eval_env is None else getattr(eval_env, "env", eval_env)
        if self._problem is not None:
            try:
                policy_table(model, self._problem.mdp)
            except UnsupportedPolicy:
                self._problem = None
        if self._problem is None:
            as_agent(model)  # what it refuses, it refuses before the training
            self._copied()

    @property
    def is_exact(self) -> bool:
        """Whether nothing is sampled."""
        return self._problem is not None

    @property
    def n_episodes(self) -> int:
        """Episodes of an evaluation: many short ones, or as many steps as a batch."""
        steps, horizon = self.tracker.steps_of_full_batch, self.tracker.weighting.horizon
        of_a_batch = 0 if steps is None or horizon is None else -(-steps // horizon)
        short = _ENOUGH_EPISODES if horizon is None else min(_ENOUGH_EPISODES, _ENOUGH_STEPS // horizon)
        return max(of_a_batch, short, _LEAST_EPISODES)

    @property
    def n_steps(self) -> int:
        """About how many steps an evaluation takes, of all copies; none where it is exact."""
        if self.is_exact:
            return 0
        # All copies act until the last episode has ended, and where they are staggered, their first ones do not count.
        copies = getattr(self._copied(), "num_envs", 1)
        n_episodes = -(-self.n_episodes // copies) * copies + copies * self.tracker.episode_count.is_staggered
        return n_episodes * (self.tracker.weighting.horizon or 100)

    def see(self, batch: Batch) -> None:
        """Hold a batch of the training against the published dynamics: what contradicts them has no exact values."""
        if self._witness is None or self._is_witnessed:
            return
        self._witness.see(batch)
        if self._witness.n_steps >= _WITNESSED_STEPS:
            self._ask_witness()

    def evaluate(self, model: Any) -> PolicyValues:
        """The present policy of the model.

        Raises:
            CheckpointMismatch: ``eval_env`` is not a stack like the model's.
        """
        if not self._is_witnessed:
            self._ask_witness()
        if self._problem is not None:
            exact = self._problem.evaluate(policy_table(model, self._problem.mdp))
            limits = judge_exactly(self.tracker.problem.constraints, exact)
            return PolicyValues(
                objective=exact.objective, constraints=dict(exact.constraints), limits=limits, n_episodes=None
            )
        copy = self._copied()
        find_tracker(copy).load_state_dict(self.tracker.state_dict())  # sizes of cells, and penalties to speak of
        fresh = evaluate_rollouts(copy, as_agent(model), n_episodes=self.n_episodes, seed=0)
        return PolicyValues(
            objective=None if fresh.objective is None else fresh.objective.mean,
            constraints={name: estimate.mean for name, estimate in fresh.constraints.items()},
            limits=fresh.limits,
            n_episodes=fresh.n_episodes,
        )

    def _ask_witness(self) -> None:
        assert self._witness is not None
        self._is_witnessed = self._witness.n_steps >= _WITNESSED_STEPS
        contradiction = self._witness.contradiction()
        if contradiction is not None:
            self._is_witnessed, self._problem = True, None
            warnings.warn(
                f"{contradiction} So what is logged are values of fresh episodes, and not exact ones of the dynamics "
                "that the environment publishes.",
                ContradictedDynamics,
                stacklevel=2,
            )

    def _copied(self) -> Any:
        if self._copy is None:
            bare = self._env.unwrapped
            if isinstance(bare, gym.vector.AsyncVectorEnv):
                raise self._not_copied("its copies live in processes")
            # Gymnasium 1.2 keeps the generator that its copies were made by, which is used up.
            makers = getattr(bare, "env_fns", None)
            try:
                self._copy = deepcopy(self._env, {id(makers): None} if isinstance(makers, Iterator) else {})
            except Exception as error:
                raise self._not_copied(str(error)) from error
        return self._copy

    def _not_copied(self, why: str) -> InvalidSetting:
        return InvalidSetting(
            f"Fresh episodes need an environment beside that of the training, and {self._env} cannot be copied "
            f"({why}): give the callback eval_env=, made by the same wrappers."
        )
