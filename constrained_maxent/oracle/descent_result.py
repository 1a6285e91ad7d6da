"""What an exact-gradient penalty method answers: its last iterate, the history, and the guarantees that hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.oracle.exact_gradient import SoftmaxPoint
from constrained_maxent.oracle.guarantees import Guarantees
from constrained_maxent.types import FloatArray, IntArray

Status = Literal["stationary", "stalled", "exhausted"]


@dataclass(frozen=True, eq=False)
class History:
    """What every iterate was, the start included: arrays ``(n_iterates,)``.

    Attributes:
        objective: F, to be maximized.
        penalty: Σ ℒ(R).
        constraints: R by name; satisfied where ≤ 0.
        evaluations: of P and its gradient, so far.
        seconds: since the start.
        optimum: F* of the reference, if there is one.
    """

    objective: FloatArray
    penalty: FloatArray
    constraints: Mapping[str, FloatArray]
    evaluations: IntArray
    seconds: FloatArray
    optimum: float | None

    @property
    def value(self) -> FloatArray:
        """P = Σ ℒ(R) − F."""
        return self.penalty - self.objective

    @property
    def violation(self) -> FloatArray:
        """Largest [R]₊, 0 where all constraints hold."""
        violation: FloatArray = np.max([np.zeros_like(self.objective), *self.constraints.values()], axis=0)
        return violation

    @property
    def gap(self) -> FloatArray:
        """F* − F, negative where an iterate gains by violating.

        Raises:
            InvalidSetting: there was no reference.
        """
        if self.optimum is None:
            raise InvalidSetting("A gap needs the optimum: give reference=solve(...) to the method.")
        return self.optimum - self.objective

    def reached(self, epsilon: float) -> int | None:
        """The iteration from which on, up to the last, :math:`|F^*-F|` and all :math:`[R]_+` stay within ε.

        Returns:
            The index of that iterate, or ``None`` if the last one is not within ε.

        Raises:
            InvalidSetting: there was no reference.
        """
        outside = np.flatnonzero((np.abs(self.gap) > epsilon) | (self.violation > epsilon))
        first = int(outside[-1]) + 1 if outside.size else 0
        return first if first < self.objective.size else None


@dataclass(frozen=True, eq=False)
class DescentResult:
    """Where a penalty method ended.

    Attributes:
        status: ``"stationary"``: the tolerance is met; ``"stalled"``: the line search found no lower point;
            ``"exhausted"``: all iterations were made.
        last: the problem at the last iterate, with its policy.
        history: of all (outer) iterates.
        inner_solved: share of the inner problems that were solved to their tolerance; 1 without inner problems.
        guarantees: which of the paper's guarantees hold; ``None`` without reference.
    """

    status: Status
    last: SoftmaxPoint
    history: History
    inner_solved: float
    guarantees: Guarantees | None

    @property
    def policy(self) -> FloatArray:
        """π of the last iterate, ``(n_states, n_actions)``."""
        return self.last.policy

    @property
    def iterations(self) -> int:
        """(Outer) iterations made."""
        return self.history.objective.size - 1
