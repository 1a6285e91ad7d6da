"""Sees each step of a vector environment as it is taken, and cuts what it saw into episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals.base import OWN_REWARD, Source
from constrained_maxent.spaces import element
from constrained_maxent.types import require_finite
from constrained_maxent.wrappers.layers import VOID
from constrained_maxent.wrappers.observed import costs_of_functions, reported_costs
from constrained_maxent.wrappers.replies import flags, rewards_of
from constrained_maxent.wrappers.states import StateReader
from constrained_maxent.wrappers.vector.autoreset import Autoreset

Columns = dict[str, NDArray[Any]]

_BLOCK = 16_000_000
"""Bytes of steps that are kept together before they are sorted by copies."""
_MOST_CALLS = 512


class Episode(NamedTuple):
    """An episode as it was stepped.

    Attributes:
        seed: that its reset was called with; ``None`` if it had none of its own.
        columns: flat, by the names that Minari's files have: ``observations`` and states with one row more
            than there are steps, all others with one for each step.
    """

    seed: int | None
    columns: Columns

    def __len__(self) -> int:
        return len(self.columns["rewards"])

    @property
    def nbytes(self) -> int:
        """Of all columns."""
        return sum(column.nbytes for column in self.columns.values())


class Recording(gym.vector.VectorWrapper):
    """Hands over each episode as it ends, in any autoreset mode; what it wraps and whoever is above notice nothing.

    Args:
        env: right below ``TrackOccupancy``, or the environment that is stepped without one.
        sink: gets the copy's number and the episode, or ``None`` for one that ended in a physics error and is void.
        sources: what has to be recorded, by name, as a tracker's ``sources``. Each must be there on every step.
        reader: of the states that λ̂ is over, where they are not the observations.
        stamp: what to write beside each step, such as the number of the iteration under way.

    ``cost`` and ``cost_<name>`` that nobody watches are recorded as well, from the first step on that reports one: NaN
    where they are missing. Episodes that were handed over before lack the column.

    Raises:
        InvalidSetting: a name of what is recorded cannot be that of a column.
        UnknownAutoreset, MissingCost, MissingState, InvalidData, NonFiniteValue: as ``TrackOccupancy``.
    """

    def __init__(
        self,
        env: gym.vector.VectorEnv[Any, Any, Any],
        sink: Callable[[int, Episode | None], None],
        *,
        sources: Mapping[str, Source],
        reader: StateReader | None,
        stamp: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        super().__init__(env)
        n = env.num_envs
        self._sink, self._reader, self._stamp = sink, reader, stamp
        self._sources = {key: source for key, source in sources.items() if source is not OWN_REWARD}
        # One that is read from infos is stored there under its own name; others can be read from the observations.
        key = None if reader is None else reader.key
        self._state = f"infos/{key or 'state'}"
        own = {*self._stamp(), *(["state"] if reader is not None and key is None else [])}
        for name in (*self._sources, *([key] if key is not None else [])):
            if "/" in name or name in own:
                why = "'/' parts folders in Minari's files" if "/" in name else "the data set has another of that name"
                raise InvalidSetting(
                    f"{name!r} cannot be recorded under its name, as {why}: put a wrapper around the environment that "
                    "reports it in info under another one."
                )
        self._others: list[str] = []
        self._autoreset = Autoreset(env)
        self._active = np.zeros(n, dtype=bool)
        self._time = np.zeros(n, dtype=np.int64)
        self._seeds: list[int | None] = [None] * n
        self._first = np.zeros(n, dtype=np.int64)  # where in the block the episode's steps begin
        self._fragments: list[list[Columns]] = [[] for _ in range(n)]
        self._block: Columns = {}
        self._filled = 0
        self._before: Columns = {}
        self._observations: Any = None

    @property
    def time(self) -> NDArray[np.int64]:
        """Steps taken in the episode under way, ``(num_envs,)``."""
        return self._time

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        n = self.num_envs
        mask = np.array((options or {}).get("reset_mask", np.ones(n, dtype=bool)), dtype=bool)
        observations, infos = self.env.reset(seed=seed, options=options)
        self.cut(mask)
        seeds: list[int | None] = list(seed) if isinstance(seed, (list, tuple, np.ndarray)) else [None] * n
        if isinstance(seed, (int, np.integer)) and (n == 1 or self._seeds_each_copy):
            seeds = [int(seed) + i for i in range(n)]  # as Gymnasium has it
        for i in np.flatnonzero(mask).tolist():
            self._seeds[i] = seeds[i]
        self._begin(mask)
        self._observe(observations, infos, mask)
        return observations, infos

    @property
    def _seeds_each_copy(self) -> bool:
        bare: Any = self.env.unwrapped
        synchronous = isinstance(bare, (gym.vector.SyncVectorEnv, gym.vector.AsyncVectorEnv))
        return synchronous or bool(getattr(bare, "seeds_each_copy", False))

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        n, active = self.num_envs, self._active.copy()
        taken = {name: np.array(column) for name, column in flat(self.single_action_space, actions, "actions")}
        actions_kept = deepcopy(actions) if self._has_functions else actions  # environments may change them in place
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        ended = flags("terminated", terminated, n)
        cut = flags("truncated", truncated, n)
        done = (ended | cut) & active
        finals = self._autoreset.final_observations(infos, done)
        # A state that is read from the same key of info as a cost has its column, with a row more.
        row = self._costs(actions_kept, observations, finals, infos, active, done) | self._before | taken
        row |= {"rewards": rewards_of(rewards, n)}
        row |= {f"infos/{name}": np.full(n, value) for name, value in self._stamp().items()}
        self._write(row)
        self._time += active
        starting = self._autoreset.starting(active, done)
        reports = self._autoreset.final_reports(infos)
        void = np.asarray(reports.get(VOID, np.zeros(n)), dtype=bool)
        for i in np.flatnonzero(done).tolist():
            if void[i]:
                self._fragments[i] = []
                self._sink(i, None)
            else:
                last = finals[i] if i in finals else element(self.single_observation_space, observations, i)
                self._finish(i, self._last(last, reports, i), terminated=bool(ended[i]), truncated=bool(cut[i]))
            self._active[i], self._seeds[i] = False, None
        self._begin(starting)
        self._observe(observations, infos, starting | (self._active & ~done))
        return observations, rewards, terminated, truncated, infos

    def cut(self, mask: NDArray[np.bool_] | None = None) -> None:
        """End the episodes under way, those of a mask or all, as truncated; those of no steps are none."""
        for i in np.flatnonzero(self._active if mask is None else mask & self._active).tolist():
            if self._time[i]:
                self._finish(i, {name: column[i] for name, column in self._before.items()})
            self._active[i] = False

    def under_way(self) -> list[Episode]:
        """What there is of the episodes that have not ended, as if they were cut here; they go on."""
        return [
            self._episode(i, {name: column[i] for name, column in self._before.items()})
            for i in np.flatnonzero(self._active & (self._time > 0)).tolist()
        ]

    # What a call is about.

    @property
    def _has_functions(self) -> bool:
        return any(map(callable, self._sources.values()))

    def _begin(self, mask: NDArray[np.bool_]) -> None:
        self._active[mask], self._time[mask], self._first[mask] = True, 0, self._filled

    def _observe(self, observations: Any, infos: Any, fresh: NDArray[np.bool_]) -> None:
        """Keep what the next actions will be taken on, in copies: environments use their buffers again."""
        before = {
            n: np.array(column) for n, column in flat(self.single_observation_space, observations, "observations")
        }
        if self._reader is not None and fresh.any():
            new = self._reader.many(self.observation_space, observations, infos, fresh)
            states = self._before.get(self._state)
            if states is None:
                states = np.zeros((self.num_envs, *new.shape[1:]), new.dtype)
            states = states.astype(np.result_type(states, new))
            states[fresh] = new
            before[self._state] = states
        elif self._reader is not None:
            before[self._state] = self._before[self._state]
        self._before = before
        if self._has_functions:
            self._observations = deepcopy(observations)

    def _last(self, observation: Any, infos: Mapping[str, Any], i: int) -> Columns:
        """The observation that an episode ended with, and its state."""
        last = dict(flat(self.single_observation_space, observation, "observations"))
        if self._reader is not None:
            key = self._reader.key or ""
            reported = np.asarray(infos.get(f"_{key}", np.ones(self.num_envs)), dtype=bool)
            info = {key: infos[key][i]} if key in infos and reported[i] else {}
            last[self._state] = np.asarray(self._reader.one(observation, info))
        return last

    def _costs(
        self, actions: Any, observations: Any, finals: Mapping[int, Any], infos: Any, active: Any, done: Any
    ) -> Columns:
        n = self.num_envs
        costs = {f"infos/{key}": np.full(n, np.nan) for key in self._sources}
        reports = self._autoreset.reports(infos, active, done)
        for key, source in self._sources.items():
            if isinstance(source, str):
                for report, mask in reports:
                    costs[f"infos/{key}"][mask] = reported_costs(source, report, mask)
        functions = costs_of_functions(
            self._sources,
            (self.observation_space, self.action_space),
            self._observations,
            actions,
            observations,
            finals=finals,
            active=active,
        )
        costs |= {f"infos/{key}": values for key, values in functions.items()}
        for report, mask in reports:
            for name in report.keys() - self._sources.keys() - set(self._others):
                is_cost = name == "cost" or (name.startswith("cost_") and "/" not in name)
                if is_cost and (mask & _reported(report, name, n)).any():
                    self._others.append(name)
        for name in self._others:
            costs[f"infos/{name}"] = np.full(n, np.nan)
            for report, mask in reports:
                there = mask & _reported(report, name, n)
                if there.any():
                    costs[f"infos/{name}"][there] = reported_costs(name, report, there)
        return costs

    # Episodes.

    def _write(self, row: Columns) -> None:
        if not self._block:
            size = sum(column.nbytes for column in row.values())
            calls = int(np.clip(_BLOCK // max(size, 1), 1, _MOST_CALLS))
            self._block = {name: np.empty((calls, *column.shape), column.dtype) for name, column in row.items()}
        for name, column in row.items():
            if name not in self._block:  # a cost that is reported for the first time
                self._block[name] = np.full((len(self._block["rewards"]), *column.shape), np.nan)
            if self._block[name].dtype != column.dtype:  # a first row of whole numbers says nothing of the next ones
                self._block[name] = self._block[name].astype(np.result_type(self._block[name], column), copy=False)
            self._block[name][self._filled] = column
        self._filled += 1
        if self._filled == len(next(iter(self._block.values()))):
            for i in np.flatnonzero(self._active).tolist():
                self._fragments[i].append(self._of(i))
            self._filled, self._first[:] = 0, 0

    def _of(self, i: int) -> Columns:
        return {name: block[self._first[i] : self._filled, i].copy() for name, block in self._block.items()}

    def _finish(self, i: int, last: Columns, **ends: bool) -> None:
        episode = self._episode(i, last, **ends)
        self._fragments[i] = []
        self._sink(i, episode)

    def _episode(self, i: int, last: Columns, *, terminated: bool = False, truncated: bool = True) -> Episode:
        parts = [*self._fragments[i], self._of(i)]
        columns = {
            name: np.concatenate([part.get(name, np.full(len(part["rewards"]), np.nan)) for part in parts])
            for name in self._block
        }
        for name, value in last.items():
            columns[name] = np.concatenate([columns[name], np.asarray(value)[None]])
        for name in ("rewards", "actions", *(f"infos/{key}" for key in self._sources)):
            if name in columns:
                require_finite(f"{name} of an episode", columns[name])
        ends = np.zeros((2, len(columns["rewards"])), dtype=bool)
        ends[:, -1] = terminated, truncated
        columns |= {"terminations": ends[0], "truncations": ends[1]}
        return Episode(self._seeds[i], columns)


def flat(space: gym.Space[Any], value: Any, name: str) -> Iterator[tuple[str, NDArray[Any]]]:
    """The parts of an element, or of a batch of them, by the names that Minari's files have.

    Numbers are in the type of their space, as in Gymnasium's vectors, and in their own where that would cut them.
    """
    if isinstance(space, gym.spaces.Dict):
        for key, part in space.spaces.items():
            yield from flat(part, value[key], f"{name}/{key}")
    elif isinstance(space, gym.spaces.Tuple):
        for i, part in enumerate(space.spaces):
            yield from flat(part, value[i], f"{name}/_index_{i}")
    elif isinstance(space, _NUMBERS):
        numbers = np.asarray(value)
        fits = np.can_cast(numbers.dtype, space.dtype, "same_kind")
        yield name, numbers.astype(space.dtype, copy=False) if fits else numbers
    else:
        yield name, np.asarray(value, dtype=object)


_NUMBERS = (gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiDiscrete, gym.spaces.MultiBinary)


def nested(space: gym.Space[Any], columns: Columns, name: str) -> Any:
    """The columns of :func:`flat` as Minari takes the steps of an episode."""
    if isinstance(space, gym.spaces.Dict):
        return {key: nested(part, columns, f"{name}/{key}") for key, part in space.spaces.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(nested(part, columns, f"{name}/_index_{i}") for i, part in enumerate(space.spaces))
    return columns[name] if isinstance(space, _NUMBERS) else [str(text) for text in columns[name]]


def _reported(report: Mapping[str, Any], name: str, n: int) -> NDArray[np.bool_]:
    """Which copies report a number of that name."""
    values = np.asarray(report.get(name))
    if values.shape != (n,) or values.dtype.kind not in "fiub":
        return np.zeros(n, dtype=bool)
    return np.asarray(report.get(f"_{name}", np.ones(n)), dtype=bool)
