"""Exact-gradient PGP and IPPPM against the convex program, which knows nothing of θ."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import constrained_maxent  # noqa: F401  # registers the environments
from constrained_maxent.errors import InvalidData, InvalidSetting
from constrained_maxent.functionals import KLDivergence, LinearCost
from constrained_maxent.oracle import (
    BacktrackingStep,
    ConstantStep,
    DescentResult,
    DiminishingStep,
    SoftmaxProblem,
    Solution,
    TabularMDP,
    descend,
    proximal_point,
    solve,
)
from constrained_maxent.oracle.descent_result import History
from constrained_maxent.oracle.theory import exact_beta, quadratic_beta
from constrained_maxent.penalties import Exact, Lagrangian, Penalty, Quadratic

EPSILON = 1e-3
MDP = TabularMDP.random(4, 3, seed=0, discount=0.8)
COST = {"cost": LinearCost(np.random.default_rng(0).uniform(size=(4, 3)), limit=0.4)}
BEST = solve(MDP, constraints=COST)


def toy(penalty: Penalty) -> SoftmaxProblem:
    return SoftmaxProblem(MDP, constraints=COST, penalty=penalty)


@cache
def lake() -> tuple[TabularMDP, dict[str, LinearCost], Solution]:
    env: Any = gym.make("SafeFrozenLake-v0", horizon=None)
    mdp = TabularMDP.from_env(env, discount=0.9, horizon=None)
    constraints = {"cost": LinearCost(np.repeat(env.unwrapped.tables.costs[:, None], 4, axis=1))}
    return mdp, constraints, solve(mdp, constraints=constraints)


def run_lake(
    method: Callable[..., DescentResult], make_penalty: Callable[[float], Penalty], **options: Any
) -> DescentResult:
    mdp, constraints, best = lake()
    penalty = make_penalty(best.multipliers["cost"])
    return method(SoftmaxProblem(mdp, constraints=constraints, penalty=penalty), reference=best, **options)


def quadratic(multiplier: float) -> Penalty:
    return Quadratic(quadratic_beta(multiplier, EPSILON))


def exact(multiplier: float) -> Penalty:
    return Exact(exact_beta(multiplier))


class TestGrid:
    """The paper's grid at γ = 0.9: 4.495 with multiplier 0.3380, reached by the last iterate."""

    def test_reference(self) -> None:
        best = lake()[2]
        assert best.value == pytest.approx(4.495, rel=1e-3)
        assert best.multipliers["cost"] == pytest.approx(0.3380, rel=1e-2)

    @pytest.mark.parametrize(
        ("method", "penalty", "options"),
        [
            (descend, quadratic, {"iterations": 200}),
            (descend, exact, {"iterations": 2000, "steps": DiminishingStep(3.0, delay=300.0)}),
            (proximal_point, quadratic, {"rho": 0.01, "iterations": 25}),
            (proximal_point, exact, {"rho": 0.1, "iterations": 320}),
        ],
        ids=["PGP, quadratic", "PGP, exact", "IPPPM, quadratic", "IPPPM, exact"],
    )
    def test_last_iterate_is_optimal_within_epsilon(
        self, method: Callable[..., DescentResult], penalty: Callable[[float], Penalty], options: dict[str, Any]
    ) -> None:
        result = run_lake(method, penalty, **options)
        assert abs(result.history.gap[-1]) <= EPSILON
        assert result.last.violation <= EPSILON
        assert result.history.reached(EPSILON) is not None
        assert result.guarantees is not None
        assert result.guarantees.beta_suffices
        assert result.guarantees.bounds_hold
        occupancy = lake()[0].occupancy(result.last.policy)
        assert -np.sum(occupancy * np.log(np.maximum(occupancy, 1e-300))) == pytest.approx(result.last.objective)


