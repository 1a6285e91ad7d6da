r"""Penalties :math:`\mathcal L(R)` of a constraint :math:`R(\lambda) \le 0`: value, slope, and update at a batch's end.

Each is an immutable strategy. ``updated`` returns the penalty to use from the next batch on, so multipliers change
without side effects. Because the penalty lives in the wrapper, every agent gets all of them.
"""

from __future__ import annotations

import math
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

    remedy: ClassVar[str] = "Raise what a violation costs, or train longer."
    """What to do where the limit is broken in the end."""

    formula: ClassVar[str] = "ℒ(R)"
    """How formulas write ℒ(R); ``_max`` behind a letter is its index."""

    # A field, so that Gymnasium, which writes specs by dataclasses.asdict, keeps it: beta alone tells no penalty.
    kind: str = field(init=False, repr=False, default="")
    """Name of the class."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.kind = cls.__name__

    @abstractmethod
    def value(self, violation: float) -> float:
        """ℒ(R), to be added to what is minimized [nats]."""

    @abstractmethod
    def slope(self, violation: float) -> float:
        """ℒ'(R), which multiplies the pseudo-reward of the constraint."""

    def updated(self, violation: float, progress: float) -> Self:
        """The penalty for the next batch. Fixed penalties return themselves.

        Args:
            violation: R of this batch.
            progress: share of the run that is over when the next batch begins, from 0 to 1: where schedules stand.
        """
        return self

    @property
    def has_schedule(self) -> bool:
        """Whether it changes with the progress of the run, whose end must then be known."""
        return False

    @property
    def asks_for_spread(self) -> bool:
        """Whether :meth:`with_spread` is to be called before the next batch is evaluated."""
        return False

    def with_spread(self, spread: float) -> Self:
        """The penalty once it is known by how much R differs from step to step. Most do not ask.

        Args:
            spread: standard deviation of ∂R/∂λ over the steps of a batch, weighted as in λ, times the mass of λ: of a
                cost, in the units of R, by how much it varies.
        """
        return self

    def state_dict(self) -> dict[str, float | None]:
        """The fields that change, by name."""
        return {name: getattr(self, name) for name in self.changing}

    def with_state(self, state: Mapping[str, Any]) -> Self:
        """This penalty with the fields of a ``state_dict``."""
        return replace(self, **state)

    def to_config(self) -> dict[str, Any]:
        """Plain data from which ``penalty_from_config`` makes an equal penalty."""
        return asdict(self)


_BETA_REMEDY = "Raise β, or take AdaptiveLagrangian(), which finds the price of a limit by itself."
_PRICE_REMEDY = (
    "Train longer, as the price is still rising, or let its rate grow, AdaptiveLagrangian(3, 60); if that does not "
    "help, perhaps no policy keeps the limit."
)


@dataclass(frozen=True)
class Quadratic(Penalty):
    r""":math:`\beta [R]_+^2`, the paper's method (eq. PEN).

    Not β/2: the proofs in the paper's appendix halve it, its algorithm does not.

    Args:
        beta: β ≥ 0 [nats / R²].

    >>> Quadratic(0.5).value(2.0), Quadratic(0.5).slope(2.0), Quadratic(0.5).slope(-1.0)
    (2.0, 2.0, 0.0)
    """

    formula: ClassVar[str] = "β[R]₊²"
    remedy: ClassVar[str] = _BETA_REMEDY
    beta: float

    def __post_init__(self) -> None:
        _require_nonnegative(beta=self.beta)

    def value(self, violation: float) -> float:
        return self.beta * max(violation, 0.0) ** 2

    def slope(self, violation: float) -> float:
        return 2.0 * self.beta * max(violation, 0.0)


@dataclass(frozen=True)
class QuadraticContinuation(Penalty):
    r""":math:`\beta [R]_+^2` with a β that goes geometrically from ``start`` to ``end`` over the run.

    A small β leaves a large violation, a large one from the start keeps the agent from exploring at all: at first it
    would learn nothing but the constraint.

    Args:
        start, end: β in the first batch and at the end of the run, above 0 [nats / R²].
        progress: share of the run that is over, from 0 to 1.

    >>> penalty = QuadraticContinuation(1.0, 100.0)
    >>> round(penalty.beta, 6), round(penalty.updated(0.3, progress=0.5).beta, 6)
    (1.0, 10.0)
    """

    formula: ClassVar[str] = "β[R]₊², β growing from start to end"
    remedy: ClassVar[str] = _BETA_REMEDY
    changing: ClassVar[tuple[str, ...]] = ("progress",)

    start: float
    end: float
    progress: float = 0.0

    def __post_init__(self) -> None:
        Geometric(self.start, self.end)  # checks them
        _require_progress(self.progress)

    @property
    def has_schedule(self) -> bool:
        return True

    @property
    def beta(self) -> float:
        """β of this batch."""
        return Geometric(self.start, self.end).at(self.progress)

    def value(self, violation: float) -> float:
        return Quadratic(self.beta).value(violation)

    def slope(self, violation: float) -> float:
        return Quadratic(self.beta).slope(violation)

    def updated(self, violation: float, progress: float) -> Self:
        return replace(self, progress=progress)


