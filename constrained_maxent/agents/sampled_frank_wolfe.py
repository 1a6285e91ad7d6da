r"""Maximum entropy by Frank–Wolfe where the dynamics are unknown (Hazan et al., 2019): everything from rollouts.

.. math:: \pi_k \approx \arg\max_\pi \langle \nabla f(\hat\lambda_k), \lambda^\pi \rangle, \qquad
          \hat\lambda_{k+1} = (1 - \eta_k)\,\hat\lambda_k + \eta_k\,\hat\lambda^{\pi_k}, \qquad
          f(\lambda) = F(\lambda) - \sum_i \mathcal L_i(R_i(\lambda)).

The planner is PGP with the pseudo-rewards :math:`\nabla f(\hat\lambda_k)` held fixed. Where the dynamics are known,
:func:`~constrained_maxent.agents.frank_wolfe` plans exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from os import PathLike
from typing import Any, ClassVar, Self, get_args

import numpy as np

from constrained_maxent.agents import mixture_checkpoints
from constrained_maxent.agents.acting import as_batch, choose, one_action
from constrained_maxent.agents.frank_wolfe import StepRule
from constrained_maxent.agents.line_search import highest_point
from constrained_maxent.agents.mixture import MixturePolicy
from constrained_maxent.agents.momentum import require_whole_episodes
from constrained_maxent.agents.pgp import PGP
from constrained_maxent.agents.policies import CategoricalMLP, Policy, TabularSoftmax, is_table
from constrained_maxent.agents.pool import Pool
from constrained_maxent.agents.progress import Progress
from constrained_maxent.agents.reports import asks_to_stop
from constrained_maxent.agents.rollouts import Collector, Environment, derived_seed, find_tracker, single_spaces
from constrained_maxent.agents.settings import PGPSettings
from constrained_maxent.errors import InvalidSetting, NotFitted, UnsupportedSpace
from constrained_maxent.occupancy import Counts
from constrained_maxent.penalties import Quadratic
from constrained_maxent.types import Batch, FloatArray, IntArray, check_count

_PLANNER: dict[str, Any] = {"optimizer": "adam", "learning_rate": 0.1, "baseline": "batch-mean"}
"""Of a table, in place of what the environment suggests: those suggestions are for pseudo-rewards that move."""

_NEGLIGIBLE = 1e-9  # of a weight: such a policy is drawn in no experiment


@dataclass(frozen=True)
class FrankWolfeReport:
    """One iteration, as callbacks get it.

    Attributes:
        iteration: policies trained so far.
        timesteps: steps taken in the environment so far.
        policies: how many the mixture has.
        objective, constraints: F and R by name at the mixture's λ̂.
        gap: ⟨∇f, λ̂(new policy) - λ̂⟩ at the λ̂ before [nats]: what planning found, an estimate that can be negative.
        step: η, the weight that the new policy got.
    """

    iteration: int
    timesteps: int
    policies: int
    objective: float | None
    constraints: Mapping[str, float]
    gap: float
    step: float


Callback = Callable[["FrankWolfe", FrankWolfeReport], bool | None]
"""Called after every iteration with the agent and its report; returning False ends the training."""


class FrankWolfe:
    r"""A mixture of policies from a wrapped environment; **not a single policy**.

    At the start of each episode one of the policies is drawn, which then acts until the end; the mixture's occupancy is
    the mean of theirs. Each iteration trains a new policy from the beginning, estimates its λ from episodes of its
    own, and mixes it in. Objective and constraints are those of the wrappers. A density over continuous states is that
    of states alone: a mixture has no π(a|s).

    Args:
        env: a wrapped environment, scalar or vector, with batches of whole episodes and ``Quadratic`` penalties, whose
            β leaves a violation. Its estimate's ``memory`` has no say: λ̂ is the mixture's.
        planner: hyperparameters of the PGP that plans. For a table what is left out is Adam with a step size of 0.1
            and the batch's mean as baseline; for networks, what the environment suggests.
        planning_batches: batches that each policy is trained for.
        evaluation_batches: batches that its λ is estimated from.
        steps: the best step on the line from λ̂ to the new policy's, or :math:`\eta_k = 2/(k+2)`. Default: the former
            for counts; a density would be fitted some tens of times.
        seed: of everything random.

    Raises:
        InvalidSetting: a number out of range, an environment without wrappers, another penalty, or a planner that reads
            the λ of the policy that acts.

    Attributes:
        policies, weights: of the mixture; empty before the first iteration.
        iteration, timesteps: policies trained, and steps taken in the environment.

    >>> import gymnasium as gym
    >>> import constrained_maxent
    >>> env = gym.make("FrozenLake-PGP-v0", preset="paper")
    >>> agent = FrankWolfe(env, planning_batches=2, evaluation_batches=1).learn(2)
    >>> agent.is_single_policy, len(agent.policies) == len(agent.weights)
    (False, True)
    """

    is_single_policy: ClassVar[bool] = False

    def __init__(
        self,
        env: Environment,
        planner: PGPSettings | None = None,
        *,
        planning_batches: int = 50,
        evaluation_batches: int = 4,
        steps: StepRule | None = None,
        seed: int = 0,
    ) -> None:
        if planner is not None and not isinstance(planner, PGPSettings):
            raise InvalidSetting(f"planner={planner!r} must be PGPSettings(...), or None.")
        self.env = env
        self.planner = PGPSettings() if planner is None else planner
        self.planning_batches = check_count("planning_batches", planning_batches)
        self.evaluation_batches = check_count("evaluation_batches", evaluation_batches)
        self.seed = check_count("seed", seed, least=0)
        if steps is not None and steps not in get_args(StepRule):
            raise InvalidSetting(f"steps={steps!r} must be one of {', '.join(get_args(StepRule))}.")
        self._collector = Collector(env, tells_log_prob=False)
        self._tracker = _usable_tracker(env, self.planner)
        self.steps: StepRule = steps or ("line-search" if isinstance(self._tracker.estimator, Counts) else "open-loop")
        self.policies: list[Policy] = []
        self.weights: FloatArray = np.zeros(0)
        self.iteration = 0
        self.timesteps = 0
        self._pool = Pool()
        # Acting in between must not change what is learnt.
        self._predict_rng = np.random.default_rng((self.seed, 1))

    # Learning.

    def learn(self, iterations: int, *, callback: Callback | None = None, progress_bar: bool = False) -> Self:
        """Train so many further policies, each mixed in; what an interruption finds half done is left out.

        Args:
            iterations: policies to train.
            callback: called after every iteration; returning False ends the training.
            progress_bar: show time left, entropy and constraint values.

        Returns:
            The agent itself.

        Raises:
            InvalidSetting: a number below 0, or batches of fragments.
            NonFiniteValue: a planner diverged; the mixture is as before.
        """
        amount = check_count("iterations", iterations, least=0)
        with Progress(amount, enabled=progress_bar) as progress:
            for k in range(amount):
                report = self._iterate()
                progress.update(k + 1, objective=report.objective, constraints=report.constraints)
                if callback is not None and asks_to_stop(callback(self, report)):
                    break
        return self

    def _iterate(self) -> FrankWolfeReport:
        if not self.policies:
            first = self._make_planner(0).policy
            self._take([first], np.ones(1), self._pool.with_batch(self._evaluate(first, 0)))
        self._tracker.fit_afresh(self._pool.batch(self.weights))  # another agent may have used the environment
        planner = self._make_planner(self.iteration + 1)
        with self._held():
            planner.learn(iterations=self.planning_batches)
        self.timesteps += planner.timesteps
        batch = self._evaluate(planner.policy, self.iteration + 1)
        gap = self._gap(batch)
        pool = self._pool.with_batch(batch)
        step = self._best_step(pool) if self.steps == "line-search" else 2.0 / (self.iteration + 2.0)
        self._take([*self.policies, planner.policy], _mixed(self.weights, step), pool)
        self.iteration += 1
        evaluation = self._tracker.fit_afresh(self._pool.batch(self.weights))
        return FrankWolfeReport(
            self.iteration, self.timesteps, len(self.policies), evaluation.objective, evaluation.constraints, gap, step
        )

    def _make_planner(self, k: int) -> PGP:
        """A new agent, untrained."""
        tracker, suggested = self._tracker, self._tracker.agent_defaults
        try:
            tracker.agent_defaults = _planner_defaults(self.env, tracker, self.planner)
            agent = PGP(self.env, self.planner, seed=self._seed(k))
        finally:
            tracker.agent_defaults = suggested
        agent._collector.tells_log_prob = False
        return agent

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Meanwhile λ̂, and with it the pseudo-reward, stays as it is."""
        before = self._tracker.refit
        self._tracker.refit = lambda batch: None
        try:
            yield
        finally:
            self._tracker.refit = before

    def _evaluate(self, policy: Policy, k: int) -> Batch:
        """Episodes of one policy, from the start of episodes on."""
        rng, batches = np.random.default_rng((self.seed, k, 2)), Pool()
        # The first policy of all is asked for before there is a λ̂ to hold.
        for part in range(self.evaluation_batches):
            with self._held() if self._tracker.estimator.is_fitted else nullcontext():
                self._collector.restart(seed=self._seed(k, part))
                rollout = self._collector.collect(policy, rng)
            require_whole_episodes(rollout.report, "FrankWolfe")
            self.timesteps += rollout.n_steps
            batches = batches.with_batch(self._tracker.last_batch)
        return batches.batch(np.full(self.evaluation_batches, 1.0 / self.evaluation_batches))

    def _gap(self, batch: Batch) -> float:
        here = self._pool.batch(self.weights)
        gains = [float(b.weights @ self._tracker.rewards_of(b)) / b.n_episodes for b in (batch, here)]
        return gains[0] - gains[1]

    def _best_step(self, pool: Pool) -> float:
        """The highest point of f between λ̂ and the new policy's."""

        def value(step: float) -> float:
            evaluation = self._tracker.fit_afresh(pool.batch(_mixed(self.weights, step)))
            return (evaluation.objective or 0.0) - float(evaluation.penalty)

        return highest_point(value)

    def _take(self, policies: list[Policy], weights: FloatArray, pool: Pool) -> None:
        """This is the mixture now, without policies of no weight."""
        kept = np.flatnonzero(weights > _NEGLIGIBLE).tolist()
        self.policies = [policies[i] for i in kept]
        self.weights = weights[kept] / weights[kept].sum()
        self._pool = pool.only(kept)

    def _seed(self, *place: int) -> int:
        return derived_seed(self.seed, *place)

    # Acting.

    def predict(
        self,
        observation: Any,
        state: IntArray | None = None,
        episode_start: Any = None,
        *,
        deterministic: bool = False,
    ) -> tuple[Any, IntArray]:
        """An action for one observation, or actions for a batch of them, as Stable-Baselines3's recurrent policies do.

        Args:
            observation: of the environment's observation space, or, for a vector environment, of the batched one.
            state: numbers of the policies that act, as the last call returned them, ``(n,)``; drawn anew without it.
            episode_start: where an episode begins, ``(n,)``: there a policy is drawn anew.
            deterministic: of each policy the most probable action. Which one acts is drawn all the same.

        Returns:
            Action and state.

        Raises:
            NotFitted: before the first iteration.
        """
        self._require_policies()
        rows, single = as_batch(self._collector.observation_space, observation)
        acting = self._acting(len(rows), state, episode_start)
        actions = np.empty((len(rows), *(self._collector.action_space.shape or ())), self._collector.action_space.dtype)
        for i in np.unique(acting).tolist():
            mine = acting == i
            actions[mine] = choose(self.policies[i], rows[mine], None if deterministic else self._predict_rng)
        return (one_action(self._collector.action_space, actions) if single else actions), acting

    def _acting(self, n: int, state: IntArray | None, episode_start: Any) -> IntArray:
        """Numbers of the policies that act, drawn where an episode begins, ``(n,)``."""
        drawn: IntArray = self._predict_rng.choice(len(self.policies), size=n, p=self.weights)
        if state is None:
            return drawn
        begins = np.zeros(n, bool) if episode_start is None else np.asarray(episode_start, bool)
        return np.where(begins, drawn, state)

    def mixture(self) -> MixturePolicy:
        """The policies as tables, with their weights: what can be evaluated exactly.

        Raises:
            NotFitted: before the first iteration.
            UnsupportedSpace: observations or actions are not finite.
        """
        self._require_policies()
        tables = []
        for policy in self.policies:
            if not isinstance(policy, (TabularSoftmax, CategoricalMLP)):
                raise UnsupportedSpace("Only policies over Discrete actions have tables: play them by predict().")
            tables.append(policy.table())
        return MixturePolicy(np.array(tables), self.weights)

    def _require_policies(self) -> None:
        if not self.policies:
            raise NotFitted("The mixture has no policies yet: call learn(iterations) first.")

    # Checkpoints.

    def save(self, path: str | PathLike[str]) -> None:
        """Write a checkpoint, atomically: all policies, and the episodes that their λ̂ are estimated from."""
        mixture_checkpoints.save(path, self)

    @classmethod
    def load(cls, path: str | PathLike[str], env: Environment) -> Self:
        """The agent of a checkpoint, to play, or to go on as if it had never stopped.

        Args:
            path: the checkpoint. It is read without executing code.
            env: an environment built like the one that it was trained on.

        Raises:
            DamagedCheckpoint: the file is truncated or no checkpoint.
            CheckpointMismatch: it belongs to another agent, environment or version.
        """
        return mixture_checkpoints.load(path, env, cls)


