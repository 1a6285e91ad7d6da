"""What ``VecNormalize`` did to the observations that a model of Stable-Baselines3 was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from constrained_maxent.agents.policies import LARGEST_NORMALIZED
from constrained_maxent.errors import InvalidSetting, UnsupportedPolicy
from constrained_maxent.references import Layer
from constrained_maxent.spaces import are_alike

_LOAD = "as_agent(model, normalization=VecNormalize.load(path, DummyVecEnv([make_env])))"


def normalization_of(model: Any, given: Any) -> Any:
    """The ``VecNormalize`` through which the model sees observations; ``None`` where it sees them as they are.

    Args:
        model: an algorithm.
        given: a ``VecNormalize``, or ``None``: that of the model's environment.

    Raises:
        InvalidSetting: something else is given, or statistics that do not fit the model's observations.
        UnsupportedPolicy: the model was trained on normalized observations, and nobody has the statistics.
    """
    from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
    from stable_baselines3.common.vec_env import VecNormalize

    if not (given is None or isinstance(given, VecNormalize)):
        raise InvalidSetting(f"normalization={given!r} must be a VecNormalize of Stable-Baselines3: {_LOAD}.")
    found = model.get_vec_normalize_env() if given is None else given
    if found is None:
        # What a model keeps of its last reset, and saves: on-policy algorithms have it under VecNormalize alone.
        if isinstance(model, OnPolicyAlgorithm) and model._last_original_obs is not None:
            raise UnsupportedPolicy(
                "This model was trained under VecNormalize, whose statistics are not part of it, and without them it "
                f"acts on what it has never seen: {_LOAD}."
            )
        return None
    if not found.norm_obs:
        return None
    if not are_alike(found.observation_space, model.observation_space):
        raise InvalidSetting(
            f"VecNormalize has statistics of observations in {found.observation_space}, the model sees "
            f"{model.observation_space}: put what changes observations, such as VecFrameStack, below VecNormalize."
        )
    if model.num_timesteps > 0 and min(rms.count for rms in _statistics(found)) < 1.0:
        raise InvalidSetting(
            "This VecNormalize has seen no observations, so its statistics are not those that the model was trained "
            f"with: {_LOAD}."
        )
    return found


def _statistics(normalization: Any) -> list[Any]:
    found = normalization.obs_rms
    return list(found.values()) if isinstance(found, Mapping) else [found]


def layers_of_normalization(normalization: Any) -> tuple[Layer, ...]:
    """The same as the first layers of a network: normalized, and clipped."""
    center, variance = normalization.obs_rms.mean.reshape(-1), normalization.obs_rms.var.reshape(-1)
    scale = 1.0 / np.sqrt(variance + normalization.epsilon)
    # A layer clips to one range: values go there in units of it, and come back.
    unit = normalization.clip_obs / LARGEST_NORMALIZED
    clipped = Layer(np.diag(scale / unit).astype(np.float32), (-center * scale / unit).astype(np.float32), "clip")
    if unit == 1.0:
        return (clipped,)
    return clipped, Layer(np.diag(np.full(len(scale), unit, np.float32)), np.zeros(len(scale), np.float32))
