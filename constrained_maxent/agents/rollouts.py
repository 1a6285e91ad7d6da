"""Collects one batch from a wrapped environment, scalar or vector, reading nothing but ``info``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from constrained_maxent.agents.acting import one_action
from constrained_maxent.agents.policies import Policy
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.spaces import as_row, as_rows
from constrained_maxent.types import FloatArray, IntArray

Environment = gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]


@dataclass(frozen=True, eq=False)
class Rollout:
    """The steps of a batch whose rewards belong to the gradient, trajectory by trajectory.

    Attributes:
        rows: observations, ``(n_steps, ...)``.
        actions: raw actions of the policy, ``(n_steps, ...)``.
        rewards: pseudo-rewards, ``(n_steps,)``.
        weights: w_t of the occupancy, ``(n_steps,)``.
        lengths: steps of each trajectory, ``(n_trajectories,)``.
        times: steps since its trajectory began, ``(n_steps,)``.
        final_rows: the observation after each trajectory's last step, ``(n_trajectories, ...)``.
        terminated: whether the environment ended it there, ``(n_trajectories,)``.
        report: the batch's ``info["batch"]``.
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
    report: Mapping[str, Any] = field(repr=False)
    n_steps: int
    n_episodes: float


def derived_seed(*place: int) -> int:
    """The seed of one place in a run, such as (seed of the run, iteration); unlike those of other places."""
    return int(np.random.SeedSequence(place).generate_state(1)[0])


def single_spaces(env: Environment) -> tuple[gym.Space[Any], gym.Space[Any]]:
    """Observation and action space of one (sub-)environment.

    Raises:
        InvalidSetting: not an environment.
    """
    if isinstance(env, gym.vector.VectorEnv):
        return env.single_observation_space, env.single_action_space
    if isinstance(env, gym.Env):
        return env.observation_space, env.action_space
    raise InvalidSetting(f"env={env!r} must be an environment, such as gym.make('FrozenLake-PGP-v0').")


def find_tracker(env: Environment) -> Any | None:
    """What keeps the wrappers' state: the nearest attribute ``tracker`` in the stack, if there is one."""
    layer: Any = env
    while layer is not None:
        if "tracker" in layer.__dict__:
            return layer.tracker
        layer = layer.__dict__.get("env")
    return None


