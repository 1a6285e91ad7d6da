"""Fresh episodes of a policy as a Minari data set. What ``cmaxent collect`` does."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from constrained_maxent.adapters import minari
from constrained_maxent.adapters.minari.store import PART_BYTES
from constrained_maxent.adapters.stacks import layers_of
from constrained_maxent.errors import InvalidData, InvalidRun, InvalidSetting
from constrained_maxent.evaluation import RolloutEvaluation, UniformActions, evaluate_batch
from constrained_maxent.evaluation.rollouts import Predictor
from constrained_maxent.occupancy.horizon import find_horizon
from constrained_maxent.runs.environments import bare_spec, make_copies
from constrained_maxent.runs.evaluation import make_evaluation_environment
from constrained_maxent.runs.ledger import held
from constrained_maxent.runs.provenance import described, metadata
from constrained_maxent.runs.run_folder import RunFolder
from constrained_maxent.runs.settings import TrainSettings
from constrained_maxent.runs.states import VectorEnv
from constrained_maxent.runs.training import load_agent, load_config
from constrained_maxent.seeds import COLLECTION, derived_seed
from constrained_maxent.spaces import require_own_spaces, single_spaces
from constrained_maxent.types import check_count, check_seed
from constrained_maxent.wrappers.layers import Declaring
from constrained_maxent.wrappers.vector import TrackOccupancy

COPIES = 64
"""Of an environment that run in parallel, if nothing is said."""
_AGENT = (
    "agent= is a function, or a class, that makes what acts of a seed, and policy= what it is called: collect(..., "
    'agent=lambda seed: as_agent(model, seed=seed), policy="PPO").'
)
_PART_SECONDS = 30.0
_MOST_VOID = 10


@dataclass(frozen=True)
class Collected:
    """A data set that is there.

    Attributes:
        dataset: its name.
        episodes, steps: what it holds, whole episodes only.
        void: episodes that ended in a physics error, and are left out.
        evaluation: of the problem in these episodes; its table and its limits are in the metadata.
    """

    dataset: str
    episodes: int
    steps: int
    void: int
    evaluation: RolloutEvaluation


def collect(
    source: RunFolder | str,
    dataset: str,
    *,
    steps: int,
    agent: Callable[[int], Predictor] | None = None,
    policy: str | None = None,
    settings: TrainSettings | None = None,
    num_envs: int | None = None,
    seed: int = 0,
    progress_bar: bool = False,
) -> Collected:
    """Step a policy in its environment, and keep what was seen as a Minari data set.

    Killed at any time and called again it goes on; called with more steps, the data set grows. Episodes are whole, each
    from a reset with a seed of its own, in the order in which they began: those that take at least ``steps`` together.

    Args:
        source: a run folder, whose last policy acts; or the id of an environment.
        dataset: its name, such as ``"cartpole/safe-v0"``.
        steps: at least so many.
        agent: what acts instead, made for a seed: ``lambda seed: adapters.sb3.as_agent(model, seed=seed)``. By default
            actions are uniform where ``source`` is an id.
        policy: what the agent is called in the metadata. A data set goes on with a policy of the same name.
        settings: of an environment that is given by its id, as in training.
        num_envs: copies that are stepped at once; by default ``COPIES``, or as many as there are episodes to do.
        seed: of resets and actions.
        progress_bar: show steps and time left.

    Raises:
        InvalidSetting: numbers or names that make no sense, or episodes that do not end.
        InvalidDataset: the data set is there from another source, or another policy, seed or settings.
        FolderInUse: another process collects into it.
        InvalidRun, DamagedCheckpoint, CheckpointMismatch: no run that can act.
        OSError: it cannot be written; what is there stays, and it goes on from there once there is room.
        gymnasium.error.DependencyNotInstalled: without Minari.
    """
    steps, seed = check_count("steps", steps), check_seed("seed", seed)
    minari.require_minari()
    is_made = hasattr(agent, "predict") and not isinstance(agent, type)
    if (agent is None) != (policy is None) or is_made or not (agent is None or callable(agent)):
        raise InvalidSetting(_AGENT)
    if isinstance(source, RunFolder):
        if settings is not None:
            raise InvalidSetting("settings= are those of an environment that is given by its id; a run has its own.")
        env_id, settings = load_config(source)
    else:
        env_id, settings = source, settings or TrainSettings()
    actor = policy or (_fingerprint(source) if isinstance(source, RunFolder) else "uniform actions")
    about = {"kind": "collected", "env_id": env_id, "settings": described(settings), "policy": actor, "seed": seed}
    store = minari.Store(dataset, about)
    with closing(make_evaluation_environment(env_id, settings, 1)) as stack:
        tracking = _innermost(stack)
        horizon = find_horizon(tracking.env)
        n = check_count("num-envs", num_envs) if num_envs is not None else _copies(steps, horizon)

        # What the tracker has learnt says in which cells entropies are measured.
        trained = load_agent(source, stack) if isinstance(source, RunFolder) else None

        def act(draws: int) -> Predictor:
            if agent is not None:
                if not hasattr(made := agent(draws), "predict"):
                    raise InvalidSetting(f"agent= makes {made!r:.200}, which has no predict(). {_AGENT}")
                return made
            if trained is not None:
                trained.reseed_predictions(draws)
                return trained
            return UniformActions(copies, seed=draws)

        with closing(make_copies(env_id, settings, n)) as copies, held(store):
            gathering = _Gathering(store, copies, tracking, steps, seed, horizon)
            first = gathering.n_known
            if not gathering.is_done:
                gathering.run(act(derived_seed(seed, first, len(gathering.lengths), COLLECTION)), progress_bar)
            numbers = gathering.chosen()
            spec = bare_spec(env_id, settings)
            found: list[RolloutEvaluation] = []

            def describe(data: Any) -> Mapping[str, Any]:
                found.append(evaluate_batch(stack, minari.batch(data, stack), seed=seed))
                limits = [str(verdict) for verdict in found[0].limits]
                evaluation = found[0].to_json()
                return metadata(stack, asked=steps, void=gathering.void, evaluation=evaluation, limits=limits)

            if numbers or not store.is_published:
                store.publish(numbers, single_spaces(copies), spec, describe)
            else:
                store.clear()
                found.append(evaluate_batch(stack, minari.batch(dataset, stack), seed=seed))
    data = minari.open_dataset(dataset)
    return Collected(dataset, len(data), int(data.total_steps), gathering.void, found[0])


class _Gathering:
    """Steps copies until the first episodes take enough steps, and writes parts meanwhile."""

    def __init__(
        self,
        store: minari.Store,
        copies: VectorEnv,
        tracking: TrackOccupancy,
        steps: int,
        seed: int,
        horizon: int | None,
    ) -> None:
        self._store, self._steps, self._seed, self._horizon = store, steps, seed, horizon
        self.n_known = store.n_numbered
        published = int(store.metadata()["total_steps"]) if store.is_published else 0
        self._still = max(steps - published, 0)
        self.lengths: dict[int, int] = store.lengths()
        self._taken = sum(self.lengths.values())
        self._end, self._before_end = self.n_known, 0  # of the episodes without a gap, and their steps
        self.void = int(store.metadata()[minari.OURS].get("void", 0)) if store.is_published else 0
        self._used: set[int] = set()
        self._next = self.n_known
        for number in range(self._next):
            self._seed_of(number)
        self._running: list[int | None] = [None] * copies.num_envs
        self._waiting: dict[int, minari.Episode] = {}
        self._bytes, self._written = 0, time.monotonic()
        self._env = minari.Recording(copies, self._take, sources=tracking.tracker.sources, reader=tracking.state_reader)

    @property
    def is_done(self) -> bool:
        """Whether the first episodes, without a gap, take enough steps."""
        return self._still == 0 or self._count() is not None

    def chosen(self) -> list[int]:
        """Numbers of the episodes that belong to the data set and are in the parts."""
        end = self._count() or self.n_known
        return [number for number in range(self.n_known, end) if self.lengths[number]]

    def _count(self) -> int | None:
        while self._before_end < self._still:
            if self._end not in self.lengths:
                return None
            self._before_end += self.lengths[self._end]
            self._end += 1
        return self._end

    def run(self, agent: Predictor, progress_bar: bool) -> None:
        env, n = self._env, self._env.num_envs
        require_own_spaces(agent, *single_spaces(env))
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, transient=True, disable=not progress_bar) as bar:
            task = bar.add_task("collecting", total=self._still)
            everywhere = np.ones(n, dtype=bool)
            observations, _ = env.reset(seed=self._assign(everywhere))
            while not self.is_done:
                reply = agent.predict(observations, deterministic=False)
                if not isinstance(reply, tuple) or len(reply) != 2 or reply[0] is None:
                    raise InvalidData(
                        f"The agent's predict() must return actions, and something beside them, got {reply!r:.200}."
                    )
                actions = reply[0]
                observations, _, terminated, truncated, _ = env.step(actions)
                done = terminated | truncated
                if done.any():
                    observations, _ = env.reset(seed=self._assign(done), options={"reset_mask": done})
                    bar.update(task, completed=min(self._taken, self._still))
                elif self._horizon is None and env.time.max() > 10 * self._steps + 100_000:
                    raise InvalidSetting(
                        f"An episode has not ended after {env.time.max()} steps, and whole ones are collected: give "
                        "the environment a time limit, such as --env-kwargs '{\"max_episode_steps\": 1000}'."
                    )
        self._write()

    def _assign(self, mask: Any) -> list[int | None]:
        """Give the copies of a mask the next numbers, where they are needed; and seeds."""
        seeds: list[int | None] = [None] * len(mask)
        for i in np.flatnonzero(mask).tolist():
            under_way = sum(
                int(self._env.time[k]) for k, number in enumerate(self._running) if number is not None and k != i
            )
            self._running[i] = None
            if self._taken + under_way < self._still:
                while self._next in self.lengths:
                    self._seed_of(self._next)
                    self._next += 1
                self._running[i], self._next = self._next, self._next + 1
            running = self._running[i]
            seeds[i] = derived_seed(self._seed, i) if running is None else self._seed_of(running)
        return seeds

    def _seed_of(self, number: int) -> int:
        """In 32 bits the seeds of many episodes would meet now and then: no two are the same here."""
        attempt = 0
        while (found := derived_seed(self._seed, number, attempt, COLLECTION)) in self._used:
            attempt += 1
        self._used.add(found)
        return found

    def _take(self, copy: int, episode: minari.Episode | None) -> None:
        number = self._running[copy]
        if number is None:
            return
        if episode is None:
            self.void += 1
            self.lengths[number] = 0
            if self.void > _MOST_VOID * max(len(self.lengths) - self.void, 10):
                raise InvalidData("Nearly every episode of this policy ended in a physics error.")
            return
        self._waiting[number], self.lengths[number] = episode, len(episode)
        self._taken += len(episode)
        self._bytes += episode.nbytes
        if self._bytes >= PART_BYTES or time.monotonic() - self._written > _PART_SECONDS:
            self._write()

    def _write(self) -> None:
        if self._waiting:
            self._store.write(self._waiting)
        self._waiting, self._bytes, self._written = {}, 0, time.monotonic()


def _copies(steps: int, horizon: int | None) -> int:
    """As many as share the episodes evenly."""
    if horizon is None:
        return COPIES
    episodes = -(-steps // horizon)
    return -(-episodes // -(-episodes // COPIES))


def _innermost(stack: VectorEnv) -> TrackOccupancy:
    """The ``TrackOccupancy`` of a stack above which nothing changes what an agent sees and does."""
    for layer in layers_of(stack):
        if isinstance(layer, TrackOccupancy):
            return layer
        if not isinstance(layer, Declaring):
            raise InvalidSetting(
                f"{type(layer).__name__}, above TrackOccupancy, may change what the policy sees or does, and the data "
                "would be of something else: put it below."
            )
    raise AssertionError("there is one")


def _fingerprint(folder: RunFolder) -> str:
    if not folder.checkpoint_path.exists():
        raise InvalidRun(f"{folder.path} has no checkpoint: the run ended before its first one. Train anew.")
    return f"checkpoint {hashlib.sha256(folder.checkpoint_path.read_bytes()).hexdigest()[:16]}"
