"""Step sizes of (projected) gradient and sub-gradient descent, and the descent itself, one iterate after another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.oracle.theory.arithmetic import check_positive
from constrained_maxent.types import FloatArray


class Differentiable(Protocol):
    """A point θ, and a function's value and (sub-)gradient there."""

    @property
    def theta(self) -> FloatArray: ...
    @property
    def value(self) -> float: ...
    @property
    def gradient(self) -> FloatArray: ...


P = TypeVar("P", bound=Differentiable)


@dataclass(frozen=True)
class StepRule(ABC):
    """An abstract rule of how far to go against the gradient; every rule is final."""

    @abstractmethod
    def size(self, iteration: int, previous: float) -> float:
        """η of this iteration, counted from 0; for a search the first one to try, after ``previous`` was taken."""

    def accepts(self, at: Differentiable, tried: Differentiable, size: float) -> bool:
        """Whether the step from one point to the other is good enough; else a smaller one is tried."""
        return True


@dataclass(frozen=True)
class ConstantStep(StepRule):
    """One η for all iterations, as in the paper's Algorithm 1.

    Args:
        eta: η > 0.
    """

    eta: float

    def __post_init__(self) -> None:
        check_positive(eta=self.eta)

    def size(self, iteration: int, previous: float) -> float:
        return self.eta


@dataclass(frozen=True)
class DiminishingStep(StepRule):
    r""":math:`\eta_k = \eta\,(1 + k/d)^{-p}`, for sub-gradients: a constant step keeps them swinging across a kink.

    Args:
        eta: η > 0.
        delay: d > 0, after which the step starts to fall [iterations].
        power: p > 0; 1/2 for convex functions, 1 for strongly convex ones.

    >>> DiminishingStep(1.0, delay=2.0, power=1.0).size(2, previous=1.0)
    0.5
    """

    eta: float
    delay: float = 1.0
    power: float = 0.5

    def __post_init__(self) -> None:
        check_positive(eta=self.eta, delay=self.delay, power=self.power)

    def size(self, iteration: int, previous: float) -> float:
        return float(self.eta * (1.0 + iteration / self.delay) ** -self.power)


@dataclass(frozen=True)
class BacktrackingStep(StepRule):
    r"""Armijo's search: halve η until :math:`f(\theta^+) \le f(\theta) - \frac{c}{\eta}\|\theta^+ - \theta\|^2`.

    The next search begins at twice the η that was taken, so η grows again where the function is flat. For smooth
    functions only: at a kink no step against a sub-gradient need go down.

    Args:
        first: the first η to try, > 0.
        decrease: c in (0, 1).
    """

    first: float = 1.0
    decrease: float = 0.5

    def __post_init__(self) -> None:
        check_positive(first=self.first)
        if not 0.0 < self.decrease < 1.0:
            raise InvalidSetting(f"decrease={self.decrease!r} must lie between 0 and 1.")

    def size(self, iteration: int, previous: float) -> float:
        return 2.0 * previous if iteration else self.first

    def accepts(self, at: Differentiable, tried: Differentiable, size: float) -> bool:
        moved = float(np.sum((tried.theta - at.theta) ** 2))
        return tried.value <= at.value - self.decrease / size * moved


def iterates(function: Callable[[FloatArray], P], at: P, rule: StepRule, radius: float) -> Iterator[P]:
    r"""``at``, and what follows it by :math:`\theta \leftarrow \mathrm{proj}[\theta - \eta\nabla f(\theta)]`.

    The projection is to the box :math:`[-R, R]` of the radius R. It ends only where the rule finds no acceptable step.
    """
    iteration, size = 0, np.nan
    yield at
    while True:
        size = rule.size(iteration, size)
        tried = function(np.clip(at.theta - size * at.gradient, -radius, radius))
        while not rule.accepts(at, tried, size):
            size /= 2.0
            theta = np.clip(at.theta - size * at.gradient, -radius, radius)
            if np.array_equal(theta, at.theta):
                return
            tried = function(theta)
        at, iteration = tried, iteration + 1
        yield at


def slope(at: Differentiable, radius: float) -> float:
    r"""Norm of the (sub-)gradient without what points out of the box :math:`[-R, R]`; 0 at a stationary point."""
    outwards = ((at.theta >= radius) & (at.gradient < 0.0)) | ((at.theta <= -radius) & (at.gradient > 0.0))
    return float(np.linalg.norm(np.where(outwards, 0.0, at.gradient)))