class TestDescend:
    @pytest.mark.parametrize("beta", [0.5, 20.0])
    def test_reaches_the_optimum_of_the_penalized_problem(self, beta: float) -> None:
        penalized = solve(MDP, constraints=COST, penalties={"cost": Quadratic(beta)})
        result = descend(toy(Quadratic(beta)), iterations=3000, tolerance=1e-6)
        assert result.status == "stationary"
        assert -result.last.value == pytest.approx(penalized.penalized_value, abs=1e-6)
        assert result.last.constraints["cost"] == pytest.approx(penalized.constraints["cost"], abs=1e-4)

    def test_exact_penalty_reaches_the_constrained_optimum(self) -> None:
        steps = DiminishingStep(2.0, delay=50.0, power=1.0)
        result = descend(toy(Exact(2.0 * BEST.multipliers["cost"])), steps=steps, iterations=800, reference=BEST)
        assert result.history.gap[-1] == pytest.approx(0.0, abs=1e-3)
        assert result.last.violation <= 1e-3

    def test_a_divergence_as_constraint(self) -> None:
        reference = MDP.occupancy(np.random.default_rng(3).dirichlet(np.ones(3), size=4))
        constraints = {"near": KLDivergence(reference, limit=0.1)}
        best = solve(MDP, constraints=constraints)
        problem = SoftmaxProblem(MDP, constraints=constraints, penalty=Quadratic(2000.0))
        result = descend(problem, iterations=500, reference=best)
        assert best.multipliers["near"] > 0.1
        assert abs(result.history.gap[-1]) <= 1e-3
        assert result.last.violation <= 1e-3

    def test_line_search_never_goes_up(self) -> None:
        history = descend(toy(Quadratic(50.0)), iterations=100).history
        assert (np.diff(history.value) <= 0.0).all()

    def test_history(self) -> None:
        start = np.full((4, 3), 0.3)
        result = descend(toy(Quadratic(1.0)), steps=ConstantStep(0.1), iterations=5, start=start, reference=BEST)
        first = toy(Quadratic(1.0)).evaluate(start)
        history = result.history
        assert (result.iterations, result.status) == (5, "exhausted")
        assert history.evaluations.tolist() == [1, 2, 3, 4, 5, 6]
        assert history.objective[0] == first.objective
        assert history.constraints["cost"][0] == first.constraints["cost"]
        assert history.value[-1] == pytest.approx(result.last.value)
        assert (np.diff(history.seconds) > 0.0).all()

    def test_projection(self) -> None:
        result = descend(toy(Quadratic(20.0)), iterations=1000, radius=0.1, tolerance=1e-6)
        assert np.abs(result.last.theta).max() == 0.1
        assert result.status == "stationary"


class TestProximalPoint:
    def test_reaches_the_optimum_of_the_penalized_problem(self) -> None:
        penalized = solve(MDP, constraints=COST, penalties={"cost": Quadratic(20.0)})
        result = proximal_point(toy(Quadratic(20.0)), rho=0.05, iterations=200, tolerance=1e-5, inner_tolerance=1e-10)
        assert result.status == "stationary"
        assert -result.last.value == pytest.approx(penalized.penalized_value, abs=1e-6)

    def test_one_step_solves_the_inner_problem(self) -> None:
        # At the minimum of φ₀ the gradient of P is ρ(θ₀ - θ₁).
        result = proximal_point(toy(Quadratic(1.0)), rho=1.0, iterations=1, inner_iterations=500, inner_tolerance=1e-14)
        np.testing.assert_allclose(result.last.gradient, -result.last.theta, atol=1e-6)

    @pytest.mark.parametrize("penalty", [Quadratic(20.0), Exact(2.0)])
    def test_the_penalized_value_never_rises(self, penalty: Penalty) -> None:
        history = proximal_point(toy(penalty), rho=0.2, iterations=15, inner_iterations=30).history
        assert (np.diff(history.value) <= 1e-15).all()

    def test_exact_penalty_reaches_the_constrained_optimum(self) -> None:
        penalty = Exact(exact_beta(BEST.multipliers["cost"]))
        result = proximal_point(toy(penalty), rho=0.2, iterations=60, inner_iterations=15, reference=BEST)
        assert result.history.reached(EPSILON) is not None

    def test_sub_gradients_with_a_quadratic_penalty(self) -> None:
        # Corollary FinalRateNonSmoothQuadraticPenaltyIPPM.
        steps = DiminishingStep(2.0, delay=2.0, power=1.0)
        result = proximal_point(toy(Quadratic(20.0)), rho=0.2, steps=steps, iterations=100)
        penalized = solve(MDP, constraints=COST, penalties={"cost": Quadratic(20.0)})
        assert -result.last.value == pytest.approx(penalized.penalized_value, abs=1e-4)


