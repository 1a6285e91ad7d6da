"""The vector stacks that RLlib's runners step: made from what a configuration says, checked, with ends of problems."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from ray.rllib.env.env_context import EnvContext
from ray.tune.registry import ENV_CREATOR, _global_registry

from constrained_maxent import envs  # noqa: F401  # registers the ids, in runners too
from constrained_maxent.adapters.horizon import TerminalHorizon
from constrained_maxent.adapters.stacks import require_live_rewards
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.tracker import find_tracker
from constrained_maxent.wrappers.vector.autoreset import autoreset_mode


def make_stack(config: Any, worker_index: int = 0) -> gym.vector.VectorEnv[Any, Any, Any]:
    """The environment of one runner, all its copies in one vector, as RLlib steps it.

    Args:
        config: an ``AlgorithmConfig``.
        worker_index: number of the runner; functions find it in their ``env_config``.

    Raises:
        MissingTracker: no ``TrackOccupancy``, or one in each copy.
        InvalidSetting: no vector of so many copies, another autoreset than next-step, another pairing than
            ``"previous"``, rewards that are the environment's own, or finite spaces that do not begin at 0.
    """
    copies, settings = config.num_envs_per_env_runner, dict(config.env_config)
    if _global_registry.contains(ENV_CREATOR, config.env):
        make = _global_registry.get(ENV_CREATOR, config.env)
        env = make(EnvContext(settings | {"num_envs": copies}, worker_index, num_workers=config.num_env_runners))
    else:
        env = gym.make_vec(config.env, num_envs=copies, **settings)
    if not isinstance(env, gym.vector.VectorEnv) or env.num_envs != copies:
        raise InvalidSetting(
            f"{config.env}: a function of env_config returns a vector environment of env_config['num_envs'] copies, "
            f"{copies} here, such as constrain(gym.make_vec(...)), not {env}."
        )
    find_tracker(env)
    for space in (env.single_observation_space, env.single_action_space):
        if not _begins_at_0(space):
            raise InvalidSetting(f"RLlib numbers the elements of finite spaces from 0, and {space} does not: shift it.")
    if autoreset_mode(env) is not AutoresetMode.NEXT_STEP:
        raise InvalidSetting(
            "RLlib wants each copy to reset in the step after the one that ends an episode: make the vector with "
            "autoreset_mode=AutoresetMode.NEXT_STEP, Gymnasium's default."
        )
    require_live_rewards(env, "RLlib")
    return LeanInfos(TerminalHorizon(env))


def _begins_at_0(space: gym.Space[Any]) -> bool:
    parts: Any = getattr(space, "spaces", ())
    parts = parts.values() if isinstance(space, gym.spaces.Dict) else parts
    return not np.any(getattr(space, "start", 0)) and all(map(_begins_at_0, parts))


class LeanInfos(gym.vector.VectorWrapper):
    """Infos without what only agents of this package read: each runner sends all of them to the learner."""

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset all copies."""
        observations, infos = self.env.reset(seed=seed, options=options)
        return observations, _lean(infos)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all copies; those that had ended an episode reset instead."""
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        return observations, rewards, terminated, truncated, _lean(infos)


def _lean(infos: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in infos.items() if not key.lstrip("_").startswith(("pseudo_reward", "batch"))}
