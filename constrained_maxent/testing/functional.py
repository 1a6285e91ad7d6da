"""The contract of a functional of λ: its value and derivative, and every capability that it supplies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import xlogy

from constrained_maxent.errors import UnsupportedFunctional
from constrained_maxent.functionals import ConicOccupancy, EngineTerm, Functional
from constrained_maxent.functionals.convex import scaled_curvature
from constrained_maxent.testing.assertions import require
from constrained_maxent.types import FloatArray, Measure, Points

_STEP = 1e-4
_TRIALS = 8


def check_functional(functional: Functional, occupancy_table: ArrayLike) -> None:
    """Check a functional on a finite space: what it must do, and what it says that it can do.

    Value and derivative are held together by finite differences, curvature by pairs of tables, conic form, engine terms
    and integrand against the value, bounds by random tables, and what follows observed quantities against tables.
    Directions and tables are random, and the same in every call.

    Args:
        functional: differentiable at the table.
        occupancy_table: λ(s, a), ``(n_states, n_actions)``. Directions leave its zeros zero: give a positive table.

    Raises:
        AssertionError: what is wrong.

    >>> from constrained_maxent.functionals import Entropy, Reward
    >>> check_functional(Entropy() + 2.0 * Reward(), [[0.5, 0.25], [0.125, 0.125]])
    """
    table, rng = np.array(occupancy_table, dtype=np.float64), np.random.default_rng(0)
    functional.check(*table.shape)
    functional = _check_observations(functional, table, rng)
    _check_hooks(functional, table, rng)
    _check_differences(functional, table, rng)
    exact = functional.exact()
    require(
        math.isclose(exact.exact()(table), exact(table), rel_tol=1e-12, abs_tol=1e-12),
        "exact() must have no smoothing left",
    )
    _check_curvature(functional, table, rng)
    _check_curvature(exact, table, rng)
    _check_forms(functional, table)
    if exact.support(*table.shape)[table > 0.0].all():
        _check_conic(exact, table)
        _check_majorant(exact, table, rng)


def _check_observations(functional: Functional, table: FloatArray, rng: Generator) -> Functional:
    """The functional with random tables for what it observes, after a look at how it follows them."""
    observing, sources = functional.observing("constraint")
    tables = {name: rng.normal(size=table.shape) for name in sources}
    tabulated = observing.tabulated(lambda name: tables[name])
    measure = Measure.from_table(table, {name: float(np.sum(table * known)) for name, known in tables.items()})
    points = Points(density=table, state_density=measure.points.state_density, costs=tables)
    _require_close(observing.value(measure), tabulated.value(measure), "tabulated must have the value of observing")
    _require_close(
        observing.derivative(measure, points),
        tabulated.derivative(measure, measure.points),
        "tabulated must have the derivative of observing",
    )
    charges = observing.charges(measure)
    require(set(charges) <= set(sources), f"charges must be of what observing names, {sorted(sources)}")
    nothing = replace(points, costs={name: np.zeros(table.shape) for name in sources})
    charged = sum((charge * tables[name] for name, charge in charges.items()), np.zeros(table.shape))
    _require_close(
        observing.derivative(measure, nothing) + charged,
        observing.derivative(measure, points),
        "charges must say by how much the derivative follows what is observed",
    )
    return tabulated


def _check_hooks(functional: Functional, table: FloatArray, rng: Generator) -> None:
    measure, given = Measure.from_table(table), table.copy()
    value, derivative = functional.value(measure), functional.derivative(measure, measure.points)
    require(np.array_equal(table, given), "value and derivative must not change the table")
    require(isinstance(value, float) and math.isfinite(value), f"value must be a finite float, got {value!r}")
    require(
        derivative.shape == table.shape and derivative.dtype == np.float64,
        f"derivative must be float64 of shape {table.shape}, got {derivative.dtype} of shape {derivative.shape}",
    )
    require(bool(np.isfinite(derivative).all()), "derivative must be finite")
    require(functional(table) == value, "a table and its measure must have the same value")
    cells = rng.permutation(table.size)[: max(1, table.size // 2)]
    states = cells // table.shape[1]
    points = Points(density=table.reshape(-1)[cells], state_density=table.sum(axis=1)[states], cells=cells)
    require(
        np.allclose(functional.derivative(measure, points), derivative.reshape(-1)[cells], rtol=1e-9),
        "derivative(λ, points) must be the entries of derivative(λ) at the points' cells",
    )
    other = functional.with_limit(functional.limit + 1.0)
    require(
        other.limit == functional.limit + 1.0 and other(table) == value, "with_limit must change nothing but the limit"
    )


def _check_differences(functional: Functional, table: FloatArray, rng: Generator) -> None:
    derivative, value = functional.gradient(table), functional(table)
    for _ in range(_TRIALS):
        direction = table * rng.uniform(-1.0, 1.0, table.shape)
        ahead, behind = (functional(table + sign * _STEP * direction) for sign in (1.0, -1.0))
        difference, slope = (ahead - behind) / (2.0 * _STEP), float(np.sum(derivative * direction))
        tolerance = 1e-6 * (float(np.sum(np.abs(derivative * direction))) + abs(value)) + 1e-12
        require(
            abs(difference - slope) <= tolerance,
            f"the derivative must match finite differences: it gives {slope:.10g} along a direction in which the value "
            f"changes by {difference:.10g}",
        )


def _check_curvature(functional: Functional, table: FloatArray, rng: Generator) -> None:
    if functional.curvature == "unknown":
        return
    for _ in range(_TRIALS):
        first, second = (table * rng.exponential(size=table.shape) for _ in range(2))
        share = float(rng.uniform())
        mean = share * functional(first) + (1.0 - share) * functional(second)
        excess = functional(share * first + (1.0 - share) * second) - mean
        slack = 1e-9 * (1.0 + abs(mean))
        require(
            (functional.curvature == "convex" or excess >= -slack)
            and (functional.curvature == "concave" or excess <= slack),
            f"curvature is {functional.curvature!r}, but between two tables the value is {excess:g} above the chord",
        )


def _check_forms(functional: Functional, table: FloatArray) -> None:
    """The integrand and the engine's terms."""
    measure = Measure.from_table(table)
    f = functional.integrand(measure, measure.points)
    if f is not None:
        summed = float(np.sum(np.where(table > 0.0, f, 0.0) * table))
        _require_close(summed, functional(table), "the mean of integrand under λ must be the value")
    try:
        terms = functional.engine_terms(*table.shape)
    except UnsupportedFunctional:
        return
    value, slope = _sum_of(terms, table)
    _require_close(value, functional(table), "the sum of engine_terms must be the value")
    _require_close(slope, functional.gradient(table), "engine_terms must have the derivative")


