"""What the wrappers of this package share: their two kinds, scalar and vector, and the arguments that both take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidData, InvalidSetting, UnsupportedSpace
from constrained_maxent.occupancy import (
    Counts,
    OccupancyEstimator,
    Scale,
    Weighting,
    estimator_config,
    estimator_from_config,
)
from constrained_maxent.occupancy.horizon import find_horizon
from constrained_maxent.occupancy.memory import require_memory
from constrained_maxent.spaces import Space, is_finite, kept_rows, row_space, single_spaces, width, with_numbers
from constrained_maxent.tracker import LogProb, Pairing, Tracker, copies_have_trackers, find_tracker
from constrained_maxent.types import check_count
from constrained_maxent.wrappers.distortion import check_layers_above, warn_of_distortions
from constrained_maxent.wrappers.length_watch import LengthWatch
from constrained_maxent.wrappers.states import STATE_SPACE, Cells, StateReader, StateSource, plain_cells, plain_source

VOID = "physics_error"
"""An episode is void if the ``info`` of its last step has this key and it is true: what led there was no physics."""

NOT_NEEDED = np.empty(0)
"""Stands for the row of an observation that nobody asks for."""


def require_scalar(env: object, wrapper: str) -> None:
    """Raise ``InvalidSetting`` unless a scalar wrapper, given by its name, is put around a scalar environment."""
    if isinstance(env, gym.vector.VectorEnv):
        raise _other_kind(f"This is a vector environment, {env}", f"wrappers.vector.{wrapper}")
    _require_environment(env, wrapper)


def require_vector(env: object, wrapper: str) -> None:
    """Raise ``InvalidSetting`` unless a vector wrapper, given by its name, is put around a vector environment."""
    if isinstance(env, gym.Env):
        raise _other_kind(f"This is a scalar environment, {env}", f"wrappers.{wrapper}")
    _require_environment(env, wrapper)


def _other_kind(what: str, twin: str) -> InvalidSetting:
    return InvalidSetting(f"{what}: take {twin}, or wrappers.constrain, which takes both kinds.")


def _require_environment(env: object, wrapper: str) -> None:
    if not isinstance(env, (gym.Env, gym.vector.VectorEnv)):
        raise InvalidSetting(f"{wrapper} wraps an environment, such as gym.make('FrozenLake-v1'), not {env!r}.")


class ScalarLayer(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """A wrapper of a scalar environment; it records its arguments, so that the environment's spec can be remade."""

    def _wrap(self, env: Any, **arguments: Any) -> None:
        RecordConstructorArgs.__init__(self, **arguments)
        require_scalar(env, type(self).__name__)
        gym.Wrapper.__init__(self, env)


class VectorLayer(gym.vector.VectorWrapper, RecordConstructorArgs):  # in Gymnasium 1.2 not generic
    """A wrapper of a vector environment, with the arguments of its scalar twin."""

    def _wrap(self, env: Any, **arguments: Any) -> None:
        RecordConstructorArgs.__init__(self, **arguments)
        require_vector(env, type(self).__name__)
        gym.vector.VectorWrapper.__init__(self, env)

    @property
    def autoreset_mode(self) -> Any:
        """What ``metadata`` says: Gymnasium's vector environments have both, and TorchRL asks for the attribute."""
        return self.metadata["autoreset_mode"]


class Declaring:
    """What is declared to the tracker below; mixed into either kind of layer."""

    tracker: Tracker

    def _wrap(self, env: Any, **arguments: Any) -> None:
        super()._wrap(env, **arguments)  # type: ignore[misc]  # of the layer that this is mixed into
        self.tracker = find_tracker(env)


