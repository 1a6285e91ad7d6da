"""Algorithms of RLlib as agents of this package: what evaluation rolls out, and exact values are computed of."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.core.columns import Columns
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from constrained_maxent.errors import UnsupportedPolicy, UnsupportedSpace
from constrained_maxent.spaces import as_batch, from_row
from constrained_maxent.types import FloatArray, check_seed


def as_agent(algorithm: Any, *, seed: int = 0) -> RllibAgent:
    """An algorithm of RLlib as an agent, for evaluation, references, certificates and videos.

    Args:
        algorithm: of the new API stack, with one policy. It is not copied: the agent does what it does at that time,
            and no more once it has been stopped.
        seed: of the actions that are drawn.

    Raises:
        UnsupportedPolicy: not such an algorithm, or a policy that remembers.
    """
    module = algorithm.get_module() if isinstance(algorithm, Algorithm) else None
    if module is None:
        raise UnsupportedPolicy(f"{algorithm!r} is not an algorithm of RLlib's new API stack with one policy.")
    if module.is_stateful():
        raise UnsupportedPolicy("A recurrent policy acts by what it remembers, not by the observation alone.")
    is_discrete = isinstance(algorithm.env_runner.get_spaces()[INPUT_ENV_SINGLE_SPACES][1], gym.spaces.Discrete)
    return (SoftmaxAgent if is_discrete else RllibAgent)(algorithm, seed=seed)


class RllibAgent:
    """Acts by an algorithm of RLlib; made by :func:`as_agent`.

    Observations pass the connectors of the algorithm's runners, and actions too, as in training. Equal seeds give equal
    actions, and what else draws from PyTorch's or NumPy's random numbers is not disturbed.
    """

    def __init__(self, algorithm: Any, *, seed: int = 0) -> None:
        self.algorithm, self._runner = algorithm, algorithm.env_runner
        self.observation_space, self.action_space = self._runner.get_spaces()[INPUT_ENV_SINGLE_SPACES]
        self._random_state = torch.Generator().manual_seed(check_seed("seed", seed)).get_state()

    def predict(self, observation: Any, *, deterministic: bool = False) -> tuple[Any, None]:
        """The action for one observation, or the actions for a batch of them as vector environments deliver it.

        With ``deterministic`` it is the policy's best action, not a sample; ``None`` stands in the place of a state.
        """
        rows, is_one = as_batch(self.observation_space, observation)
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self._random_state)
            shared: dict[str, Any] = {}  # by which connectors find each row's episode again
            forwarded, episodes = self._forward(rows, explore=not deterministic, shared=shared)
            forwarded = self._runner._module_to_env(
                rl_module=self._runner.module,
                batch=forwarded,
                episodes=episodes,
                explore=not deterministic,
                shared_data=shared,
            )
            self._random_state = torch.get_rng_state()
        actions = np.asarray(forwarded.get(Columns.ACTIONS_FOR_ENV, forwarded[Columns.ACTIONS]))
        return (actions[0] if is_one else actions), None

    def _forward(
        self, rows: NDArray[Any], *, explore: bool, shared: dict[str, Any]
    ) -> tuple[dict[str, Any], list[Any]]:
        """What the policy says of observations, given as rows, and the episodes of which each is the first."""
        module, episodes = self._runner.module, []
        for row in rows:
            episode = SingleAgentEpisode(observation_space=self.observation_space, action_space=self.action_space)
            episode.add_env_reset(observation=from_row(self.observation_space, row), infos={})
            episodes.append(episode)
        batch = self._runner._env_to_module(
            rl_module=module, episodes=episodes, explore=explore, batch={}, shared_data=shared
        )
        with torch.no_grad():
            forward = module.forward_exploration if explore else module.forward_inference
            return forward(batch), episodes


class SoftmaxAgent(RllibAgent):
    """An agent whose policy over ``Discrete`` actions has exact probabilities."""

    @property
    def is_tabular(self) -> bool:
        """Whether the policy is a table: where observations are finite too."""
        return isinstance(self.observation_space, gym.spaces.Discrete)

    def policy_table(self) -> FloatArray:
        """π(a|s), ``(n_states, n_actions)``.

        Raises:
            UnsupportedSpace: observations are not ``Discrete``.
        """
        if not self.is_tabular:
            raise UnsupportedSpace("Only a policy over Discrete observations has a table.")
        return self._probabilities(np.arange(self.observation_space.n) + self.observation_space.start)

    def log_prob(self, observations: Any, actions: NDArray[Any]) -> FloatArray:
        """Log π [nats], ``(n,)``, of a batch of observations and of actions as the environment takes them."""
        rows, _ = as_batch(self.observation_space, observations)
        numbers = np.asarray(actions) - self.action_space.start
        log_probs: FloatArray = np.log(self._probabilities(rows)[np.arange(len(numbers)), numbers])
        return log_probs

    def _probabilities(self, observations: Any) -> FloatArray:
        forwarded, _ = self._forward(observations, explore=True, shared={})
        logits = forwarded[Columns.ACTION_DIST_INPUTS].double()
        probabilities: FloatArray = torch.softmax(logits, dim=1).numpy()
        return probabilities
