"""Collects batches from a wrapped environment, scalar or vector: what any agent of this kind starts from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.records import Report
from constrained_maxent.spaces import (
    Environment,
    as_row,
    as_rows,
    from_row,
    from_rows,
    narrowed,
    single_spaces,
    with_numbers,
)
from constrained_maxent.tracker import NEW_BATCH, find_tracker
from constrained_maxent.types import FloatArray, IntArray

_NEGLIGIBLE = 0.01  # of the weight of a first step


@runtime_checkable
class Actor(Protocol):
    """What a :class:`Collector` asks of a policy. Rows are observations as ``spaces.as_rows`` makes them.

    *Raw* actions are what the policy samples and differentiates; ``to_env`` turns them into the environment's.
    """

    def sample(self, rows: NDArray[Any], rng: np.random.Generator, /) -> NDArray[Any]:
        """Raw actions, ``(n, ...)``, one for each row ``(n, ...)``."""

    def sample_with_log_prob(self, rows: NDArray[Any], rng: np.random.Generator, /) -> tuple[NDArray[Any], FloatArray]:
        """Raw actions, ``(n, ...)``, and log π of them, ``(n,)`` [nats]; asked where λ̂ is a density only."""

    def to_env(self, raw: NDArray[Any], /) -> NDArray[Any]:
        """Raw actions as the environment takes them, ``(n, ...)``."""


@dataclass(frozen=True, eq=False)
class Rollout:
    """The steps of a batch whose rewards belong to the gradient, trajectory by trajectory.

    Attributes:
        rows: observations, ``(n_steps, ...)``; in float64, or of ``uint8``, such as pictures, in float32.
        actions: raw actions of the policy, ``(n_steps, ...)``.
        rewards: pseudo-rewards, ``(n_steps,)``.
        weights: w_t of the occupancy, ``(n_steps,)``.
        lengths: steps of each trajectory, ``(n_trajectories,)``.
        times: steps since its trajectory began, ``(n_steps,)``.
        final_rows: the observation after each trajectory's last step, ``(n_trajectories, ...)``.
        terminated: whether the environment ended it there, ``(n_trajectories,)``.
        report: what the batch ended with, the content of ``info["batch"]``.
        n_steps: steps taken in the environment, used or not.
        n_episodes: how many whole episodes the trajectories stand for.
    """

    rows: NDArray[Any]
    actions: NDArray[Any]
    rewards: FloatArray
    weights: FloatArray
    lengths: IntArray
    times: IntArray
    final_rows: NDArray[Any]
    terminated: NDArray[np.bool_]
    report: Report = field(repr=False)
    n_steps: int
    n_episodes: float


class Collector:
    """Steps an environment with a policy until its wrappers say that a batch is complete.

    Meanwhile the tracker knows log π of the policy, for estimates λ̂(s,a) = d̂(s)·π(a|s).

    Args:
        env: a wrapped environment, scalar or vector. Rows have those parts of a ``Dict`` that have numbers.

    Raises:
        InvalidSetting: not an environment, or sub-environments that do not reset themselves.
        MissingTracker: no ``TrackOccupancy`` in the stack, or one in each copy.
    """

    def __init__(self, env: Environment) -> None:
        observation_space, self.action_space = single_spaces(env)
        self.observation_space = with_numbers(observation_space)
        self.env, self.tracker = env, find_tracker(env)
        self._vector = env if isinstance(env, gym.vector.VectorEnv) else None
        if self._vector is not None and self._vector.metadata.get("autoreset_mode") is AutoresetMode.DISABLED:
            raise InvalidSetting(
                "A Collector needs sub-environments that reset themselves: autoreset_mode NEXT_STEP or SAME_STEP."
            )
        self.num_envs = 1 if self._vector is None else self._vector.num_envs
        self._generation = self.tracker.generation
        self._rows: NDArray[Any] | None = None
        self._log_probs: FloatArray
        self._scalar_episode_is_over = False
        # Images, in float64 rows, would take eight times their memory.
        space = self.observation_space
        is_image = isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.integer)
        self._kept_as = space.dtype if is_image else None
        self._takes_rows = isinstance(self.action_space, (gym.spaces.Box, gym.spaces.Discrete))

    def restart(self, *, seed: Any) -> None:
        """Begin a new batch at the start of episodes; ``seed`` is what ``reset`` of the environment takes."""
        observation, _ = self.env.reset(seed=seed, options={NEW_BATCH: True})
        self._generation = self.tracker.generation
        self._rows = self._as_rows(observation)
        self._scalar_episode_is_over = False

    @property
    def can_go_on(self) -> bool:
        """Whether episodes are under way that the next batch can continue.

        Not after ``tracker.frozen()``, and not where all have been going on for so long that further steps of theirs
        have no weight in λ.
        """
        return self._rows is not None and self._generation == self.tracker.generation and not self._all_have_faded()

    def _all_have_faded(self) -> bool:
        batch = self.tracker.last_batch
        if batch is None:
            return False
        ages = (batch.starts + batch.lengths)[~(batch.terminated | batch.truncated)]
        return len(ages) > 0 and bool(self.tracker.weighting.discount ** ages.min() < _NEGLIGIBLE)

    def collect(self, policy: Actor, rng: np.random.Generator) -> Rollout:
        """Act until the batch is complete; ``restart`` comes first.

        Args:
            policy: what acts.
            rng: for its samples.

        Raises:
            InvalidSetting: the tracker follows another, so that no batch ends here.
        """
        if self.tracker.hands_in:
            raise InvalidSetting(
                "This environment's tracker follows another, to which its batches go: there an agent learns from them. "
                "Collect within tracker.frozen() to evaluate, or from an environment whose tracker follows none."
            )
        # Log π of the raw actions sampled last: exact at the bounds, where that of squashed ones is not.
        tells = self.tracker.takes_log_prob
        with self.tracker.acting(log_prob=self._latest_log_prob if tells else None):
            return self._collect(policy, rng, with_log_prob=tells)

    def _latest_log_prob(self, rows: NDArray[Any], actions: NDArray[Any]) -> FloatArray:
        return self._log_probs

    def _collect(self, policy: Actor, rng: np.random.Generator, *, with_log_prob: bool) -> Rollout:
        assert self._rows is not None, "restart() comes first"
        rows: list[NDArray[Any]] = []
        actions: list[NDArray[Any]] = []
        finals: dict[tuple[int, int], tuple[NDArray[Any], bool]] = {}
        tracker, begun, stepped = self.tracker, self.tracker.iteration, self.tracker.timesteps
        # Not by info["batch"]: layers above may use a dictionary again, or lose one.
        while tracker.iteration == begun:
            if self._scalar_episode_is_over:
                self._rows = self._as_rows(self.env.reset()[0])
                self._scalar_episode_is_over = False
                if tracker.iteration != begun:  # layers above had ended the last episode, for those below by this reset
                    break
            if with_log_prob:
                raw, self._log_probs = policy.sample_with_log_prob(self._rows, rng)
            else:
                raw = policy.sample(self._rows, rng)
            rows.append(self._rows if self._kept_as is None else narrowed(self.observation_space, self._rows))
            actions.append(raw)
            observation, terminated, truncated, info = self._step(policy.to_env(raw))
            self._rows = self._as_rows(observation)
            for i in np.flatnonzero(terminated | truncated).tolist():
                finals[len(rows) - 1, i] = (self._final_row(i, info), bool(terminated[i]))
            self._scalar_episode_is_over = self._vector is None and bool(terminated[0] or truncated[0])
            stepped += self.num_envs
            if tracker.timesteps != stepped:
                raise InvalidSetting(
                    f"One step of {self.env} is not one step of the TrackOccupancy in it: layers that repeat actions, "
                    "skip frames or reset by themselves belong below it."
                )
        assert self.tracker.last_report is not None
        return self._cut(np.array(rows), np.array(actions), finals, self.tracker.last_report)

    def _step(self, actions: NDArray[Any]) -> tuple[Any, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        if self._vector is not None:
            taken = actions if self._takes_rows else from_rows(self.action_space, actions)
            observation, _, terminated, truncated, infos = self._vector.step(taken)
            return observation, terminated, truncated, infos
        observation, _, terminated, truncated, info = self.env.step(from_row(self.action_space, actions[0]))
        return observation, np.array([terminated]), np.array([truncated]), info

    def _as_rows(self, observation: Any) -> NDArray[Any]:
        if self._vector is None:
            return np.asarray(as_row(self.observation_space, observation))[None]
        return as_rows(self.observation_space, observation)

    def _final_row(self, i: int, info: Mapping[str, Any]) -> NDArray[Any]:
        # With SAME_STEP autoreset the observation is already that of the next episode.
        if "final_obs" in info and info["final_obs"][i] is not None:
            return np.asarray(as_row(self.observation_space, info["final_obs"][i]))
        assert self._rows is not None
        return np.asarray(self._rows[i])

    def _cut(
        self,
        rows: NDArray[Any],
        actions: NDArray[Any],
        finals: Mapping[tuple[int, int], tuple[NDArray[Any], bool]],
        report: Report,
    ) -> Rollout:
        """The ready trajectories of the batch, out of the steps taken: ``rows`` is ``(n_calls, num_envs, ...)``."""
        assert self._rows is not None
        n_calls = len(rows)
        ready = [i for i, flag in enumerate(report.ready) if flag]
        lengths = np.array([len(report.weights[i]) for i in ready], dtype=np.int64)
        envs = np.array([report.sub_environments[i] for i in ready], dtype=np.int64)
        first = n_calls - 1 - np.array([report.started_ago[i] for i in ready], dtype=np.int64)
        times = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        calls = np.repeat(first, lengths) + times
        ends = [
            finals.get((last, env), (self._rows[env], False))
            for last, env in zip((first + lengths - 1).tolist(), envs.tolist(), strict=True)
        ]

        def join(columns: list[FloatArray]) -> FloatArray:
            return np.concatenate([columns[i] for i in ready]) if ready else np.zeros(0)

        chosen = rows[calls, np.repeat(envs, lengths)]
        # Fragments stand for less than an episode each, by their share of the steps.
        share = len(ready) / report.episodes if report.whole_episodes else lengths.sum() / report.steps
        return Rollout(
            rows=chosen
            if self._kept_as is None
            else chosen.astype(np.float32 if self._kept_as == np.uint8 else np.float64),
            actions=actions[calls, np.repeat(envs, lengths)],
            rewards=join(report.pseudo_rewards),
            weights=join(report.weights),
            lengths=lengths,
            times=times,
            final_rows=np.array([row for row, _ in ends]),
            terminated=np.array([flag for _, flag in ends], dtype=bool),
            report=report,
            n_steps=n_calls * self.num_envs,
            n_episodes=report.episode_count * share,
        )
