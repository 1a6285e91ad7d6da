"""What all functionals share: sums of them, factors, and limits. Values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from constrained_maxent.errors import InvalidData, InvalidSetting
from constrained_maxent.functionals import (
    OWN_REWARD,
    Autograd,
    Entropy,
    Functional,
    KLDivergence,
    L2Distance,
    LinearCost,
    MixtureDistance,
    Reward,
)
from constrained_maxent.occupancy import Gaussians, Mixture
from constrained_maxent.types import Measure

TABLE = np.random.default_rng(0).dirichlet(np.ones(12)).reshape(4, 3)
COST = np.ones((4, 3))


def test_a_sum_of_sums_has_no_sums_in_it_and_each_part_once() -> None:
    own, entropy = L2Distance(TABLE), Entropy()
    total = 2.0 * (own + 3.0 * entropy) - (entropy - own)
    assert total.parts == ((3.0, own), (5.0, entropy))
    assert (own - own).parts == ()
    assert (own - own)(TABLE) == 0.0


@pytest.mark.parametrize(
    ("functional", "curvature"),
    [
        (Entropy(over="state") + Entropy(), "concave"),
        (-Entropy(over="state") - Entropy(), "convex"),
        (Entropy() + Reward([[1.0]]), "concave"),
        (Reward([[1.0]]) - LinearCost([[1.0]]), "affine"),
        (Entropy() + L2Distance([[1.0]]), "unknown"),
        (0.0 * L2Distance([[1.0]]) + Entropy(), "concave"),
        (Entropy() + Autograd(lambda occupancy: occupancy.sum()), "unknown"),
    ],
    ids=["concave", "negative", "with a table", "tables", "mixed", "without weight", "of unknown curvature"],
)
def test_curvature_follows_the_signs(functional: Functional, curvature: str) -> None:
    assert functional.curvature == curvature


def test_the_limit_is_the_constraints() -> None:
    for sum_of in (lambda f: f + Entropy(), lambda f: Entropy() - f, lambda f: 2.0 * f, lambda f: -f):
        with pytest.raises(InvalidSetting, match=r"limit=0\.5 of LinearCost.*ConvexConstraint.*with_limit"):
            sum_of(LinearCost(COST, limit=0.5))
    total = (LinearCost(COST) - Entropy()).with_limit(0.5)
    assert total.limit == 0.5
    with pytest.raises(InvalidSetting, match=r"limit=0\.5 of Combination"):
        total + Entropy()
    with pytest.raises(InvalidSetting, match="limit"):
        total.with_limit(math.nan)


@pytest.mark.parametrize("factor", [math.inf, math.nan])
def test_factors_are_finite(factor: float) -> None:
    with pytest.raises(InvalidSetting, match="Entropy"):
        factor * Entropy()


def test_what_is_no_functional_and_no_number_is_refused_by_python() -> None:
    for wrong in (lambda: Entropy() + 1.0, lambda: Entropy() - "x", lambda: Entropy() * Entropy()):
        with pytest.raises(TypeError):
            wrong()
    assert isinstance(np.float64(2.0) * Entropy(), Functional)


def test_a_sum_observes_what_its_parts_do() -> None:
    def first(state: int, action: int, after: int) -> float:
        return 1.0

    def second(state: int, action: int, after: int) -> float:
        return 2.0

    total = LinearCost(first) + 2.0 * Reward() - LinearCost("heat") - LinearCost(second)
    observing, sources = total.observing("spin")
    assert sources == {"spin()": first, "reward()": OWN_REWARD, "heat": "heat", "spin_3()": second}
    measure = Measure.from_table(TABLE, {"spin()": 1.0, "reward()": 10.0, "heat": 100.0, "spin_3()": 1000.0})
    assert observing.value(measure) == 1.0 + 20.0 - 100.0 - 1000.0
    assert observing.charges(measure) == {"spin()": 1.0, "reward()": 2.0, "heat": -1.0, "spin_3()": -1.0}


def test_parts_are_checked() -> None:
    with pytest.raises(InvalidData, match="cost"):
        (Entropy() + LinearCost([[1.0]])).check(4, 3)
    with pytest.raises(InvalidSetting, match="smoothing"):
        (Reward() + Entropy(smoothing=0.0)).require_trainable()


def test_references_over_different_angles_are_no_sum() -> None:
    def over(*periodic: int) -> MixtureDistance:
        gaussians = Gaussians(np.ones(1), np.zeros((1, 2)), np.eye(2)[None])
        return MixtureDistance(Mixture(gaussians, periodic=periodic))

    assert (over(0) + over(0) + Entropy()).periodic == (0,)
    assert (Entropy() + KLDivergence(TABLE)).periodic is None
    with pytest.raises(InvalidData, match="periodic"):
        over(0) + over(1)


@pytest.mark.parametrize(
    ("functional", "formula"),
    [
        (Entropy(), "H(λ)"),
        (Entropy(over="state"), "H(d)"),
        (LinearCost("cost_speed"), "⟨cost_speed, λ⟩"),
        (LinearCost(COST), "⟨cost, λ⟩"),
        (KLDivergence(TABLE), "KL(λ ‖ λ_ref)"),
        (L2Distance(TABLE), "‖λ − λ_ref‖₂"),
        (0.1 * Entropy() + Reward("speed"), "0.1 H(λ) + ⟨speed, λ⟩"),
        (-1.0 * L2Distance(TABLE) - 2.0 * LinearCost("cost"), "− ‖λ − λ_ref‖₂ − 2 ⟨cost, λ⟩"),
        (Autograd(lambda occupancy: occupancy.sum()), "Autograd(λ)"),
    ],
)
def test_formulas(functional: Functional, formula: str) -> None:
    assert functional.formula == formula
