"""What ``VecEnv`` is put around: a vector environment made from an id, or one that is wrapped already and checked."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode

from constrained_maxent.adapters.stacks import require_live_rewards
from constrained_maxent.errors import InvalidSetting, MissingTracker
from constrained_maxent.tasks.presets import PRESETS
from constrained_maxent.tracker import find_tracker
from constrained_maxent.wrappers.vector.autoreset import autoreset_mode

_SAME_STEP = 'autoreset_mode": gym.vector.AutoresetMode.SAME_STEP'
_HOW_TO_WRAP = f"""
    env = gym.make_vec(id, num_envs=16, vector_kwargs={{"{_SAME_STEP}}})
    env = cmx.wrappers.constrain(env, episodes_per_batch=16, pairing="previous")  # and the other arguments
    venv = cmx.adapters.sb3.VecEnv(env)
"""


def make_vector(env_id: str, num_envs: int, make_kwargs: dict[str, Any]) -> gym.vector.VectorEnv[Any, Any, Any]:
    """The vector of an id, with the autoreset and, for the ids of this package, preset and pairing for live agents."""
    given = dict(make_kwargs)
    module, _, name = env_id.rpartition(":")
    if module:
        import_module(module)  # registers the id
    spec = gym.spec(name)
    if spec.id in PRESETS:
        given.setdefault("preset", "ppo")
        given.setdefault("pairing", "previous")
    if spec.vector_entry_point is not None and given.get("vectorization_mode") in (None, "vector_entry_point"):
        given.setdefault("autoreset_mode", AutoresetMode.SAME_STEP)
    else:
        given["vector_kwargs"] = {"autoreset_mode": AutoresetMode.SAME_STEP, **given.get("vector_kwargs", {})}
    return gym.make_vec(env_id, num_envs=num_envs, **given)


def require_usable(env: Any) -> None:
    """Raise a named error unless an agent of Stable-Baselines3 would learn the problem on this vector environment."""
    if not isinstance(env, gym.vector.VectorEnv):
        raise InvalidSetting(
            f"VecEnv takes an id or a vector environment, not {env!r}: make it by gym.make_vec, and wrap that."
        )
    try:
        find_tracker(env)
    except MissingTracker as error:
        raise MissingTracker(f"{error} For Stable-Baselines3:\n{_HOW_TO_WRAP}") from None
    if autoreset_mode(env) is AutoresetMode.NEXT_STEP:
        raise InvalidSetting(
            "Stable-Baselines3 wants the next episode to start in the step that ends one: make the vector with "
            f'gym.make_vec(id, vector_kwargs={{"{_SAME_STEP}}}), or, for the ids of this package, with '
            "gym.make_vec(id, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP); VecEnv(id) does it itself."
        )
    require_live_rewards(env, "Stable-Baselines3")
