"""One of Gymnasium's MuJoCo environments as functions of states, as far as it asks for nothing else."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.mujoco import MujocoEnv
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from numpy.typing import NDArray

from constrained_maxent.envs.mujoco_model import MujocoStates, control_space, mujoco
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.types import FloatArray

_EPISODES, _STEPS = 3, 20
"""By which a task is held against the environment that it was made from."""
_SOLVED_TO = 1e-4
"""How much a step may depend on where MuJoCo's solver starts, relatively; the humanoid's by 1e-5."""


class GymnasiumTask:
    """Runs the environment's own ``step`` and ``reset`` around states that somebody else has simulated.

    Instead of MuJoCo's data the environment sees an object with positions, velocities, activations and controls alone.
    So what it returns can be a function of nothing else; whatever it asks for besides is refused by name, whenever that
    happens.

    Args:
        env_id: an id of Gymnasium whose environment is a ``gymnasium.envs.mujoco.MujocoEnv``.
        asks_step: whether rewards or ends of episodes are asked of it.
        settings: of ``gymnasium.make``.

    Attributes:
        env: the bare environment.
        time_limit: after which its episodes are truncated [s], or ``None``.

    Raises:
        InvalidSetting: it is no such environment, has layers beside Gymnasium's usual ones, or returns what is no
            function of positions and velocities.
    """

    def __init__(self, env_id: str, settings: dict[str, Any], *, asks_step: bool) -> None:
        self._made_with = env_id, settings, asks_step
        self.env_id = env_id
        outermost = gym.make(env_id, **settings)
        env: Any = outermost.unwrapped
        if not isinstance(env, MujocoEnv):
            raise InvalidSetting(
                f"{env_id} is a {type(env).__name__}, no gymnasium.envs.mujoco.MujocoEnv: gym.make_vec vectorizes it."
            )
        self.env: Any = env
        self.time_limit = self._time_limit(outermost)
        self._data = env.data
        self._seen = _StateOnly(self)
        self._asks_step = asks_step
        self._doing = "observation"
        self._control: Any = None
        self._next = 0
        self._after: MujocoStates | None = None
        self._observations, self._ended = np.empty(0), np.empty(0, dtype=np.bool_)
        if env.action_space != control_space(env.model):
            raise self._refusal("its actions are not the controls of its model")
        if not isinstance(env.observation_space, gym.spaces.Box):
            raise self._refusal("its observations are in no Box")
        try:
            self._hold_against_itself()
        except InvalidSetting:
            raise
        except (
            TypeError,
            ValueError,
            AttributeError,
        ) as error:  # of its own, or of MuJoCo, at what is not MuJoCo's data
            raise self._refusal(f"its {self._doing} fails on them alone ({error})") from error

    def start(self, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """A first state, as the environment's ``reset`` draws it."""
        self.env.data, self.env.np_random = self._data, generator
        self.env.reset()
        return self._data.qpos.copy(), self._data.qvel.copy()

    def observation(self, states: MujocoStates) -> NDArray[Any]:
        """Observations ``(n, ...)``."""
        if states is self._after:
            return self._observations
        self.env.data, self._doing = self._seen, "observation"
        space = self.env.observation_space
        rows = np.empty((len(states.time), *space.shape), dtype=space.dtype)
        for i in range(len(rows)):
            self._seen.load(states, i)
            rows[i] = self.env._get_obs()
        return rows

    def reward(self, states: MujocoStates, controls: FloatArray, next_states: MujocoStates) -> FloatArray:
        """Rewards ``(n,)``; what the same steps return besides is kept for who asks next."""
        env, seen, space = self.env, self._seen, self.env.observation_space
        env.data, self._doing = seen, "step"
        # An attribute of the object goes before the method of its class.
        env._step_mujoco_simulation = self._arrive
        n = len(controls)
        rewards, self._ended = np.empty(n), np.empty(n, dtype=np.bool_)
        self._observations = np.empty((n, *space.shape), dtype=space.dtype)
        self._after = next_states
        try:
            for i, control in enumerate(controls):
                seen.load(states, i)
                self._next, self._control = i, control
                self._observations[i], rewards[i], self._ended[i], truncated, _ = env.step(control)
                if truncated or self._control is not None:
                    raise self._refusal("a step of it truncates, or does not simulate")
        finally:
            del env._step_mujoco_simulation
        return rewards

    def terminated(self, states: MujocoStates) -> NDArray[np.bool_]:
        """Which of the states that ``reward`` was asked of last end an episode, ``(n,)``."""
        assert states is self._after
        return self._ended

    def _arrive(self, control: Any, n_frames: int) -> None:
        """Stands for the simulation: the next state has been computed already."""
        if control is not self._control or n_frames != self.env.frame_skip:
            raise self._refusal("it simulates more than once in a step, or by other controls than its actions")
        assert self._after is not None
        self._seen.load(self._after, self._next)
        self._seen.ctrl = control
        self._control = None

    def _time_limit(self, layer: Any) -> float | None:
        limit = None
        while layer is not layer.unwrapped:
            if isinstance(layer, TimeLimit):
                limit = layer._max_episode_steps * self.env.dt
            elif not isinstance(layer, (OrderEnforcing, PassiveEnvChecker)):
                raise self._refusal(f"it is wrapped in {type(layer).__name__}")
            layer = layer.env
        return limit

    def _hold_against_itself(self) -> None:
        """Play some steps as they are, and refuse an environment whose functions of the same states say otherwise."""
        env, actions = self.env, copy.deepcopy(self.env.action_space)
        actions.seed(0)
        env.reset(seed=0)
        kept = self._kept()
        for _ in range(_EPISODES):
            env.data = self._data
            observation, _ = env.reset()
            self._same("an observation", observation, self.observation(self._now()))
            for _ in range(_STEPS):
                env.data = self._data
                before, action = self._now(), actions.sample().astype(np.float64)
                random = env.np_random.bit_generator.state
                observation, reward, terminated, _, _ = env.step(action)
                after = self._now()
                self._same("an observation", observation, self.observation(after))
                if self._asks_step:
                    self._same("a reward", reward, self.reward(before, action[None], after))
                    self._same("an observation", observation, self._observations)
                    self._same("an episode's end", terminated, self.terminated(after))
                self._check_motion(before, action, after)
                if env.np_random.bit_generator.state != random:
                    raise self._refusal("its steps draw random numbers")
                if terminated:
                    break
        if changed := [name for name, value in self._kept().items() if kept.get(name) != value]:
            raise self._refusal(f"it keeps more than its state from step to step: {', '.join(changed)}")

    def _same(self, what: str, theirs: Any, ours: NDArray[Any]) -> None:
        if not np.array_equal(np.asarray(theirs), ours[0], equal_nan=True):
            raise self._refusal(f"{what} differs where positions and velocities are the same")

    def _check_motion(self, before: MujocoStates, action: FloatArray, after: MujocoStates) -> None:
        """Refuse an environment that moves by more than its state and action: wind, or controllers of its own."""
        data = mujoco.MjData(self.env.model)
        data.qpos[:], data.qvel[:], data.act[:], data.ctrl[:] = before.qpos[0], before.qvel[0], before.act[0], action
        mujoco.mj_step(self.env.model, data, nstep=self.env.frame_skip)
        reached, theirs = np.r_[data.qpos, data.qvel], np.r_[after.qpos[0], after.qvel[0]]
        if (np.abs(reached - theirs) > _SOLVED_TO * (1.0 + np.abs(theirs))).any():
            raise self._refusal("it moves otherwise than its model does by its actions alone")

    def _now(self) -> MujocoStates:
        data = self._data
        rows = [np.array(values[None]) for values in (data.qpos, data.qvel, data.act)]
        return MujocoStates(qpos=rows[0], qvel=rows[1], act=rows[2], time=np.zeros(1))

    def _kept(self) -> dict[str, bytes]:
        """The environment's attributes that are data, its model among them."""
        found = {}
        for name, value in vars(self.env).items():
            if name in ("data", "mujoco_renderer", "_np_random", "_np_random_seed"):
                continue
            try:
                found[name] = pickle.dumps(value)
            except (TypeError, AttributeError, pickle.PicklingError):  # no data: a module, a lock, a window
                continue
        return found

    def _refusal(self, why: str) -> InvalidSetting:
        return InvalidSetting(
            f"{self.env_id} cannot be stepped by functions of positions and velocities: {why}. gym.make_vec vectorizes "
            "it as it is; MujocoVectorEnv(model, ...) takes functions of your own."
        )

    def refuse_reading(self, name: str) -> InvalidSetting:
        """What is said when data.<name> is asked for."""
        why = f"its {self._doing} reads data.{name}, which MuJoCo computes from more, or of the sub-step before"
        if self._doing == "step":
            why += " (give reward= and terminated=, functions of states or None, and it is not asked)"
        elif choices := [key for key in inspect.signature(type(self.env)).parameters if key.startswith("include_")]:
            why += f" (leave it out: {', '.join(f'{key}=False' for key in choices)})"
        return self._refusal(why)

    def __reduce__(self) -> tuple[Any, ...]:
        env_id, settings, asks_step = self._made_with
        return _made_again, (env_id, settings, asks_step)


def _made_again(env_id: str, settings: dict[str, Any], asks_step: bool) -> GymnasiumTask:
    return GymnasiumTask(env_id, settings, asks_step=asks_step)


class _StateOnly:
    """What an environment sees in the place of MuJoCo's data. Like these, its arrays stay and their contents change."""

    def __init__(self, task: GymnasiumTask) -> None:
        data = task.env.data
        self._task = task
        self._own = tuple(np.array(values) for values in (data.qpos, data.qvel, data.act))
        self.qpos, self.qvel, self.act = (values.view() for values in self._own)
        for values in (self.qpos, self.qvel, self.act):
            values.flags.writeable = False
        self.ctrl = np.zeros_like(data.ctrl)

    def load(self, states: MujocoStates, i: int) -> None:
        """Show state ``i``."""
        qpos, qvel, act = self._own
        qpos[:], qvel[:] = states.qpos[i], states.qvel[i]
        if len(act):
            act[:] = states.act[i]

    def __getattr__(self, name: str) -> Any:
        raise self._task.refuse_reading(name)
