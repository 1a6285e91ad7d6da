"""``TrackOccupancy`` for vector environments: one occupancy estimate shared by all sub-environments."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from constrained_maxent.errors import IntegerInfo, InvalidData, InvalidSetting
from constrained_maxent.functionals.base import OWN_REWARD
from constrained_maxent.records import Report
from constrained_maxent.spaces import as_row, as_rows
from constrained_maxent.tracker import NEW_BATCH, cost_column
from constrained_maxent.types import Batch, FloatArray
from constrained_maxent.wrappers.layers import VOID, Tracking, VectorLayer
from constrained_maxent.wrappers.observed import costs_of_functions, reported_costs, require_usable
from constrained_maxent.wrappers.one_estimate import require_one_estimate
from constrained_maxent.wrappers.replies import checked_reset, copied_info, explained, five, flags, rewards_of
from constrained_maxent.wrappers.vector.autoreset import Autoreset
from constrained_maxent.wrappers.vector.recorder import Columns, VectorRecorder, join
from constrained_maxent.wrappers.vector.shared_info import SharedInfo


class TrackOccupancy(Tracking, VectorLayer):
    """The foundation of a vector stack; see the scalar :class:`~constrained_maxent.wrappers.TrackOccupancy`.

    ``infos`` gets the arrays ``pseudo_reward``, ``pseudo_reward_<term>`` and ``pseudo_reward_ready``, each
    ``(num_envs,)`` with its mask ``_<key>``. A batch is one of the whole vector: on its last step ``infos["batch"]`` is
    one dictionary, a :class:`SharedInfo`, whose lists have one entry per trajectory, in the order in which episodes
    *started*: ``sub_environments`` says where each ran, ``started_ago`` how many calls of ``step`` before the last one
    its first action was taken.

    All three autoreset modes: in ``NEXT_STEP`` the ignored step after a reset is never recorded; in ``SAME_STEP`` the
    last step's cost and ``physics_error`` come from ``final_info``; in ``DISABLED`` episodes start by
    ``reset(options={"reset_mask": mask})``.
    After an error, all sub-environments must be reset.

    Args:
        env: the vector environment.
        estimator, episodes_per_batch, steps_per_batch, discount, horizon, scale, pairing: as in the scalar wrapper. The
            batch size counts all sub-environments together and must be at least their number.
        state, cells: as in the scalar wrapper; a function is called once for each sub-environment, with its own
            observation.
        policy_log_prob: as in the scalar wrapper, called with one row per sub-environment.
        suggestions: as in the scalar wrapper.

    Raises:
        UnknownAutoreset: ``metadata["autoreset_mode"]`` does not say how sub-environments are reset.
        InvalidSetting, UnsupportedSpace, MissingCost, NonFiniteValue, InvalidData: as in the scalar wrapper.
    """

    def _begin(self, env: Any) -> None:
        self._autoreset = Autoreset(env)
        self._may_be_cut = True
        self._generation = self.tracker.generation
        self._first_half: Columns | None = None
        self._recorder = VectorRecorder(env.num_envs)
        self._observations: Any = None
        self._needs_reset = True
        self._rows: NDArray[Any] | None = None
        self._states: NDArray[Any] | None = None

    # Gymnasium's interface.

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset all sub-environments, or those of ``options["reset_mask"]``.

        Unfinished episodes count as truncated, unless ``options`` asks for a new batch.
        """
        if not self.tracker.follows and self._needs_reset:
            require_one_estimate(is_vector=True)
        self._seal()
        options = dict(options or {})
        new_batch = bool(options.pop(NEW_BATCH, False))
        mask = np.array(options.get("reset_mask", np.ones(self.num_envs, dtype=bool)), dtype=bool)
        if new_batch and not mask.all():
            raise InvalidSetting(
                f"A new batch starts in all sub-environments: give {NEW_BATCH!r} without 'reset_mask'."
            )
        is_stale = self._generation != self.tracker.generation
        if (self._needs_reset or is_stale) and not mask.all():
            raise ResetNeeded("Call reset() without a reset_mask first, and after an error.")
        self._needs_reset = True  # until the observations have proved sound
        observations, infos = checked_reset(self.env.reset(seed=seed, options=options or None))
        rows = self._checked_rows(observations) if self._needs_rows else None
        states = self._states_after(observations, infos, mask)
        if new_batch or is_stale:
            self._generation = self.tracker.generation
            self._recorder = VectorRecorder(self.num_envs)
            self._first_half = None
            self.tracker.restart_batch()
        recorder = self._recorder
        for i in np.flatnonzero(mask & recorder.active & (recorder.time > 0)).tolist():
            self._lengths_seen.ended(i, int(recorder.time[i]), "reset")
        # An episode of no steps is none; the others end here.
        recorder.drop(mask & (recorder.time == 0))
        recorder.end(mask, np.zeros(self.num_envs, dtype=bool))
        recorder.start(mask)
        none = np.zeros(self.num_envs, dtype=bool)
        self._add_rewards(infos, self._zeros(), active=mask, ready=none)
        self._close_if_complete(infos)
        self._observe(observations, rows, states)
        self._needs_reset = False
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all sub-environments, record the step, and add the pseudo-rewards to ``infos``."""
        if self._needs_reset or self._generation != self.tracker.generation:
            raise ResetNeeded("Call reset() before step(): no episode is under way.")
        # Layers below may change the actions in place.
        taken = deepcopy(actions) if self._has_functions else None
        action_rows = as_rows(self.single_action_space, actions)
        if len(action_rows) != self.num_envs:
            raise InvalidData(f"There are {len(action_rows)} actions for {self.num_envs} sub-environments.")
        require_usable("The actions", action_rows)
        try:
            observations, rewards, terminated, truncated, step_infos = five(self.env.step(actions))
            infos = copied_info(step_infos)
            is_terminal = flags("terminated", terminated, self.num_envs)
            is_cut = flags("truncated", truncated, self.num_envs)
            self._record(taken, action_rows, observations, rewards, is_terminal, is_cut, infos)
        except BaseException as error:  # an interrupt as well: nobody knows whether the environment took the step
            self._recorder.drop(np.ones(self.num_envs, dtype=bool))
            self._needs_reset = True
            raise explained(error)  # noqa: B904  # it is the same one, or has it as its cause
        return observations, rewards, terminated, truncated, infos

    # Recording.

    def latest_rows(self) -> NDArray[Any]:
        """The observations that the next actions are taken on, as rows ``(num_envs, ...)``; where λ̂ takes log π."""
        return self._checked_rows(self._observations) if self._rows is None else self._rows

    def _checked_rows(self, observations: Any) -> NDArray[Any]:
        rows = as_rows(self._space, observations)
        if len(rows) != self.num_envs:
            raise InvalidData(f"There are {len(rows)} observations of {self.num_envs} sub-environments.")
        require_usable("The observations", rows)
        return rows

    def _states_after(self, observations: Any, infos: Any, fresh: NDArray[np.bool_]) -> NDArray[Any] | None:
        """The states that the next actions will be taken in: new ones where the mask says so, else as they were."""
        reader = self._reader
        if reader is None:
            return None
        if not fresh.any():
            return self._states
        if reader.key is not None and not reader.are_cells:
            self._warn_of_integers(reader.key, infos)
        new = reader.many(self.observation_space, observations, infos, fresh)
        if self._states is not None and new.shape[1:] != self._states.shape[1:]:
            raise InvalidData(f"States have {new[0].size} coordinates, before {self._states[0].size}.")
        states = np.zeros((self.num_envs, *new.shape[1:]), new.dtype) if self._states is None else self._states.copy()
        states[fresh] = new
        return states

    @property
    def _has_functions(self) -> bool:
        return any(map(callable, self.tracker.sources.values()))

    def _observe(self, observations: Any, rows: NDArray[Any] | None, states: NDArray[Any] | None) -> None:
        """Keep what the next actions will be taken on."""
        self._rows, self._states = rows, states
        # Cost functions see observations as they are, and an agent may yet say its log π; environments may reuse their
        # buffers.
        may_be_asked = rows is None and self.tracker.takes_log_prob
        self._observations = deepcopy(observations) if self._has_functions or may_be_asked else None

    def _record(
        self,
        actions: Any,
        action_rows: Any,
        observations: Any,
        rewards: Any,
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        infos: Any,
    ) -> None:
        recorder, tracker = self._recorder, self.tracker
        active = recorder.active
        if (recorder.time[active] >= self._lengths_seen.limit).any():
            self._lengths_seen.reached()
        rewards = rewards_of(rewards, self.num_envs)
        done = (terminated | truncated) & active
        finals = self._autoreset.final_observations(infos, done)
        self._autoreset.look_for_reuse(finals, observations)
        observed = self._observed(actions, observations, finals, rewards, infos, active=active, done=done)
        states, needs_rows = self._states, self._needs_rows
        before = self.latest_rows() if needs_rows else np.empty((self.num_envs, 0))
        log_probs = tracker.log_probs(before, action_rows) if needs_rows else None
        is_first = recorder.n_steps == 0 and self._first_half is None
        self._require_log_prob_throughout(log_probs is not None, is_first=is_first)
        parts = tracker.live_parts(before, action_rows, observed, states, log_probs)
        rows = self._checked_rows(observations) if needs_rows else None
        if needs_rows:
            for final in finals.values():
                require_usable("The observation", np.asarray(as_row(self._space, final)))
        starting = self._autoreset.starting(active, done)
        next_states = self._states_after(observations, infos, starting | (active & ~done))
        void = self._void(done, infos)

        # Nothing is stored before everything has proved sound.
        self._add_rewards(infos, parts, active=active, ready=active & ~void & self._is_ready())
        columns = {"observation": self._kept(before), "action": action_rows}
        if states is not None:
            columns["state"] = states
        if log_probs is not None:
            columns["log_prob"] = log_probs
        columns |= {cost_column(key): values for key, values in observed.items()}
        recorder.record(columns)
        tracker.last_step = columns
        tracker.timesteps += recorder.num_envs  # as agents count them
        for i in np.flatnonzero(done & ~void).tolist():
            self._lengths_seen.ended(i, int(recorder.time[i]), "terminated" if terminated[i] else "truncated")
        recorder.drop(void)
        recorder.end(done, terminated)
        self._observe(observations, rows, next_states)
        recorder.start(starting)
        self._close_if_complete(infos)

    def _observed(
        self,
        actions: Any,
        observations: Any,
        finals: Mapping[int, Any],
        rewards: Any,
        infos: Any,
        *,
        active: NDArray[np.bool_],
        done: NDArray[np.bool_],
    ) -> dict[str, FloatArray]:
        """What this step's sources say by key, ``(num_envs,)`` each, 0 where no step was taken."""
        sources = self.tracker.sources
        observed = {key: np.zeros(self.num_envs) for key in sources}
        for key, source in sources.items():
            if isinstance(source, str):
                for reports, mask in self._autoreset.reports(infos, active, done):
                    self._warn_of_integers(source, reports)
                    observed[key][mask] = reported_costs(source, reports, mask)
            elif source is OWN_REWARD:
                require_usable("The environment's reward", rewards)
                observed[key][active] = rewards[active]
        spaces = self.observation_space, self.action_space
        return observed | costs_of_functions(
            sources, spaces, self._observations, actions, observations, finals=finals, active=active
        )

    def _warn_of_integers(self, key: str, infos: Mapping[str, Any]) -> None:
        """Whole numbers are legal, but may have been cut to be whole."""
        values = infos.get(key)
        # A mask is a sign of Gymnasium's way to make one array of what copies report.
        if self._may_be_cut and isinstance(values, np.ndarray) and values.dtype.kind in "iub" and f"_{key}" in infos:
            self._may_be_cut = False
            warnings.warn(
                f"infos[{key!r}] are whole numbers, of dtype {values.dtype}: Gymnasium's vector environments take the "
                "type of the first copy that reports, and cut the fractions of others. Report float(...) always, or "
                "put wrappers.FloatInfo around each copy: make_vec(..., wrappers=[FloatInfo]).",
                IntegerInfo,
                stacklevel=6,
            )

    def _zeros(self) -> dict[str, FloatArray]:
        return {name: np.zeros(self.num_envs) for name in self.tracker.problem.term_names}

    def _void(self, done: NDArray[np.bool_], infos: Mapping[str, Any]) -> NDArray[np.bool_]:
        """The episodes that end in this step and count for nothing."""
        reports = self._autoreset.final_reports(infos)
        if VOID not in reports:
            return np.zeros_like(done)
        flagged = np.asarray(reports[VOID], dtype=bool) & reports.get(f"_{VOID}", done)
        void: NDArray[np.bool_] = done & flagged
        return void

    def _add_rewards(
        self,
        infos: dict[str, Any],
        parts: dict[str, FloatArray],
        *,
        active: NDArray[np.bool_],
        ready: NDArray[np.bool_],
    ) -> None:
        total = np.zeros(self.num_envs)
        for name, part in parts.items():
            if not active.all():
                part = np.where(active, part, 0.0)
            total += part
            infos[f"pseudo_reward_{name}"] = part
            infos[f"_pseudo_reward_{name}"] = active
        infos["pseudo_reward"] = total
        infos["pseudo_reward_ready"] = ready
        infos["_pseudo_reward"] = infos["_pseudo_reward_ready"] = active

    def _is_ready(self) -> NDArray[np.bool_] | bool:
        """Whether the live pseudo-reward is ready; in a batch's second half, for the episodes that belong to it."""
        queue, tracker = self._recorder.queue, self.tracker
        if tracker.live_is_ready and tracker.pairing == "split" and (size := tracker.episodes_per_batch) is not None:
            n_second = size - size // 2
            if len(queue) > n_second:
                second_half: NDArray[np.bool_] = self._recorder.episode < queue[n_second]
                return second_half
        return tracker.live_is_ready

    # Batches.

    def _close_if_complete(self, infos: dict[str, Any]) -> None:
        """Close at most one batch; a second one that is complete as well waits for the next step."""
        if (size := self.tracker.episodes_per_batch) is not None:
            n_half = size // 2 if self.tracker.pairing == "split" else 0
            n_left = size - (n_half if self._first_half is not None else 0)
            n_ended = self._recorder.count_ended(n_left)
            if n_half and self._first_half is None and n_ended >= n_half:
                self._end_first_half(self._recorder.take_episodes(n_half))
                n_left, n_ended = n_left - n_half, n_ended - n_half
            if n_ended == n_left:
                self._report(self._close_batch(self._recorder.take_episodes(n_left)), infos)
        else:
            size = self.tracker.steps_per_batch
            assert size is not None
            n_fresh = self._recorder.n_steps
            n_before = len(self._first_half["episode"]) if self._first_half is not None else 0
            if self.tracker.pairing == "split" and self._first_half is None:
                if n_fresh >= size // 2:
                    self._end_first_half(self._recorder.take_all())
            elif n_fresh and n_before + n_fresh >= size:
                self._report(self._close_batch(self._recorder.take_all()), infos)

    def _report(self, report: Report | None, infos: dict[str, Any]) -> None:
        if report is None:
            return
        infos["batch"] = SharedInfo(report.to_info(), self.num_envs)
        infos["_batch"] = np.ones(self.num_envs, dtype=bool)

    def _end_first_half(self, columns: Columns) -> None:
        self.tracker.fit_half(self._batch(*join([columns])[:2]))
        self._first_half = columns

    def _close_batch(self, columns: Columns) -> Report | None:
        parts = [columns] if self._first_half is None else [self._first_half, columns]
        self._first_half = None
        columns, first, n_first = join(parts)
        batch = self._batch(columns, first)
        self._lengths_seen.closed(batch)
        return self.tracker.close(
            batch,
            n_first=n_first,
            sub_environments=columns["env"][first].tolist(),
            started_ago=(self._recorder.calls - 1 - columns["call"][first]).tolist(),
        )

    def _batch(self, columns: Columns, first: NDArray[np.int64]) -> Batch:
        starts, lengths = columns["time"][first], np.diff(first, append=len(columns["time"]))
        batch = Batch(
            observations=columns["observation"],
            actions=columns["action"],
            lengths=lengths,
            weights=self.tracker.weighting.weights(columns["time"]),
            costs={key: columns[cost_column(key)] for key in self.tracker.sources},
            log_probs=columns.get("log_prob"),
            states=columns.get("state"),
            starts=starts,
            terminated=columns["terminated"][first],
            truncated=columns["truncated"][first],
        )
        return self.tracker.counted(batch)
