"""Models of Stable-Baselines3 as agents of this package, with exact log-probabilities where they have some."""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from constrained_maxent.adapters.sb3 import require_stable_baselines
from constrained_maxent.adapters.sb3.normalization import layers_of_normalization, normalization_of
from constrained_maxent.adapters.sb3.policies import policy_log_prob
from constrained_maxent.errors import UnsupportedPolicy
from constrained_maxent.references import GaussianNetwork, Layer
from constrained_maxent.references.gaussian_network import layers_of
from constrained_maxent.spaces import as_batch, as_rows
from constrained_maxent.tracker import LogProb
from constrained_maxent.types import FloatArray, check_seed

_OTHERWISE = "take Reference.from_policy with functions for its log-probabilities and actions"


def as_agent(model: Any, *, seed: int = 0, normalization: Any = None) -> Sb3Agent:
    """A model of Stable-Baselines3 as an agent: what evaluation rolls out, and references are made of.

    The agent takes observations as the bare environment gives them: what ``VecNormalize`` does to them is part of it.

    Args:
        model: any algorithm. It is not copied: the agent does what the model does at that time.
        seed: of the actions that are drawn.
        normalization: the ``VecNormalize`` of the training, whose statistics are not part of a model's file. By default
            that of the model's environment, where it has one.

    Returns:
        An agent that can ``predict``, and that knows log π as well where :func:`policy_log_prob` does.

    Raises:
        UnsupportedPolicy: not a model, one that remembers (recurrent policies) or needs masks of actions, or one that
            was trained under ``VecNormalize`` without its statistics.
        InvalidSetting: a normalization that is none, or not the model's.
        gymnasium.error.DependencyNotInstalled: without Stable-Baselines3.
    """
    require_stable_baselines()
    from stable_baselines3.common.base_class import BaseAlgorithm

    if not isinstance(model, BaseAlgorithm):
        raise UnsupportedPolicy(f"model={type(model).__name__} is not an algorithm of Stable-Baselines3, such as PPO.")
    if hasattr(model.policy, "lstm_actor"):
        raise UnsupportedPolicy("A recurrent policy acts by what it remembers, not by the observation alone.")
    if "action_masks" in inspect.signature(model.predict).parameters:
        raise UnsupportedPolicy("A masked policy acts by masks of actions, not by the observation alone.")
    normalization = normalization_of(model, normalization)
    kind: type[Sb3Agent] = StochasticSb3Agent
    try:
        policy_log_prob(model, normalization=normalization)
    except UnsupportedPolicy:
        kind = Sb3Agent
    return kind(model, seed=seed, normalization=normalization)


class Sb3Agent:
    """Acts by a model of Stable-Baselines3; made by :func:`as_agent`.

    Actions are drawn from PyTorch's random numbers on the processor, with a state that is the agent's own: equal seeds
    give equal actions, and what else draws from them is not disturbed.
    """

    def __init__(self, model: Any, *, seed: int = 0, normalization: Any = None) -> None:
        self.model, self._normalization = model, normalization
        below = model if normalization is None else normalization.venv
        self.observation_space: gym.Space[Any] = below.observation_space
        self.action_space: gym.Space[Any] = model.action_space
        import torch

        self._random_state = torch.Generator().manual_seed(check_seed("seed", seed)).get_state()

    def predict(self, observation: Any, *, deterministic: bool = False) -> tuple[Any, None]:
        """The action for one observation, or the actions for a batch of them as vector environments deliver it.

        With ``deterministic`` it is the model's best action, not a sample; ``None`` stands in the place of a state.
        """
        import torch

        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self._random_state)
            actions, _ = self.model.predict(self._seen(observation), deterministic=deterministic)
            self._random_state = torch.get_rng_state()
        return actions, None

    def _seen(self, observations: Any) -> Any:
        """Observations as the model was trained on them."""
        return observations if self._normalization is None else self._normalization.normalize_obs(observations)

    @property
    def training_episodes(self) -> FloatArray:
        """Return and length of the latest training episodes, ``(n, 2)``, as far as a ``Monitor`` told the model."""
        episodes = [(episode["r"], episode["l"]) for episode in self.model.ep_info_buffer or ()]
        return np.array(episodes, dtype=np.float64).reshape(-1, 2)


