"""The natural gradient of a softmax table as an optimizer of PyTorch: the batched engine's step, for one run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from constrained_maxent.agents.policies import TabularSoftmax
from constrained_maxent.agents.rollouts import Rollout
from constrained_maxent.types import FloatArray


class NaturalGradient(torch.optim.Optimizer):
    r"""Steps :math:`\theta_s \leftarrow \theta_s + \eta\,(F_s + \delta I)^{-1} g_s` (Kakade, 2001), s by s.

    The Fisher matrix is :math:`F_s = d(s)\,(\mathrm{diag}\,\pi_s - \pi_s\pi_s^\top)`; in closed form, see
    :mod:`constrained_maxent.engine.steps`, whose compiled step this one calls.

    Args:
        policy: the table.
        tracker: of the wrappers, whose λ̂ tells d; ``None`` without one, and where it is over other states: then
            the batch's own steps tell it.
        lr: η, in units of advantages [1 / nats].
        damping: δ > 0 as a share of the mass of a full-length episode.

    Attributes:
        policy: the table.
        visits: d(s), state marginal of λ̂, ``(n_states,)``, by ``before_batch`` and ``after_batch``.
        full_mass: mass of a full-length episode, at the scale of ``visits``.
    """

    def __init__(self, policy: TabularSoftmax, tracker: Any | None = None, *, lr: float, damping: float) -> None:
        # Imported late: the compiler takes half a second, and no other step needs it.
        from constrained_maxent.engine.steps import natural_table_step

        super().__init__(policy.parameters(), {"lr": lr})
        self.policy = policy
        self._tracker = tracker
        # With "previous" the batch's rewards belong to the estimate from before it.
        self._is_early = tracker is not None and tracker.pairing == "previous"
        self._early: FloatArray | None = None
        self._step = natural_table_step
        self._damping = damping
        self.visits: FloatArray = np.zeros(len(policy.theta))
        self.full_mass = 1.0

    def before_batch(self) -> None:
        """To be called before every batch."""
        if self._is_early:
            self._early = estimated_visits(self._tracker, self.policy)

    def after_batch(self, rollout: Rollout) -> None:
        """To be called with the batch that the next step climbs."""
        visits = self._early if self._is_early else estimated_visits(self._tracker, self.policy)
        self.visits = self._sampled_visits(rollout) if visits is None else visits
        self.full_mass = _longest(rollout) if self._tracker is None else float(self._tracker.weighting.full_mass)

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step. PyTorch's gradients point down: the one to climb is their negative."""
        for group in self.param_groups:
            for theta in group["params"]:
                table, gradient = theta.detach().cpu().numpy().copy(), -theta.grad.cpu().numpy()
                self._step(table, gradient, self.visits, self._damping * self.full_mass, float(group["lr"]))
                with torch.no_grad():
                    theta.copy_(torch.from_numpy(table))

    def _sampled_visits(self, rollout: Rollout) -> FloatArray:
        """d(s) from a batch's own steps, ``(n_states,)``."""
        states = self.policy.state_numbers(rollout.rows)
        return np.bincount(states, rollout.weights, len(self.policy.theta)).astype(np.float64) / rollout.n_episodes


def estimated_visits(tracker: Any | None, policy: TabularSoftmax) -> FloatArray | None:
    """The state marginal of the wrappers' λ̂, ``(n_states,)``; ``None`` where they have none over these states."""
    n_states, n_actions = policy.theta.shape
    if tracker is None or not tracker.estimator.is_fitted or tracker.estimator.table_shape() != (n_states, n_actions):
        return None
    measure = tracker.estimator.measure()
    if measure.points.cells is None:
        marginal: FloatArray = measure.weights.sum(axis=1)
        return marginal
    return np.bincount(measure.points.cells // n_actions, measure.weights, n_states).astype(np.float64)


def _longest(rollout: Rollout) -> float:
    """Mass of the longest episode of a batch, for want of what a full-length one would have."""
    ends = np.cumsum(rollout.lengths)
    masses = np.add.reduceat(rollout.weights, ends - rollout.lengths)
    return float(max(masses, default=math.nan))