class TestHistory:
    def history(self, gaps: list[float], violations: list[float]) -> History:
        return History(
            objective=-np.array(gaps),
            penalty=np.zeros(len(gaps)),
            constraints={"cost": np.array(violations)},
            evaluations=np.arange(len(gaps)),
            seconds=np.arange(len(gaps)) / 1.0,
            optimum=0.0,
        )

    def test_reached_is_for_good(self) -> None:
        # Within 0.1 at once at iteration 1, again from 3 on.
        assert self.history([1.0, 0.1, -0.2, 0.05, -0.1], [0.0, 0.0, 0.0, 0.1, -5.0]).reached(0.1) == 3

    def test_the_last_iterate_counts(self) -> None:
        assert self.history([0.0, 0.0], [0.0, 0.2]).reached(0.1) is None
        assert self.history([0.0, 0.0], [0.0, 0.0]).reached(0.1) == 0

    def test_a_gap_needs_a_reference(self) -> None:
        with pytest.raises(InvalidSetting, match="reference"):
            _ = descend(toy(Quadratic(1.0)), iterations=0).history.gap


class TestErrors:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"radius": 0.0}, "radius"),
            ({"radius": np.nan}, "radius"),
            ({"iterations": -1}, "iterations"),
            ({"tolerance": np.nan}, "tolerance"),
        ],
    )
    def test_numbers(self, options: dict[str, float], message: str) -> None:
        with pytest.raises(InvalidSetting, match=message):
            descend(toy(Quadratic(1.0)), **options)  # type: ignore[arg-type]

    def test_rho(self) -> None:
        with pytest.raises(InvalidSetting, match="rho"):
            proximal_point(toy(Quadratic(1.0)), rho=0.0)

    def test_line_search_at_a_kink(self) -> None:
        with pytest.raises(InvalidSetting, match="kink"):
            descend(toy(Exact(1.0)), steps=BacktrackingStep())

    def test_multipliers_that_change(self) -> None:
        with pytest.raises(InvalidSetting, match="take Quadratic or Exact"):
            descend(toy(Lagrangian(0.1)))

    def test_references(self) -> None:
        with pytest.raises(InvalidSetting, match="none"):
            descend(toy(Quadratic(1.0)), reference=solve(MDP))
        penalized = solve(MDP, constraints=COST, penalties={"cost": Quadratic(1.0)})
        with pytest.raises(InvalidSetting, match="penalized"):
            descend(toy(Quadratic(1.0)), reference=penalized)
        easy = {"cost": LinearCost(np.zeros((4, 3)))}
        with pytest.raises(InvalidSetting, match="scale truncated"):
            descend(toy(Quadratic(1.0)), reference=solve(MDP, constraints=easy, scale="truncated"))
        with pytest.raises(InvalidSetting, match="equality"):
            descend(toy(Quadratic(1.0)), reference=solve(MDP, equalities=easy))

    def test_start(self) -> None:
        with pytest.raises(InvalidData, match="shape"):
            descend(toy(Quadratic(1.0)), start=np.zeros((2, 2)))