@dataclass(frozen=True)
class Exact(Penalty):
    r""":math:`\beta [R]_+`, the non-smooth exact penalty (paper, appendix *Unified Penalty Framework*).

    Args:
        beta: β ≥ 0 [nats / R]. Exact once it exceeds the constraint's multiplier.
    """

    formula: ClassVar[str] = "β[R]₊"
    remedy: ClassVar[str] = _BETA_REMEDY
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

    formula: ClassVar[str] = "μR"
    remedy: ClassVar[str] = _PRICE_REMEDY
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

    def updated(self, violation: float, progress: float) -> Self:
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

    formula: ClassVar[str] = "([μ + 2βR]₊² − μ²) / 4β"
    remedy: ClassVar[str] = _PRICE_REMEDY
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

    def updated(self, violation: float, progress: float) -> Self:
        step = 2.0 * self.beta if self.learning_rate is None else self.learning_rate
        return replace(self, multiplier=max(self.multiplier + step * violation, 0.0))


@dataclass(frozen=True)
class AdaptiveLagrangian(Penalty):
    r"""An augmented Lagrangian in units of the largest violation seen, :math:`R_{\max}`: nobody has to find a β.

    With :math:`\rho = R / R_{\max}` it is :math:`\frac{1}{2\eta}([m + \eta\rho]_+^2 - m^2)`, and after each batch
    :math:`m \leftarrow [m + \eta\rho]_+`: the classical method with :math:`\beta = \eta / 2R_{\max}^2` and
    :math:`\mu = m / R_{\max}`. A violation as large as any becomes dearer by η nats per batch, in whatever units the
    cost is, and as the violation shrinks *m* settles. A β that is raised until the limit holds would run away.

    A unit that is too small lets tiny violations shake a policy that keeps its limit but for noise. So R_max starts at
    the spread of what is constrained: of a cost, its standard deviation over the steps of the first batch in which it
    varies.

    A high price from the start keeps an agent from exploring at all; with ``final_rate`` η grows geometrically over
    the run.

    Args:
        rate: η > 0 [nats].
        final_rate: η at the end of the run; ``None`` for no change.
        price: m ≥ 0 at the start, what the largest violation costs [nats].
        largest_violation: R_max so far, at least 0 [R]. Given at the start, it is the least unit: violations that stay
            far below it hardly count. ``None`` for the spread, as soon as it is known.
        progress: share of the run that is over, from 0 to 1.

    >>> penalty = AdaptiveLagrangian().with_spread(0.1).updated(0.1, progress=0.0)
    >>> penalty.multiplier, penalty.slope(0.05)
    (10.0, 15.0)
    """

    formula: ClassVar[str] = "([m + ηR / R_max]₊² − m²) / 2η"
    remedy: ClassVar[str] = _PRICE_REMEDY
    changing: ClassVar[tuple[str, ...]] = ("price", "largest_violation", "progress")

    rate: float = 1.0
    final_rate: float | None = None
    price: float = 0.0
    largest_violation: float | None = None
    progress: float = 0.0

    def __post_init__(self) -> None:
        _require_nonnegative(rate=self.rate, price=self.price, largest_violation=self._unit)
        if self.rate == 0.0:
            raise InvalidSetting("rate=0 would never raise the multiplier: give a number above 0.")
        _require_progress(self.progress)
        self._rate()  # checks the schedule

    @property
    def has_schedule(self) -> bool:
        return self.final_rate is not None

    @property
    def asks_for_spread(self) -> bool:
        return self.largest_violation is None

    def with_spread(self, spread: float) -> Self:
        """With this R_max, if there is none yet; nothing that varies is no unit."""
        return replace(self, largest_violation=spread) if self.asks_for_spread and spread > 0.0 else self

    @property
    def _unit(self) -> float:
        """R_max; 0 as long as nobody knows one."""
        return 0.0 if self.largest_violation is None else self.largest_violation

    def _rate(self) -> float:
        """η of this batch."""
        return self.rate if self.final_rate is None else Geometric(self.rate, self.final_rate).at(self.progress)

    @property
    def multiplier(self) -> float:
        """μ [nats / R]; 0 as long as nothing was violated."""
        return self.price / self._unit if self._unit > 0.0 else 0.0

    def value(self, violation: float) -> float:
        inside = min(violation, self._unit)
        value = (self._shifted(inside) ** 2 - self.price**2) / (2.0 * self._rate())
        if inside < violation and self._unit > 0.0:
            value += self._shifted(inside) * math.log(violation / inside)
        return value

    def slope(self, violation: float) -> float:
        if self._unit == 0.0:
            return 0.0
        return self._shifted(min(violation, self._unit)) / max(violation, self._unit)

    def _shifted(self, violation: float) -> float:
        """[m + ηρ]₊; m itself as long as there is no unit to measure violations in."""
        if self._unit == 0.0:
            return self.price
        return max(self.price + self._rate() * violation / self._unit, 0.0)

    def updated(self, violation: float, progress: float) -> Self:
        widest = max(self._unit, violation)
        widened = replace(self, largest_violation=widest) if widest > 0.0 else self
        # Without a schedule a penalty must not differ from itself for nothing.
        now = progress if self.has_schedule else self.progress
        return replace(widened, price=widened._shifted(violation), progress=now)


_KINDS: dict[str, type[Penalty]] = {
    kind.__name__: kind
    for kind in (
        *(Quadratic, QuadraticContinuation, Exact),
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


def _require_progress(progress: float) -> None:
    if not (is_number(progress) and 0.0 <= progress <= 1.0):
        raise InvalidSetting(f"progress={progress!r} must lie between 0 and 1: the share of the run that is over.")