class Collector:
    """Steps an environment with a policy until its wrappers say that a batch is complete.

    Meanwhile the wrappers know log π of the policy, for estimates λ̂(s,a) = d̂(s)·π(a|s).

    Args:
        env: a wrapped environment, scalar or vector.
        tells_log_prob: whether they are told; not where the policy that acts is one of a mixture.

    Raises:
        InvalidSetting: not an environment, or sub-environments that do not reset themselves.
    """

    def __init__(self, env: Environment, *, tells_log_prob: bool = True) -> None:
        self.env = env
        self.tells_log_prob = tells_log_prob
        self.observation_space, self.action_space = single_spaces(env)
        self._vector = env if isinstance(env, gym.vector.VectorEnv) else None
        if self._vector is not None and self._vector.metadata.get("autoreset_mode") is AutoresetMode.DISABLED:
            raise InvalidSetting(
                "PGP needs sub-environments that reset themselves: autoreset_mode NEXT_STEP or SAME_STEP."
            )
        self.num_envs = 1 if self._vector is None else self._vector.num_envs
        self._rows: NDArray[Any] | None = None
        self._log_probs: FloatArray
        self._scalar_episode_is_over = False

    def restart(self, *, seed: int) -> None:
        """Begin a new batch at the start of episodes."""
        observation, _ = self.env.reset(seed=seed, options={"new_batch": True})
        self._rows = self._as_rows(observation)
        self._scalar_episode_is_over = False

    def collect(self, policy: Policy, rng: np.random.Generator) -> Rollout:
        """One batch.

        Raises:
            InvalidSetting: nothing in the environment hands over pseudo-rewards and batches of all sub-environments.
        """
        tracker = find_tracker(self.env)
        # Where λ̂ is a density over states, the wrappers ask for log π; a table of λ̂ needs none.
        if not self.tells_log_prob or tracker is None or tracker.estimator.table_shape() is not None:
            return self._collect(policy, rng)
        before = tracker.policy_log_prob
        # Of the raw actions sampled last: exact at the bounds, where log π of squashed ones is not.
        tracker.policy_log_prob = lambda rows, actions: self._log_probs
        try:
            return self._collect(policy, rng, with_log_prob=True)
        finally:
            tracker.policy_log_prob = before

    def _collect(self, policy: Policy, rng: np.random.Generator, *, with_log_prob: bool = False) -> Rollout:
        assert self._rows is not None, "restart() comes first"
        rows: list[NDArray[Any]] = []
        actions: list[NDArray[Any]] = []
        finals: dict[tuple[int, int], tuple[NDArray[Any], bool]] = {}
        report = None
        while report is None:
            if self._scalar_episode_is_over:
                self._rows = self._as_rows(self.env.reset()[0])
                self._scalar_episode_is_over = False
            if with_log_prob:
                raw, self._log_probs = policy.sample_with_log_prob(self._rows, rng)
            else:
                raw = policy.sample(self._rows, rng)
            rows.append(self._rows)
            actions.append(raw)
            observation, terminated, truncated, info = self._step(policy.to_env(raw))
            self._rows = self._as_rows(observation)
            for i in np.flatnonzero(terminated | truncated).tolist():
                finals[len(rows) - 1, i] = (self._final_row(i, info), bool(terminated[i]))
            self._scalar_episode_is_over = self._vector is None and bool(terminated[0] or truncated[0])
            if "pseudo_reward" not in info:
                raise InvalidSetting(
                    "info has no pseudo_reward: wrap the environment, for example by "
                    "wrappers.constrain(env, episodes_per_batch=8)."
                )
            if "_batch" in info:
                # Gymnasium stacked the reports of wrappers that know one sub-environment each.
                raise InvalidSetting(
                    "Every sub-environment has an occupancy estimate of its own. Wrap the vector environment instead: "
                    "wrappers.constrain(gym.make_vec(...)); for the ids of this package, leave out vectorization_mode."
                )
            report = info.get("batch")
        return self._cut(np.array(rows), np.array(actions), finals, report)

    def _step(self, actions: NDArray[Any]) -> tuple[Any, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        if self._vector is not None:
            observation, _, terminated, truncated, infos = self._vector.step(actions)
            return observation, terminated, truncated, infos
        observation, _, terminated, truncated, info = self.env.step(one_action(self.action_space, actions))
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
        report: Mapping[str, Any],
    ) -> Rollout:
        """The ready trajectories of the batch, out of the steps taken: ``rows`` is ``(n_calls, num_envs, ...)``."""
        assert self._rows is not None
        n_calls = len(rows)
        ready = [i for i, flag in enumerate(report["ready"]) if flag]
        lengths = np.array([len(report["weights"][i]) for i in ready], dtype=np.int64)
        envs = np.array([report["sub_environments"][i] for i in ready], dtype=np.int64)
        first = n_calls - 1 - np.array([report["started_ago"][i] for i in ready], dtype=np.int64)
        times = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        calls = np.repeat(first, lengths) + times
        ends = [
            finals.get((last, env), (self._rows[env], False))
            for last, env in zip((first + lengths - 1).tolist(), envs.tolist(), strict=True)
        ]

        def join(name: str) -> FloatArray:
            return np.concatenate([report[name][i] for i in ready]) if ready else np.zeros(0)

        # Fragments stand for less than an episode each, by their share of the steps.
        share = len(ready) / report["episodes"] if report["whole_episodes"] else lengths.sum() / report["steps"]
        return Rollout(
            rows=rows[calls, np.repeat(envs, lengths)],
            actions=actions[calls, np.repeat(envs, lengths)],
            rewards=join("pseudo_rewards"),
            weights=join("weights"),
            lengths=lengths,
            times=times,
            final_rows=np.array([row for row, _ in ends]),
            terminated=np.array([flag for _, flag in ends], dtype=bool),
            report=report,
            n_steps=n_calls * self.num_envs,
            n_episodes=report["episode_count"] * share,
        )
