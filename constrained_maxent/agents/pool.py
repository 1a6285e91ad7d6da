"""Batches of several policies as one, in which each policy's λ̂ has its weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from constrained_maxent.types import Batch, FloatArray


@dataclass(frozen=True)
class Pool:
    """Batches of whole episodes, one of each policy.

    Args:
        batches: with the same columns.

    >>> one, two = (Batch(observations=np.array([s]), actions=np.array([0]), lengths=np.array([1])) for s in (0, 1))
    >>> Pool((one, two)).batch(np.array([0.25, 0.75])).weights
    array([0.5, 1.5])
    """

    batches: tuple[Batch, ...] = ()

    def with_batch(self, batch: Batch) -> Pool:
        """With one more."""
        return Pool((*self.batches, batch))

    def only(self, kept: Sequence[int]) -> Pool:
        """Those of the given numbers, in this order."""
        return Pool(tuple(self.batches[i] for i in kept))

    def batch(self, weights: FloatArray) -> Batch:
        r"""All episodes as one batch, whose λ̂ is :math:`\sum_i \omega_i \hat\lambda_i`.

        Args:
            weights: ω of each batch, ``(n_batches,)``.
        """
        total = sum(batch.n_episodes for batch in self.batches)
        shares = [w * total / batch.n_episodes for w, batch in zip(weights.tolist(), self.batches, strict=True)]
        parts = [columns(batch) for batch in self.batches]
        joined: dict[str, Any] = {
            name: np.concatenate([part[name] for part in parts]) for name in parts[0] if name != "costs"
        }
        joined["costs"] = {
            name: np.concatenate([batch.costs[name] for batch in self.batches]) for name in self.batches[0].costs
        }
        joined["weights"] = np.concatenate([s * batch.weights for s, batch in zip(shares, self.batches, strict=True)])
        return Batch(**joined)


def columns(batch: Batch) -> dict[str, Any]:
    """What a batch of whole episodes is made of, by name; what it lacks is left out."""
    return {
        field.name: value
        for field in fields(batch)
        if (value := getattr(batch, field.name)) is not None and field.name not in ("episodes", "log_probs")
    }
