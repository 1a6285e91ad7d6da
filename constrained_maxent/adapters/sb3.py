"""Policies of Stable-Baselines3 as Gaussian networks, with exact log-probabilities."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import DependencyNotInstalled

from constrained_maxent.errors import UnsupportedPolicy
from constrained_maxent.references.gaussian_network import GaussianNetwork, Layer, layers_of

INSTALL = 'pip install "constrained-maxent[sb3]"'

_OTHERWISE = "take Reference.from_policy with functions for its log-probabilities and actions"


def require_stable_baselines() -> None:
    """Raise ``DependencyNotInstalled`` unless Stable-Baselines3 can be imported."""
    try:
        import stable_baselines3  # noqa: F401
    except ImportError as error:
        raise DependencyNotInstalled(f"Stable-Baselines3 cannot be imported ({error}): {INSTALL}.") from error


def network_of(model: Any) -> GaussianNetwork:
    """The policy of a model: SAC, and PPO or A2C over ``Box`` actions, with networks of ReLU or tanh layers.

    Args:
        model: of Stable-Baselines3, trained on unnormalized observations (``VecNormalize`` is not part of a model).

    Raises:
        UnsupportedPolicy: another algorithm or policy.
        gymnasium.error.DependencyNotInstalled: without Stable-Baselines3.
    """
    require_stable_baselines()
    from stable_baselines3.common.policies import ActorCriticPolicy
    from stable_baselines3.common.torch_layers import FlattenExtractor
    from stable_baselines3.sac.policies import LOG_STD_MAX, LOG_STD_MIN, SACPolicy

    policy = getattr(model, "policy", model)
    if not isinstance(policy, (SACPolicy, ActorCriticPolicy)):
        raise UnsupportedPolicy(f"{type(policy).__name__} is not a stochastic policy of SAC, PPO or A2C: {_OTHERWISE}.")
    observations, actions = policy.observation_space, policy.action_space
    if not isinstance(actions, gym.spaces.Box) or len(actions.shape) != 1:
        raise UnsupportedPolicy(f"The model has actions in {actions}, not in a Box of one dimension: {_OTHERWISE}.")
    extractor = policy.actor.features_extractor if isinstance(policy, SACPolicy) else policy.pi_features_extractor
    is_flat = isinstance(observations, gym.spaces.Box) and observations.dtype != np.uint8
    if not is_flat or not isinstance(extractor, FlattenExtractor):
        raise UnsupportedPolicy(f"The model sees {observations} by {type(extractor).__name__}: {_OTHERWISE}.")
    if getattr(policy.actor if isinstance(policy, SACPolicy) else policy, "use_sde", False):
        raise UnsupportedPolicy(f"The model explores by gSDE, whose noise is correlated in time: {_OTHERWISE}.")
    low, high = (np.array(bound, dtype=np.float32) for bound in (actions.low, actions.high))
    if isinstance(policy, SACPolicy):
        actor = policy.actor
        return GaussianNetwork(
            trunk=layers_of(actor.latent_pi),
            mean=layers_of(actor.mu),
            log_std=layers_of(actor.log_std),  # type: ignore[arg-type]  # a layer, without gSDE
            low=low,
            high=high,
            log_std_bounds=(float(LOG_STD_MIN), float(LOG_STD_MAX)),
        )
    mean = layers_of(policy.action_net)
    return GaussianNetwork(
        trunk=layers_of(policy.mlp_extractor.policy_net),
        mean=mean,
        # One log σ for all states: a layer without weights.
        log_std=(Layer(np.zeros_like(mean[0].weights), policy.log_std.detach().cpu().numpy().astype(np.float32)),),
        low=low,
        high=high,
        is_squashed=False,
        log_std_bounds=(-np.inf, np.inf),
    )