def _sum_of(terms: Sequence[EngineTerm], table: FloatArray) -> tuple[float, FloatArray]:
    """The value of a sum of terms at a table, and its slope in each cell."""
    total, slopes = 0.0, np.zeros(table.shape)
    for term in terms:
        mass = table.sum(axis=1) if term.over_states else table.reshape(-1)
        entry = np.zeros_like(mass) if term.table is None else np.asarray(term.table, dtype=np.float64).reshape(-1)
        if term.kind == "linear":
            value, slope = float(mass @ entry), entry
        elif term.kind == "distance":
            value = float(np.linalg.norm(mass - entry))
            slope = (mass - entry) / value if value > 0.0 else np.zeros_like(mass)
        elif term.kind == "elementwise":
            f, derivative = term.value, term.slope
            if f is None or derivative is None:
                raise AssertionError("an elementwise engine term needs value and slope.")
            pairs = list(zip(mass.tolist(), entry.tolist(), strict=True))
            value, slope = sum(f(*pair) for pair in pairs), np.array([derivative(*pair) for pair in pairs])
        else:
            # An entropy is a divergence from 1 in every cell, with the other sign.
            sign, reference = (-1.0, np.ones_like(mass)) if term.kind == "entropy" else (1.0, entry + term.smoothing)
            smoothed = mass + term.smoothing
            share = np.divide(mass, smoothed, out=np.ones_like(mass), where=smoothed > 0.0)
            value = sign * float(np.sum(xlogy(mass, smoothed) - xlogy(mass, reference)))
            slope = sign * (np.log(smoothed) - np.log(reference) + share)
        total += term.weight * value
        # The slope of a state's mass is that of each of its actions.
        slopes += term.weight * slope.reshape(table.shape[0], -1)
    return total, slopes


def _check_conic(exact: Functional, table: FloatArray) -> None:
    import cvxpy as cp

    cells = np.flatnonzero(table)
    scaled, unit = cp.Variable(len(cells)), float(table.sum()) / len(cells)
    occupancy = ConicOccupancy(scaled, unit, cells, *table.shape)
    try:
        expression = exact.conic(occupancy)
    except UnsupportedFunctional:
        return
    scaled.value = table.reshape(-1)[cells] / unit
    for definition in occupancy.definitions.values():
        variable, meaning = definition.args
        variable.value = meaning.value
    _require_close(float(expression.value), exact(table), "conic must have the value without smoothing")
    follows = {"affine": expression.is_affine(), "concave": expression.is_concave(), "convex": expression.is_convex()}
    require(follows.get(exact.curvature, True), f"conic must be {exact.curvature}, as curvature says, by CVXPY's rules")


def _check_majorant(exact: Functional, table: FloatArray, rng: Generator) -> None:
    for factor in (1.0, -2.0):
        if scaled_curvature(exact.curvature, factor) not in ("affine", "concave"):
            continue
        bound = exact.majorant(factor, table, {})
        for _ in range(_TRIALS):
            other = table * rng.exponential(size=table.shape)
            states, value = other.sum(axis=1), factor * exact(other)
            above = bound.constant + float(np.sum(np.where(other > 0.0, bound.reward, 0.0) * other))
            above -= bound.temperature * float(np.sum(xlogy(other, other)))
            above -= bound.state_temperature * float(np.sum(xlogy(states, states)))
            require(
                above >= value - 1e-9 * (1.0 + abs(value)),
                f"majorant must be nowhere below {factor:g} times the value: it is {above:g} where that is {value:g}",
            )


def _require_close(first: float | FloatArray, second: float | FloatArray, message: str) -> None:
    require(bool(np.allclose(first, second, rtol=1e-8, atol=1e-10)), message)
