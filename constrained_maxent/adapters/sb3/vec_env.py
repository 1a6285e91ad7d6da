"""``VecEnv``: a vector environment of this package, with its one occupancy estimate, for Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from stable_baselines3.common.env_util import is_wrapped
from stable_baselines3.common.vec_env import base_vec_env as base

from constrained_maxent.adapters.horizon import TerminalHorizon
from constrained_maxent.adapters.sb3.infos import infos_of
from constrained_maxent.adapters.sb3.replay_buffer import meet_caller
from constrained_maxent.adapters.sb3.suggestions import ppo_arguments
from constrained_maxent.adapters.sb3.vectors import make_vector, require_usable
from constrained_maxent.adapters.stacks import layers_of
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.spaces import element
from constrained_maxent.tracker import NEW_BATCH, LogProb, find_tracker
from constrained_maxent.wrappers.vector.autoreset import autoreset_mode


class VecEnv(base.VecEnv):
    """Copies of an environment that share one λ̂, as any algorithm of Stable-Baselines3 takes them.

    Rewards are the live pseudo-rewards. The infos are a list with one dictionary for each copy; that of the first has
    ``batch`` on the last step of a batch. ``terminal_observation`` and ``TimeLimit.truncated`` are as everywhere in
    Stable-Baselines3, and a horizon that belongs to the problem is no truncation, see
    :func:`~constrained_maxent.adapters.horizon.ends_problem`. ``reset`` forgets the batch under way.

    Args:
        env: a registered id, made by ``gym.make_vec``, those of this package with ``preset="ppo"`` unless another is
            given, and ``pairing="previous"``; or a vector environment that is wrapped already.
        num_envs: copies of the id; 1 if not given.
        make_kwargs: other arguments of ``gym.make_vec`` for the id, such as ``limit=`` or ``iterations=``.

    Attributes:
        env: the vector environment; ``tracker``: what it learns.

    Raises:
        MissingTracker: no ``TrackOccupancy``, or one in each copy.
        InvalidSetting: a scalar environment, another pairing than ``"previous"``, rewards that are the environment's
            own, next-step autoreset, or arguments of an id beside an environment.
        UnknownAutoreset: the environment does not say how its copies are reset.

    >>> venv = VecEnv("FrozenLake-PGP-v0", num_envs=4)
    >>> venv.reset()
    array([0, 0, 0, 0])
    >>> observations, rewards, dones, infos = venv.step(np.array([0, 1, 2, 3]))
    >>> infos[3]["pseudo_reward"], venv.tracker.timesteps
    (0.0, 4)
    """

    def __init__(
        self, env: str | gym.vector.VectorEnv[Any, Any, Any], num_envs: int | None = None, **make_kwargs: Any
    ) -> None:
        is_made_here = isinstance(env, str)
        if isinstance(env, str):
            env = make_vector(env, 1 if num_envs is None else num_envs, make_kwargs)
        elif num_envs is not None or make_kwargs:
            raise InvalidSetting("num_envs= and other arguments are those of an id: this environment is made already.")
        try:
            require_usable(env)
            self.tracker = find_tracker(env)
        except BaseException:
            if is_made_here:
                env.close()
            raise
        self.env = env  # find_tracker follows it
        self._resets_by_mask = autoreset_mode(env) is AutoresetMode.DISABLED
        self._actions: Any = None
        self._seen: Any = None  # the latest observations that were handed out
        self._agent: tuple[Any, LogProb] | None = None
        self._stepped = TerminalHorizon(env)
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)
        self.metadata = {**env.metadata, **self.metadata}

    def suggested(self, net_arch: Sequence[int] | None = None) -> dict[str, Any]:
        """Hyperparameters for ``PPO("MlpPolicy", venv, **venv.suggested())``, to be changed: those of the preset.

        They also fit, as far as it knows them, any algorithm that takes the same. γ is that of the occupancy where that
        is below 1; one rollout is one batch. Observations are normalized by ``VecNormalize(venv, norm_reward=False)``,
        where ``tracker.suggestions["normalize_observations"]`` asks for it.

        Args:
            net_arch: units of the hidden layers; by default those that are suggested. Without any (``[]``), which on
                finite observations is a table, the learning rate is 15 times as large.
        """
        return ppo_arguments(self.tracker, self.num_envs, net_arch)

    @contextmanager
    def acting(self, model: Any, log_prob: LogProb) -> Iterator[None]:
        """While a model learns: λ̂ has its log π in the steps that the model itself takes, and in no others.

        Args:
            model: which acts on what it was handed out last; who else steps meanwhile is not taken for it.
            log_prob: log π(a|s) of rows of observations and actions.
        """
        self._agent = model, log_prob
        try:
            yield
        finally:
            self._agent = None

    @property
    def log_prob(self) -> LogProb | None:
        """Log π of the model that learns, as :meth:`acting` was told it."""
        return None if self._agent is None else self._agent[1]

    def _log_prob_of_who_acts(self) -> LogProb | None:
        if self._agent is None:
            return None
        model, log_prob = self._agent
        return log_prob if seen_by(model) is self._seen else None

    # What Stable-Baselines3 calls.

    def reset(self) -> Any:
        options = self._options[0] if self._options else {}
        if any(other != options for other in self._options):
            raise InvalidSetting("set_options: a vector environment takes the same options for all copies.")
        meet_caller(self)
        observations, infos = self._stepped.reset(seed=self._seeds[0], options={**options, NEW_BATCH: True})
        self.reset_infos = infos_of(infos, self.num_envs)
        self._reset_seeds()
        self._reset_options()
        self._seen = deepcopy(observations)
        return self._seen

    def step_async(self, actions: NDArray[Any]) -> None:
        self._actions = actions

    def step_wait(self) -> base.VecEnvStepReturn:
        log_prob = self._log_prob_of_who_acts()
        with nullcontext() if log_prob is None else self.tracker.acting(log_prob=log_prob):
            observations, rewards, terminated, truncated, infos = self._stepped.step(self._actions)
        copies = infos_of(infos, self.num_envs)
        dones = np.asarray(terminated | truncated, dtype=np.bool_)
        if dones.any():
            is_cut = truncated & ~terminated
            observations = self._ended(observations, infos, copies, dones)
            for i in np.flatnonzero(dones).tolist():
                copies[i]["TimeLimit.truncated"] = bool(is_cut[i])
        self._seen = deepcopy(observations)
        return self._seen, np.asarray(rewards, dtype=np.float32), dones, copies

    def _ended(
        self, observations: Any, infos: Mapping[str, Any], copies: list[dict[str, Any]], dones: NDArray[np.bool_]
    ) -> Any:
        """What the next actions are taken on; infos get what belongs to the last steps of episodes."""
        ended = np.flatnonzero(dones).tolist()
        if self._resets_by_mask:
            for i in ended:
                last = element(self.env.single_observation_space, observations, i)
                copies[i]["terminal_observation"] = deepcopy(last)  # environments may reuse their arrays
            observations, reset_infos = self._stepped.reset(options={"reset_mask": dones})
            after = infos_of(reset_infos, self.num_envs)
            if "batch" in after[0]:  # a second one was complete, and had to wait for this call
                copies[0]["batch"] = after[0].pop("batch")
            for i in ended:
                self.reset_infos[i] = after[i]
            return observations
        finals = infos_of(infos.get("final_info", {}), self.num_envs)
        for i in ended:
            self.reset_infos[i] = {name: value for name, value in copies[i].items() if name != "batch"}
            copies[i].update(finals[i])
            copies[i]["terminal_observation"] = deepcopy(infos["final_obs"][i])
        return observations

    def close(self) -> None:
        self.env.close()

    def get_images(self) -> Sequence[Any]:
        """What ``render`` of the vector draws: one image for each copy, or one of all."""
        frames: Any = self.env.render()
        if frames is None:
            return [None] * self.num_envs
        return list(frames) if isinstance(frames, (tuple, list)) else [frames]

    # Attributes and methods: of the vector and its layers, or else of the copies, where it manages some.

    def get_attr(self, attr_name: str, indices: base.VecEnvIndices = None) -> list[Any]:
        """The attribute for each copy; of spaces, that of one copy."""
        places = list(self._get_indices(indices))
        name = f"single_{attr_name}" if attr_name in ("observation_space", "action_space") else attr_name
        for layer in layers_of(self.env):
            if hasattr(layer, name):
                return [getattr(layer, name)] * len(places)
        get = getattr(self.env.unwrapped, "get_attr", None)
        if get is None:
            raise AttributeError(f"{self.env} has no attribute {attr_name!r}.")
        values = get(attr_name)
        return [values[i] for i in places]

    def set_attr(self, attr_name: str, value: Any, indices: base.VecEnvIndices = None) -> None:
        """Set it in the copies, or in the vector where it manages none: then for all copies at once."""
        places = self._places(attr_name, indices)
        if places is not None:
            for copy in places:
                copy.set_wrapper_attr(attr_name, value)
        elif (put := getattr(self.env.unwrapped, "set_attr", None)) is not None:
            put(attr_name, [value] * self.num_envs)
        else:
            owner = next((layer for layer in layers_of(self.env) if attr_name in vars(layer)), self.env.unwrapped)
            setattr(owner, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: base.VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call it in the copies, or once in the vector where it manages none: then for all copies at once."""
        if method_name == "compute_reward":
            raise InvalidSetting(
                "HerReplayBuffer computes the environment's own reward for other goals, and the pseudo-reward of a "
                "goal that was not pursued does not exist: take OccupancyReplayBuffer."
            )
        places = self._places(method_name, indices)
        if places is not None:
            return [copy.get_wrapper_attr(method_name)(*method_args, **method_kwargs) for copy in places]
        if isinstance(self.env.unwrapped, gym.vector.AsyncVectorEnv):
            return list(self.env.unwrapped.call(method_name, *method_args, **method_kwargs))
        result = self.get_attr(method_name, 0)[0](*method_args, **method_kwargs)
        is_one_each = isinstance(result, (tuple, list)) and len(result) == self.num_envs
        return list(result) if is_one_each else [result] * self.num_envs

    def _places(self, name: str, indices: base.VecEnvIndices) -> list[Any] | None:
        """The copies themselves; ``None`` where they cannot be had one by one, and all of them are meant."""
        places = list(self._get_indices(indices))
        copies = getattr(self.env.unwrapped, "envs", None)
        if copies is not None:
            return [copies[i] for i in places]
        if sorted(places) != list(range(self.num_envs)):
            raise InvalidSetting(
                f"{name!r} of single copies: this vector, {self.env.unwrapped}, has it for all copies at once only."
            )
        return None

    def env_is_wrapped(self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: Any = None) -> list[bool]:
        """Whether the copies, or the vector itself, have such a layer."""
        places = list(self._get_indices(indices))
        if any(isinstance(layer, wrapper_class) for layer in layers_of(self.env)):
            return [True] * len(places)
        copies = getattr(self.env.unwrapped, "envs", None)
        return [copies is not None and is_wrapped(copies[i], wrapper_class) for i in places]


def seen_by(model: Any) -> Any:
    """What a model acts on next, as it is handed out below ``VecNormalize``."""
    normalization = model.get_vec_normalize_env()
    return model._last_obs if normalization is None else normalization.old_obs
