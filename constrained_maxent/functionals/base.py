"""The contract of a functional F(λ): value, derivative, and what else it may be able to do; and sums of functionals."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from constrained_maxent.errors import InvalidData, InvalidSetting, UnsupportedFunctional
from constrained_maxent.functionals.convex import ConicOccupancy, Curvature, Majorant, scaled_curvature
from constrained_maxent.functionals.terms import EngineTerm
from constrained_maxent.types import FloatArray, Measure, Points, is_number

if TYPE_CHECKING:  # Slow to load, and only the convex solver needs it.
    import cvxpy as cp

CostFunction = Callable[[Any, Any, Any], float]
"""A cost ``(observation, action, next_observation) -> float``, charged where the action was taken."""


class OwnReward(Enum):
    """The environment's own reward, as what is observed on a step; its value is the name under which it is recorded."""

    OWN_REWARD = "reward()"


OWN_REWARD = OwnReward.OWN_REWARD
"""The one member of :class:`OwnReward`."""

Source = str | CostFunction | OwnReward
"""Where a number comes from on each step: a key of ``info``, a function, or the environment's own reward."""


def as_measure(occupancy: Measure | ArrayLike) -> Measure:
    """A measure as it is; a table as the measure of all its cells."""
    return occupancy if isinstance(occupancy, Measure) else Measure.from_table(occupancy)


