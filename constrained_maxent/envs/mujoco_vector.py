"""A vector environment of any MuJoCo model, stepped on all cores, from functions of its states."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from constrained_maxent.envs.autoreset import as_mode, require_running, reset_mask
from constrained_maxent.envs.mujoco_import import mujoco
from constrained_maxent.envs.mujoco_painter import MujocoPainter
from constrained_maxent.envs.mujoco_simulation import (
    MujocoSimulation,
    MujocoStates,
    as_model,
    checked_controls,
)
from constrained_maxent.errors import InvalidData, InvalidSetting, NonFiniteValue
from constrained_maxent.types import FloatArray, as_array, is_number, require_finite

ObservationFunction = Callable[[MujocoStates], ArrayLike]
"""Observations of ``n`` states, ``(n, ...)``."""
StartFunction = Callable[[np.random.Generator], tuple[ArrayLike, ArrayLike]]
"""A first state: positions ``(nq,)`` and velocities ``(nv,)``."""
CostFunction = Callable[[MujocoStates, FloatArray], "ArrayLike | Mapping[str, ArrayLike]"]
"""Costs ``(n,)`` of ``n`` states and the controls ``(n, nu)`` chosen there; or several entries of info by name."""
RewardFunction = Callable[[MujocoStates, FloatArray, MujocoStates], ArrayLike]
"""Rewards ``(n,)`` of states, controls and next states."""
StateFunction = Callable[[MujocoStates], ArrayLike]
"""Physical states ``(n, dimensions)``, over which a density can be fitted."""
TerminationFunction = Callable[[MujocoStates], ArrayLike]
"""Whether entering each of ``n`` states ends the episode, bool ``(n,)``."""

MujocoVectorBase = VectorEnv[NDArray[np.float32], ArrayLike, NDArray[Any]]


class MujocoVectorEnv(MujocoVectorBase):
    """``num_envs`` copies of a MuJoCo or dm_control model, with the autoreset semantics of ``SyncVectorEnv``.

    What a step means is given by functions of NumPy arrays, each called once for all copies (``n`` of them):
    see ``examples/pendulum_swingup.py``. The environment pickles if they do.

    ``infos`` holds, each with its mask ``_<key>``:

    - ``cost`` ``(n,)``: of the states in which the actions were taken, also of an episode's last step;
    - ``state`` ``(n, dimensions)``, float64: the physical state that belongs to the observation, also after a reset;
    - ``physics_error`` ``(n,)``, bool: the simulation became unstable in this step. It has no result: the episode is
      truncated with reward 0 in the state that it was in, and ``physics_errors`` counts it. A tracker must not learn
      from such a step. With same-step autoreset the flag is in ``final_info``, like the cost.

    Each copy draws from its own generator, seeded like a sub-environment of ``SyncVectorEnv``.

    Args:
        model: a ``mujoco.MjModel``, or a dm_control ``Physics``; copied.
        num_envs: number of copies.
        observation: observations of states.
        observation_space: the space of one of them.
        start: draws a first state.
        reward: rewards of transitions; ``None`` means 0.
        cost: costs of states and controls, or a mapping with the key ``"cost"`` and what else shall stand in ``infos``
            beside it; ``None`` means that no cost is reported.
        state: physical states; ``None`` means positions and velocities.
        terminated: which states end an episode; ``None`` means none.
        time_limit: after which an episode is truncated [s], or ``None``.
        frame_skip: steps of the model for which each action is held.
        staggered_starts: after ``reset()`` of all, the first episode of copy *i* is shorter by *i/n* of the time limit.
            From then on the copies are spread evenly over the episode, so that short fragments of them are a fair
            sample of its times.
        threads: worker threads; ``None`` means one per core. Results do not depend on it.
        render_mode: ``"rgb_array"`` or ``None``.
        width: of images [pixels].
        height: of images [pixels].
        autoreset_mode: an ``AutoresetMode`` or its value: ``"NextStep"``, ``"SameStep"`` or ``"Disabled"``.

    Attributes:
        timestep: time that one step takes, frame skip included [s].
        horizon: steps after which an episode is truncated, or ``None``.
        physics_errors: number of steps so far in which the simulation became unstable.

    Raises:
        InvalidSetting: an argument, an action or a reset mask makes no sense.
        InvalidData: a function returns arrays of the wrong shape.
        NonFiniteValue: an action or a given state is NaN or infinite, or an observation after a reset.
        gymnasium.error.ResetNeeded: ``step`` before ``reset``, or of a finished copy if autoreset is disabled.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}

    def __init__(
        self,
        model: Any,
        num_envs: int = 1,
        *,
        observation: ObservationFunction,
        observation_space: gym.spaces.Box,
        start: StartFunction,
        reward: RewardFunction | None = None,
        cost: CostFunction | None = None,
        state: StateFunction | None = None,
        terminated: TerminationFunction | None = None,
        time_limit: float | None = None,
        frame_skip: int = 1,
        staggered_starts: bool = False,
        threads: int | None = None,
        render_mode: str | None = None,
        width: int = 480,
        height: int = 360,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ) -> None:
        self.autoreset_mode = as_mode(autoreset_mode)
        check_render_mode(render_mode, self.metadata["render_modes"])
        self._simulation = MujocoSimulation(model, num_envs, frame_skip=frame_skip, threads=threads)
        self.timestep = self._simulation.timestep
        self.horizon = horizon_steps(time_limit, self.timestep)
        if not isinstance(staggered_starts, (bool, np.bool_)):
            raise InvalidSetting(f"staggered_starts={staggered_starts!r} must be True or False.")
        if staggered_starts and self.horizon is None:
            raise InvalidSetting("staggered_starts=True spreads the copies over the episode: give a time_limit.")
        self.num_envs = n = self._simulation.n
        self.render_mode = render_mode
        self.metadata = {
            **self.metadata,
            "autoreset_mode": self.autoreset_mode,
            "render_fps": frame_rate(self.timestep),
        }
        self.single_observation_space = observation_space
        self.single_action_space = control_space(self._simulation.model)
        self.observation_space = batch_space(self.single_observation_space, n)
        self.action_space = batch_space(self.single_action_space, n)
        self.physics_errors = 0

        self._observation, self._start, self._reward, self._cost = observation, start, reward, cost
        self._state = positions_and_velocities if state is None else state
        self._terminated = terminated
        self._staggered_starts = bool(staggered_starts)
        self._painter = MujocoPainter(self._simulation.model, width=width, height=height)
        self._generators: list[np.random.Generator] = []
        self._seeds: list[int] = []
        self._started = False
        self._elapsed = np.zeros(n, dtype=np.int64)
        self._last_step = np.full(n, np.iinfo(np.int64).max if self.horizon is None else self.horizon)
        self._ended = np.zeros(n, dtype=np.bool_)

    @property
    def model(self) -> Any:
        """The ``mujoco.MjModel`` of all copies. Change it before the first step only."""
        return self._simulation.model

    @property
    def threads(self) -> int:
        """Number of threads that simulate."""
        return self._simulation.threads

    @property
    def states(self) -> MujocoStates:
        """The states of all copies."""
        return self._simulation.states()

    @property  # type: ignore[misc]  # read-only, as in SyncVectorEnv
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """The generator of each copy."""
        self._seed_generators(None)
        return tuple(self._generators)

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed of each of them."""
        self._seed_generators(None)
        return tuple(self._seeds)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start an episode in every copy, or in those of a mask.

        Args:
            seed: copy *i* is seeded by ``seed + i``, or by entry *i* of a list.
            options: ``{"reset_mask": bool (num_envs,)}`` restarts the copies marked True and leaves the others alone;
                ``{"qpos": (num_envs, nq), "qvel": (num_envs, nv)}`` gives first states instead of drawing them.

        Returns:
            All current observations, and infos with the ``state`` of the copies that were restarted.
        """
        mask = reset_mask(options, self.num_envs, started=self._started)
        given = self._given_states(options)
        self._seed_generators(seed, mask)
        self._restart(mask, given)
        if self._staggered_starts and self.horizon is not None and (options is None or "reset_mask" not in options):
            self._last_step -= np.arange(self.num_envs) * self.horizon // self.num_envs
        self._started = True
        states = self._simulation.states()
        observations = self._observe(states)
        require_finite("The observations", observations)
        return observations, _entries({"state": self._physical(states)}, mask)

    def step(
        self, actions: ArrayLike
    ) -> tuple[NDArray[np.float32], FloatArray, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Take one action in every copy.

        Args:
            actions: controls ``(num_envs, nu)``; what exceeds its range, MuJoCo clips.

        Returns:
            Observations, rewards float64, terminated and truncated bool, each ``(num_envs, ...)``, and infos.
        """
        controls = self._checked(actions)
        n, simulation = self.num_envs, self._simulation
        before = simulation.states()
        reports = self._costs(before, controls)
        failed = simulation.step(controls)
        self._elapsed += 1
        after = simulation.states()
        rewards = self._column("reward", self._reward(before, controls, after)) if self._reward else np.zeros(n)
        if self._terminated is None:
            terminated = np.zeros(n, dtype=np.bool_)
        else:
            terminated = self._column("terminated", self._terminated(after), np.bool_)
        truncated = self._elapsed >= self._last_step
        resetting = self._ended if self.autoreset_mode is AutoresetMode.NEXT_STEP else np.zeros(n, dtype=np.bool_)
        if failed.any():
            failed &= ~resetting
            rewards[failed], terminated[failed], truncated[failed] = 0.0, False, True
            self.physics_errors += int(np.count_nonzero(failed))
        reports["physics_error"] = failed
        if resetting.any():
            rewards[resetting], terminated[resetting], truncated[resetting] = 0.0, False, False
            self._restart(resetting)
            after = simulation.states()
        ended = self._ended = terminated | truncated

        observations = self._observe(after)
        state = self._physical(after)
        every = np.ones(n, dtype=np.bool_)
        if self.autoreset_mode is AutoresetMode.SAME_STEP and ended.any():
            infos = self._final_infos(observations, reports | {"state": state.copy()})
            copies = np.flatnonzero(ended)
            self._restart(ended)
            fresh = simulation.states(copies)
            observations[copies], state[copies] = self._observe(fresh), self._physical(fresh)
            infos |= _entries(reports, ~ended) | _entries({"state": state}, every)
        else:
            infos = _entries(reports, ~resetting) | _entries({"state": state}, every)
        return observations, rewards, terminated, truncated, infos

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """Draw every copy: a tuple of ``num_envs`` images, uint8 (height, width, 3)."""
        if not self._started:
            raise ResetNeeded("There is nothing to draw yet: call reset() before render().")
        if self.render_mode is None:
            gym.logger.warn(f"Nothing is drawn without a render_mode: pass one of {self.metadata['render_modes']}.")
            return None
        data = mujoco.MjData(self.model)
        frames = []
        states = self._simulation.states()
        for qpos, qvel, act in zip(states.qpos, states.qvel, states.act, strict=True):
            data.qpos[:], data.qvel[:], data.act[:] = qpos, qvel, act
            mujoco.mj_forward(self.model, data)
            frames.append(self._painter.image(data))
        return tuple(frames)

    def close_extras(self, **kwargs: Any) -> None:
        """Stop the threads and release what drawing holds."""
        if hasattr(self, "_painter"):  # Gymnasium closes even what its constructor refused to make
            self._painter.close()
            self._simulation.close()

    # Episodes.

    def _restart(self, mask: NDArray[np.bool_], given: tuple[FloatArray, FloatArray] | None = None) -> None:
        for i in np.flatnonzero(mask).tolist():
            qpos, qvel = self._start(self._generators[i]) if given is None else (given[0][i], given[1][i])
            self._simulation.set_state(i, qpos, qvel)
        self._elapsed[mask] = 0
        if self.horizon is not None:
            self._last_step[mask] = self.horizon
        self._ended = self._ended & ~mask

    def _seed_generators(self, seed: int | Sequence[int | None] | None, mask: NDArray[np.bool_] | None = None) -> None:
        n = self.num_envs
        seeds: list[int | None]
        if isinstance(seed, (int, np.integer)):
            seeds = [int(seed) + i for i in range(n)]
        else:
            seeds = [None] * n if seed is None else list(seed)
        if len(seeds) != n:
            raise InvalidSetting(f"seed must be one int or a list of {n}, not of {len(seeds)}.")
        if not self._generators:
            self._generators, self._seeds = map(list, zip(*map(seeding.np_random, seeds), strict=True))
            return
        for i, own in enumerate(seeds):
            if own is not None and (mask is None or mask[i]):
                self._generators[i], self._seeds[i] = seeding.np_random(own)

    # The user's functions, checked.

    def _observe(self, states: MujocoStates) -> NDArray[Any]:
        space = self.single_observation_space
        observations = np.array(self._observation(states), dtype=space.dtype)
        if observations.shape != (len(states.time), *(space.shape or ())):
            raise InvalidData(
                f"observation(states) must be of shape {(len(states.time), *(space.shape or ()))}, one row for each "
                f"state and as observation_space says; not {observations.shape}."
            )
        return observations

    def _physical(self, states: MujocoStates) -> FloatArray:
        state = np.array(self._state(states), dtype=np.float64)
        if state.ndim != 2 or len(state) != len(states.time):
            raise InvalidData(f"state(states) must be of shape ({len(states.time)}, dimensions), not {state.shape}.")
        return state

    def _costs(self, states: MujocoStates, controls: FloatArray) -> dict[str, NDArray[Any]]:
        if self._cost is None:
            return {}
        costs = self._cost(states, controls)
        if not isinstance(costs, Mapping):
            return {"cost": self._column("cost", costs)}
        if "cost" not in costs:
            raise InvalidData(f"cost(states, controls) must have the key 'cost', the sum of all; has {list(costs)}.")
        return {name: self._column(f"cost[{name!r}]", values) for name, values in costs.items()}

    def _column(self, name: str, values: ArrayLike, dtype: Any = np.float64) -> NDArray[Any]:
        """A copy of one value per sub-environment."""
        column = np.array(values, dtype=dtype)
        if column.shape != (self.num_envs,):
            raise InvalidData(f"{name} must be of shape ({self.num_envs},), one entry per copy; not {column.shape}.")
        return column

    # Infos.

    def _final_infos(self, observations: NDArray[Any], reports: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        """What is known of the copies whose episodes end in this step, before new ones start in it."""
        final_obs = np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(self._ended).tolist():
            final_obs[i] = observations[i].copy()
        return {
            "final_obs": final_obs,
            "_final_obs": self._ended.copy(),
            "final_info": _entries(reports, self._ended),
            "_final_info": self._ended.copy(),
        }

    # Arguments, checked.

    def _checked(self, actions: ArrayLike) -> FloatArray:
        require_running(self._ended, started=self._started, mode=self.autoreset_mode)
        return checked_controls(actions, (self.num_envs, int(self.model.nu)))

    def _given_states(self, options: dict[str, Any] | None) -> tuple[FloatArray, FloatArray] | None:
        if options is None or ("qpos" not in options and "qvel" not in options):
            return None
        if not ("qpos" in options and "qvel" in options):
            raise InvalidSetting('A first state needs both options["qpos"] and options["qvel"].')
        given = []
        for name, width in (("qpos", int(self.model.nq)), ("qvel", int(self.model.nv))):
            values = as_array(name, options[name], np.float64)
            if values.shape != (self.num_envs, width):
                raise InvalidData(f"{name} must have shape {(self.num_envs, width)}, not {values.shape}.")
            if not np.isfinite(values).all():
                raise NonFiniteValue(f"{name} must be finite.")
            given.append(values)
        return given[0], given[1]


def positions_and_velocities(states: MujocoStates) -> FloatArray:
    """The state of a model without angles: ``(n, nq + nv)``."""
    return np.concatenate((states.qpos, states.qvel), axis=1)


def wrapped(angles: FloatArray) -> FloatArray:
    """Angles in (−π, π].

    >>> wrapped(np.array([0.5, -np.pi, 1.5 * np.pi])) / np.pi
    array([ 0.15915494,  1.        , -0.5       ])
    """
    turns = np.ceil((angles - np.pi) / (2.0 * np.pi))
    nearest: FloatArray = np.minimum(angles - 2.0 * np.pi * turns, np.pi)
    return nearest


def control_space(model: Any) -> gym.spaces.Box:
    """The controls of a model, float32 ``(nu,)``, within the range where they have one."""
    limited = as_model(model).actuator_ctrllimited.astype(bool)
    low, high = as_model(model).actuator_ctrlrange.T
    return gym.spaces.Box(
        np.where(limited, low, -np.inf).astype(np.float32), np.where(limited, high, np.inf).astype(np.float32)
    )


def horizon_steps(time_limit: float | None, timestep: float) -> int | None:
    """The step in which a time limit is reached [steps]; ``None`` without one.

    >>> horizon_steps(10.0, 0.01)
    1000

    Raises:
        InvalidSetting: less than one step, or not finite.
    """
    if time_limit is None:
        return None
    if not (is_number(time_limit) and timestep <= time_limit < math.inf):
        raise InvalidSetting(f"time_limit={time_limit!r} must be at least one step of {timestep:g} s, or None (never).")
    return math.ceil(time_limit / timestep - 1e-6)


def frame_rate(timestep: float) -> int:
    """Pictures per second that show motion at its true speed."""
    return max(1, round(1.0 / timestep))


def check_render_mode(render_mode: str | None, modes: Sequence[str]) -> None:
    """Raise ``InvalidSetting`` for an unknown mode."""
    if render_mode is not None and render_mode not in modes:
        raise InvalidSetting(f"render_mode={render_mode!r} must be None or one of {', '.join(modes)}.")


def _entries(columns: Mapping[str, NDArray[Any]], mask: NDArray[np.bool_]) -> dict[str, Any]:
    """Info arrays with their masks; zero where the mask is False."""
    entries: dict[str, Any] = {}
    whole = bool(mask.all())
    for name, column in columns.items():
        if not whole:
            column = np.where(mask.reshape(-1, *[1] * (column.ndim - 1)), column, np.zeros((), dtype=column.dtype))
        entries[name], entries[f"_{name}"] = column, mask.copy()
    return entries
