"""Numbers that change over a run: a geometric way from one value to another."""

from __future__ import annotations

import math
from dataclasses import dataclass

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.types import is_number


@dataclass(frozen=True)
class Geometric:
    r""":math:`x_k = x_0\,(x_1/x_0)^{k/n}` at iteration *k* up to *n*, and :math:`x_1` from then on.

    Args:
        start: x₀ > 0.
        end: x₁ > 0.
        iterations: n ≥ 1.

    >>> [round(Geometric(1.0, 100.0, 10).at(k), 6) for k in (0, 5, 50)]
    [1.0, 10.0, 100.0]
    """

    start: float
    end: float
    iterations: int

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            value = getattr(self, name)
            if not (is_number(value) and 0.0 < value < math.inf):
                raise InvalidSetting(f"{name}={value!r} of a geometric schedule must be a finite number above 0.")
        if not (is_number(self.iterations) and 1 <= self.iterations < math.inf) or self.iterations % 1:
            raise InvalidSetting(f"iterations={self.iterations!r} must be a whole number of at least 1.")

    def at(self, iteration: int) -> float:
        """The value in the batch that comes after so many iterations."""
        share = min(iteration, self.iterations) / self.iterations
        return self.start * math.exp(share * math.log(self.end / self.start))


Schedule = float | Geometric
"""A constant, or a way from one value to another."""


def value_at(schedule: Schedule, iteration: int) -> float:
    """The value of a schedule, constant or not."""
    return schedule.at(iteration) if isinstance(schedule, Geometric) else float(schedule)
