"""Policies with parameters far from their start, the same in every run."""

import pytest
import torch
from gymnasium.spaces import Box, Discrete

from constrained_maxent.agents.policies import (
    TabularSoftmax,
    make_policy,
)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def randomized():
    def randomize(policy, scale=1.0):
        """The same policy with parameters far from their start."""
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter.copy_(scale * torch.randn(parameter.shape, dtype=parameter.dtype))
        policy.changed()
        return policy

    return randomize


@pytest.fixture(scope="session")
def table_policy(randomized):
    def make(n_states=3, n_actions=4, start=0):
        return randomized(TabularSoftmax(Discrete(n_states), Discrete(n_actions, start=start)))

    return make


@pytest.fixture(scope="session")
def network_policy(randomized):
    def make(action_space, observation_space=None, scale=0.3):
        policy = make_policy(observation_space or Box(-1.0, 1.0, (3,)), action_space, kind="mlp", hidden_sizes=(8,))
        return randomized(policy, scale)

    return make
