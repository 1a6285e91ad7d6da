"""The contract of a wrapped environment, scalar or vector: what info carries, step by step and batch by batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from constrained_maxent.records import Report
from constrained_maxent.spaces import Environment
from constrained_maxent.testing.assertions import require
from constrained_maxent.tracker import NEW_BATCH, find_tracker

LISTS = ("pseudo_rewards", "ready", "weights", "sub_environments", "started_ago")
"""The keys of a report that hold one entry for each trajectory."""


def check_stack(env: Environment, n_batches: int, *, max_steps: int = 100_000) -> None:
    """Step a stack with ``TrackOccupancy`` in it by sampled actions, and check what it adds to ``info``.

    Raises:
        AssertionError: what is wrong.
        MissingTracker: there is no ``TrackOccupancy``.
    """
    watch = _Watch(env)
    env.action_space.seed(0)
    watch.reset(seed=0, options={NEW_BATCH: True})
    has_reset = False
    for _ in range(max_steps):
        watch.step()
        if watch.n_reports >= n_batches:
            return
        if watch.n_reports == 1 and not has_reset:
            watch.step()
            watch.reset()
            has_reset = True
    raise AssertionError(f"only {watch.n_reports} of {n_batches} batches ended within {max_steps} steps")


class _Watch:
    """A record of the steps of a stack, scalar or vector, that the stack's reports are held against."""

    def __init__(self, env: Environment) -> None:
        self.env: Any = env
        self.tracker = find_tracker(env)
        self.is_vector = isinstance(env, gym.vector.VectorEnv)
        self.num_envs = env.num_envs if isinstance(env, gym.vector.VectorEnv) else 1
        self.mode = env.metadata.get("autoreset_mode") if self.is_vector else None
        self.calls = -1
        self.first_call_of_batch = 0
        self.n_reports = 0
        self.iteration = self.tracker.iteration
        self.active = np.zeros(self.num_envs, dtype=bool)
        self.time = np.zeros(self.num_envs, dtype=np.int64)
        # (sub-environment, call) of every step that no report has covered yet: its time, reward and readiness.
        self.steps: dict[tuple[int, int], tuple[int, float, bool]] = {}

    def reset(self, **arguments: Any) -> None:
        _, info = self.env.reset(**arguments)
        mask = (arguments.get("options") or {}).get("reset_mask", np.ones(self.num_envs, dtype=bool))
        self.active[mask], self.time[mask] = True, 0
        self._check_report(info)

    def step(self) -> None:
        before = self.tracker.timesteps
        _, reward, terminated, truncated, info = self.env.step(self.env.action_space.sample())
        taken = (self.tracker.timesteps - before) // self.num_envs
        require(taken == 1, f"one step must be one of TrackOccupancy, not {taken}: layers that repeat belong below it")
        self.calls += 1
        self._record(np.atleast_1d(reward), info)
        done = np.atleast_1d(np.logical_or(terminated, truncated)) & self.active
        if self.mode is AutoresetMode.NEXT_STEP:
            # Sub-environments between two episodes were reset by this call.
            self.time[~self.active] = 0
            self.active = ~done
        elif self.mode is AutoresetMode.SAME_STEP:
            self.time[done] = 0
        else:
            self.active &= ~done
        self._check_report(info)
        if not self.is_vector and done[0]:
            self.reset()
        elif self.mode is AutoresetMode.DISABLED and done.any():
            self.reset(options={"reset_mask": done})

    def _entry(self, info: Mapping[str, Any], key: str, kind: type) -> Any:
        require(key in info, f"info[{key!r}] must be there on every step")
        value = info[key]
        if not self.is_vector:
            kinds = (kind, np.bool_) if kind is bool else kind  # a float of NumPy's is a float, a truth value no bool
            require(isinstance(value, kinds), f"info[{key!r}] must be a {kind.__name__}, got {value!r}")
        entry = np.atleast_1d(value)
        require(
            entry.shape == (self.num_envs,) and entry.dtype == np.dtype(kind),
            f"info[{key!r}] must be one {kind.__name__} per sub-environment, got {entry.dtype} of shape {entry.shape}",
        )
        require(bool(np.isfinite(entry).all()), f"info[{key!r}] must be finite, got {value}")
        return entry

    def _record(self, reward: Any, info: Mapping[str, Any]) -> None:
        total, ready = self._entry(info, "pseudo_reward", float), self._entry(info, "pseudo_reward_ready", bool)
        names = self.tracker.problem.term_names
        parts = [self._entry(info, f"pseudo_reward_{name}", float) for name in names]
        require(
            np.allclose(sum(parts, np.zeros(self.num_envs)), total, rtol=1e-9),
            f"info['pseudo_reward'] must be the sum of its parts {', '.join(names)}",
        )
        if self.is_vector:
            mask = np.asarray(info.get("_pseudo_reward", np.ones(self.num_envs, dtype=bool)))
            require(
                np.array_equal(mask, self.active),
                "infos['_pseudo_reward'] must be True for the sub-environments that took a step of an episode",
            )
            require(not ready[~self.active].any(), "a step that only resets must not be ready")
        if "original_reward" in info:
            require(
                np.array_equal(reward, total), "where info keeps original_reward, the reward must be the pseudo-reward"
            )
        for i in np.flatnonzero(self.active).tolist():
            self.steps[i, self.calls] = (int(self.time[i]), float(total[i]), bool(ready[i]))
        self.time += self.active

    def _check_report(self, info: Mapping[str, Any]) -> None:
        if "batch" not in info:
            return
        report = info["batch"]
        missing = {field.name for field in fields(Report)} - report.keys()
        require(not missing, f"info['batch'] lacks {', '.join(sorted(missing))}")
        iteration = self.iteration + self.n_reports
        require(report["iteration"] == iteration, f"iteration must be {iteration}, got {report['iteration']}")
        constraints = list(self.tracker.problem.constraints)
        for key in ("constraints", "multipliers"):
            require(list(report[key]) == constraints, f"info['batch'][{key!r}] must name {constraints}")
        for key in LISTS:
            require(
                isinstance(report[key], list) and len(report[key]) == report["episodes"],
                f"info['batch'][{key!r}] must be a list of {report['episodes']} entries, one per trajectory",
            )
        lengths = [len(rewards) for rewards in report["pseudo_rewards"]]
        require(sum(lengths) == report["steps"], f"steps is {report['steps']}, but there are {sum(lengths)} rewards")
        for i in range(report["episodes"]):
            self._check_trajectory(report, i)
        self.n_reports += 1
        self.first_call_of_batch = self.calls + 1

    def _check_trajectory(self, report: Mapping[str, Any], i: int) -> None:
        """One trajectory of a report against the steps that were seen; takes them off the record."""
        rewards, ready, weights = (report[key][i] for key in ("pseudo_rewards", "ready", "weights"))
        require(isinstance(ready, bool), f"ready must list bools, got {ready!r}")
        require(bool(np.isfinite(rewards).all()), f"the pseudo-rewards of trajectory {i} must be finite")
        env, first = report["sub_environments"][i], self.calls - report["started_ago"][i]
        keys = [(env, first + k) for k in range(len(rewards))]
        require(
            all(key in self.steps for key in keys),
            f"trajectory {i} must be {len(rewards)} steps that sub-environment {env} took from call {first} on, "
            "in no batch before",
        )
        seen = [self.steps.pop(key) for key in keys]
        times = [time for time, _, _ in seen]
        require(times == list(range(times[0], times[0] + len(times))), f"trajectory {i} must be steps of one episode")
        require(
            len(weights) == len(times) and np.allclose(weights, self.tracker.weighting.weights(times), rtol=1e-9),
            f"the weights of trajectory {i} must be w_t of its times",
        )
        for (_, call), (_, live, was_ready), reward in zip(keys, seen, rewards, strict=True):
            # Rewards of steps before this batch came from another estimate.
            if was_ready and call >= self.first_call_of_batch:
                require(
                    bool(np.isclose(live, reward, rtol=1e-9)),
                    f"a ready live reward must be the one handed over, got {live} and {reward}",
                )
