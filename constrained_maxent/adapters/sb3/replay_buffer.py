"""``OccupancyReplayBuffer``: transitions of the past, with the rewards of the present estimate."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.type_aliases import ReplayBufferSamples

from constrained_maxent.errors import InvalidSetting, MovingReward, StaleRewards
from constrained_maxent.spaces import as_rows
from constrained_maxent.tracker import cost_column
from constrained_maxent.types import FloatArray

if TYPE_CHECKING:
    from constrained_maxent.adapters.sb3.vec_env import VecEnv

_FRAMES = 10
"""How far up the stack the model is that resets its environment: VecEnv's wrappers lie between."""


class OccupancyReplayBuffer(ReplayBuffer):
    """A replay buffer whose rewards are those of λ̂ and multipliers as they are when transitions are sampled.

    ``SAC("MlpPolicy", venv, replay_buffer_class=OccupancyReplayBuffer)``, and likewise TQC, DQN, TD3; any number of
    copies. It meets the :class:`VecEnv` when the training begins, also where it was loaded from a file. Where λ̂ is one
    of states and actions, rewards are of π as it is. Before the first fit they are 0. The arguments are those of
    Stable-Baselines3's ``ReplayBuffer``.

    Raises:
        InvalidSetting: observations in dictionaries; on ``learn``: an environment that is no :class:`VecEnv`.
    """

    def __init__(
        self, buffer_size: int, observation_space: gym.Space[Any], action_space: gym.Space[Any], *args: Any, **kw: Any
    ) -> None:
        if isinstance(observation_space, gym.spaces.Dict):
            raise InvalidSetting("OccupancyReplayBuffer takes one array as observation: flatten the dictionary.")
        super().__init__(buffer_size, observation_space, action_space, *args, **kw)
        self._columns: dict[str, NDArray[Any]] = {}
        self._venv: VecEnv | None = None
        self._step: Any = None

    def follow(self, venv: VecEnv) -> None:
        """From now on transitions come from this environment; ``learn`` says it by itself."""
        self._venv, self._step = venv, None

    def add(
        self,
        obs: NDArray[Any],
        next_obs: NDArray[Any],
        action: NDArray[Any],
        reward: NDArray[Any],
        done: NDArray[Any],
        infos: list[dict[str, Any]],
    ) -> None:
        """Store a transition of each copy, with what λ̂ recorded of it."""
        step = None if self._venv is None else self._venv.tracker.last_step
        if step is None or step is self._step:
            raise InvalidSetting(
                "Nobody recorded this step: OccupancyReplayBuffer needs a model that learns on an adapters.sb3.VecEnv, "
                "or, in a loop of one's own, replay_buffer.follow(venv)."
            )
        self._step = step
        for name, values in step.items():
            if name not in self._columns:
                self._columns[name] = np.zeros((self.buffer_size, *values.shape), values.dtype)
            self._columns[name][self.pos] = values
        super().add(obs, next_obs, action, reward, done, infos)

    def _get_samples(self, batch_inds: NDArray[Any], env: Any = None) -> ReplayBufferSamples:
        state = np.random.get_state()  # noqa: NPY002  # Stable-Baselines3 draws the copies, and tells nobody
        copies = np.random.randint(0, high=self.n_envs, size=(len(batch_inds),))  # noqa: NPY002
        np.random.set_state(state)  # noqa: NPY002
        samples = super()._get_samples(batch_inds, env)
        rewards = self._rewards_anew(batch_inds, copies).astype(np.float32).reshape(-1, 1)
        return samples._replace(rewards=self.to_torch(self._normalize_reward(rewards, env)))

    def _rewards_anew(self, places: NDArray[Any], copies: NDArray[Any]) -> FloatArray:
        if self._venv is None:
            raise InvalidSetting("This buffer follows no VecEnv yet: learn() says which, or follow(venv).")
        tracker, log_prob = self._venv.tracker, self._venv.log_prob
        rows = {name: column[places, copies] for name, column in self._columns.items()}
        log_probs = None
        if log_prob is not None:
            seen = self.observations[places, copies]
            if isinstance(self.observation_space, gym.spaces.Discrete):
                seen = seen.reshape(-1)
            log_probs = np.asarray(log_prob(as_rows(self.observation_space, seen), rows["action"]))
        parts = tracker.live_parts(
            rows["observation"],
            rows["action"],
            {key: rows[cost_column(key)] for key in tracker.sources},
            rows.get("state"),
            log_probs,
        )
        return sum(parts.values(), np.zeros(len(places))) / tracker.reward_scale

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_venv": None, "_step": None}  # the file goes to another training


def meet_caller(venv: VecEnv) -> None:
    """Let the buffer of a model that begins to learn know its environment, or warn of what its rewards will be.

    Stable-Baselines3 does not tell an environment who learns or measures on it, but resets it then.
    """
    frame = sys._getframe(1)
    for _ in range(_FRAMES):
        if frame.f_code.co_name in ("_setup_learn", "evaluate_policy") or frame.f_back is None:
            break
        frame = frame.f_back
    if frame.f_code.co_name == "evaluate_policy":
        warnings.warn(
            "evaluate_policy measures a reward that moves with λ̂, which means nothing by itself, and λ̂ learns from its "
            "episodes: take evaluation.evaluate_rollouts(venv.env, adapters.sb3.as_agent(model), ...), or "
            "adapters.sb3.EvalCallback while it learns.",
            MovingReward,
            stacklevel=3,
        )
    model = frame.f_locals.get("self")
    if not isinstance(model, OffPolicyAlgorithm):
        return
    if isinstance(model.replay_buffer, OccupancyReplayBuffer):
        model.replay_buffer.follow(venv)
        return
    warnings.warn(
        f"{type(model).__name__} replays rewards of estimates and prices that have changed since: give it "
        "replay_buffer_class=adapters.sb3.OccupancyReplayBuffer, which computes them anew.",
        StaleRewards,
        stacklevel=3,
    )
