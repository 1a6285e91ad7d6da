"""How much better than expected each step of a batch turned out."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.agents.returns import generalized_advantages, mean_over_trajectories, rewards_to_go
from constrained_maxent.agents.rollouts import Rollout
from constrained_maxent.agents.settings import Hyperparameters
from constrained_maxent.types import FloatArray


class Values(Protocol):
    """V(s) of rows of observations: a :class:`~constrained_maxent.agents.critic.Critic`, or a table."""

    def values(self, rows: NDArray[np.generic], /) -> FloatArray:
        """``(n,)`` for rows ``(n, ...)``."""
        ...


def advantages_and_returns(
    rollout: Rollout, critic: Values | None, chosen: Hyperparameters
) -> tuple[FloatArray, FloatArray]:
    """Advantages, not normalized, and the returns that a critic is to learn.

    Args:
        rollout: the batch.
        critic: of the states; ``None`` where the baseline is none, or the batch's mean.
        chosen: baseline, ``gae_lambda``, and a discount of the agent's own, if there is one.

    Returns:
        ``(n_steps,)`` each, in the unit of the rewards.
    """
    discount = chosen.return_discount or rollout.report["discount"]
    if critic is None:
        return_t = rewards_to_go(rollout.rewards, rollout.lengths, discount=discount)
        if chosen.baseline == "none":
            return return_t, return_t
        return return_t - mean_over_trajectories(return_t, rollout.times), return_t
    # After a truncation the episode would have gone on; after a termination there is nothing more.
    value_T = np.where(rollout.terminated, 0.0, critic.values(rollout.final_rows))
    value_t = critic.values(rollout.rows)
    advantage_t = generalized_advantages(
        rollout.rewards,
        value_t,
        rollout.lengths,
        discount=discount,
        gae_lambda=chosen.gae_lambda,
        value_T=value_T,
    )
    return advantage_t, advantage_t + value_t
