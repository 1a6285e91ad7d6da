"""A vector environment of any MuJoCo model, stepped on all cores, from functions of its states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from constrained_maxent.envs.episodes import as_mode, can_render, check_render_mode, require_running, reset_mask
from constrained_maxent.envs.mujoco_model import (
    CostFunction,
    MujocoStates,
    ObservationFunction,
    RewardFunction,
    StartFunction,
    StateFunction,
    TerminationFunction,
    checked_controls,
    control_space,
    given_state,
    horizon_steps,
    mujoco,
    positions_and_velocities,
)
from constrained_maxent.envs.mujoco_painter import MujocoPainter
from constrained_maxent.envs.mujoco_simulation import MujocoSimulation
from constrained_maxent.errors import InvalidData, InvalidSetting
from constrained_maxent.types import FloatArray, require_finite


class MujocoVectorEnv(VectorEnv[NDArray[np.float32], ArrayLike, NDArray[Any]]):
    """``num_envs`` copies of a MuJoCo or dm_control model, with the autoreset semantics of ``SyncVectorEnv``.

    What a step means is given by functions of NumPy arrays, each called once for all copies (``n`` of them):
    see ``examples/pendulum_swingup.py``. The environment pickles if they do.

    ``infos`` holds, each with its mask ``_<key>``:

    - ``cost`` ``(n,)``: of the states in which the actions were taken, also of an episode's last step;
    - ``state`` ``(n, dimensions)``, float64: the physical state that belongs to the observation, also after a reset;
    - ``physics_error`` ``(n,)``, bool: the simulation became unstable in this step, which nobody should learn from: the
      episode is truncated with reward 0 in the state that it was in. With same-step autoreset the flag is in
      ``final_info``, like the cost.

    Each copy draws from its own generator, seeded like a sub-environment of ``SyncVectorEnv``.

    Args:
        model: a ``mujoco.MjModel``, or a dm_control ``Physics``; copied.
        num_envs: number of copies.
        observation, observation_space: observations of states, and the space of one of them.
        start: draws a first state.
        reward: rewards of transitions; ``None`` means 0.
        cost: costs of states and controls, or a mapping with the key ``"cost"`` and what else shall stand in ``infos``
            beside it; ``None`` means that no cost is reported.
        state: physical states, or a mapping with the key ``"state"`` and what else of the same states shall stand in
            ``infos`` beside it; ``None`` means positions and velocities.
        terminated: which states end an episode; ``None`` means none.
        time_limit: after which an episode is truncated [s], or ``None``.
        frame_skip: steps of the model for which each action is held.
        staggered_starts: after ``reset()`` of all, the first episode of copy *i* is shorter by *i/n* of the time limit.
            From then on the copies are spread evenly over the episode, so that short fragments of them are a fair
            sample of its times.
        threads: worker threads; ``None`` means one per core. Results do not depend on it.
        render_mode: ``"rgb_array"`` or ``None``.
        width, height: of images [pixels].
        autoreset_mode: an ``AutoresetMode`` or its value: ``"NextStep"``, ``"SameStep"`` or ``"Disabled"``.

    Attributes:
        timestep: time that one step takes, frame skip included [s].
        horizon: steps after which an episode is truncated, or ``None``.

    Raises:
        InvalidSetting: an argument, an action or a reset mask makes no sense.
        InvalidData: a function returns arrays of the wrong shape.
        NonFiniteValue: an action or a given state is NaN or infinite, or an observation after a reset.
        gymnasium.error.ResetNeeded: ``step`` before ``reset``, or of a finished copy if autoreset is disabled.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}
    seeds_each_copy = True
    """``reset`` takes a list of seeds: whoever makes seeds gives each copy one of its own."""

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
        fps = max(1, round(1.0 / self.timestep))
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode, "render_fps": fps}
        self.single_observation_space = observation_space
        self.single_action_space = control_space(self._simulation.model)
        self.observation_space = batch_space(observation_space, n)
        self.action_space = batch_space(self.single_action_space, n)

        self._observation, self._start, self._cost = observation, start, cost
        self._reward, self._terminated = reward, terminated
        self._state = positions_and_velocities if state is None else state
        self._staggered_starts = bool(staggered_starts)
        self._painter = MujocoPainter(self._simulation.model, width=width, height=height)
        self._generators: list[np.random.Generator] = []
        self._seeds: list[int] = []
        self._started = False
        self._elapsed = np.zeros(n, dtype=np.int64)
        self._last_step = np.full(n, np.iinfo(np.int64).max if self.horizon is None else self.horizon)
        self._ended = np.zeros(n, dtype=np.bool_)

    @staticmethod
    def from_gymnasium(
        env_id: str,
        num_envs: int = 1,
        *,
        reward: RewardFunction | Literal["own"] | None = "own",
        terminated: TerminationFunction | Literal["own"] | None = "own",
        cost: CostFunction | None = None,
        state: StateFunction | None = None,
        staggered_starts: bool = False,
        threads: int | None = None,
        render_mode: str | None = None,
        width: int = 480,
        height: int = 360,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        **settings: Any,
    ) -> MujocoVectorEnv:
        """Vectorize one of Gymnasium's MuJoCo environments that is a function of positions and velocities.

        Model, first states, observations, rewards, ends and time limit are the environment's own. MuJoCo simulates all
        copies at once, then the environment's Python is run for each copy, on positions and velocities alone. What asks
        for more is refused: forces of contacts, and also places of bodies, which Gymnasium reads as they were a
        sub-step before. Steps start MuJoCo's solver cold, so that they differ from Gymnasium's by its tolerance. Of
        what Gymnasium reports in ``info``, nothing is.

        Args:
            env_id: id of an environment that is a ``gymnasium.envs.mujoco.MujocoEnv``, of Gymnasium or your own.
            num_envs: number of copies.
            reward, terminated: functions of states, or ``None``, in the place of the environment's own: for one whose
                ``step`` asks for more. Give both or neither.
            cost, state, staggered_starts, threads, render_mode, width, height, autoreset_mode: as in the class.
            settings: of ``gymnasium.make``, such as ``max_episode_steps``, ``frame_skip`` or ``reset_noise_scale``.

        Raises:
            InvalidSetting: the environment is none that can be stepped so; the message says why.

        >>> env = MujocoVectorEnv.from_gymnasium("HalfCheetah-v5", 2)
        >>> env.horizon, env.reset(seed=0)[0].shape
        (1000, (2, 17))
        """
        from constrained_maxent.envs.gymnasium_task import GymnasiumTask  # it needs what Gymnasium draws with

        if (own := reward == "own") != (terminated == "own"):
            raise InvalidSetting("Give both reward= and terminated=, None for none, or neither.")
        task = GymnasiumTask(env_id, settings, asks_step=own)
        return MujocoVectorEnv(
            task.env.model,
            num_envs,
            observation=task.observation,
            observation_space=task.env.observation_space,
            start=task.start,
            reward=task.reward if reward == "own" else reward,
            cost=cost,
            state=state,
            terminated=task.terminated if terminated == "own" else terminated,
            time_limit=task.time_limit,
            frame_skip=task.env.frame_skip,
            staggered_starts=staggered_starts,
            threads=threads,
            render_mode=render_mode,
            width=width,
            height=height,
            autoreset_mode=autoreset_mode,
        )

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
        """The seed of each copy's generator."""
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
        given = given_state(options, (self.num_envs, self.model.nq), (self.num_envs, self.model.nv))
        self._seed_generators(seed, mask)
        self._restart(mask, given)
        if self._staggered_starts and self.horizon is not None and (options is None or "reset_mask" not in options):
            self._last_step -= np.arange(self.num_envs) * self.horizon // self.num_envs
        self._started = True
        observations, reached = self._observe(self._simulation.states())
        require_finite("The observations", observations)
        return observations, _entries(reached, mask)

    def step(
        self, actions: ArrayLike
    ) -> tuple[NDArray[np.float32], FloatArray, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Take one action in every copy.

        Args:
            actions: controls ``(num_envs, nu)``; what exceeds its range, MuJoCo clips.

        Returns:
            Observations, rewards float64, terminated and truncated bool, each ``(num_envs, ...)``, and infos.
        """
        require_running(self._ended, started=self._started, mode=self.autoreset_mode)
        n, simulation = self.num_envs, self._simulation
        controls = checked_controls(actions, (n, int(self.model.nu)))
        before = simulation.states()
        reports = self._costs(before, controls)
        failed = simulation.step(controls)
        self._elapsed += 1
        after = simulation.states()
        rewards, terminated = np.zeros(n), np.zeros(n, dtype=np.bool_)
        if self._reward is not None:
            rewards = _column("reward", self._reward(before, controls, after), n)
        if self._terminated is not None:
            terminated = _column("terminated", self._terminated(after), n, np.bool_)
        truncated = self._elapsed >= self._last_step
        resetting = self._ended if self.autoreset_mode is AutoresetMode.NEXT_STEP else np.zeros(n, dtype=np.bool_)
        if failed.any():
            failed &= ~resetting
            rewards[failed], terminated[failed], truncated[failed] = 0.0, False, True
        reports["physics_error"] = failed
        if resetting.any():
            rewards[resetting], terminated[resetting], truncated[resetting] = 0.0, False, False
            self._restart(resetting)
            after = simulation.states()
        ended = self._ended = terminated | truncated

        observations, reached = self._observe(after)
        every = np.ones(n, dtype=np.bool_)
        if self.autoreset_mode is AutoresetMode.SAME_STEP and ended.any():
            copies, final_obs = np.flatnonzero(ended), np.full(n, None, dtype=object)
            for i in copies.tolist():
                final_obs[i] = observations[i].copy()
            infos = {
                "final_obs": final_obs,
                "_final_obs": ended.copy(),
                "final_info": _entries(reports | {name: rows.copy() for name, rows in reached.items()}, ended),
                "_final_info": ended.copy(),
            }
            self._restart(ended)
            observations[copies], first = self._observe(simulation.states(copies))
            for name, rows in first.items():
                reached[name][copies] = rows
            infos |= _entries(reports, ~ended) | _entries(reached, every)
        else:
            infos = _entries(reports, ~resetting) | _entries(reached, every)
        return observations, rewards, terminated, truncated, infos

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """Draw every copy: a tuple of ``num_envs`` images, uint8 (height, width, 3)."""
        if not can_render(self, started=self._started):
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

    def _observe(self, states: MujocoStates) -> tuple[NDArray[Any], dict[str, FloatArray]]:
        """Copies of the observations, of the space's dtype, and of the physical states by their names, float64."""
        space, n = self.single_observation_space, len(states.time)
        observations = np.array(self._observation(states), dtype=space.dtype)
        if observations.shape != (n, *(space.shape or ())):
            raise InvalidData(
                f"observation(states) must be of shape {(n, *(space.shape or ()))}, one row for each state and as "
                f"observation_space says; not {observations.shape}."
            )
        reached = self._state(states)
        if not isinstance(reached, Mapping):
            reached = {"state": reached}
        elif "state" not in reached:
            raise InvalidData(f"state(states) must have the key 'state'; has {list(reached)}.")
        rows = {name: np.array(values, dtype=np.float64) for name, values in reached.items()}
        for name, values in rows.items():
            if values.ndim != 2 or len(values) != n:
                raise InvalidData(f"{name}(states) must be of shape ({n}, dimensions), not {values.shape}.")
        return observations, rows

    def _costs(self, states: MujocoStates, controls: FloatArray) -> dict[str, NDArray[Any]]:
        """Entries of infos, float64 ``(n,)`` each: ``cost``, and what is reported beside it."""
        if self._cost is None:
            return {}
        costs = self._cost(states, controls)
        if not isinstance(costs, Mapping):
            return {"cost": _column("cost", costs, self.num_envs)}
        if "cost" not in costs:
            raise InvalidData(f"cost(states, controls) must have the key 'cost', the sum of all; has {list(costs)}.")
        return {name: _column(f"cost[{name!r}]", values, self.num_envs) for name, values in costs.items()}

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
        seeds: list[int | None] = [None] * n
        if isinstance(seed, (int, np.integer)):
            seeds = [int(seed) + i for i in range(n)]
        elif seed is not None:
            seeds = list(seed)
        if len(seeds) != n:
            raise InvalidSetting(f"seed must be one int or a list of {n}, not of {len(seeds)}.")
        if not self._generators:
            self._generators, self._seeds = map(list, zip(*map(seeding.np_random, seeds), strict=True))
            return
        for i, own in enumerate(seeds):
            if own is not None and (mask is None or mask[i]):
                self._generators[i], self._seeds[i] = seeding.np_random(own)


def _column(name: str, values: ArrayLike, n: int, dtype: Any = np.float64) -> NDArray[Any]:
    """A copy of one value per copy of the model."""
    column = np.array(values, dtype=dtype)
    if column.shape != (n,):
        raise InvalidData(f"{name} must be of shape ({n},), one entry per copy; not {column.shape}.")
    return column


def _entries(columns: Mapping[str, NDArray[Any]], mask: NDArray[np.bool_]) -> dict[str, Any]:
    """Info arrays with their masks; zero where the mask is False."""
    entries: dict[str, Any] = {}
    whole = bool(mask.all())
    for name, column in columns.items():
        if not whole:
            column = np.where(mask.reshape(-1, *[1] * (column.ndim - 1)), column, np.zeros((), dtype=column.dtype))
        entries[name], entries[f"_{name}"] = column, mask.copy()
    return entries
