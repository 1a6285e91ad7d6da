"""What the oracle is asked, and what it answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained_maxent.errors import DuplicateName, InvalidSetting, UnsupportedFunctional
from constrained_maxent.functionals import Combination, Curvature, Entropy, Functional
from constrained_maxent.occupancy.weighting import Scale
from constrained_maxent.oracle.planning import best_return
from constrained_maxent.oracle.tabular import TabularMDP
from constrained_maxent.penalties import Exact, Penalty, Quadratic
from constrained_maxent.types import FloatArray

Constraints = Mapping[str, Functional] | Sequence[Functional]
"""F(λ) ≤ ``limit``, by name, or in order: then they are named by kind and position."""

FixedPenalty = Quadratic | Exact
"""The penalties that do not change during training."""


@dataclass(frozen=True, eq=False)
class ConvexProblem:
    """Maximize a concave functional of λ under convex constraints.

    Attributes:
        objective: F, without smoothing.
        inequalities: F(λ) ≤ ``limit`` by name, without smoothing.
        equalities: F(λ) = ``limit`` by name.
        penalties: of the inequalities that are penalized instead of enforced, by name.
        scale: of λ.
    """

    objective: Functional
    inequalities: Mapping[str, Functional]
    equalities: Mapping[str, Functional]
    penalties: Mapping[str, FixedPenalty]
    scale: Scale

    @property
    def constraints(self) -> dict[str, Functional]:
        """Inequalities and equalities by name."""
        return {**self.inequalities, **self.equalities}

    def support(self, mdp: TabularMDP) -> NDArray[np.bool_]:
        """Where no functional is infinite, ``(n_states, n_actions)``; ``InvalidData`` for tables of another size."""
        support = np.ones(mdp.shape, dtype=np.bool_)
        for functional in (self.objective, *self.constraints.values()):
            functional.check(*mdp.shape)
            support &= functional.support(*mdp.shape)
        return support

    def residuals(self, occupancy: FloatArray) -> dict[str, float]:
        """R = F(λ) - limit of each constraint, by name."""
        return {name: functional(occupancy) - functional.limit for name, functional in self.constraints.items()}

    def violations(self, residuals: Mapping[str, float]) -> dict[str, float]:
        """[R]₊ of each constraint that is enforced, |R| of an equality, by name."""
        return {
            name: abs(residual) if name in self.equalities else max(residual, 0.0)
            for name, residual in residuals.items()
            if name not in self.penalties
        }


    def in_units_of(self, unit: float) -> ConvexProblem:
        """The same problem with objective and penalties divided by the unit."""
        penalties = {name: replace(penalty, beta=penalty.beta / unit) for name, penalty in self.penalties.items()}
        return replace(self, objective=(1.0 / unit) * self.objective, penalties=penalties)


def size_of(functional: Functional, occupancy: FloatArray) -> float:
    """The size of what is compared in F(λ) ≤ ``limit``, above 0: of the limit, of F, or of the terms of its sum."""
    value = abs(functional(occupancy))
    if functional.curvature == "affine":
        table = functional.coefficients(*occupancy.shape)
        value = max(value, float((np.abs(table) * occupancy).sum()))
    return max(abs(functional.limit), value if math.isfinite(value) else 0.0) or 1.0


def largest_of(mdp: TabularMDP, functional: Functional, scale: Scale) -> float:
    """What violations of F(λ) ≤ ``limit`` are measured by: the limit, or where it is 0 the most that F could be."""
    if functional.limit != 0.0:
        return abs(functional.limit)
    if functional.curvature == "affine":
        return best_return(mdp, np.abs(functional.coefficients(*mdp.shape)), scale=scale) or 1.0
    return mdp.weighting(scale).full_mass


def objective_unit(mdp: TabularMDP, objective: Functional, scale: Scale) -> float:
    """The size of F per unit of mass where that is far from 1, which tolerances are for; else 1."""
    parts = objective.parts if isinstance(objective, Combination) else ((1.0, objective),)
    mass, size = mdp.weighting(scale).full_mass, 0.0
    for weight, part in parts:
        part.check(*mdp.shape)
        if part.curvature == "affine":
            size += abs(weight) * float(np.abs(part.coefficients(*mdp.shape)).max())
        else:
            uniform = mdp.occupancy(np.full(mdp.shape, 1.0 / mdp.n_actions), scale=scale)
            size += abs(weight * part(uniform)) / mass
    return 1.0 if size == 0.0 or 1e-3 <= size <= 1e3 or not math.isfinite(size) else size * mass


@dataclass(frozen=True, eq=False)
class Solution:
    """The global optimum of a constrained problem over all occupancy measures.

    Attributes:
        problem: what was solved.
        status: ``"optimal"`` if within 1e-6 are the gap and the price of the violations, ν[R]₊, relative to the value
            where that is above ``unit``, and ``primal_residual``; else ``"inaccurate"``: look at these.
        value: objective at the optimum [nats for entropies], of ``occupancy``, exactly.
        penalized_value: value minus penalties; equal to ``value`` in a problem without penalties.
        occupancy: λ*, ``(n_states, n_actions)``; exactly that of ``policy``.
        policy: π*, ``(n_states, n_actions)`` at infinite horizon; ``(horizon, n_states, n_actions)`` at a finite one.
            Where λ* has no mass it is uniform over the actions that no divergence forbids.
        constraints: R of each constraint, at ``occupancy``.
        multipliers: ν* of each constraint that is not penalized, and the slope ℒ' of those that are.
        dual_bound: no occupancy has a larger (penalized) value; holds whatever the solver did.
        primal_residual: the largest of how far the program's own λ is from ``occupancy``, relative to the mass where
            that is above 1, and of the violations, relative to the limits; where these are 0, to the most that F could
            be.
        seconds: time of the solve.
        is_time_dependent: the policy depends on time, so that ``value`` is only an upper bound for stationary policies.
        unit: 1, or the size of the objective where that is far from it.
    """

    problem: ConvexProblem
    status: str
    value: float
    penalized_value: float
    occupancy: FloatArray
    policy: FloatArray
    constraints: Mapping[str, float]
    multipliers: Mapping[str, float]
    dual_bound: float
    primal_residual: float
    seconds: float
    is_time_dependent: bool
    unit: float = 1.0

    @property
    def gap(self) -> float:
        """Duality gap: how much better than ``penalized_value`` any occupancy could be.

        It is below 0 by rounding, where constraints are violated within ``primal_residual``.
        """
        return self.dual_bound - self.penalized_value

    @property
    def strong_duality(self) -> bool:
        """Whether optimum and dual bound agree within 1e-4, relative."""
        return abs(self.gap) <= 1e-4 * max(self.unit, abs(self.value))


@dataclass(frozen=True)
class Certificate:
    """What is certain about a policy.

    Attributes:
        value: objective of the policy, exactly.
        constraints: its R by name.
        violation: largest [R]₊ (of an equality |R|), 0 if all hold.
        breach: the same relative to each limit, or where that is 0 to the most that F could be: what ε says of a small
            limit is little.
        optimum: objective of the global optimum.
        gap: optimum minus value; negative for a policy that gains by violating.
        epsilon: the smallest ε for which the policy is (ε, ε)-optimal in the paper's sense: |gap| ≤ ε and [R]₊ ≤ ε.
        dual_bound: no feasible policy has a larger objective; holds whatever the solver did.
        multipliers: ν* by name.
        strong_duality: whether optimum and dual bound agree within 1e-4 relative. Slater's condition suffices for it
            but is not necessary; without it there may be no ν* that attains the bound, and those found are large.
        slater_margin: the largest m for which some policy has all R ≤ -m (equalities held); infinite without
            constraints, -inf if none was found.
        slater: whether Slater's condition was observed: a margin above 1e-7 of the smallest limit.
        is_time_dependent: the optimum is over time-dependent policies, an upper bound for stationary ones.
    """

    value: float
    constraints: Mapping[str, float]
    violation: float
    breach: float
    optimum: float
    gap: float
    epsilon: float
    dual_bound: float
    multipliers: Mapping[str, float]
    strong_duality: bool
    slater_margin: float
    slater: bool
    is_time_dependent: bool

    def to_json(self) -> dict[str, Any]:
        """Plain data; what is infinite becomes ``None``."""

        def plain(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {name: plain(entry) for name, entry in value.items()}
            return value if isinstance(value, bool) or math.isfinite(value) else None

        content: dict[str, Any] = plain(self.__dict__)
        return content


def fixed_penalties(penalties: Mapping[str, Penalty]) -> dict[str, FixedPenalty]:
    """The penalties; ``InvalidSetting`` is raised if one of them is neither ``Quadratic`` nor ``Exact``."""
    fixed: dict[str, FixedPenalty] = {}
    for name, penalty in penalties.items():
        if not isinstance(penalty, (Quadratic, Exact)):
            raise InvalidSetting(f"{name} is penalized by {type(penalty).__name__}: take Quadratic or Exact.")
        fixed[name] = penalty
    return fixed


def as_named(constraints: Constraints) -> dict[str, Functional]:
    """Constraints by name; those without one are named by kind and position."""
    if isinstance(constraints, Mapping):
        return dict(constraints)
    return {f"{type(functional).__name__}_{i}": functional for i, functional in enumerate(constraints)}


def convex_problem(
    mdp: TabularMDP,
    objective: Functional | None = None,
    constraints: Constraints = (),
    equalities: Constraints = (),
    penalties: Mapping[str, Penalty] | None = None,
    scale: Scale = "normalized",
) -> ConvexProblem:
    """The arguments of :func:`~constrained_maxent.oracle.solve`, checked, with its errors, and in one form."""
    inequalities, equal, fixed = as_named(constraints), as_named(equalities), fixed_penalties(penalties or {})
    if twice := inequalities.keys() & equal.keys():
        raise DuplicateName(f"Used twice: {', '.join(sorted(twice))}. Give the constraints names.")
    if unknown := fixed.keys() - inequalities.keys():
        raise InvalidSetting(f"There is no constraint {', '.join(sorted(unknown))} to penalize.")
    return ConvexProblem(
        objective=_prepared(mdp, Entropy() if objective is None else objective, "concave", "objective"),
        inequalities={name: _prepared(mdp, functional, "convex", name) for name, functional in inequalities.items()},
        equalities={name: _prepared(mdp, functional, "affine", name) for name, functional in equal.items()},
        penalties=fixed,
        scale=scale,
    )


def _prepared(mdp: TabularMDP, functional: Functional, wanted: Curvature, name: str) -> Functional:
    """The functional without smoothing, with tables, of the curvature wanted."""
    if functional.curvature not in ("affine", wanted):
        raise UnsupportedFunctional(
            type(functional).__name__,
            f"curvature {wanted!r}",
            f"it is {functional.curvature}, and the oracle maximizes concave functionals under convex constraints and "
            f"affine equalities. This concerns {name!r}.",
        )
    return mdp.with_tables(functional).exact()
