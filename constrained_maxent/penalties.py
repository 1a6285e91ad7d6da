r"""Penalties :math:`\mathcal L(R)` of a constraint :math:`R(\lambda) \le 0`: value, slope, and update at a batch's end.

Each is an immutable strategy. ``updated`` returns the penalty to use from the next batch on, so multipliers change
without side effects. Because the penalty lives in the wrapper, every agent gets all of them.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Self

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.schedules import Geometric
from constrained_maxent.types import is_number


@dataclass(frozen=True)
class Penalty(ABC):
    """The contract: ``value`` and ``slope`` of a violation, and what the penalty becomes after a batch."""

    changing: ClassVar[tuple[str, ...]] = ()
    """Fields that ``updated`` changes: the part of a penalty that a checkpoint holds."""

    # A field, so that Gymnasium, which writes specs by dataclasses.asdict, keeps it: beta alone tells no penalty.
    kind: str = field(init=False, repr=False, default="")
    """Name of the class."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.kind = cls.__name__

    @abstractmethod
    def value(self, violation: float) -> float:
        """ℒ(R), to be added to what is minimised [nats]."""

    @abstractmethod
    def slope(self, violation: float) -> float:
        """ℒ'(R), which multiplies the pseudo-reward of the constraint."""

    def updated(self, violation: float) -> Self:
        """The penalty for the next batch, given R of this one. Fixed penalties return themselves."""
        return self

    def state_dict(self) -> dict[str, float]:
        """The fields that change, by name."""
        return {name: getattr(self, name) for name in self.changing}

    def with_state(self, state: Mapping[str, Any]) -> Self:
        """This penalty with the fields of a ``state_dict``."""
        return replace(self, **state)

    def to_config(self) -> dict[str, Any]:
        """Plain data from which ``penalty_from_config`` makes an equal penalty."""
        return asdict(self)


@dataclass(frozen=True)
class Quadratic(Penalty):
    r""":math:`\beta [R]_+^2`, the paper's method (eq. PEN).

    Not β/2: the proofs in the paper's appendix halve it, its algorithm does not.

    Args:
        beta: β ≥ 0 [nats / R²].

    >>> Quadratic(0.5).value(2.0), Quadratic(0.5).slope(2.0), Quadratic(0.5).slope(-1.0)
    (2.0, 2.0, 0.0)
    """

    beta: float

    def __post_init__(self) -> None:
        _require_nonnegative(beta=self.beta)

    def value(self, violation: float) -> float:
        return self.beta * max(violation, 0.0) ** 2

    def slope(self, violation: float) -> float:
        return 2.0 * self.beta * max(violation, 0.0)


@dataclass(frozen=True)
class QuadraticContinuation(Penalty):
    r""":math:`\beta_k [R]_+^2` with a β that goes geometrically from ``start`` to ``end``.

    A small β leaves a large violation, a large one from the start keeps the agent from exploring at all: at first it
    would learn nothing but the constraint.

    Args:
        start, end: β in the first batch and after ``iterations`` of them, above 0 [nats / R²].
        iterations: batches in between.
        iteration: k, batches so far.

    >>> penalty = QuadraticContinuation(1.0, 100.0, iterations=2)
    >>> round(penalty.beta, 6), round(penalty.updated(0.3).beta, 6)
    (1.0, 10.0)
    """

    changing: ClassVar[tuple[str, ...]] = ("iteration",)

    start: float
    end: float
    iterations: int
    iteration: int = 0

    def __post_init__(self) -> None:
        self._schedule()
        if not (is_number(self.iteration) and self.iteration >= 0) or self.iteration % 1:
            raise InvalidSetting(f"iteration={self.iteration!r} must be a whole number of at least 0.")

    def _schedule(self) -> Geometric:
        return Geometric(self.start, self.end, self.iterations)

    @property
    def beta(self) -> float:
        """β of this batch."""
        return self._schedule().at(self.iteration)

    def value(self, violation: float) -> float:
        return Quadratic(self.beta).value(violation)

    def slope(self, violation: float) -> float:
        return Quadratic(self.beta).slope(violation)

    def updated(self, violation: float) -> Self:
        return self if self.iteration >= self.iterations else replace(self, iteration=self.iteration + 1)


