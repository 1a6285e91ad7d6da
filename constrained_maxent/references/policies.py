"""What a reference asks of its policy π_ref; functions and agents as one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidData, InvalidSetting, UnsupportedPolicy
from constrained_maxent.references.gaussian_network import GaussianNetwork
from constrained_maxent.spaces import as_rows, from_rows, require_own_spaces
from constrained_maxent.types import FloatArray, as_array


@runtime_checkable
class ReferencePolicy(Protocol):
    """π_ref(a|s)."""

    def log_prob(self, observations: NDArray[Any], actions: NDArray[Any]) -> FloatArray:
        """Log π_ref [nats], ``(n,)``, of the environment's own actions ``(n, ...)``; a density over ``Box`` actions."""

    def act(self, observations: NDArray[Any], rng: np.random.Generator, *, deterministic: bool = False) -> NDArray[Any]:
        """Actions of the environment, ``(n, ...)``."""


@dataclass(frozen=True, eq=False)
class CallablePolicy:
    """A policy of the user's own functions. It pickles if they do, and cannot be saved.

    Args:
        log_probs: ``(observations, actions) -> (n,)`` [nats], of rows ``(n, ...)`` each.
        action: one observation to one action, drawn from π_ref; needed to roll it out only.

    Raises:
        InvalidSetting: not functions.
    """

    log_probs: Callable[[NDArray[Any], NDArray[Any]], Any]
    action: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        if not callable(self.log_probs) or not (self.action is None or callable(self.action)):
            raise InvalidSetting("A policy is log_prob(observations, actions) and act(observation), both functions.")

    def log_prob(self, observations: NDArray[Any], actions: NDArray[Any]) -> FloatArray:
        return _checked(self.log_probs(observations, actions), len(observations))

    def act(self, observations: NDArray[Any], rng: np.random.Generator, *, deterministic: bool = False) -> NDArray[Any]:
        if self.action is None:
            raise UnsupportedPolicy("This reference knows log-probabilities only: give act= to roll it out.")
        return np.array([self.action(observation) for observation in observations])


@dataclass(frozen=True, eq=False)
class AgentPolicy:
    """The policy of an agent that can ``predict`` and knows its log-probabilities. It cannot be saved.

    Of batches, ``predict(observations, deterministic=False)`` gives actions, drawn from random numbers of the agent's
    own, and what is ignored here; ``log_prob(observations, actions)`` gives log π [nats], ``(n,)``.
    """

    agent: Any
    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]

    def log_prob(self, observations: NDArray[Any], actions: NDArray[Any]) -> FloatArray:
        elements = (from_rows(self.observation_space, observations), from_rows(self.action_space, actions))
        return _checked(self.agent.log_prob(*elements), len(observations))

    def act(self, observations: NDArray[Any], rng: np.random.Generator, *, deterministic: bool = False) -> NDArray[Any]:
        elements = from_rows(self.observation_space, observations)
        return as_rows(self.action_space, self.agent.predict(elements, deterministic=deterministic)[0])


def policy_of(agent: Any, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> ReferencePolicy:
    """The policy of an agent for the spaces of one environment, as plain data where it is a Gaussian network.

    The agent has a ``policy`` that is a :class:`ReferencePolicy` or this package's own, as ``PGP`` and
    ``adapters.sb3.as_agent(model)`` have, or it has ``predict`` and ``log_prob``.

    Raises:
        UnsupportedPolicy: another agent, or a policy that is not known by its log-probabilities.
        UnsupportedSpace: an agent of other spaces.
    """
    from constrained_maxent.agents.policies import Policy

    require_own_spaces(agent, observation_space, action_space)
    policy = getattr(agent, "policy", None)
    if isinstance(policy, ReferencePolicy):
        return policy
    if isinstance(policy, Policy):
        network = GaussianNetwork.from_policy(policy)
        network.require_box(action_space)
        return network
    if not (hasattr(agent, "predict") and hasattr(agent, "log_prob")):
        raise UnsupportedPolicy(
            f"{type(agent).__name__} does not tell its log-probabilities: take an adapter's agent, such as "
            "adapters.sb3.as_agent(model), or Reference.from_policy with functions."
        )
    return AgentPolicy(agent, observation_space, action_space)


def _checked(log_probs: Any, n: int) -> FloatArray:
    checked: FloatArray = as_array("log_prob(observations, actions)", log_probs, np.float64)
    if checked.shape != (n,):
        raise InvalidData(f"log_prob of the reference must return shape ({n},), got {checked.shape}.")
    if np.isnan(checked).any():
        raise InvalidData("log_prob of the reference returned NaN.")
    return checked
