"""Behaviour cloning: a policy of greatest likelihood for recorded actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from constrained_maxent.agents.policies import GaussianMLP
from constrained_maxent.errors import InvalidData, UnsupportedSpace
from constrained_maxent.references.gaussian_network import GaussianNetwork


def clone(
    observations: NDArray[Any],
    actions: NDArray[Any],
    action_space: gym.Space[Any],
    *,
    hidden_sizes: Sequence[int] = (64, 64),
    n_steps: int = 3000,
    batch_size: int = 256,
    learning_rate: float = 1e-3,
    seed: int = 0,
) -> GaussianNetwork:
    """Maximize the mean log π(a|s) of recorded steps, by Adam on minibatches.

    Args:
        observations: ``(n, ...)``.
        actions: as the environment got them, ``(n, n_actions)``.
        action_space: a ``Box``.
        hidden_sizes: of the two networks, for mean and log σ.
        n_steps, batch_size, learning_rate: of Adam.
        seed: of the networks and the minibatches.

    Raises:
        UnsupportedSpace: not a ``Box``.
        InvalidData: actions outside it, or of another shape.
    """
    if not isinstance(action_space, gym.spaces.Box):
        raise UnsupportedSpace(f"Behaviour cloning fits a Gaussian: it needs actions in a Box, not {action_space}.")
    if actions.shape[1:] != action_space.shape:
        raise InvalidData(f"Actions have shape {actions.shape[1:]}, those of {action_space} {action_space.shape}.")
    if (actions < action_space.low - 1e-6).any() or (actions > action_space.high + 1e-6).any():
        raise InvalidData(f"Recorded actions lie outside {action_space}: clip them to what the environment did.")
    rng = np.random.default_rng(seed)
    rows = observations.reshape(len(observations), -1)
    box = gym.spaces.Box(-np.inf, np.inf, rows.shape[1:])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        policy = GaussianMLP(box, action_space, hidden_sizes, normalize=True)
    policy.observe(rows)
    raw = policy.squashing.to_reals(actions)
    optimizer = torch.optim.Adam(policy.parameters(), lr=learning_rate)
    for step in range(n_steps):
        for group in optimizer.param_groups:  # down to a tenth, so that the last minibatches do not show
            group["lr"] = learning_rate * (1.0 - 0.9 * step / n_steps)
        chosen = rng.integers(len(rows), size=min(batch_size, len(rows)))
        loss = -policy.log_prob(rows[chosen], raw[chosen]).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return GaussianNetwork.from_policy(policy)