def _usable_tracker(env: Environment, planner: PGPSettings) -> Any:
    """What keeps the wrappers' state, if their problem and the planner suit Frank–Wolfe."""
    tracker = find_tracker(env)
    if tracker is None:
        raise InvalidSetting("FrankWolfe needs an occupancy estimate: wrap the environment by wrappers.constrain(env).")
    for name, constraint in tracker.problem.constraints.items():
        if not isinstance(constraint.penalty, Quadratic):
            raise InvalidSetting(
                f"The penalty of {name!r} is {type(constraint.penalty).__name__}: Frank–Wolfe needs a fixed and "
                "smooth one, Quadratic(beta). The -PGP- ids take it as beta=, for example "
                "gym.make('FrozenLake-PGP-v0', beta=0.005)."
            )
    if tracker.policy_log_prob is not None:
        raise InvalidSetting("policy_log_prob= is of one policy, but a mixture is several: leave it out.")
    chosen = _planner_defaults(env, tracker, planner) | planner.given()
    if chosen.get("optimizer") == "natural" or chosen.get("momentum", 1.0) < 1.0:
        raise InvalidSetting(
            "The natural gradient and momentum read λ̂ of the policy that acts; here it is the mixture's: take "
            "another optimizer for the planner, and momentum=1.0."
        )
    return tracker


def _planner_defaults(env: Environment, tracker: Any, planner: PGPSettings) -> dict[str, Any]:
    """What a planner takes where nothing is given."""
    defaults: dict[str, Any] = tracker.agent_defaults
    return _PLANNER if is_table(*single_spaces(env), kind=planner.policy) else defaults


def _mixed(weights: FloatArray, step: float) -> FloatArray:
    return np.append((1.0 - step) * weights, step)
