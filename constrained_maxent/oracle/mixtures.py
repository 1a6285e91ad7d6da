"""Mixtures of policies as the exact evaluation meets them: one policy is drawn for each whole episode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from constrained_maxent.errors import InvalidData
from constrained_maxent.types import FloatArray, as_array


@runtime_checkable
class Mixture(Protocol):
    """Policy tables and how often each is drawn; :class:`~constrained_maxent.agents.MixturePolicy` is one."""

    @property
    def policies(self) -> Sequence[FloatArray]: ...
    @property
    def weights(self) -> FloatArray: ...


def members(policy: ArrayLike | Mixture) -> Iterator[tuple[float, FloatArray]]:
    r"""Weight and table of each policy that may act; a single policy has weight 1.

    As whole episodes belong to one of them, :math:`\lambda = \sum_i w_i \lambda^{\pi_i}`.

    Raises:
        InvalidData: something is no array of numbers.
    """
    if not isinstance(policy, Mixture):
        yield 1.0, as_array("policy", policy, np.float64)
        return
    weights = as_array("weights", policy.weights, np.float64)
    for weight, table in zip(weights / weights.sum(), policy.policies, strict=True):
        yield float(weight), _table(table)


def _table(policy: ArrayLike) -> FloatArray:
    try:
        return as_array("policy", policy, np.float64)
    except InvalidData as error:
        raise InvalidData(f"{error} Of an agent that learns a mixture give agent.mixture().") from error
