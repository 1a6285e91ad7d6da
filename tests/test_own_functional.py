"""A functional that the package does not have, defined here: every part of the package takes it, or says what it lacks.

``Collision`` is the negative collision probability, −Σ λ² (minus the exponential of Rényi's entropy of order 2), which
is largest where λ is spread evenly. It is concave; as a constraint stands its negative, Σ λ² ≤ limit.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from scipy.optimize import minimize

from constrained_maxent.errors import UnsupportedFunctional
from constrained_maxent.evaluation import ExactProblem
from constrained_maxent.functionals import (
    ConicOccupancy,
    Curvature,
    EngineTerm,
    Entropy,
    Functional,
    KLDivergence,
    L2Distance,
    LinearCost,
    Reward,
)
from constrained_maxent.oracle import SoftmaxProblem, TabularMDP, best_stationary, certify, frank_wolfe, solve
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.testing import check_functional
from constrained_maxent.types import FloatArray, Measure, Points
from constrained_maxent.wrappers import constrain


class Bare(Functional):
    """−Σ λ² without any capability."""

    def value(self, measure: Measure) -> float:
        return -float(np.sum(measure.weights * measure.points.density))

    def derivative(self, measure: Measure, points: Points) -> FloatArray:
        return -2.0 * points.density


@dataclass(frozen=True, eq=False)
class Collision(Bare):
    """−Σ λ² with what the oracle, the engine and evaluation ask for."""

    @property
    def curvature(self) -> Curvature:
        return "concave"

    def conic(self, occupancy: ConicOccupancy) -> Any:
        import cvxpy as cp

        return -(occupancy.unit**2) * cp.sum_squares(occupancy.scaled)

    def integrand(self, measure: Measure, points: Points) -> FloatArray:
        return -points.density

    def engine_terms(self, n_states: int, n_actions: int) -> Sequence[EngineTerm]:
        return [EngineTerm(kind="elementwise", value=minus_square, slope=slope_of_minus_square)]


def minus_square(mass: float, entry: float) -> float:
    return -mass * mass


def slope_of_minus_square(mass: float, entry: float) -> float:
    return -2.0 * mass


class WithoutConic(Bare):
    """Concave, and nothing else."""

    @property
    def curvature(self) -> Curvature:
        return "concave"


MDP = TabularMDP.random(4, 3, seed=2, discount=0.8)
RNG = np.random.default_rng(0)
TABLE = RNG.dirichlet(np.ones(12)).reshape(4, 3)
COST = RNG.normal(size=(4, 3))


def by_slsqp(objective: Functional, constraints: Sequence[Functional] = ()) -> float:
    """The optimum over policies π ∝ x², by a solver that shares nothing with the oracle but the exact occupancy."""

    def occupancy(x: np.ndarray) -> np.ndarray:
        weights = x.reshape(4, 3) ** 2 + 1e-12
        return MDP.occupancy(weights / weights.sum(axis=1, keepdims=True))

    rules = [{"type": "ineq", "fun": lambda x, f=f: f.limit - f(occupancy(x))} for f in constraints]
    values = []
    for seed in range(2):
        start = 0.3 + np.random.default_rng(seed).random(12)
        found = minimize(lambda x: -objective(occupancy(x)), start, method="SLSQP", constraints=rules, tol=1e-12)
        if all(rule["fun"](found.x) >= -1e-7 for rule in rules):
            values.append(-found.fun)
    return max(values)


class TestContract:
    @pytest.mark.parametrize(
        "functional",
        [
            Bare(),
            Collision(),
            -Collision(),
            0.5 * Collision() + 2.0 * Entropy(),
            Entropy() + Reward() - LinearCost("heat") + LinearCost(lambda s, a, n: 1.0) + Reward(lambda s, a, n: 2.0),
            Collision() - 0.3 * KLDivergence(TABLE) - L2Distance(TABLE),
            L2Distance(TABLE) + KLDivergence(TABLE) - Entropy(over="state"),
            Entropy() - Collision(),
        ],
        ids=[
            "bare", "own", "its negative", "a sum", "of observed quantities", "a concave sum", "a convex sum",
            "neither",
        ],
    )  # fmt: skip
    def test_holds(self, functional: Functional) -> None:
        check_functional(functional, RNG.dirichlet(np.ones(12)).reshape(4, 3))

    def test_by_hand(self) -> None:
        own = Collision(limit=-0.3)
        assert own([[0.5, 0.5]]) == -0.5
        assert own.gradient([[0.75, 0.25]]).tolist() == [[-1.5, -0.5]]
        assert pickle.loads(pickle.dumps(own)).limit == own.with_limit(-0.3).limit == -0.3


class TestInSums:
    def test_by_hand(self) -> None:
        # 2·(−1/2) + log 2 − (1/2)·3
        total = 2.0 * Collision() + Entropy(smoothing=0.0) - LinearCost([[3.0, 0.0]])
        assert total([[0.5, 0.5]]) == pytest.approx(-1.0 + np.log(2.0) - 1.5)
        slope = 2.0 * -1.0 + np.log(2.0) - 1.0
        np.testing.assert_allclose(total.gradient([[0.5, 0.5]]), [[slope - 3.0, slope]])
        assert total.curvature == "concave"
        assert (total + Bare()).curvature == "unknown"


class TestOracle:
    def test_objective(self) -> None:
        best = solve(MDP, Collision())
        assert best.status == "optimal"
        assert best.value == pytest.approx(by_slsqp(Collision()), abs=1e-6)
        assert -1e-9 <= best.gap <= 1e-6

    def test_by_hand_on_a_bandit(self) -> None:
        # −x² − (1−x)² with x ≤ 1/4 for the second action: (3/4, 1/4) and −2·3/4 = −2·1/4 − ν.
        bandit = TabularMDP.from_arrays(np.ones((1, 2, 1)), [1.0], discount=0.9)
        best = solve(bandit, Collision(), {"c": LinearCost([[0.0, 1.0]], limit=0.25)})
        assert best.value == pytest.approx(-10 / 16)
        assert best.multipliers["c"] == pytest.approx(1.0, abs=1e-5)

    def test_constraint(self) -> None:
        spread = (-Collision()).with_limit(0.11)
        objective = Reward(COST)
        best = solve(MDP, objective, {"spread": spread})
        assert best.constraints["spread"] == pytest.approx(0.0, abs=1e-6)
        assert best.value == pytest.approx(by_slsqp(objective, [spread]), abs=1e-5)
        # The certificate is a tangent: it misses what the solver does, to first order.
        assert -1e-9 <= best.gap <= 1e-5
        # The price of the limit: the optimum rises at the multiplier's rate.
        wider = solve(MDP, objective, {"spread": spread.with_limit(0.11 + 1e-4)})
        assert (wider.value - best.value) / 1e-4 == pytest.approx(best.multipliers["spread"], rel=0.02)

    @pytest.mark.parametrize(
        "objective",
        [
            0.1 * Entropy() + Reward(COST),
            Collision() + 0.2 * Entropy(over="state") - 0.1 * L2Distance(TABLE),
            -1.0 * KLDivergence(MDP.occupancy(np.full((4, 3), 1 / 3))) + Reward(COST),
        ],
        ids=["entropy and reward", "own, entropy, distance", "divergence and reward"],
    )
    def test_sums_as_objectives(self, objective: Functional) -> None:
        best = solve(MDP, objective, {"c": LinearCost(COST, limit=0.5)})
        assert best.status == "optimal"
        assert best.value == pytest.approx(by_slsqp(objective.exact(), [LinearCost(COST, limit=0.5)]), abs=2e-5)
        assert abs(best.gap) <= 1e-6

    def test_a_kink_at_the_optimum(self) -> None:
        # The distance of an occupancy from itself is 0, and has no derivative there.
        best = solve(MDP, -1.0 * L2Distance(MDP.occupancy(np.full((4, 3), 1 / 3))))
        assert best.value == pytest.approx(0.0, abs=1e-7)
        assert abs(best.gap) <= 1e-6

    def test_the_reward_of_an_environment(self) -> None:
        mdp = TabularMDP.from_env(gym.make("FrozenLake-v1", is_slippery=False), discount=0.9, horizon=None)
        best = solve(mdp, Reward(), scale="truncated")
        # Six steps to the goal, whose reward of 1 comes with the sixth: γ⁵.
        assert best.value == pytest.approx(0.9**5, abs=1e-7)
        assert solve(mdp, 0.001 * Entropy() + Reward(), scale="truncated").constraints == {}

    def test_certificate(self) -> None:
        uniform = np.full((4, 3), 1 / 3)
        spread = (-Collision()).with_limit(0.2)
        certificate = certify(MDP, uniform, objective=Collision(), constraints={"spread": spread})
        assert certificate.value == pytest.approx(-np.sum(MDP.occupancy(uniform) ** 2))
        assert certificate.gap == pytest.approx(by_slsqp(Collision()) - certificate.value, abs=1e-6)
        assert certificate.slater_margin == pytest.approx(0.2 + by_slsqp(Collision()), abs=1e-6)

    def test_exact_gradients_and_mixtures(self) -> None:
        best = solve(MDP, Collision()).value
        assert best_stationary(MDP, Collision(), starts=1)[0].value == pytest.approx(best, abs=1e-6)
        found = frank_wolfe(MDP, Collision(), iterations=300)
        assert best - found.gaps[-1] - 1e-9 <= found.objective <= best + 1e-9
        assert SoftmaxProblem(MDP, Bare()).evaluate(np.zeros((4, 3))).objective < best


class TestEvaluation:
    def test_exact(self) -> None:
        env = constrain(
            gym.make("FrozenLake-v1", is_slippery=False, max_episode_steps=3),
            objective=Entropy(),
            constraints={"spread": Constraint((-Bare()).with_limit(0.1), Quadratic(1.0))},
            episodes_per_batch=1,
            discount=1.0,
        )
        left = np.eye(4)[np.zeros(16, dtype=int)]
        # All mass in one cell.
        assert ExactProblem.from_env(env).evaluate(left).constraints["spread"] == pytest.approx(1.0 - 0.1)


class TestWithoutACapability:
    """Who needs one that is missing names the functional and the capability."""

    @pytest.mark.parametrize(
        ("use", "name", "capability"),
        [
            (lambda: solve(MDP, Bare()), "Bare", "curvature 'concave'"),
            (lambda: solve(MDP, constraints=[-Bare()]), "Combination", "curvature 'convex'"),
            (lambda: solve(MDP, equalities=[Collision()]), "Collision", "curvature 'affine'"),
            (lambda: solve(MDP, WithoutConic()), "WithoutConic", "conic"),
            (lambda: solve(MDP, Entropy() + WithoutConic()), "WithoutConic", "conic"),
            (lambda: certify(MDP, np.full((4, 3), 1 / 3), objective=WithoutConic()), "WithoutConic", "conic"),
            (lambda: Bare().engine_terms(4, 3), "Bare", "engine_terms"),
            (lambda: (Entropy() - Bare()).engine_terms(4, 3), "Bare", "engine_terms"),
            (lambda: Reward().engine_terms(4, 3), "Reward", "engine_terms"),
            (lambda: Bare().coefficients(4, 3), "Bare", "coefficients"),
        ],
    )
    def test_is_told(self, use: Any, name: str, capability: str) -> None:
        with pytest.raises(UnsupportedFunctional, match=f"{name} has no {capability}") as caught:
            use()
        assert (caught.value.functional, caught.value.capability) == (name, capability)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