@dataclass(frozen=True)
class AdaptiveQuadratic(Penalty):
    r""":math:`\beta [R]_+^2` with a β that grows until the constraint holds within a tolerance.

    After each batch β ← β·growth if R > tolerance. At an optimum with the multiplier μ of the constraint the penalised
    problem leaves R = μ / 2β, so β ends near μ / (2·tolerance), whatever the units of the cost are. Nobody has to know
    it, nor how long a run will be.

    Args:
        tolerance: the violation that may remain, above 0, in units of R.
        beta: β at the start, above 0 [nats / R²].
        growth: at least 1.
        largest: upper bound of β.

    >>> penalty = AdaptiveQuadratic(tolerance=0.1, beta=2.0, growth=1.5)
    >>> penalty.updated(0.2).beta, penalty.updated(0.05).beta
    (3.0, 2.0)
    """

    changing: ClassVar[tuple[str, ...]] = ("beta",)

    tolerance: float
    beta: float = 1.0
    growth: float = 1.2
    largest: float = math.inf

    def __post_init__(self) -> None:
        for name in ("tolerance", "beta"):
            value = getattr(self, name)
            if not (is_number(value) and 0.0 < value < math.inf):
                raise InvalidSetting(f"{name}={value!r} must be a finite number above 0.")
        if not (is_number(self.growth) and 1.0 <= self.growth < math.inf):
            raise InvalidSetting(f"growth={self.growth!r} must be a finite number of at least 1.")
        if not (is_number(self.largest) and self.largest >= self.beta):
            raise InvalidSetting(f"largest={self.largest!r} must be a number of at least beta={self.beta!r}.")

    def value(self, violation: float) -> float:
        return Quadratic(self.beta).value(violation)

    def slope(self, violation: float) -> float:
        return Quadratic(self.beta).slope(violation)

    def updated(self, violation: float) -> Self:
        # NaN compares False, so it never raises β.
        if not violation > self.tolerance:
            return self
        return replace(self, beta=min(self.beta * self.growth, self.largest, sys.float_info.max))


@dataclass(frozen=True)
class Exact(Penalty):
    r""":math:`\beta [R]_+`, the non-smooth exact penalty (paper, appendix *Unified Penalty Framework*).

    Args:
        beta: β ≥ 0 [nats / R]. Exact once it exceeds the constraint's multiplier.
    """

    beta: float

    def __post_init__(self) -> None:
        _require_nonnegative(beta=self.beta)

    def value(self, violation: float) -> float:
        return self.beta * max(violation, 0.0)

    def slope(self, violation: float) -> float:
        """β where R > 0; at R = 0 the sub-gradient 0."""
        return self.beta if violation > 0.0 else 0.0


@dataclass(frozen=True)
class Lagrangian(Penalty):
    r""":math:`\mu R`, with dual ascent :math:`\mu \leftarrow [\mu + \eta R]_0^{\mu_{\max}}` per batch: primal-dual.

    Args:
        learning_rate: η ≥ 0, step of the multiplier [nats / R²]; 0 keeps it as it is.
        multiplier: μ at the start, from 0 to ``largest`` [nats / R].
        largest: upper bound of μ, for projection; ``inf`` for none.
    """

    changing: ClassVar[tuple[str, ...]] = ("multiplier",)

    learning_rate: float
    multiplier: float = 0.0
    largest: float = math.inf

    def __post_init__(self) -> None:
        _require_nonnegative(learning_rate=self.learning_rate, multiplier=self.multiplier)
        if not (is_number(self.largest) and self.largest > 0.0):
            raise InvalidSetting(f"largest={self.largest!r} must be above 0.")
        if self.multiplier > self.largest:
            raise InvalidSetting(f"multiplier={self.multiplier!r} must not exceed largest={self.largest!r}.")

    def value(self, violation: float) -> float:
        return self.multiplier * violation

    def slope(self, violation: float) -> float:
        return self.multiplier

    def updated(self, violation: float) -> Self:
        raised = self.multiplier + self.learning_rate * violation
        return replace(self, multiplier=min(max(raised, 0.0), self.largest))


@dataclass(frozen=True)
class AugmentedLagrangian(Penalty):
    r""":math:`\frac{1}{4\beta}([\mu + 2\beta R]_+^2 - \mu^2)`, which is :math:`\beta[R]_+^2` at μ = 0.

    After each batch :math:`\mu \leftarrow [\mu + \eta R]_+`, with the classical step η = 2β unless one is given
    (sampled violations want a smaller one).

    Args:
        beta: β > 0 [nats / R²].
        learning_rate: η ≥ 0, step of the multiplier [nats / R²]; ``None`` for 2β.
        multiplier: μ ≥ 0 at the start [nats / R].
    """

    changing: ClassVar[tuple[str, ...]] = ("multiplier",)

    beta: float
    learning_rate: float | None = None
    multiplier: float = 0.0

    def __post_init__(self) -> None:
        _require_nonnegative(beta=self.beta, multiplier=self.multiplier)
        if self.beta == 0.0:
            raise InvalidSetting("beta=0 makes no augmented Lagrangian: take Lagrangian, or a beta above 0.")
        if self.learning_rate is not None:
            _require_nonnegative(learning_rate=self.learning_rate)

    def value(self, violation: float) -> float:
        return (self.slope(violation) ** 2 - self.multiplier**2) / (4.0 * self.beta)

    def slope(self, violation: float) -> float:
        return max(self.multiplier + 2.0 * self.beta * violation, 0.0)

    def updated(self, violation: float) -> Self:
        step = 2.0 * self.beta if self.learning_rate is None else self.learning_rate
        return replace(self, multiplier=max(self.multiplier + step * violation, 0.0))