class Tracking:
    """The arguments of ``TrackOccupancy`` and the tracker that they make; mixed into either kind of layer."""

    tracker: Tracker
    """Estimate, problem, iteration: what an agent finds by ``find_tracker``."""

    def __init__(
        self,
        env: Any,
        estimator: OccupancyEstimator | Mapping[str, Any] | None = None,
        *,
        episodes_per_batch: int | None = None,
        steps_per_batch: int | None = None,
        discount: float = 0.99,
        horizon: int | None = None,
        scale: Scale = "normalized",
        pairing: Pairing = "same",
        state: StateSource | None = None,
        cells: Cells | None = None,
        policy_log_prob: LogProb | None = None,
        suggestions: Mapping[str, Any] | None = None,
    ) -> None:
        config = estimator_config(Counts() if estimator is None else estimator)
        self._wrap(  # type: ignore[attr-defined]  # of the layer that this is mixed into
            env,
            estimator=config,
            episodes_per_batch=episodes_per_batch,
            steps_per_batch=steps_per_batch,
            discount=discount,
            horizon=horizon,
            scale=scale,
            pairing=pairing,
            state=plain_source(state),
            cells=plain_cells(cells),
            policy_log_prob=policy_log_prob,
            suggestions=suggestions,
        )
        _require_untracked(env)
        num_envs = env.num_envs if isinstance(env, gym.vector.VectorEnv) else 1
        _check_batch_size(episodes_per_batch, steps_per_batch, pairing=pairing, num_envs=num_envs)
        self._space, action_space = single_spaces(env)
        if state is None and cells is not None:
            raise InvalidSetting(f"cells={cells!r} says how many cells state= has: give that too.")
        self._source = state
        self._reader = None if state is None else StateReader(state, self._space, cells)
        if self._reader is not None:
            self._space = with_numbers(self._space)  # what rows are of where a functional or log π asks for them
        spaces = self._row_spaces(action_space)
        bound = _bound(estimator_from_config(config), spaces)
        found = find_horizon(env)
        weighting = Weighting(discount, found if horizon is None else horizon, scale)
        # Copies that are out of step by design have first episodes that are cut short.
        staggered = getattr(env.unwrapped, "_staggered_starts", False) is True
        self.tracker = Tracker(
            bound,
            weighting,
            pairing=pairing,
            episodes_per_batch=episodes_per_batch,
            steps_per_batch=steps_per_batch,
            staggered=staggered,
            spaces=spaces,
            is_over_observations=state is None,
            policy_log_prob=policy_log_prob,
            suggestions=suggestions,
        )
        self._lengths_seen = LengthWatch(weighting, found, is_given=horizon is not None, staggered=staggered)
        self._sees_places, self._has_room, self._has_looked_below = True, False, False
        self._begin(env)

    def _begin(self, env: Any) -> None:
        """Prepare to record; the last part of the constructor."""

    def _seal(self) -> None:
        """The environment is in use: what has to be recorded is known now.

        Raises:
            InsufficientMemory: the observations of one batch do not fit.
            InvalidSetting: a layer above takes several steps in one.
        """
        self.tracker.seal()
        self._sees_places = self.tracker.sees_places
        if not self._has_looked_below:
            self._has_looked_below = True
            warn_of_distortions(self.env, self.tracker, self._source)  # type: ignore[attr-defined]  # of the layer
            check_layers_above(self)
        if self._has_room or not self._needs_rows or is_finite(self._space):
            return
        one = np.zeros((1, width(self._space)))
        n_bytes = self._kept(one).nbytes
        n_steps = self.tracker.steps_of_full_batch or self.tracker.episodes_per_batch or 1
        require_memory(
            2 * n_steps * n_bytes,
            f"A batch of {n_steps} steps with observations of {one.size} numbers",
            "take smaller batches, or give TrackOccupancy a state=, so that observations need not be kept",
        )
        self._has_room = True

    @property
    def state_reader(self) -> StateReader | None:
        """What reads the states that λ̂ is over; ``None`` where they are the observations."""
        return self._reader

    @property
    def _needs_rows(self) -> bool:
        """Whether anybody asks for the observation as numbers: λ̂ itself, a functional, or log π where λ̂ takes it."""
        tracker = self.tracker
        return self._reader is None or self._sees_places or (tracker.knows_log_prob and tracker.takes_log_prob)

    def _kept(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Rows of observations as they are stored until the batch ends."""
        if self._sees_places:
            return rows
        return kept_rows(self._space, rows, are_needed=self._reader is None)

    def _row_spaces(self, actions: Space) -> tuple[Space, Space]:
        """What states and actions are, as estimators see them.

        Raises:
            UnsupportedSpace: they have no numbers.
        """
        try:
            action_rows = row_space(actions)
        except UnsupportedSpace as error:
            raise UnsupportedSpace(
                f"The actions are {actions}: {error} There make its actions of, for example, Discrete or Box ones, as "
                "gymnasium.ActionWrapper does."
            ) from error
        if self._reader is not None:
            return self._reader.space, action_rows
        try:
            return row_space(self._space), action_rows
        except UnsupportedSpace as error:
            raise UnsupportedSpace(f"The observations are {self._space}: {error} {_without(self._space)}") from error

    def _require_log_prob_throughout(self, is_known: bool, *, is_first: bool) -> None:
        """Log π is known of all steps of a batch, or of none."""
        if is_first:
            self._log_prob_is_known = is_known
        elif is_known != self._log_prob_is_known:
            raise InvalidData(
                "log_prob is known of some steps of this batch only: stay in tracker.acting(log_prob=...) for "
                "whole batches, or begin a new one by reset(options={'new_batch': True})."
            )


def _bound(estimator: OccupancyEstimator, spaces: tuple[Space, Space]) -> OccupancyEstimator:
    if isinstance(estimator, Counts) and isinstance(spaces[0], gym.spaces.Box) and spaces[0] is STATE_SPACE:
        raise UnsupportedSpace(
            "Counts are of cells, and nobody has said how many state= has: give cells=(12, 8), as many as each number "
            "of a state can be from 0 on, or cells=96, where it is one number; or, for states that are no cells, "
            "estimator=occupancy.GaussianMixture()."
        )
    return estimator.bind(*spaces)


def _without(space: Space) -> str:
    """What to write where the whole observation has no numbers."""
    numbers = with_numbers(space)
    keys = list(numbers.spaces) if isinstance(numbers, gym.spaces.Dict) and numbers != space else []
    listed = f"state=({', '.join(map(repr, keys))},), which have numbers, or some of them; or " if keys else ""
    return (
        f"Say what λ̂ is over: {listed}a function of the observation, state=lambda observation: ..., of coordinates or, "
        "with cells=, of a cell."
    )


def _require_untracked(env: Any) -> None:
    """Raise ``InvalidSetting`` if each copy in a vector environment is a stack with a tracker already."""
    if copies_have_trackers(env):
        raise InvalidSetting(
            f"There is a TrackOccupancy already in every copy of {env}: put one around the vector environment, and "
            "none around its copies."
        )


def _check_batch_size(
    episodes_per_batch: int | None, steps_per_batch: int | None, *, pairing: str, num_envs: int
) -> None:
    """Raise ``InvalidSetting`` unless exactly one batch size is given and pairing and environments can use it."""
    if (episodes_per_batch is None) == (steps_per_batch is None):
        raise InvalidSetting("Give one of episodes_per_batch= (whole episodes) and steps_per_batch= (steps).")
    name = "episodes_per_batch" if steps_per_batch is None else "steps_per_batch"
    size = check_count(name, episodes_per_batch if steps_per_batch is None else steps_per_batch)
    if pairing == "split" and size < 2:
        raise InvalidSetting(f"pairing='split' needs two halves: {name} must be at least 2.")
    if size < num_envs:
        raise InvalidSetting(
            f"{name}={size} is less than the {num_envs} sub-environments, so that batches would end faster than one "
            f"per step: take {name} of at least {num_envs}, or fewer sub-environments."
        )
