"""Watches trajectories, refits λ̂ at the end of every batch and puts the pseudo-reward into ``info``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from numpy import False_ as FALSE
from numpy import True_ as TRUE
from numpy import float64

from constrained_maxent.errors import InvalidData
from constrained_maxent.records import Report
from constrained_maxent.spaces import as_row
from constrained_maxent.tracker import NEW_BATCH
from constrained_maxent.types import Batch
from constrained_maxent.wrappers.layers import NOT_NEEDED, VOID, ScalarLayer, Tracking
from constrained_maxent.wrappers.observed import as_number, observed_cost, require_usable
from constrained_maxent.wrappers.one_estimate import TurnWatch, require_one_estimate
from constrained_maxent.wrappers.replies import checked_reset, copied_info, explained, five, flag


class TrackOccupancy(Tracking, ScalarLayer):
    """The foundation of every stack: objective and constraint wrappers above it declare what it optimizes.

    Every step's ``info`` gets ``pseudo_reward`` (a finite float, 0.0 before the first fit), its parts
    ``pseudo_reward_<term>``, and ``pseudo_reward_ready``: whether it belongs to the gradient of the policy that acts.
    So does that of ``reset``, with zeros.
    The last step of a batch also gets ``batch``, see
    :meth:`~constrained_maxent.tracker.Tracker.close`; with it come ``sub_environments`` (zeros here)
    and ``started_ago``: how many calls of ``step`` before the last one each trajectory's first action was taken.

    An episode ends when it is terminated or truncated, or by a bare ``reset()`` (then it counts as truncated). If that
    completes a batch, the ``info`` of the reset carries it. An episode whose last step has ``info["physics_error"]`` is
    void: it counts for no batch, and its steps enter no estimate, except those that earlier batches of steps contain.

    Args:
        env: the environment. Costs must come from it or from wrappers below this one.
        estimator: the occupancy estimate; it is copied unfitted. Plain data ``{"kind": "Counts", ...}`` does as well.
        episodes_per_batch: size of a batch in whole episodes, or
        steps_per_batch: in steps [steps]: episodes longer than a batch continue in the next.
        discount: γ ∈ (0, 1], the weights of λ; see :class:`~constrained_maxent.occupancy.Weighting`.
        horizon: steps of the longest episode [steps]; found out from the environment if not given.
        scale: ``"normalized"`` or ``"truncated"``.
        pairing: ``"same"``, ``"split"`` or ``"previous"``: which estimate goes with which reward.
        state: what λ̂ is over; nothing else of the observation is looked at then, unless a functional or log π asks.

            * a function of one observation, or the name of a key of ``info`` (of ``reset`` as well);
            * keys of a ``Dict`` observation, ``("position", "arm.angle")``, or numbers of coordinates of the flattened
              observation, ``[0, 1]``;
            * ``None``: the observation itself, of ``Dict`` and ``Tuple`` all numbers in the order of the space. One
              that is redundant, such as sine and cosine of an angle, has no density.
        cells: where a state is a cell, a whole number from 0 or a vector of them, how many there are: 96, or
            ``(12, 8)``. Then ``Counts`` count it, with discrete actions or, of other ones, by itself.
        policy_log_prob: log π(a|s) as a function of observations and actions, ``(n, ...)`` each: densities of the state
            become λ̂(s,a) = d̂(s)·π(a|s). An agent that knows the tracker says it by ``tracker.acting(log_prob=...)``.
        suggestions: hyperparameters by name that suit this problem: what ``PGP`` takes for those it is not given.

    Raises:
        InvalidSetting: arguments out of range, or a vector environment.
        MissingState: from ``reset`` and ``step``, if ``info`` lacks the state.
        UnsupportedSpace: the estimator cannot handle a space; or from ``reset`` and ``step``, if a functional or log π
            asks for observations without numbers.
        MissingCost, NonFiniteValue, InvalidData: from ``step``, if the environment misbehaves. The episode is forgotten
            as far as no estimate contains it yet, and ``reset`` makes the environment usable again.

    >>> import gymnasium as gym
    >>> env = gym.make("FrozenLake-v1", is_slippery=False)
    >>> env = TrackOccupancy(env, episodes_per_batch=1)
    >>> _ = env.reset(seed=0)
    >>> for action in (2, 1):  # right, then down into a hole: the episode and the batch end
    ...     *_, info = env.step(action)
    >>> info["batch"]["episodes"], info["batch"]["steps"]
    (1, 2)
    """

    def _begin(self, env: Any) -> None:
        self._turns = TurnWatch(type(env.unwrapped))
        self._generation = self.tracker.generation
        self._has_functions = False
        self._observation: Any = None
        self._observation_row: Any = None
        self._state: Any = None
        self._needs_reset = True
        self._time = 0
        self._calls = 0
        self._forget_batch()

    def _forget_batch(self) -> None:
        self._observations: list[Any] = []
        self._actions: list[Any] = []
        self._states: list[Any] = []
        self._log_probs: list[float] = []
        self._observed: dict[str, list[float]] = {key: [] for key in self.tracker.sources}
        self._lengths: list[int] = []
        self._starts: list[int] = []
        self._ends: list[tuple[bool, bool]] = []
        self._first_calls: list[int] = []
        self._fragment = 0  # steps of the unfinished trajectory that are in this batch
        self._n_first = 0

    # Gymnasium's interface.

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environment. An unfinished episode counts as truncated, unless ``options`` asks for a new batch."""
        tracker = self.tracker
        if not self._calls:
            require_one_estimate(is_vector=False)
        self._seal()
        if not self._observations or self._generation != tracker.generation:
            self._generation = tracker.generation
            self._forget_batch()  # by now the wrappers above have declared what they observe
        self._has_functions = any(map(callable, tracker.sources.values()))
        options = dict(options or {})
        new_batch = bool(options.pop(NEW_BATCH, False))
        was_under_way, self._needs_reset = not self._needs_reset, True
        observation, info = checked_reset(self.env.reset(seed=seed, options=options or None))
        self._observe(observation, info)
        self._add_rewards(info, dict.fromkeys(tracker.problem.term_names, 0.0), is_ready=False)
        if new_batch:
            self._forget_batch()
            tracker.restart_batch()
        else:
            if was_under_way and self._time:
                self._lengths_seen.ended(0, self._time, "reset")
            if self._fragment:
                self._end_trajectory(terminated=False, truncated=True)
                self._close_if_complete(info)
        self._time = 0
        self._needs_reset = False
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step the environment, record the step, and add the pseudo-reward to ``info``."""
        if self._needs_reset or self._generation != self.tracker.generation:
            raise self._reset_needed()
        # Layers below may change an action in place.
        taken = action if isinstance(action, (int, np.integer)) else deepcopy(action)
        self._needs_reset = True  # until the step has proved sound
        self._turns.stepped()
        try:
            observation, reward, terminated, truncated, step_info = five(self.env.step(action))
            is_terminal, is_cut = flag("terminated", terminated), flag("truncated", truncated)
            done = is_terminal or is_cut
            info = copied_info(step_info)
            self._record(taken, observation, reward, info, done)
        except BaseException as error:  # an interrupt as well: nobody knows whether the environment took the step
            self._drop_fragment()
            raise explained(error)  # noqa: B904  # it is the same one, or has it as its cause
        if done and info.get(VOID):
            self._drop_fragment()
            info["pseudo_reward_ready"] = FALSE
        elif done:
            self._end_trajectory(is_terminal, is_cut)
            self._lengths_seen.ended(0, self._time, "terminated" if is_terminal else "truncated")
        self._close_if_complete(info)
        self._needs_reset = done
        return observation, reward, terminated, truncated, info

    def _reset_needed(self) -> ResetNeeded:
        layer, hint = self.env, ""
        while isinstance(layer, gym.Wrapper):
            if isinstance(layer, gym.wrappers.Autoreset):
                hint = " Autoreset belongs above TrackOccupancy, which must see each reset."
            layer = layer.env
        return ResetNeeded(f"Call reset() before step(): no episode is under way.{hint}")

    # Recording.

    def _observe(self, observation: Any, info: Mapping[str, Any], *, is_last: bool = False) -> None:
        """Keep what the next action will be taken on; after an episode's last step there is none."""
        self._observation_row = self._checked_row(observation) if self._needs_rows else None
        if self._reader is not None and not is_last:
            state, before = self._reader.one(observation, info), self._state
            if before is not None and np.shape(state) != np.shape(before):
                raise InvalidData(f"A state has {np.size(state)} coordinates, before it had {np.size(before)}.")
            self._state = state
        # Cost functions see observations as they are, and an agent may yet say its log π; environments may reuse their
        # buffers.
        may_be_asked = self._observation_row is None and self.tracker.takes_log_prob
        self._observation = deepcopy(observation) if self._has_functions or may_be_asked else None

    def _checked_row(self, observation: Any) -> Any:
        row = as_row(self._space, observation)
        if not isinstance(row, int):
            require_usable("The observation", row)
        return row

    def _record(self, action: Any, observation: Any, reward: SupportsFloat, info: dict[str, Any], done: bool) -> None:
        tracker = self.tracker
        if self._time >= self._lengths_seen.limit:
            self._lengths_seen.reached()
        if not isinstance(reward, float) or not math.isfinite(reward):
            as_number("The environment's reward", reward)
        observed = {
            key: observed_cost(source, self._observation, action, observation, reward, info)
            for key, source in tracker.sources.items()
        }
        row, state, action_row = self._observation_row, self._state, as_row(self.env.action_space, action)
        if row is None:
            row = self._checked_row(self._observation) if self._needs_rows else NOT_NEEDED
        log_probs = None
        if tracker.knows_log_prob and self._needs_rows:
            log_probs = tracker.log_probs(np.asarray(row)[None], np.asarray(action_row)[None])
        self._require_log_prob_throughout(log_probs is not None, is_first=not self._observations)
        if not isinstance(action_row, int):
            require_usable("The action", action_row)
        parts = self._parts(row, action_row, observed, log_probs)
        self._observe(observation, info, is_last=done)

        # Nothing is stored before everything has proved sound.
        self._observations.append(row if isinstance(row, int) else self._kept(row[None])[0])
        self._actions.append(action_row)
        if state is not None:
            self._states.append(state)
        if log_probs is not None:
            self._log_probs.append(log_probs.item())
        for key, value in observed.items():
            self._observed[key].append(value)
        self._fragment += 1
        self._time += 1
        self._calls += 1
        tracker.timesteps += 1
        self._add_rewards(info, parts, is_ready=tracker.live_is_ready)

    def _add_rewards(self, info: dict[str, Any], parts: Mapping[str, float], *, is_ready: bool) -> None:
        # Collators of other libraries ask the values of info for their dtype: NumPy's scalars have one.
        # The bare environment's own stays Python's: of NumPy's truth values Gymnasium's vectors make arrays of objects.
        if VOID in info:
            info[VOID] = TRUE if info[VOID] else FALSE
        total = 0.0
        for name, part in parts.items():
            total += part
            info[f"pseudo_reward_{name}"] = float64(part)
        info["pseudo_reward"] = float64(total)
        info["pseudo_reward_ready"] = TRUE if is_ready else FALSE

    def _parts(self, row: Any, action_row: Any, observed: Mapping[str, float], log_probs: Any) -> dict[str, float]:
        """The live pseudo-reward by parts. Raises InvalidData: observation or action is outside its space."""
        live, estimator = self.tracker.live, self.tracker.estimator
        place = row if self._state is None else self._state
        if live is not None and live.is_tabular and type(place) is type(action_row) is int:
            return live.at_cell(estimator.cell(place, action_row), observed)
        rows = np.asarray(row)[None], np.asarray(action_row)[None]
        states = None if self._state is None else np.asarray(self._state)[None]
        arrays = {key: np.array([value]) for key, value in observed.items()}
        parts = self.tracker.live_parts(*rows, arrays, states, log_probs)
        return {name: float(part[0]) for name, part in parts.items()}

    # Trajectories and batches.

    def _drop_fragment(self) -> None:
        """Forget the steps of the unfinished trajectory."""
        if self._fragment:
            for column in (self._observations, self._actions, self._states, self._log_probs, *self._observed.values()):
                del column[-self._fragment :]  # of columns in use; the others are empty
            self._fragment = 0

    def _end_trajectory(self, terminated: bool, truncated: bool) -> None:
        """The steps recorded since the last trajectory ended are one; its episode may go on (neither flag)."""
        if self._fragment:
            self._lengths.append(self._fragment)
            self._starts.append(self._time - self._fragment)
            self._ends.append((terminated, truncated))
            self._first_calls.append(self._calls - self._fragment)
            self._fragment = 0

    def _close_if_complete(self, info: dict[str, Any]) -> None:
        """End the first half, or the batch, if it is complete."""
        if (size := self.tracker.episodes_per_batch) is not None:
            count = len(self._lengths)
        else:
            size, count = self.tracker.steps_per_batch, len(self._observations)
            assert size is not None
        try:
            if not self._n_first and count >= size // 2 and self.tracker.pairing == "split":
                self._end_trajectory(terminated=False, truncated=False)
                self._n_first = len(self._lengths)
                self.tracker.fit_half(self._batch())
            if count >= size:
                self._end_trajectory(terminated=False, truncated=False)
                report = self._close_batch()
                if report is not None:
                    info["batch"] = report.to_info()
        except Exception:
            # What failed on these steps once would fail on them again.
            self._forget_batch()
            raise

    def _close_batch(self) -> Report | None:
        batch = self._batch()
        self._lengths_seen.closed(batch)
        report = self.tracker.close(
            batch,
            n_first=self._n_first,
            sub_environments=[0] * len(batch),
            started_ago=[self._calls - 1 - call for call in self._first_calls],
        )
        self._forget_batch()
        return report

    def _batch(self) -> Batch:
        lengths = np.array(self._lengths)
        starts = np.array(self._starts)
        # Times run from each trajectory's start: global positions minus where the trajectory begins, plus its start.
        offsets = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
        weights = self.tracker.weighting.weights(np.arange(len(offsets)) + offsets)
        terminated, truncated = np.array(self._ends).T
        batch = Batch(
            observations=np.array(self._observations),
            actions=np.array(self._actions),
            lengths=lengths,
            weights=weights,
            costs={key: np.array(values) for key, values in self._observed.items()},
            log_probs=np.array(self._log_probs) if self._log_probs else None,
            states=np.array(self._states) if self._states else None,
            starts=starts,
            terminated=terminated,
            truncated=truncated,
        )
        return self.tracker.counted(batch)