@dataclass(frozen=True, eq=False)
class Functional(ABC):
    r"""A function :math:`F` of the occupancy measure :math:`\lambda`; as a constraint it reads F(λ) ≤ ``limit``.

    A subclass implements :meth:`value` and :meth:`derivative`, and can be trained with on any estimate of λ. Whatever
    else it can do it says by overriding a method. Who needs one that is missing raises
    :class:`~constrained_maxent.errors.UnsupportedFunctional`, which names it:

    =================== ============================================== =========================================
    method              says                                           is needed by
    =================== ============================================== =========================================
    ``curvature``       whether F is affine, concave or convex         the oracle
    ``conic``           F as a CVXPY expression                        the oracle, unless F is affine
    ``majorant``        an upper bound of F; by default its tangent    tighter certificates
    ``support``         where F can be finite                          the oracle
    ``exact``           F without smoothing                            exact values, the oracle
    ``engine_terms``    F as terms that can be compiled                ``TabularEngine``, unless F is affine
    ``integrand``       f, where F is the expectation of f under λ     intervals of ``evaluation``
    ``observing``       what is recorded on each step                  functions of steps
    ``charges``         how the derivative follows what is recorded    functionals of recorded quantities
    ``tabulated``       F with tables for what is recorded             exact values of functions of steps
    ``needs_table``     whether F is of cells, and of no density       a refusal when wrapping
    ``periodic``        the angles of a reference                      a check against those of the estimator
    ``sees_places``     whether it looks at observations               what is stored of pictures
    ``sees_samples``    whether it looks at samples of λ               what travels through a cluster
    ``resolved``        F with what its first estimate settles         shares of the first batch's spread
    ``rewards_ends``    whether F pays for the end of episodes         a warning
    ``label``           what tables call its value, with the unit      tables and figures
    ``formula``         how formulas write F(λ)                        reports
    =================== ============================================== =========================================

    ``F + G``, ``F - G``, ``-F`` and ``2.0 * F`` are functionals too, which can do what all their parts can do.

    Args:
        limit: of the constraint, in the units of F; an objective does not use it.

    Raises:
        InvalidSetting: a limit that is not finite.
    """

    _: KW_ONLY
    limit: float = 0.0

    # NumPy's numbers leave the multiplication by a functional to it.
    __array_ufunc__: ClassVar[None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", _checked_limit(self.limit))

    @abstractmethod
    def value(self, measure: Measure) -> float:
        r""":math:`F(\lambda)` of any measure: all cells of a finite space, some of them, or samples of a density."""

    @abstractmethod
    def derivative(self, measure: Measure, points: Points) -> FloatArray:
        r""":math:`\partial F/\partial\lambda(s,a)` at a measure, asked for at any points, in their shape (float64)."""

    def __call__(self, occupancy: Measure | ArrayLike) -> float:
        """:math:`F(λ)` of a measure, or of a table λ(s, a) of shape ``(n_states, n_actions)``."""
        return float(self.value(as_measure(occupancy)))

    def gradient(self, occupancy: Measure | ArrayLike) -> FloatArray:
        r"""The derivative at the measure's own points, read-only; of a table ``(n_states, n_actions)`` a table."""
        measure = as_measure(occupancy)
        gradient = self.derivative(measure, measure.points)
        if gradient.shape != measure.points.density.shape:
            return np.broadcast_to(gradient, measure.points.density.shape)
        gradient = gradient.view()
        gradient.flags.writeable = False
        return gradient

    def with_limit(self, limit: float) -> Self:
        """The same functional with another limit."""
        changed = copy.copy(self)
        object.__setattr__(changed, "limit", _checked_limit(limit))
        return changed

    def excess(self, value: float) -> float:
        """R = F - limit of a value of F; 0 where they differ by rounding, which would be no violation."""
        excess = value - self.limit
        return excess if abs(excess) > 1e-12 * abs(self.limit) else 0.0

    @property
    def label(self) -> str:
        """What tables call its value, with the unit."""
        return "objective"

    @property
    def formula(self) -> str:
        """How formulas write F(λ); ``_ref`` behind a letter is its index."""
        return f"{type(self).__name__}(λ)"

    def check(self, n_states: int, n_actions: int) -> None:
        """Raise ``InvalidData`` if this functional does not fit a finite space of that size; by default it does."""

    @property
    def needs_table(self) -> bool:
        """Whether it is of the cells of a finite space, and cannot be asked of a density."""
        return False

    def require_trainable(self) -> None:
        """Raise ``InvalidSetting`` if the derivative is infinite in empty cells; by default it is not."""

    @property
    def periodic(self) -> Sequence[int] | None:
        """The coordinates of a reference's states that are angles; ``None`` without such a reference."""
        return None

    @property
    def sees_places(self) -> bool:
        """Whether value or derivative look at ``points.observations``; if none does, pictures need not be stored."""
        return True

    @property
    def sees_samples(self) -> bool:
        """Whether the derivative at given points looks at the samples of a density λ, at ``measure.points``.

        If no functional does, those who only give rewards need not have the samples.
        """
        return True

    def exact(self) -> Functional:
        """This functional without smoothing; by default it has none."""
        return self

    def integrand(self, measure: Measure, points: Points) -> FloatArray | None:
        r"""The function f, which may depend on λ, with :math:`F(\lambda) = E_\lambda[f]`; ``None`` if there is none."""
        return None

    def observing(self, name: str) -> tuple[Functional, dict[str, Source]]:
        """This functional as one of recorded quantities, and what has to be recorded on each step, by name.

        A function is recorded under ``<name>()``, for the name of a constraint or ``"objective"``.
        """
        return self, {}

    def charges(self, measure: Measure) -> Mapping[str, float]:
        r"""By how much the derivative at a step grows with each quantity that is recorded there, by name.

        .. math:: \frac{\partial F}{\partial\lambda}(s_t,a_t) = g(s_t,a_t) + \sum_k \mathrm{charges}_k\,c_{k,t},

        where g is the derivative at points whose recorded quantities are all 0.
        """
        return {}

    def tabulated(self, table_of: Callable[[str], FloatArray]) -> Functional:
        """This functional with a table ``(n_states, n_actions)``, by name, in place of each recorded quantity."""
        return self

    def resolved(self, measure: Measure, periodic: Sequence[int] = ()) -> Functional:
        """This functional with what the first estimate of a run settles; by default nothing is.

        Args:
            measure: λ̂ of the first fit.
            periodic: coordinates of its states that are angles in radians.
        """
        return self

    def state_dict(self) -> dict[str, Any]:
        """What ``resolved`` has settled, as plain data; empty if nothing."""
        return {}

    def with_state(self, state: Mapping[str, Any]) -> Functional:
        """This functional as ``state_dict`` described it.

        Raises:
            InvalidSetting: it describes another one.
        """
        if state:
            raise InvalidSetting(f"{type(self).__name__} has nothing that a first batch settles")
        return self

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing left for ``resolved`` to settle."""
        return True

    @property
    def cell_sizes(self) -> tuple[float, ...] | None:
        """Sizes of the cells whose entropy it is, where λ is a density; ``None`` without, or before they are known."""
        return None

    def rewards_ends(self, measure: Measure) -> float | None:
        """The entropy [nats] of λ̂, made a probability, if that is negative, so that every step of life lowers F."""
        return None

    def engine_terms(self, n_states: int, n_actions: int) -> Sequence[EngineTerm]:
        """F on a finite space as a sum of terms that the engine can compile.

        Raises:
            UnsupportedFunctional: it is none, unless this is overridden or F is linear.
        """
        if self.curvature == "affine" and self(np.zeros((n_states, n_actions))) == 0.0:
            return [EngineTerm(kind="linear", table=self.coefficients(n_states, n_actions))]
        self._lacks("engine_terms", "override engine_terms(n_states, n_actions) to use it with TabularEngine")

    @property
    def curvature(self) -> Curvature:
        """``"affine"``, ``"concave"``, ``"convex"``, or ``"unknown"``, the default: over all λ ≥ 0."""
        return "unknown"

    def coefficients(self, n_states: int, n_actions: int) -> FloatArray:
        r"""The table c of an affine functional :math:`\langle c, \lambda\rangle + k`, ``(n_states, n_actions)``.

        Raises:
            UnsupportedFunctional: the functional is not known to be affine.
        """
        if self.curvature != "affine":
            self._lacks("coefficients", "only functionals with curvature 'affine' have them")
        return self.gradient(np.zeros((n_states, n_actions)))

    def support(self, n_states: int, n_actions: int) -> NDArray[np.bool_]:
        """Where λ may have mass with F still finite, ``(n_states, n_actions)``; by default everywhere."""
        return np.ones((n_states, n_actions), dtype=np.bool_)

    def conic(self, occupancy: ConicOccupancy) -> cp.Expression:
        """F without smoothing as an expression of CVXPY that follows its rules of concave and convex expressions.

        Raises:
            UnsupportedFunctional: it has none, unless this is overridden or F is affine.
        """
        if self.curvature != "affine":
            self._lacks("conic", "override conic(occupancy) with a concave or convex expression of CVXPY")
        size = occupancy.n_states, occupancy.n_actions
        linear = occupancy.on_cells(self.coefficients(*size)) @ occupancy.mass
        constant = self(np.zeros(size))
        return linear if constant == 0.0 else linear + constant

    def majorant(self, factor: float, occupancy: FloatArray, subgradients: Mapping[int, FloatArray]) -> Majorant:
        r"""A function of closed supremum that lies nowhere below factor · F, which is concave.

        By default it is the tangent :math:`F(\lambda^*) + \langle\nabla F(\lambda^*), \lambda-\lambda^*\rangle`.

        Args:
            factor: of any sign; F has no smoothing.
            occupancy: λ*, where it should be close, ``(n_states, n_actions)``.
            subgradients: of F in the variable that a functional defined in ``conic``, by that functional's ``id``.
        """
        if self.curvature == "affine":
            return Majorant(factor * self(np.zeros(occupancy.shape)), factor * self.coefficients(*occupancy.shape))
        gradient = self.gradient(occupancy)
        there = float(np.sum(np.where(occupancy > 0.0, gradient, 0.0) * occupancy))
        return Majorant(factor * (self(occupancy) - there), factor * gradient)

    def _lacks(self, capability: str, remedy: str) -> NoReturn:
        raise UnsupportedFunctional(type(self).__name__, capability, f"{remedy}.")

    def __add__(self, other: Functional) -> Combination:
        return _combined((1.0, self), (1.0, other)) if isinstance(other, Functional) else NotImplemented

    def __sub__(self, other: Functional) -> Combination:
        return _combined((1.0, self), (-1.0, other)) if isinstance(other, Functional) else NotImplemented

    def __neg__(self) -> Combination:
        return _combined((-1.0, self))

    def __mul__(self, factor: float) -> Combination:
        return _combined((factor, self)) if is_number(factor) else NotImplemented

    __rmul__ = __mul__


@dataclass(frozen=True, eq=False)
class Combination(Functional):
    r"""A weighted sum of functionals, :math:`F(\lambda) = \sum_i w_i F_i(\lambda)`: what ``+``, ``-`` and ``*`` make.

    Args:
        parts: :math:`(w_i, F_i)`, none of them a combination.
        limit: the constraint reads F(λ) ≤ ``limit``.

    Raises:
        InvalidSetting: a part has a limit of its own, or a weight is not finite.
        InvalidData: two parts have references over different angles.

    >>> from constrained_maxent.functionals import Entropy, LinearCost
    >>> (0.5 * Entropy(smoothing=0.0) - LinearCost([[1.0, 0.0]]))([[1.0, 0.0]])
    -1.0
    """

    parts: tuple[tuple[float, Functional], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        for weight, part in self.parts:
            if not np.isfinite(weight):
                raise InvalidSetting(f"The factor {weight!r} of {type(part).__name__} must be a finite number.")
            if part.limit != 0.0:
                raise InvalidSetting(
                    f"limit={part.limit!r} of {type(part).__name__}: the limit belongs to the constraint, not to parts "
                    "of a sum. Give it to the wrapper, ConvexConstraint(env, F + G, limit=...), or to "
                    "(F + G).with_limit(...)."
                )
        angles = {tuple(sorted(part.periodic)) for _, part in self.parts if part.periodic is not None}
        if len(angles) > 1:
            raise InvalidData(f"The references of a sum have different angles: periodic={sorted(angles)}.")

    def value(self, measure: Measure) -> float:
        return sum((weight * part.value(measure) for weight, part in self.parts), 0.0)

    def derivative(self, measure: Measure, points: Points) -> FloatArray:
        terms = (weight * part.derivative(measure, points) for weight, part in self.parts)
        return sum(terms, np.zeros(points.density.shape))

    def check(self, n_states: int, n_actions: int) -> None:
        for _, part in self.parts:
            part.check(n_states, n_actions)

    @property
    def needs_table(self) -> bool:
        return any(part.needs_table for _, part in self.parts)

    def require_trainable(self) -> None:
        for _, part in self.parts:
            part.require_trainable()

    @property
    def periodic(self) -> Sequence[int] | None:
        return next((part.periodic for _, part in self.parts if part.periodic is not None), None)

    def exact(self) -> Functional:
        return self._of(part.exact() for _, part in self.parts)

    def integrand(self, measure: Measure, points: Points) -> FloatArray | None:
        total = np.zeros(points.density.shape)
        for weight, part in self.parts:
            f = part.integrand(measure, points)
            if f is None:
                return None
            total = total + weight * f
        return total

    def observing(self, name: str) -> tuple[Functional, dict[str, Source]]:
        parts: list[Functional] = []
        sources: dict[str, Source] = {}
        for i, (_, part) in enumerate(self.parts):
            observing, found = part.observing(name)
            if any(sources.get(key, source) != source for key, source in found.items()):
                # Two functions of one constraint.
                observing, found = part.observing(f"{name}_{i}")
            parts.append(observing)
            sources |= found
        return self._of(parts), sources

    def charges(self, measure: Measure) -> Mapping[str, float]:
        total: dict[str, float] = {}
        for weight, part in self.parts:
            for name, charge in part.charges(measure).items():
                total[name] = total.get(name, 0.0) + weight * charge
        return total

    def resolved(self, measure: Measure, periodic: Sequence[int] = ()) -> Functional:
        return self._of(part.resolved(measure, periodic) for _, part in self.parts)

    def state_dict(self) -> dict[str, Any]:
        return {str(i): state for i, (_, part) in enumerate(self.parts) if (state := part.state_dict())}

    def with_state(self, state: Mapping[str, Any]) -> Functional:
        return self._of(part.with_state(state.get(str(i), {})) for i, (_, part) in enumerate(self.parts))

    @property
    def is_settled(self) -> bool:
        return all(part.is_settled for _, part in self.parts)

    @property
    def cell_sizes(self) -> tuple[float, ...] | None:
        return next((sizes for _, part in self.parts if (sizes := part.cell_sizes) is not None), None)

    def rewards_ends(self, measure: Measure) -> float | None:
        found = (part.rewards_ends(measure) for weight, part in self.parts if weight > 0.0)
        return next((entropy for entropy in found if entropy is not None), None)

    def tabulated(self, table_of: Callable[[str], FloatArray]) -> Functional:
        return self._of(part.tabulated(table_of) for _, part in self.parts)

    def engine_terms(self, n_states: int, n_actions: int) -> Sequence[EngineTerm]:
        return [
            replace(term, weight=weight * term.weight)
            for weight, part in self.parts
            for term in part.engine_terms(n_states, n_actions)
        ]

    @property
    def formula(self) -> str:
        terms = [("−" if weight < 0.0 else "+", abs(weight), part.formula) for weight, part in self.parts]
        words = [f"{sign} {formula}" if size == 1.0 else f"{sign} {size:g} {formula}" for sign, size, formula in terms]
        return " ".join(words).removeprefix("+ ")

    @property
    def curvature(self) -> Curvature:
        curved = {scaled_curvature(part.curvature, weight) for weight, part in self.parts} - {"affine"}
        return "unknown" if len(curved) > 1 else next(iter(curved), "affine")

    @property
    def sees_places(self) -> bool:
        return any(part.sees_places for _, part in self.parts)

    @property
    def sees_samples(self) -> bool:
        return any(part.sees_samples for _, part in self.parts)

    def support(self, n_states: int, n_actions: int) -> NDArray[np.bool_]:
        support = super().support(n_states, n_actions)
        for _, part in self.parts:
            support = support & part.support(n_states, n_actions)
        return support

    def conic(self, occupancy: ConicOccupancy) -> cp.Expression:
        if not self.parts:
            return super().conic(occupancy)
        return sum(weight * part.conic(occupancy) for weight, part in self.parts)

    def majorant(self, factor: float, occupancy: FloatArray, subgradients: Mapping[int, FloatArray]) -> Majorant:
        total = Majorant(0.0, np.zeros(occupancy.shape))
        for weight, part in self.parts:
            own = {owner: subgradient / weight for owner, subgradient in subgradients.items()}
            total = total + part.majorant(factor * weight, occupancy, own)
        return total

    def _of(self, parts: Iterable[Functional]) -> Combination:
        return replace(self, parts=tuple((weight, part) for (weight, _), part in zip(self.parts, parts, strict=True)))


def _combined(*terms: tuple[float, Functional]) -> Combination:
    """A sum without sums in it, in which a functional that occurs twice is one part."""
    sums: dict[int, tuple[float, Functional]] = {}
    for weight, term in terms:
        inner = term.parts if isinstance(term, Combination) and term.limit == 0.0 else ((1.0, term),)
        for factor, part in inner:
            sums[id(part)] = (sums.get(id(part), (0.0, part))[0] + float(weight) * factor, part)
    return Combination(tuple((weight, part) for weight, part in sums.values() if weight != 0.0))


def _checked_limit(limit: float) -> float:
    try:
        if is_number(limit) and math.isfinite(limit):
            return float(limit)
    except OverflowError:
        pass
    raise InvalidSetting(f"limit={limit!r:.40} must be a finite number.")
