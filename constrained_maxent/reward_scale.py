"""The running scale of pseudo-rewards, for agents whose critic and gradient clip want rewards of a bounded size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.signal import lfilter

from constrained_maxent.types import Batch, FloatArray

MEMORY = 0.9
"""Share of the old variance that each batch keeps: a price that grows is followed within about ten batches."""

_CONSTANT = 1e-12
"""Returns whose variance is a smaller share of their mean square are equal but for rounding."""


class RewardScale:
    r"""About the standard deviation of discounted returns :math:`G_t = r_t + \gamma G_{t-1}` over a run's batches.

    As Stable-Baselines3's ``VecNormalize`` has it, with three differences: it stays as it is within a batch, so that no
    two rewards of one batch are of different scales; the past fades, as prices and with them rewards grow over a run;
    and nothing is clipped, which would change the ratio of gain and price.

    Args:
        discount: γ, of the agent's returns.

    Attributes:
        value: what rewards are divided by; 1 before the first batch.
    """

    def __init__(self, discount: float) -> None:
        self.discount = discount
        self.value = 1.0
        self._variance = 0.0
        self._weight = 0.0  # of all batches so far in that variance, at most 1
        self._under_way: dict[int, float] = {}  # G of the episodes that go on, by sub-environment

    def forget_episodes(self) -> None:
        """The episodes under way do not go on."""
        self._under_way.clear()

    def add(self, rewards: FloatArray, batch: Batch, sub_environments: Sequence[int]) -> None:
        """Take the rewards of a batch's steps, ``(n_steps,)``, into account."""
        returns = self._returns(rewards, batch, sub_environments)
        variance = float(returns.var())
        if variance <= _CONSTANT * float((returns**2).mean()):
            return
        self._variance = MEMORY * self._variance + (1.0 - MEMORY) * variance
        self._weight = MEMORY * self._weight + (1.0 - MEMORY)
        self.value = math.sqrt(self._variance / self._weight)

    def _returns(self, rewards: FloatArray, batch: Batch, sub_environments: Sequence[int]) -> FloatArray:
        before, self._under_way = self._under_way, {}
        parts = []
        for i, (part, where) in enumerate(zip(batch.split(rewards), sub_environments, strict=True)):
            # An episode may be cut more than once within a batch.
            begun = self._under_way.get(where, before.get(where, 0.0)) if batch.starts[i] > 0 else 0.0
            returns, _ = lfilter([1.0], [1.0, -self.discount], part, zi=[self.discount * begun])
            if not (batch.terminated[i] or batch.truncated[i]):
                self._under_way[where] = float(returns[-1])
            else:
                self._under_way.pop(where, None)
            parts.append(returns)
        return np.concatenate(parts)

    def state_dict(self) -> dict[str, float]:
        """Plain data."""
        return {"variance": self._variance, "weight": self._weight}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what ``state_dict`` returned. Raises ValueError: it is none."""
        variance, weight = float(state["variance"]), float(state["weight"])
        if not (0.0 <= variance < math.inf and 0.0 <= weight <= 1.0 and (variance > 0.0) == (weight > 0.0)):
            raise ValueError(f"variance={variance!r} and weight={weight!r} are no scale of rewards")
        self._variance, self._weight = variance, weight
        self.value = math.sqrt(variance / weight) if weight else 1.0
        self._under_way = {}
