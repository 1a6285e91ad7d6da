"""Numbers that change over a run, as functions of its progress: 0 where it begins, 1 at its planned end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.types import check_count, is_number


@dataclass(frozen=True)
class Geometric:
    r""":math:`x_0\,(x_1/x_0)^p` at progress *p* up to 1, and :math:`x_1` from then on.

    Args:
        start: x₀ > 0.
        end: x₁ > 0.

    >>> [round(Geometric(1.0, 100.0).at(progress), 6) for progress in (0.0, 0.5, 5.0)]
    [1.0, 10.0, 100.0]
    """

    start: float
    end: float

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            value = getattr(self, name)
            if not (is_number(value) and 0.0 < value < math.inf):
                raise InvalidSetting(f"{name}={value!r} of a geometric schedule must be a finite number above 0.")

    def at(self, progress: float) -> float:
        """The value where this share of the run is over."""
        return self.start * math.exp(min(progress, 1.0) * math.log(self.end / self.start))


Schedule = float | Geometric
"""A constant, or a way from one value to another."""


def value_at(schedule: Schedule, progress: float) -> float:
    """The value of a schedule, constant or not, where this share of the run is over."""
    return schedule.at(progress) if isinstance(schedule, Geometric) else float(schedule)


@dataclass(frozen=True)
class Plan:
    """The planned end of a run, counted from its beginning.

    Raises:
        InvalidSetting: the amount is no whole number of at least 1.
    """

    unit: Literal["iterations", "timesteps"]
    amount: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "amount", check_count(self.unit, self.amount))

    def progress(self, iterations: int, timesteps: int) -> float:
        """Share of the run that is over, from 0 to 1."""
        done = iterations if self.unit == "iterations" else timesteps
        return float(min(done, self.amount) / self.amount)

    def state_dict(self) -> dict[str, int]:
        """Plain data."""
        return {self.unit: self.amount}

    @classmethod
    def from_state(cls, state: Mapping[Any, Any] | None) -> Plan | None:
        """The plan of a checkpoint, if it has one. Raises ValueError: it is none."""
        if state is None:
            return None
        [(unit, amount)] = state.items()
        if unit not in ("iterations", "timesteps") or not (isinstance(amount, int) and amount >= 1):
            raise ValueError(f"{unit}={amount!r} is no plan of a run")
        return cls(unit, amount)