@dataclass(frozen=True)
class AdaptiveLagrangian(Penalty):
    r"""An augmented Lagrangian in units of the largest violation seen, :math:`R_{\max}`: nobody has to find a β.

    With :math:`\rho = R / R_{\max}` it is :math:`\frac{1}{2\eta}([m + \eta\rho]_+^2 - m^2)`, and after each batch
    :math:`m \leftarrow [m + \eta\rho]_+`: the classical method with :math:`\beta = \eta / 2R_{\max}^2` and
    :math:`\mu = m / R_{\max}`. A violation as large as any becomes dearer by η nats per batch, in whatever units the
    cost is, and as the violation shrinks *m* settles. A β that is raised until the limit holds would run away.

    A high price from the start keeps an agent from exploring at all; with ``final_rate`` η grows geometrically.

    Args:
        rate: η > 0 [nats].
        final_rate: η after ``iterations`` batches; ``None`` for no change.
        iterations: batches in between.
        price: m ≥ 0 at the start, what the largest violation costs [nats].
        largest_violation: R_max so far, at least 0 [R]. Given at the start, it is the least unit: violations that stay
            far below it hardly count.
        iteration: batches so far.

    >>> penalty = AdaptiveLagrangian().updated(0.1)
    >>> penalty.multiplier, penalty.slope(0.05)
    (10.0, 15.0)
    """

    changing: ClassVar[tuple[str, ...]] = ("price", "largest_violation", "iteration")

    rate: float = 1.0
    final_rate: float | None = None
    iterations: int | None = None
    price: float = 0.0
    largest_violation: float = 0.0
    iteration: int = 0

    def __post_init__(self) -> None:
        _require_nonnegative(rate=self.rate, price=self.price, largest_violation=self.largest_violation)
        if self.rate == 0.0:
            raise InvalidSetting("rate=0 would never raise the multiplier: give a number above 0.")
        if (self.final_rate is None) != (self.iterations is None):
            raise InvalidSetting("final_rate and iterations belong together: give both or neither.")
        if isinstance(self.iteration, bool) or not self.iteration >= 0 or self.iteration % 1:
            raise InvalidSetting(f"iteration={self.iteration!r} must be a whole number of at least 0.")
        self._rate()  # checks the schedule

    def _rate(self) -> float:
        """η of this batch."""
        if self.final_rate is None or self.iterations is None:
            return self.rate
        return Geometric(self.rate, self.final_rate, self.iterations).at(self.iteration)

    @property
    def multiplier(self) -> float:
        """μ [nats / R]; 0 as long as nothing was violated."""
        return self.price / self.largest_violation if self.largest_violation > 0.0 else 0.0

    def value(self, violation: float) -> float:
        inside = min(violation, self.largest_violation)
        value = (self._shifted(inside) ** 2 - self.price**2) / (2.0 * self._rate())
        if inside < violation and self.largest_violation > 0.0:
            value += self._shifted(inside) * math.log(violation / inside)
        return value

    def slope(self, violation: float) -> float:
        if self.largest_violation == 0.0:
            return 0.0
        return self._shifted(min(violation, self.largest_violation)) / max(violation, self.largest_violation)

    def _shifted(self, violation: float) -> float:
        """[m + ηρ]₊; m itself as long as there is no unit to measure violations in."""
        if self.largest_violation == 0.0:
            return self.price
        return max(self.price + self._rate() * violation / self.largest_violation, 0.0)

    def updated(self, violation: float) -> Self:
        widened = replace(self, largest_violation=max(self.largest_violation, violation))
        # Counting beyond the end of the schedule would make a penalty differ from itself for nothing.
        iteration = min(self.iteration + 1, self.iterations or 0)
        return replace(widened, price=widened._shifted(violation), iteration=iteration)


_KINDS: dict[str, type[Penalty]] = {
    kind.__name__: kind
    for kind in (
        *(Quadratic, QuadraticContinuation, AdaptiveQuadratic, Exact),
        *(Lagrangian, AugmentedLagrangian, AdaptiveLagrangian),
    )
}


def is_known_kind(penalty: Penalty) -> bool:
    """Whether ``penalty_from_config`` can make it again from its plain data: it is of no class of the user's own."""
    return _KINDS.get(type(penalty).__name__) is type(penalty)


def penalty_from_config(config: Mapping[str, Any]) -> Penalty:
    """The penalty that ``to_config`` described.

    Raises:
        InvalidSetting: unknown kind, or arguments that it does not take.
    """
    arguments = dict(config)
    name = arguments.pop("kind", None)
    if not isinstance(name, str) or name not in _KINDS:
        raise InvalidSetting(f"Unknown penalty {name!r}; choose from {', '.join(_KINDS)}.")
    try:
        return _KINDS[name](**arguments)
    except TypeError as error:
        raise InvalidSetting(f"{name} does not take these arguments: {error}.") from error


def _require_nonnegative(**values: float) -> None:
    for name, value in values.items():
        if not (is_number(value) and 0.0 <= value < math.inf):
            raise InvalidSetting(f"{name}={value!r} must be a finite number of at least 0.")
