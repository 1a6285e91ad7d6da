"""The paper's translations from a small gap to a small violation, with numbers worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.oracle import SoftmaxPoint, Solution, TabularMDP, solve
from constrained_maxent.oracle.descent_result import check_guarantees
from constrained_maxent.oracle.solution import fixed_penalties
from constrained_maxent.penalties import Exact, Lagrangian, Quadratic

ANY = solve(TabularMDP.random(1, 1, seed=0, discount=0.5))


def reference(value: float = 2.0, **multipliers: float) -> Solution:
    return replace(ANY, value=value, penalized_value=value, dual_bound=value, multipliers=multipliers)


def at(objective: float, penalty: float, **constraints: float) -> SoftmaxPoint:
    theta = np.zeros((1, 1))
    return SoftmaxPoint(theta, penalty - objective, theta, objective, constraints, penalty)


def test_exact() -> None:
    # F = F* - 0.02, R = 0.01, β = 3: Δ = 0.02 + 0.03, so [R]₊ ≤ 0.05 / (3 - 0.5).
    result = check_guarantees(at(1.98, 0.03, c=0.01), {"c": Exact(3.0)}, reference(c=0.5))
    assert result.thresholds == {"c": 1.5}  # 2ν* + 2 = 3 with the paper's β/2
    assert result.beta_suffices
    assert result.penalized_gap == pytest.approx(0.05)
    assert result.violation_bounds == pytest.approx({"c": 0.02})
    assert result.guaranteed_epsilon == pytest.approx(0.05)
    assert result.bounds_hold


def test_quadratic() -> None:
    # ν* = 0.5, β = 100, F = F* + 0.001, R = 0.01: Δ = 0.009; [R]₊ ≤ (0.5 + √(0.25 + 3.6)) / 200.
    result = check_guarantees(at(2.001, 0.01, c=0.01), {"c": Quadratic(100.0)}, reference(c=0.5), epsilon=0.1)
    assert result.thresholds == pytest.approx({"c": 1.5 * (0.5 + 1.5) / 0.2})
    assert result.beta_suffices
    assert result.violation_bounds == pytest.approx({"c": (0.5 + math.sqrt(3.85)) / 200.0})
    assert result.bounds_hold


def test_too_small_a_beta_promises_nothing() -> None:
    result = check_guarantees(at(2.0, 0.0, c=0.0), {"c": Exact(0.4)}, reference(c=0.5))
    assert not result.beta_suffices
    assert result.violation_bounds == {"c": math.inf}
    assert result.guaranteed_epsilon == math.inf


def test_several_constraints_share_the_gap() -> None:
    # What constraint b may gain at most, ν²/4β = 0.01, is lent to a: (0.04 + 0.01) / (2 - 1).
    penalties = {"a": Exact(2.0), "b": Quadratic(4.0)}
    result = check_guarantees(at(1.96, 0.0, a=0.0, b=0.0), penalties, reference(a=1.0, b=0.4))
    assert result.violation_bounds["a"] == pytest.approx(0.05)
    assert result.violation_bounds["b"] == pytest.approx((0.4 + math.sqrt(0.16 + 16 * 0.04)) / 8.0)


def test_a_contradiction_of_the_reference_is_told() -> None:
    # Feasible, and yet better than the optimum.
    assert not check_guarantees(at(2.1, 0.0, c=-0.1), {"c": Exact(3.0)}, reference(c=0.5)).bounds_hold


def test_penalties_that_change_are_not_covered() -> None:
    with pytest.raises(InvalidSetting, match="take Quadratic or Exact"):
        fixed_penalties({"c": Lagrangian(0.1)})
