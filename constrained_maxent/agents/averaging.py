"""Averages of a policy's iterates (Polyak and Juditsky, 1992), exponential ones that follow a learner which moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch.optim.swa_utils import AveragedModel

from constrained_maxent.agents.policies import Policy


class PolicyAverage:
    r""":math:`\bar\theta \leftarrow d_n \bar\theta + (1 - d_n)\,\theta`, with :math:`d_n = \min(d, n/(n+1))`.

    The iterates of stochastic gradients swing around where they are heading; their mean swings less. At first it is the
    plain mean of the iterates so far. Normalizations of observations are those of the last iterate.

    Args:
        policy: the learner; the average is a copy of it.
        decay: d, in (0, 1).
    """

    def __init__(self, policy: Policy, decay: float) -> None:
        def averaged(mean: torch.Tensor, new: torch.Tensor, n: torch.Tensor | int) -> torch.Tensor:
            return torch.lerp(mean, new, max(1.0 - decay, 1.0 / (int(n) + 1)))

        self._model = AveragedModel(policy, avg_fn=averaged)

    @property
    def policy(self) -> Policy:
        """The policy at the mean of the parameters."""
        return cast(Policy, self._model.module)

    def update(self, policy: Policy) -> None:
        """Take the learner's parameters into the average."""
        self._model.update_parameters(policy)
        self.policy.changed()

    def state_dict(self) -> dict[str, Any]:
        return self._model.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._model.load_state_dict(state)
        self.policy.changed()
