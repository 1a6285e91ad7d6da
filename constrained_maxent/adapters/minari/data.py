"""Anyone's data set as an occupancy: its episodes as a batch, and as a reference."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from constrained_maxent.adapters.costs import TERMINATED
from constrained_maxent.adapters.minari.store import episodes_of, open_dataset
from constrained_maxent.adapters.stacks import tracking_of
from constrained_maxent.errors import (
    HorizonMismatch,
    InvalidData,
    InvalidDataset,
    InvalidSetting,
    MissingCost,
    MissingState,
    UnsupportedSpace,
)
from constrained_maxent.functionals.base import OWN_REWARD
from constrained_maxent.references import Reference
from constrained_maxent.spaces import Environment, Space, as_rows, element, kept_rows, single_spaces, with_numbers
from constrained_maxent.tracker import find_tracker
from constrained_maxent.types import Batch, FloatArray, Trajectory, as_array, check_count
from constrained_maxent.wrappers.observed import observed_cost
from constrained_maxent.wrappers.states import StateReader


def batch(dataset: Any, env: Environment, *, n_episodes: int | None = None) -> Batch:
    """The episodes of a data set, as the tracker of a stack records them: with weights, states and costs.

    Args:
        dataset: a ``minari.MinariDataset``, or its name.
        env: the wrapped environment that it is of: it says what λ̂ is over, which costs are watched, and the weights. It
            is neither reset nor stepped.
        n_episodes: the first so many; by default all.

    States and costs that are keys of ``info`` are read from ``infos``: Minari's own collector writes them with
    ``record_infos=True``. All else that λ̂, costs and functionals look at is read off observations and actions. log π is
    not known, so densities are those of states alone.

    Raises:
        InvalidDataset: there is no such data set, it is empty or cannot be read, its spaces are not those of the
            environment, or an episode is longer than the horizon.
        InvalidSetting: no data set, and no name of one.
        MissingCost, MissingState: ``infos`` lack what is watched.
        InvalidData: costs or states that are not numbers, or not one for each step.
        NonFiniteValue: NaN or infinity in what is looked at.
    """
    data = open_dataset(dataset) if isinstance(dataset, str) else dataset
    if not hasattr(data, "iterate_episodes"):
        raise InvalidSetting(f"dataset={dataset!r} must be a minari.MinariDataset, or the name of one.")
    tracking = tracking_of(env)
    n = len(data) if n_episodes is None else min(check_count("n_episodes", n_episodes), len(data))
    if n == 0:
        raise InvalidDataset(f"The data set {data.id!r} has no episodes.")
    _require_spaces(data, env)
    reader = _Steps(tracking, single_spaces(env))
    trajectories = [reader.trajectory(episode) for episode in episodes_of(data, data.episode_indices[:n])]
    horizon = tracking.tracker.weighting.horizon
    cut = [len(t) for t in trajectories if not t.terminated and (horizon is None or len(t) < horizon)]
    if cut:
        warnings.warn(
            f"{len(cut)} of {n} episodes of {data.id!r} were cut after {min(cut)} to {max(cut)} steps, before "
            f"{'they ended' if horizon is None else f'the horizon of {horizon}'}: each counts as an episode all the "
            "same, and has less mass than the problem means; so have its costs. Those of a training are such "
            "fragments: collect its last policy, whose episodes are whole.",
            HorizonMismatch,
            stacklevel=2,
        )
    return Batch.from_trajectories(trajectories)


def reference(
    dataset: Any, env: Environment, *, n_components: int = 16, n_steps: int = 3000, seed: int = 0
) -> Reference | FloatArray:
    """A data set as something to imitate, or to keep away from.

    Args:
        dataset, env: as in :func:`batch`.
        n_components, n_steps, seed: of the mixture of its states, and of the cloning of its actions, as in
            ``Reference.from_trajectories``.

    Returns:
        Where λ̂ is a density, a :class:`~constrained_maxent.references.Reference`, with a policy cloned from the actions
        where these are in a ``Box`` and observations are numbers; else a table λ_ref(s, a). ``ImitationConstraint``
        takes either; ``functionals.StateCost`` keeps away from it, at a cost of d_ref(s).

    Raises:
        InvalidDataset, InvalidSetting, MissingCost, MissingState, InvalidData, NonFiniteValue: as :func:`batch`.
    """
    tracker, steps = find_tracker(env), batch(dataset, env)
    if (estimator := tracker.fresh_estimator()).table_shape() is not None:
        table: FloatArray = estimator.fit(steps).measure().weights
        return table
    observations, actions = single_spaces(env)
    are_numbers = isinstance(observations, gym.spaces.Box) and steps.observations.size > 0
    is_cloned = are_numbers and isinstance(actions, gym.spaces.Box) and len(actions.shape) == 1
    weighting = tracker.weighting
    return Reference.from_trajectories(
        steps,
        actions if is_cloned else None,
        periodic=tracker.estimator.periodic,
        n_components=n_components,
        discount=weighting.discount,
        scale=weighting.scale,
        horizon=weighting.horizon,
        n_steps=n_steps,
        seed=seed,
    )


def _require_spaces(data: Any, env: Environment) -> None:
    """Raise ``InvalidDataset`` where numbers would mean something else."""
    for what, own, here in zip(
        ("observations", "actions"), (data.observation_space, data.action_space), single_spaces(env), strict=True
    ):
        if not _fits(own, here):
            raise InvalidDataset(
                f"The data set {data.id!r} has {what} in {own}, and those of the environment are in {here}: give the "
                "environment that it was collected in."
            )


def _fits(own: Space, here: Space) -> bool:
    spaces = gym.spaces
    if isinstance(own, spaces.Dict) and isinstance(here, spaces.Dict):
        return own.keys() == here.keys() and all(_fits(own[key], here[key]) for key in own)
    if isinstance(own, spaces.Tuple) and isinstance(here, spaces.Tuple):
        return len(own) == len(here) and all(map(_fits, own, here))
    return own == here or isinstance(own, spaces.Text)


class _Steps:
    """Reads episodes as a ``TrackOccupancy`` would have recorded them."""

    def __init__(self, tracking: Any, spaces: tuple[Space, Space]) -> None:
        self._tracker, self._spaces = tracking.tracker, spaces
        self._reader: StateReader | None = tracking.state_reader

    def trajectory(self, episode: Any) -> Trajectory:
        try:
            return self._trajectory(episode)
        except InvalidData as error:
            raise type(error)(f"Episode {episode.id}: {error}") from error

    def _trajectory(self, episode: Any) -> Trajectory:
        n, infos = len(episode), episode.infos or {}
        times = np.arange(n)
        horizon = self._tracker.weighting.horizon
        if horizon is not None and n > horizon:
            raise InvalidDataset(
                f"Episode {episode.id} has {n} steps, more than the horizon of {horizon}: give the environment that it "
                "was collected in, with its time limit."
            )
        elements = _Elements(self._spaces[0], episode.observations)
        actions = as_rows(self._spaces[1], episode.actions)
        states = self._states(elements, infos, n)
        return Trajectory(
            observations=self._rows(elements, n, are_needed=states is None or self._tracker.sees_places),
            actions=actions,
            weights=self._tracker.weighting.weights(times),
            costs=self._costs(episode, elements, infos, n),
            states=states,
            terminated=bool(episode.terminations[-1]),
            truncated=bool(episode.truncations[-1]),
        )

    def _rows(self, elements: _Elements, n: int, *, are_needed: bool) -> NDArray[Any]:
        space = with_numbers(self._spaces[0])
        try:
            rows = as_rows(space, elements.values)[:n]
        except UnsupportedSpace:
            if are_needed:
                raise
            return np.empty((n, 0))
        return rows if self._tracker.sees_places else kept_rows(space, rows, are_needed=are_needed)

    def _states(self, elements: _Elements, infos: Any, n: int) -> NDArray[Any] | None:
        reader = self._reader
        if reader is None:
            return None
        key = reader.key
        if key is None:
            return np.array([reader.one(elements[t], {}) for t in range(n)])
        if key not in infos or len(infos[key]) != n + 1:
            there = (
                f"has {len(infos[key])}" if key in infos else f"is not there (there are: {', '.join(infos) or 'none'})"
            )
            raise MissingState(
                f"infos[{key!r}] must have a state for each observation, {n + 1} of them, and {there}. Minari's "
                "DataCollector writes it with record_infos=True; or give state= a function of observations, or their "
                "keys or coordinates."
            )
        return reader.many(self._spaces[0], None, {key: np.asarray(infos[key])[:n]}, np.ones(n, dtype=bool))

    def _costs(self, episode: Any, elements: _Elements, infos: Any, n: int) -> dict[str, FloatArray]:
        costs = {}
        actions = _Elements(self._spaces[1], episode.actions)
        for key, source in self._tracker.sources.items():
            if source is OWN_REWARD:
                costs[key] = np.asarray(episode.rewards, dtype=np.float64)
            elif source == TERMINATED and source not in infos:
                costs[key] = np.asarray(episode.terminations, dtype=np.float64)
            elif isinstance(source, str):
                costs[key] = _reported(source, infos, n)
            else:
                costs[key] = np.array(
                    [observed_cost(source, elements[t], actions[t], elements[t + 1], 0.0, {}) for t in range(n)]
                )
        return costs


def _reported(key: str, infos: Any, n: int) -> FloatArray:
    """A cost of each of n steps.

    What a collector writes from reset on has one entry more, and that of reset is no step's.
    """
    if key not in infos:
        raise MissingCost(
            f"infos have no {key!r} (there are: {', '.join(infos) or 'none'}). A missing cost is never taken as 0: "
            "name another key, or give a function of observation, action and next observation."
        )
    column = as_array(f"infos[{key!r}]", infos[key])
    if column.dtype.kind not in "fiub" or column.shape not in {(n,), (n + 1,), (n, 1), (n + 1, 1)}:
        raise InvalidData(
            f"infos[{key!r}] must be one number for each of {n} steps, got {infos[key]!r:.80} of shape {column.shape}."
        )
    return column.astype(np.float64).reshape(-1)[-n:]


class _Elements:
    """The observations or actions of an episode one by one, as the environment gives and takes them."""

    def __init__(self, space: Space, values: Any) -> None:
        self.space, self.values = space, values

    def __getitem__(self, t: int) -> Any:
        return element(self.space, self.values, t)
