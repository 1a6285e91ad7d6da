r"""Variance reduction of PGP by momentum (1 = no momentum) and importance weights, after VR-PDPG (Ying et al., 2025).

Contrary to PyTorch's ``momentum``, it is the weight of what is new. With weight α on the new batch τ, old parameters
:math:`\theta'` and old pseudo-rewards :math:`r'`,

.. math:: d \leftarrow \hat g(\tau;\theta,r) + (1-\alpha)\big(d - w\,\hat g(\tau;\theta',r')\big), \qquad
          w(\tau) = \min\Big(\prod_t \frac{\pi_{\theta'}(a_t|s_t)}{\pi_\theta(a_t|s_t)},\ c\Big),

and :class:`~constrained_maxent.occupancy.Counts` follow by the same rule. It is what the batched engine does, see
:mod:`constrained_maxent.agents.tabular.momentum`. Densities over continuous states cannot subtract samples: there λ̂ is
the estimator's own, and momentum is that of the gradient alone.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from constrained_maxent.agents.policies import Policy
from constrained_maxent.agents.rollouts import Rollout
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.occupancy import Counts
from constrained_maxent.types import Batch, FloatArray, IntArray


class Momentum:
    """What one batch leaves behind for the next: d, the policy and the pseudo-rewards that it belongs to.

    Args:
        policy: π, whose gradient is followed.
        tracker: of the wrappers; ``None`` without one.
        share: α in (0, 1), weight of the new batch; towards 1 there is less and less momentum.
        importance_bound: *c*, at least 1.
        first_action: number of the first action of a ``Discrete`` space.

    Raises:
        InvalidSetting: the environment cannot tell the pseudo-rewards of the batch before, hands over those of its own
            batch, or remembers λ̂ as well.

    Attributes:
        direction: d, one for each parameter, for optimisers that step down; empty before the first step.
    """

    def __init__(
        self, policy: Policy, tracker: Any | None, *, share: float, importance_bound: float, first_action: int = 0
    ) -> None:
        if tracker is None:
            raise InvalidSetting(
                "momentum needs the pseudo-rewards of the batch before on the new steps: wrap the environment by "
                "wrappers.constrain(env, pairing='previous'), or take momentum=1."
            )
        self._follows_counts = isinstance(tracker.estimator, Counts)
        _require_fitting(tracker, remembers=self._follows_counts and tracker.estimator.memory != 0.0)
        self.direction: list[torch.Tensor] = []
        self._pending: list[torch.Tensor] = []  # d of the batch under way
        self._policy, self._tracker = policy, tracker
        self._share, self._bound, self._first_action = share, importance_bound, first_action
        self._old_policy = copy.deepcopy(policy)
        self._old_tracker = tracker.twin()
        self._has_old_policy = False
        self._acted: Mapping[str, Any] = {}
        self._known: Mapping[str, Any] = {}

    @contextmanager
    def batch(self) -> Iterator[None]:
        """To be collected within: what acts and what is rewarded is kept, and counts follow by momentum."""
        self._acted = copy.deepcopy(self._policy.state_dict())
        self._known = self._tracker.state_dict()
        before = self._tracker.refit
        if self._follows_counts and self._has_old_policy:
            self._tracker.refit = self._refit
        try:
            yield
        finally:
            self._tracker.refit = before

    def _refit(self, batch: Batch) -> None:
        if batch.episodes is None:  # else they are fragments, which the agent is about to refuse
            weights = self._weights(batch.observations, batch.actions - self._first_action, batch.lengths)
            self._tracker.estimator.fit_reduced(batch, weights, self._share)

    def _weights(self, rows: NDArray[Any], raw: NDArray[Any], lengths: IntArray) -> FloatArray:
        """W of each trajectory, ``(n_trajectories,)``."""
        with torch.no_grad():
            old_t, new_t = (policy.log_prob(rows, raw).double() for policy in (self._old_policy, self._policy))
        ratios = (old_t - new_t).cpu().numpy()
        return importance_weights(ratios, lengths, bound=self._bound)

    def old_batch(self, rollout: Rollout) -> tuple[FloatArray, FloatArray]:
        """R' on the steps of a batch, and w of the trajectory of each, ``(n_steps,)`` each."""
        batch = self._tracker.last_batch
        if batch.log_probs is not None:
            # λ̂ was d̂(s)·π'(a|s) when r' was made.
            with torch.no_grad():
                old_t = self._old_policy.log_prob(rollout.rows, rollout.actions).double().cpu().numpy()
            batch = replace(batch, log_probs=old_t)
        weights = self._weights(rollout.rows, rollout.actions, rollout.lengths)
        return self._old_tracker.rewards_of(batch), np.repeat(weights, rollout.lengths)

    def follow(self, rows: NDArray[Any], raw: NDArray[Any], old_factor_t: FloatArray | None) -> None:
        """Turn the gradients of the policy into d, which is kept when ``end_batch`` hears of the step.

        Args:
            rows: observations, ``(n, ...)``.
            raw: raw actions, ``(n, ...)``.
            old_factor_t: what the scores of π' are multiplied by, weighted advantages of r' times w, ``(n,)``;
                ``None`` where there is no d yet.
        """
        parameters = list(self._policy.parameters())
        if old_factor_t is not None:
            self._old_policy.zero_grad()
            self._old_policy.ascend(rows, raw, old_factor_t)
            for parameter, old, known in zip(parameters, self._old_policy.parameters(), self.direction, strict=True):
                assert parameter.grad is not None
                assert old.grad is not None
                parameter.grad += (1.0 - self._share) * (known - old.grad)
        self._pending = [parameter.grad.clone() for parameter in parameters if parameter.grad is not None]

    def end_batch(self, *, stepped: bool) -> None:
        """The policy that acted in this batch is now the old one; where a step was taken, so are its rewards and d."""
        self._old_policy.load_state_dict(self._acted)
        self._old_policy.changed()
        self._has_old_policy = True
        if stepped:
            self.direction = self._pending
            self._old_tracker.load_state_dict(self._known)

    # Checkpoints.

    def state_dict(self) -> dict[str, Any]:
        """Everything at a batch's end."""
        return {
            "direction": dict(enumerate(self.direction)),
            "policy": self._old_policy.state_dict() if self._has_old_policy else None,
            "wrappers": self._old_tracker.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what ``state_dict`` returned.

        Raises:
            ValueError: d has other shapes than the policy.
        """
        parameters, stored = list(self._policy.parameters()), state["direction"]
        if stored and [stored[i].shape for i in range(len(stored))] != [p.shape for p in parameters]:
            raise ValueError("The direction of momentum has other shapes than the policy.")
        self._old_tracker.load_state_dict(state["wrappers"])
        self._has_old_policy = state["policy"] is not None
        if self._has_old_policy:
            self._old_policy.load_state_dict(state["policy"])
            self._old_policy.changed()
        self.direction = [stored[i].to(parameters[i].device, parameters[i].dtype) for i in range(len(stored))]


def _require_fitting(tracker: Any, *, remembers: bool) -> None:
    """Raise ``InvalidSetting``, with all that is to be changed, unless momentum goes with how λ̂ is estimated."""
    reasons, needs = [], []
    if tracker.pairing != "previous":
        reasons.append(f"pseudo-rewards come from the batch itself, by the pairing {tracker.pairing!r}")
        needs.append("pairing='previous'")
    if remembers:
        reasons.append("the estimate has a memory=, and both would carry λ̂ from batch to batch")
        needs.append("memory=0.0")
    if needs:
        raise InvalidSetting(
            f"momentum cannot be used here: {'; '.join(reasons)}. Build the environment with {' and '.join(needs)}, or "
            "take momentum=1: no momentum."
        )


def importance_weights(log_ratio_t: FloatArray, lengths: IntArray, *, bound: float) -> FloatArray:
    r""":math:`w = \min(\prod_t \rho_t, c)` of each trajectory, ``(n_trajectories,)``; finite always.

    Args:
        log_ratio_t: logarithm of old over new probability, trajectory after trajectory, ``(n_steps,)``.
        lengths: steps of each, ``(n_trajectories,)``.
        bound: *c*.

    >>> importance_weights(np.log([2.0, 0.25, 4.0]), np.array([2, 1]), bound=2.0)
    array([0.5, 2. ])
    """
    sums = np.add.reduceat(log_ratio_t, np.cumsum(lengths) - lengths)
    weights: FloatArray = np.exp(np.minimum(sums, math.log(bound)))
    return weights


def require_whole_episodes(report: Mapping[str, Any], what: str) -> None:
    """Raise ``InvalidSetting`` unless the batch that a report is of consists of whole episodes."""
    if not report["whole_episodes"]:
        raise InvalidSetting(
            f"{what} needs batches of whole episodes, but this environment hands over fragments: build it with "
            "episodes_per_batch= instead of steps_per_batch=."
        )