class StochasticSb3Agent(Sb3Agent):
    """An agent of Stable-Baselines3 whose policy has exact log-probabilities."""

    @property
    def policy(self) -> GaussianNetwork | None:
        """The model's policy as plain data, see :func:`network_of`; ``None`` where it is something else."""
        try:
            network = network_of(self.model)
        except UnsupportedPolicy:
            return None
        if self._normalization is None:
            return network
        return replace(network, trunk=(*layers_of_normalization(self._normalization), *network.trunk))

    def log_prob(self, observations: Any, actions: NDArray[Any]) -> FloatArray:
        """Log π [nats], ``(n,)``, of a batch of observations and of actions as the environment takes them."""
        rows, _ = as_batch(self.observation_space, observations)
        return np.asarray(self._log_prob(rows, as_rows(self.action_space, actions)))

    @cached_property
    def _log_prob(self) -> LogProb:
        return policy_log_prob(self.model, normalization=self._normalization)


def network_of(model: Any) -> GaussianNetwork:
    """The policy of a model as plain data: SAC or TQC, and PPO or A2C over ``Box`` actions; layers of ReLU or tanh.

    It takes observations as the model sees them, normalized where it was trained so; :func:`as_agent` takes them as the
    environment gives them.

    Raises:
        UnsupportedPolicy: another algorithm or policy.
        gymnasium.error.DependencyNotInstalled: without Stable-Baselines3.
    """
    require_stable_baselines()
    from stable_baselines3.common.policies import ActorCriticPolicy
    from stable_baselines3.common.torch_layers import FlattenExtractor
    from stable_baselines3.sac.policies import LOG_STD_MAX, LOG_STD_MIN

    policy = getattr(model, "policy", model)
    is_sac = hasattr(getattr(policy, "actor", None), "latent_pi")  # TQC has the same actor
    if not (is_sac or isinstance(policy, ActorCriticPolicy)) or hasattr(policy, "lstm_actor"):
        raise UnsupportedPolicy(f"{type(policy).__name__} is not a stochastic policy of SAC, PPO or A2C: {_OTHERWISE}.")
    observations, actions = policy.observation_space, policy.action_space
    if not isinstance(actions, gym.spaces.Box) or len(actions.shape) != 1:
        raise UnsupportedPolicy(f"The model has actions in {actions}, not in a Box of one dimension: {_OTHERWISE}.")
    actor: Any = policy.actor if is_sac else policy
    extractor = actor.features_extractor if is_sac else actor.pi_features_extractor
    is_flat = isinstance(observations, gym.spaces.Box) and observations.dtype != np.uint8
    if not is_flat or not isinstance(extractor, FlattenExtractor):
        raise UnsupportedPolicy(f"The model sees {observations} by {type(extractor).__name__}: {_OTHERWISE}.")
    if getattr(actor, "use_sde", False):
        raise UnsupportedPolicy(f"The model explores by gSDE, whose noise is correlated in time: {_OTHERWISE}.")
    trunk = layers_of(actor.latent_pi if is_sac else actor.mlp_extractor.policy_net)
    mean = layers_of(actor.mu if is_sac else actor.action_net)
    if is_sac:
        log_std, bounds = layers_of(actor.log_std), (float(LOG_STD_MIN), float(LOG_STD_MAX))
    else:  # one log σ for all states: a layer without weights
        bias = actor.log_std.detach().cpu().numpy().astype(np.float32)
        log_std, bounds = (Layer(np.zeros_like(mean[0].weights), bias),), (-np.inf, np.inf)
    low, high = (np.array(bound, dtype=np.float32) for bound in (actions.low, actions.high))
    return GaussianNetwork(
        trunk=trunk, mean=mean, log_std=log_std, low=low, high=high, is_squashed=is_sac, log_std_bounds=bounds
    )
