"""Log π and whole tables of what models of Stable-Baselines3 do, exact in how they squash, clip and explore."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from constrained_maxent.adapters.sb3 import require_stable_baselines
from constrained_maxent.adapters.sb3.normalization import normalization_of
from constrained_maxent.errors import UnsupportedPolicy
from constrained_maxent.oracle import TabularMDP
from constrained_maxent.references.gaussian_network import log_prob_of_clipped
from constrained_maxent.spaces import from_rows
from constrained_maxent.tracker import LogProb
from constrained_maxent.types import FloatArray

_Density = Callable[[Any, NDArray[Any]], FloatArray]
"""Log π of what a policy of PyTorch sees, a tensor, and of rows of actions."""


def policy_log_prob(model: Any, *, normalization: Any = None) -> LogProb:
    """Log π(a|s) [nats] of a model as it is at each call, of rows of raw observations and actions of the environment.

    - PPO, A2C, TRPO over ``Box``: a Gaussian that is clipped. Inside the box it is a density; on a bound it is the log
      of the mass beyond it, for each coordinate.
    - SAC, TQC, CrossQ: a squashed Gaussian, in the units of the box.
    - PPO, A2C, TRPO over other actions: a softmax, or the product of the components'.

    Args:
        model: any algorithm. It is not copied.
        normalization: the ``VecNormalize`` through which it sees observations; by default that of its environment.

    Raises:
        UnsupportedPolicy: log π does not exist, or depends on more than the observation: greedy policies and
            deterministic actors, noise that is added or correlated (gSDE), recurrent and masked policies.
        InvalidSetting: statistics that do not fit the model's observations.
        gymnasium.error.DependencyNotInstalled: without Stable-Baselines3.
    """
    require_stable_baselines()
    density, policy = _density_of(model), model.policy
    found = normalization_of(model, normalization)
    space = model.observation_space if found is None else found.venv.observation_space

    def log_prob(observations: NDArray[Any], actions: NDArray[Any]) -> FloatArray:
        import torch

        elements = from_rows(space, observations)
        was_training = policy.training
        policy.set_training_mode(False)  # as when it acts
        try:
            seen, _ = policy.obs_to_tensor(elements if found is None else found.normalize_obs(elements))
            with torch.no_grad():
                return density(seen, actions)
        finally:
            policy.set_training_mode(was_training)

    return log_prob


def policy_table(model: Any, mdp: TabularMDP, *, normalization: Any = None) -> FloatArray:
    """π(a|s) in a finite environment, ``(n_states, n_actions)``; of DQN and QR-DQN ε-greedy, with the present ε.

    Raises:
        UnsupportedPolicy, InvalidSetting: as :func:`policy_log_prob`; or which state is which observation is not known.
    """
    if mdp.elements is None:
        raise UnsupportedPolicy("The observations of this MDP are not known, so nobody can ask what is done on them.")
    states, actions = (part.numbers.decode(np.arange(n)) for part, n in zip(mdp.elements, mdp.shape, strict=True))
    if _has_values_only(model):
        found = normalization_of(model, normalization)
        elements = from_rows(mdp.elements[0].space, states)
        best, _ = model.predict(elements if found is None else found.normalize_obs(elements), deterministic=True)
        table: FloatArray = np.full(mdp.shape, float(model.exploration_rate) / mdp.n_actions)
        table[np.arange(mdp.n_states), best] += 1.0 - float(model.exploration_rate)
        return table
    log_prob = policy_log_prob(model, normalization=normalization)
    pairs = np.repeat(states, mdp.n_actions, axis=0), np.concatenate([actions] * mdp.n_states)
    chances: FloatArray = np.exp(np.asarray(log_prob(*pairs), dtype=np.float64)).reshape(mdp.shape)
    normalized: FloatArray = chances / chances.sum(axis=1, keepdims=True)  # they were computed in float32
    return normalized


def is_greedy(model: Any) -> bool:
    """Whether a model's policy is deterministic but for exploration that is added to it: DQN, TD3 and their like."""
    actor = getattr(model.policy, "actor", None)
    is_deterministic = actor is not None and not hasattr(actor, "get_action_dist_params")
    return is_deterministic or _has_values_only(model)


def _has_values_only(model: Any) -> bool:
    return hasattr(model.policy, "q_net") or hasattr(model.policy, "quantile_net")


def _density_of(model: Any) -> _Density:
    from stable_baselines3.common.policies import ActorCriticPolicy

    policy = getattr(model, "policy", None)
    name = type(policy).__name__
    if hasattr(policy, "lstm_actor"):
        raise UnsupportedPolicy("A recurrent policy acts by what it remembers, not by the observation alone.")
    if "action_masks" in inspect.signature(model.predict).parameters:
        raise UnsupportedPolicy(f"{name} acts by masks of actions, not by the observation alone.")
    if getattr(model, "use_sde", False):
        raise UnsupportedPolicy("The model explores by gSDE, whose noise is correlated in time.")
    if getattr(model, "action_noise", None) is not None:
        raise UnsupportedPolicy("The model adds noise to its actions, and clips: their density is not known.")
    if isinstance(policy, ActorCriticPolicy):
        return _clipped(policy) if isinstance(policy.action_space, gym.spaces.Box) else _softmax(policy)
    if hasattr(getattr(policy, "actor", None), "get_action_dist_params"):
        return _squashed(policy)
    raise UnsupportedPolicy(f"{name} is greedy or deterministic, or of a kind whose log-probabilities are not known.")


def _softmax(policy: Any) -> _Density:
    def density(seen: Any, actions: NDArray[Any]) -> FloatArray:
        import torch

        taken = torch.as_tensor(actions, device=policy.device)
        if isinstance(policy.action_space, gym.spaces.MultiBinary):
            taken = taken.float()
        return _array(policy.get_distribution(seen).log_prob(taken))

    return density


def _clipped(policy: Any) -> _Density:
    low, high = policy.action_space.low.reshape(-1), policy.action_space.high.reshape(-1)

    def density(seen: Any, actions: NDArray[Any]) -> FloatArray:
        gaussian = policy.get_distribution(seen).distribution
        mean, log_std = _array(gaussian.mean), _array(gaussian.stddev.log())
        return log_prob_of_clipped(actions.reshape(len(actions), -1), mean, log_std, low, high)

    return density


def _squashed(policy: Any) -> _Density:
    from constrained_maxent.agents.policies import Squashing

    squashing = Squashing(policy.action_space)

    def density(seen: Any, actions: NDArray[Any]) -> FloatArray:
        import torch

        mean, log_std, _ = policy.actor.get_action_dist_params(seen)
        u = torch.from_numpy(squashing.to_reals(actions))
        return _array(squashing.log_prob(u, mean.cpu().double(), log_std.cpu().double()))

    return density


def _array(tensor: Any) -> FloatArray:
    array: FloatArray = tensor.cpu().numpy().astype(np.float64)
    return array
