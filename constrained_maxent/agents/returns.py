"""Returns, and how much better than expected each step of a batch turned out: pure functions of arrays."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.agents.rollouts import Rollout
from constrained_maxent.agents.settings import Hyperparameters
from constrained_maxent.types import FloatArray, IntArray


def rewards_to_go(
    reward_t: FloatArray, lengths: IntArray, *, discount: float, value_T: FloatArray | None = None
) -> FloatArray:
    r""":math:`G_t = \sum_{k \ge t} \gamma^{k-t} r_k + \gamma^{T-t} v_T` within each trajectory.

    With the weights :math:`w_t \propto \gamma^t` of the occupancy, :math:`w_t G_t = \sum_{k\ge t} w_k r_k`, the factor
    of :math:`\nabla\log\pi(a_t|s_t)` in the paper's :math:`g_H`.

    Args:
        reward_t: rewards, trajectory after trajectory, ``(n_steps,)``.
        lengths: steps of each, ``(n_trajectories,)``.
        discount: γ.
        value_T: value of the state after each trajectory's last step, ``(n_trajectories,)``; 0 if not given.

    Returns:
        ``(n_steps,)``.

    >>> rewards_to_go(np.array([1.0, 2.0, 4.0]), np.array([2, 1]), discount=0.5)
    array([2., 2., 4.])
    """
    # Aligned at their ends, all trajectories take the recursion G_t = r_t + gamma * G_{t+1} together.
    from_end = np.repeat(np.cumsum(lengths), lengths) - 1 - np.arange(len(reward_t))
    trajectory = np.repeat(np.arange(len(lengths)), lengths)
    padded = np.zeros((int(lengths.max(initial=0)), len(lengths)))
    padded[from_end, trajectory] = reward_t
    tail = np.zeros(len(lengths)) if value_T is None else value_T
    for row in padded:
        row += discount * tail
        tail = row
    return_t: FloatArray = padded[from_end, trajectory]
    return return_t


def generalized_advantages(
    reward_t: FloatArray,
    value_t: FloatArray,
    lengths: IntArray,
    *,
    discount: float,
    gae_lambda: float,
    value_T: FloatArray,
) -> FloatArray:
    r""":math:`A_t = \sum_{k\ge t} (\gamma\lambda)^{k-t} \delta_k`, with
    :math:`\delta_k = r_k + \gamma V(s_{k+1}) - V(s_k)` (Schulman et al. 2016, eq. 16).

    Args:
        reward_t, value_t: rewards and V of the states, trajectory after trajectory, ``(n_steps,)``.
        lengths: steps of each, ``(n_trajectories,)``.
        discount: γ.
        gae_lambda: λ; 1 gives :math:`G_t - V(s_t)`, 0 the temporal differences.
        value_T: V after each trajectory's last step, ``(n_trajectories,)``.

    Returns:
        ``(n_steps,)``.

    >>> one, values = np.array([2]), np.array([0.5, 1.0])
    >>> generalized_advantages(np.ones(2), values, one, discount=1.0, gae_lambda=0.5, value_T=np.zeros(1))
    array([1.5, 0. ])
    """
    next_value_t = np.append(value_t[1:], 0.0)
    next_value_t[np.cumsum(lengths) - 1] = value_T
    return rewards_to_go(reward_t + discount * next_value_t - value_t, lengths, discount=discount * gae_lambda)


def mean_over_trajectories(return_t: FloatArray, times: IntArray) -> FloatArray:
    """At each step the mean return of all trajectories at that time, ``(n_steps,)``: a baseline.

    It contains the step's own return, which scales the expected gradient by about 1 - 1/B and changes nothing else.

    >>> mean_over_trajectories(np.array([1.0, 5.0, 3.0]), np.array([0, 1, 0]))
    array([2., 5., 2.])
    """
    sums = np.bincount(times, return_t)
    means: FloatArray = (sums / np.maximum(np.bincount(times), 1))[times]
    return means


def standardized(advantage_t: FloatArray, weights: FloatArray) -> FloatArray:
    """Advantages of weighted mean 0 and variance 1, ``(n_steps,)``; those that are all alike become 0.

    >>> standardized(np.array([1.0, 5.0]), np.array([1.0, 1.0]))
    array([-1.,  1.])
    """
    total = weights.sum()
    if not total > 0.0:
        return np.zeros_like(advantage_t)
    centered = advantage_t - weights @ advantage_t / total
    spread = np.sqrt(weights @ centered**2 / total)
    result: FloatArray = centered / spread if spread > 1e-12 else np.zeros_like(centered)
    return result


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
    discount = chosen.return_discount or rollout.report.discount
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
