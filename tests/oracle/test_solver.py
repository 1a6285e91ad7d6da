"""Optima against hand calculation, the paper's grid, linear programming and SciPy's SLSQP; and what has no optimum."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from scipy.optimize import linprog

from constrained_maxent.envs import SafeFrozenLake
from constrained_maxent.errors import DuplicateName, InfeasibleProblem, InvalidData, InvalidSetting, MissingCost
from constrained_maxent.functionals import Entropy, Functional, KLDivergence, L2Distance, LinearCost, Reward
from constrained_maxent.oracle import Solution, TabularMDP, solve
from constrained_maxent.penalties import Exact, Lagrangian, Quadratic

LOG2, LOG3, LOG5 = math.log(2.0), math.log(3.0), math.log(5.0)
QUARTER = -0.75 * math.log(0.75) - 0.25 * math.log(0.25)
"""Entropy of (3/4, 1/4)."""


def bandit(n_actions: int = 2, **options: Any) -> TabularMDP:
    """One state, so that λ (normalized) is the policy."""
    return TabularMDP.from_arrays(np.ones((1, n_actions, 1)), [1.0], **{"discount": 0.9, **options})


def ring(n_states: int = 6, **options: Any) -> TabularMDP:
    """Back, stay or forward on a cycle, from state 0."""
    step = np.stack([np.roll(np.eye(n_states), shift, axis=1) for shift in (-1, 0, 1)], axis=1)
    return TabularMDP.from_arrays(step, np.eye(n_states)[0], **{"discount": 0.9, **options})


def numbers(best: Solution) -> list[float]:
    scalars = [best.value, best.penalized_value, best.gap, best.primal_residual]
    return [*scalars, *best.constraints.values(), *best.multipliers.values(), *best.policy.flat, *best.occupancy.flat]


@pytest.fixture(scope="module")
def lake() -> Any:
    """Dynamics and cost table of the paper's grid: 50 in a hole, −0.001 elsewhere."""
    env = gym.make("constrained_maxent:SafeFrozenLake-v0", disable_env_checker=True)
    costs = env.unwrapped.tables.costs  # type: ignore[attr-defined]

    def make(discount: float, horizon: int | None) -> tuple[TabularMDP, np.ndarray]:
        mdp = TabularMDP.from_env(env, discount=discount, horizon=horizon)
        return mdp, mdp.tabulate(lambda state, action, after: costs[state])

    return make


@pytest.fixture(scope="module")
def random_problem() -> Iterator[Any]:
    folder = str(Path(__file__).parent)
    sys.path.insert(0, folder)
    try:
        from random_problems import RandomProblem

        yield RandomProblem
    finally:
        sys.path.remove(folder)


class TestPaperGrid:
    """6×6, holes in the middle, H = 25 and γ = 0.99 at scale truncated; and at infinite horizon, normalized."""

    @pytest.mark.parametrize(
        ("beta", "entropy", "cost", "multiplier"),
        [
            (None, 36.720, 0.0, 0.19455),
            (0.005, 37.439, 7.48, 2 * 0.005 * 7.482),
            (0.1, 36.811, 0.633, 2 * 0.1 * 0.6328),
            (1.0, 36.734, 0.0818, 2 * 0.0818),
        ],
    )
    def test_finite_horizon(
        self, lake: Any, beta: float | None, entropy: float, cost: float, multiplier: float
    ) -> None:
        mdp, table = lake(0.99, 25)
        penalties = {} if beta is None else {"cost": Quadratic(beta)}
        best = solve(mdp, None, {"cost": LinearCost(table)}, penalties=penalties, scale="truncated")
        assert best.status == "optimal"
        assert best.is_time_dependent
        assert best.value == pytest.approx(entropy, rel=1e-3)
        assert best.constraints["cost"] == pytest.approx(cost, rel=1e-3, abs=1e-6)
        assert best.multipliers["cost"] == pytest.approx(multiplier, rel=1e-2)
        assert abs(best.gap) <= 1e-5
        # The policy, one table per time step, is worth what is reported.
        occupancy = mdp.occupancy(best.policy, scale="truncated")
        assert best.policy.shape == (25, 36, 4)
        assert Entropy(smoothing=0.0)(occupancy) == pytest.approx(entropy, rel=1e-3)

    def test_finite_horizon_without_constraint(self, lake: Any) -> None:
        mdp, table = lake(0.99, 25)
        best = solve(mdp, scale="truncated")
        assert best.value == pytest.approx(40.188, rel=1e-3)
        assert np.sum(table * best.occupancy) == pytest.approx(120.86, rel=1e-3)

    @pytest.mark.parametrize(
        ("discount", "free", "constrained", "multiplier"), [(0.9, 4.669, 4.495, 0.3380), (0.99, 4.924, 4.734, 0.3279)]
    )
    def test_infinite_horizon(
        self, lake: Any, discount: float, free: float, constrained: float, multiplier: float
    ) -> None:
        mdp, table = lake(discount, None)
        assert solve(mdp).value == pytest.approx(free, rel=1e-3)
        best = solve(mdp, None, [LinearCost(table)])
        assert best.value == pytest.approx(constrained, rel=1e-3)
        assert best.multipliers["LinearCost_0"] == pytest.approx(multiplier, rel=1e-2)
        assert not best.is_time_dependent
        assert best.policy.shape == (36, 4)


class TestRandomProblems:
    @pytest.mark.parametrize("seed", range(60))
    def test_gap_and_occupancy(self, random_problem: Any, seed: int) -> None:
        problem = random_problem.draw(seed)
        best = solve(problem.mdp, constraints=problem.constraints)
        assert best.status == "optimal"
        assert abs(best.gap) <= 1e-5
        assert best.primal_residual <= 1e-6
        np.testing.assert_array_equal(problem.mdp.occupancy(best.policy), best.occupancy)

    @pytest.mark.parametrize("seed", range(1000, 1012))
    def test_value_equals_that_of_slsqp(self, random_problem: Any, seed: int) -> None:
        problem = random_problem.draw(seed)
        assert solve(problem.mdp, constraints=problem.constraints).value == pytest.approx(
            problem.by_slsqp(starts=2), abs=1e-4
        )

    @pytest.mark.parametrize("seed", range(30))
    def test_other_objectives_penalties_and_horizons(self, random_problem: Any, seed: int) -> None:
        problem, rng = random_problem.draw(seed), np.random.default_rng(seed)
        shape = (problem.mdp.n_states, problem.mdp.n_actions)
        objective = [Entropy(), Entropy(over="state"), LinearCost(rng.normal(size=shape))][seed % 3]
        penalties = {
            name: rng.choice([Quadratic, Exact])(float(10.0 ** rng.uniform(-3, 3)))
            for name in problem.constraints
            if rng.random() < 0.5
        }
        finite = dataclasses.replace(problem.mdp, horizon=int(rng.integers(1, 8)))
        # At a finite horizon the drawn limits may be out of reach, so there all of them are penalized.
        softly = {name: penalties.get(name, Quadratic(1.0)) for name in problem.constraints}
        for mdp, chosen in ((problem.mdp, penalties), (finite, softly)):
            best = solve(mdp, objective, problem.constraints, penalties=chosen)
            assert best.status == "optimal"
            assert abs(best.gap) <= 1e-6 * max(1.0, abs(best.penalized_value))
            assert best.primal_residual <= 1e-6


class TestByHand:
    def test_uniform_where_it_can_be_reached(self) -> None:
        # Each action is the next state: with a uniform start every pair gets 1/n².
        step = np.broadcast_to(np.eye(4)[None], (4, 4, 4))
        mdp = TabularMDP.from_arrays(step, np.full(4, 0.25), discount=0.8)
        assert solve(mdp).value == pytest.approx(math.log(16.0))
        # A policy is only as exact as the square root of the gap.
        np.testing.assert_allclose(solve(mdp).policy, 0.25, atol=1e-4)
        best = solve(mdp, Entropy(over="state"))
        assert best.value == pytest.approx(math.log(4.0))
        np.testing.assert_allclose(best.occupancy.sum(axis=1), 0.25, atol=1e-5)

    def test_cost_on_a_bandit(self) -> None:
        # π ∝ exp(−ν c) with c = (0, 1): at a limit of 1/4, π = (3/4, 1/4) and ν = log 3.
        best = solve(bandit(), None, {"c": LinearCost([[0.0, 1.0]], limit=0.25)})
        np.testing.assert_allclose(best.policy, [[0.75, 0.25]], atol=1e-7)
        assert (best.value, best.multipliers["c"]) == pytest.approx((QUARTER, LOG3), abs=1e-5)
        assert (best.constraints["c"], best.gap) == pytest.approx((0.0, 0.0), abs=1e-6)

    def test_divergence_on_a_bandit(self) -> None:
        # −log π − 1 − ν (log π/ref + 1) = const: π ∝ ref^(ν/(1+ν)); at ν = 1 that is ∝ √(9, 1).
        reference = np.array([[0.9, 0.1]])
        limit = 0.75 * math.log(0.75 / 0.9) + 0.25 * math.log(0.25 / 0.1)
        best = solve(bandit(), None, {"kl": KLDivergence(reference, limit=limit)})
        np.testing.assert_allclose(best.policy, [[0.75, 0.25]], atol=1e-7)
        assert best.multipliers["kl"] == pytest.approx(1.0, abs=1e-5)

    def test_norm_on_a_bandit(self) -> None:
        # Distance of (3/4, 1/4) from (1, 0) is √2/4, and there log 3 = ν (1/4 + 1/4) / (√2/4).
        best = solve(bandit(), None, {"l2": L2Distance([[1.0, 0.0]], limit=math.sqrt(2.0) / 4.0)})
        np.testing.assert_allclose(best.policy, [[0.75, 0.25]], atol=1e-7)
        assert best.multipliers["l2"] == pytest.approx(LOG3 / math.sqrt(2.0), abs=1e-5)
        assert best.gap == pytest.approx(0.0, abs=1e-7)

    @pytest.mark.parametrize("limit", [0.0, 1e-6, 1e-3])
    def test_norm_ball_around_an_interior_reference(self, limit: float) -> None:
        # At limit 0 the norm has no derivative at its only point; the bound must be tight all the same.
        reference = bandit(3).occupancy([[0.5, 0.3, 0.2]])
        best = solve(bandit(3), None, {"l2": L2Distance(reference, limit=limit)})
        assert best.status == "optimal"
        assert best.value == pytest.approx(Entropy(smoothing=0.0)(reference), abs=2.0 * limit + 1e-7)
        assert abs(best.gap) <= 1e-7

    def test_quadratic_penalty(self) -> None:
        # At (3/4, 1/4) the slope 2β(1/4 − 0) must be log 3.
        beta = 2.0 * LOG3
        cost = {"c": LinearCost([[0.0, 1.0]])}
        best = solve(bandit(), None, cost, penalties={"c": Quadratic(beta)})
        np.testing.assert_allclose(best.policy, [[0.75, 0.25]], atol=1e-6)
        assert best.value == pytest.approx(QUARTER, abs=1e-6)
        assert best.penalized_value == pytest.approx(QUARTER - beta / 16.0)
        assert best.multipliers["c"] == pytest.approx(LOG3, abs=1e-5)
        assert best.constraints["c"] == pytest.approx(0.25, abs=1e-6)

    @pytest.mark.parametrize(
        ("beta", "second"), [(0.0, 1 / 2), (LOG2, 1 / 3), (LOG3 - 0.01, None), (LOG3 + 0.01, 1 / 4), (50.0, 1 / 4)]
    )
    def test_exact_penalty_is_exact_above_the_multiplier(self, beta: float, second: float | None) -> None:
        # The limit 1/4 has ν* = log 3. Below it π ∝ (1, e^−β) as long as that costs more than the limit.
        cost = {"c": LinearCost([[0.0, 1.0]], limit=0.25)}
        best = solve(bandit(), None, cost, penalties={"c": Exact(beta)})
        expected = math.exp(-beta) / (1.0 + math.exp(-beta)) if second is None else second
        assert best.policy[0, 1] == pytest.approx(expected, abs=1e-4)
        assert best.multipliers["c"] == pytest.approx(min(beta, LOG3), abs=1e-5)
        assert best.penalized_value == pytest.approx(best.value - beta * max(best.constraints["c"], 0.0))
        assert abs(best.gap) <= 1e-7

    def test_equality(self) -> None:
        # λ₁ = 1/4 pushes down from 1/2 (ν = log 3), λ₁ = 3/4 up (ν = −log 3).
        for limit, multiplier in ((0.25, LOG3), (0.75, -LOG3)):
            best = solve(bandit(), equalities={"e": LinearCost([[0.0, 1.0]], limit=limit)})
            assert best.policy[0, 1] == pytest.approx(limit, abs=1e-7)
            assert best.multipliers["e"] == pytest.approx(multiplier, abs=1e-5)
            assert abs(best.gap) <= 1e-7

    @pytest.mark.parametrize("scale", ["normalized", "truncated"])
    def test_linear_objective_is_linear_programming(self, scale: Any) -> None:
        mdp = TabularMDP.random(6, 3, seed=4, discount=0.9)
        rng = np.random.default_rng(0)
        reward, cost = rng.normal(size=(6, 3)), rng.normal(size=(6, 3))
        constant = mdp.weighting(scale).constant
        limit = float(np.sum(cost * mdp.occupancy(np.full((6, 3), 1 / 3), scale=scale)))
        flow = np.kron(np.eye(6), np.ones((1, 3))) - 0.9 * mdp.transition.toarray().T
        free = linprog(-reward.ravel(), A_eq=flow, b_eq=constant * mdp.initial)
        bound = linprog(-reward.ravel(), cost.ravel()[None], [limit], flow, constant * mdp.initial)
        assert solve(mdp, LinearCost(reward), scale=scale).value == pytest.approx(-free.fun, rel=1e-7)
        best = solve(mdp, LinearCost(reward), {"c": LinearCost(cost, limit=limit)}, scale=scale)
        assert best.value == pytest.approx(-bound.fun, rel=1e-7)
        assert best.multipliers["c"] == pytest.approx(-float(bound.ineqlin.marginals[0]), abs=1e-6)

    @pytest.mark.parametrize("seed", range(5))
    def test_multipliers_are_the_prices_of_the_limits(self, seed: int) -> None:
        # Where all costs are paid for at given prices, limits of exactly what is bought have these multipliers, and
        # the optimum rises with a limit at its price.
        mdp, rng = ring(), np.random.default_rng(seed)
        reference = mdp.occupancy(rng.dirichlet(np.ones(3), size=6))
        prices = {"c": 0.3, "kl": 0.5, "l2": 0.7}
        free: dict[str, Functional] = {
            "c": LinearCost(rng.normal(size=(6, 3)), limit=-100.0),
            "kl": KLDivergence(reference, limit=-100.0, smoothing=0.0),
            "l2": L2Distance(reference, limit=-100.0),
        }
        bought = solve(mdp, None, free, penalties={name: Exact(price) for name, price in prices.items()}).occupancy
        limits = {name: functional(bought) for name, functional in free.items()}

        def optimum(**changed: float) -> Solution:
            limit = {**limits, **changed}
            return solve(mdp, None, {name: dataclasses.replace(free[name], limit=limit[name]) for name in free})

        best = optimum()
        np.testing.assert_allclose(best.occupancy, bought, atol=1e-4)
        assert best.multipliers == pytest.approx(prices, abs=1e-3)
        rise = optimum(c=limits["c"] + 1e-3).value - best.value
        assert rise == pytest.approx(1e-3 * prices["c"], rel=0.05)

    def test_both_scales_are_one_problem(self) -> None:
        # λ_truncated = 10 λ, so H_truncated = 10 (H − log 10); costs and distances grow alike, multipliers stay.
        mdp, rng = ring(), np.random.default_rng(2)
        cost, reference = rng.normal(size=(6, 3)), mdp.occupancy(np.full((6, 3), 1 / 3))

        def optimum(scale: Any, factor: float) -> Solution:
            constraints = {
                "c": LinearCost(cost, limit=-0.3 * factor),
                "kl": KLDivergence(reference * factor, limit=0.1 * factor),
                "l2": L2Distance(reference * factor, limit=0.12 * factor),
            }
            return solve(mdp, None, constraints, scale=scale)

        normalized, truncated = optimum("normalized", 1.0), optimum("truncated", 10.0)
        np.testing.assert_allclose(truncated.occupancy, 10.0 * normalized.occupancy, atol=1e-5)
        assert truncated.value == pytest.approx(10.0 * (normalized.value - math.log(10.0)), abs=1e-6)
        assert truncated.multipliers == pytest.approx(normalized.multipliers, abs=1e-4)

    def test_finite_horizon_is_an_upper_bound_for_stationary_policies(self) -> None:
        mdp, rng = ring(discount=1.0, horizon=6), np.random.default_rng(0)
        best, entropy = solve(mdp), Entropy(smoothing=0.0)
        assert entropy(mdp.occupancy(best.policy)) == pytest.approx(best.value)
        for concentration in (0.1, 1.0, 10.0):
            for _ in range(30):
                policy = rng.dirichlet(np.full(3, concentration), size=6)
                assert entropy(mdp.occupancy(policy)) <= best.value

    def test_smoothing_is_taken_as_zero(self) -> None:
        reference = [[0.9, 0.1]]
        rough = solve(bandit(), Entropy(smoothing=0.1), [KLDivergence(reference, limit=0.1, smoothing=0.5)])
        exact = solve(bandit(), Entropy(smoothing=0.0), [KLDivergence(reference, limit=0.1, smoothing=0.0)])
        assert rough.value == pytest.approx(exact.value, abs=1e-9)


class TestReferencesWithoutFullSupport:
    """A divergence is infinite outside its reference's support: mass there must be exactly 0."""

    @pytest.mark.parametrize("limit", [0.0, 0.01, 0.5, 20.0])
    @pytest.mark.parametrize("horizon", [None, 5])
    def test_expert_that_never_goes_back(self, limit: float, horizon: int | None) -> None:
        mdp = ring(horizon=horizon)
        reference = mdp.occupancy(np.tile([0.0, 0.3, 0.7], (6, 1)))
        best = solve(mdp, None, {"kl": KLDivergence(reference, limit=limit)})
        assert best.status == "optimal"
        assert (best.occupancy[reference == 0.0] == 0.0).all()
        assert np.isfinite(numbers(best)).all()
        assert best.primal_residual <= 1e-7
        assert abs(best.gap) <= 1e-5
        if limit == 0.0:
            np.testing.assert_allclose(best.occupancy, reference, atol=1e-4)

    def test_actions_that_lead_out_are_not_taken(self) -> None:
        # The reference knows states 0 and 1 only. It has mass on "forward" in 1, which would leave them, at no time.
        mdp, table = ring(), np.zeros((6, 3))
        table[0], table[1] = [0.0, 0.25, 0.25], [0.2, 0.2, 0.1]
        best = solve(mdp, None, {"kl": KLDivergence(table, limit=5.0)})
        assert best.occupancy[1, 2] == 0.0
        # Two states, two actions each, all reached: the same as the MDP of those two.
        small = TabularMDP.from_arrays([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]], [1.0, 0.0], discount=0.9)
        assert best.value == pytest.approx(solve(small).value, abs=1e-7)

    @pytest.mark.parametrize("penalty", [Quadratic(0.0), Quadratic(2.0), Exact(1.0)])
    def test_a_penalty_keeps_the_support(self, penalty: Any) -> None:
        reference = np.array([[0.0, 0.75, 0.25]])
        best = solve(bandit(3), None, {"kl": KLDivergence(reference)}, penalties={"kl": penalty})
        assert best.policy[0, 0] == 0.0
        assert np.isfinite(numbers(best)).all()
        assert abs(best.gap) <= 1e-6


class TestInfeasible:
    def slacks(self, *arguments: Any, **options: Any) -> tuple[dict[str, float], str]:
        with pytest.raises(InfeasibleProblem) as caught:
            solve(*arguments, **options)
        return caught.value.slacks, str(caught.value)

    def test_limit_below_the_least_cost(self) -> None:
        slacks, message = self.slacks(
            bandit(), None, {"cost": LinearCost([[1.0, 2.0]], limit=0.5), "free": LinearCost([[0.0, 1.0]], limit=1.0)}
        )
        assert slacks == pytest.approx({"cost": 0.5, "free": 0.0}, abs=1e-6)
        assert "cost by 0.5" in message
        assert "free" not in message

    def test_constraints_that_clash_with_each_other(self) -> None:
        # λ₁ ≤ 0.2 and λ₁ ≥ 0.5: 0.3 apart, to be shared between them as one likes.
        down, up = LinearCost([[0.0, 1.0]], limit=0.2), LinearCost([[0.0, -1.0]], limit=-0.5)
        assert solve(bandit(), None, [down]).status == solve(bandit(), None, [up]).status == "optimal"
        slacks, message = self.slacks(bandit(), None, {"down": down, "up": up})
        assert sum(slacks.values()) == pytest.approx(0.3, abs=1e-6)
        assert "by" in message

    def test_equalities(self) -> None:
        first, second = LinearCost([[0.0, 1.0]], limit=0.2), LinearCost([[0.0, 1.0]], limit=0.5)
        slacks, _ = self.slacks(bandit(), equalities={"first": first, "second": second})
        assert sum(slacks.values()) == pytest.approx(0.3, abs=1e-6)
        slacks, _ = self.slacks(bandit(), equalities={"first": LinearCost([[1.0, 1.0]], limit=0.75)})
        assert slacks == pytest.approx({"first": 0.25}, abs=1e-6)

    def test_norm(self) -> None:
        # The nearest policy to (2, 0) is (1, 0), at distance 1.
        slacks, _ = self.slacks(bandit(), None, {"l2": L2Distance([[2.0, 0.0]], limit=0.25)})
        assert slacks == pytest.approx({"l2": 0.75}, abs=1e-6)

    def test_divergence_below_its_least(self) -> None:
        # Against a fifth of an occupancy the divergence is at least log 5.
        reference = ring().occupancy(np.full((6, 3), 1 / 3)) / 5.0
        slacks, _ = self.slacks(ring(), None, {"kl": KLDivergence(reference, limit=0.5)})
        assert slacks == pytest.approx({"kl": LOG5 - 0.5}, abs=1e-6)

    def test_divergence_below_its_least_within_its_support(self) -> None:
        reference = ring().occupancy(np.tile([0.0, 0.3, 0.7], (6, 1))) / 5.0
        slacks, message = self.slacks(ring(), None, {"kl": KLDivergence(reference, limit=0.5)})
        assert slacks == pytest.approx({"kl": LOG5 - 0.5}, abs=1e-6)
        assert "mass" not in message

    def test_reference_that_leaves_what_can_be_reached(self) -> None:
        # States 3 to 5 only. The start is elsewhere but going back leads from 0 to 5 at once, so the least mass outside
        # is that of one step, 1 − γ.
        reference = np.zeros((6, 3))
        reference[3:] = 1 / 9
        constraints = {"kl": KLDivergence(reference, limit=0.5), "free": LinearCost(np.ones((6, 3)), limit=2.0)}
        slacks, message = self.slacks(ring(), None, constraints)
        assert slacks == pytest.approx({"kl": 0.1, "free": 0.0}, abs=1e-6)
        assert "mass where its reference has none" in message

    def test_references_that_exclude_each_other(self) -> None:
        first, second = KLDivergence([[0.5, 0.0]], limit=9.0), KLDivergence([[0.0, 0.5]], limit=9.0)
        slacks, _ = self.slacks(bandit(), None, {"first": first, "second": second})
        assert sum(slacks.values()) == pytest.approx(1.0, abs=1e-6)

    def test_penalized_constraints_do_not_clash(self) -> None:
        cost = {"c": LinearCost([[1.0, 2.0]], limit=0.5)}
        best = solve(bandit(), None, cost, penalties={"c": Quadratic(1000.0)})
        assert best.policy[0, 1] <= 1e-2
        assert best.constraints["c"] >= 0.5
        slacks, _ = self.slacks(bandit(), None, {**cost, "d": cost["c"]}, penalties={"c": Quadratic(1.0)})
        assert slacks == pytest.approx({"d": 0.5}, abs=1e-6)

    @pytest.mark.parametrize("horizon", [1, 4])
    def test_finite_horizon(self, horizon: int) -> None:
        # Every step costs 1, and one less is allowed.
        cost = LinearCost(np.ones((6, 3)), limit=horizon - 1.0)
        slacks, _ = self.slacks(ring(horizon=horizon, discount=1.0), None, {"c": cost}, scale="truncated")
        assert slacks == pytest.approx({"c": 1.0}, abs=1e-6)


class TestDegenerate:
    """Works, or explains; never NaN."""

    def test_one_state_and_one_action(self) -> None:
        best = solve(bandit(1), None, [LinearCost([[1.0]], limit=1.0), L2Distance([[1.0]]), KLDivergence([[1.0]])])
        assert best.value == pytest.approx(0.0, abs=1e-9)
        assert np.isfinite(numbers(best)).all()
        with pytest.raises(InfeasibleProblem, match=r"by 0\.5"):
            solve(bandit(1), None, [LinearCost([[1.0]], limit=0.5)])

    def test_one_action_leaves_nothing_to_choose(self) -> None:
        mdp = TabularMDP.random(5, 1, seed=0, discount=0.9)
        best = solve(mdp, None, [LinearCost(np.ones((5, 1)), limit=1.0)])
        np.testing.assert_allclose(best.occupancy, mdp.occupancy(np.ones((5, 1))), atol=1e-9)
        assert abs(best.gap) <= 1e-8

    def test_start_in_a_terminal_state(self) -> None:
        # Such an episode takes one action there, and ends: two actions with mass 1 − γ in all.
        mdp = TabularMDP.from_arrays(
            [[[0.0, 1.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]], [0.0, 1.0], discount=0.9, terminal=[1]
        )
        best = solve(mdp)
        assert best.occupancy == pytest.approx(np.array([[0.0, 0.0], [0.05, 0.05]]), abs=1e-5)
        assert best.value == pytest.approx(-0.1 * math.log(0.05))

    @pytest.mark.parametrize("discount", [1e-6, 0.9999, 0.999999])
    @pytest.mark.parametrize("scale", ["normalized", "truncated"])
    def test_extreme_discounts(self, discount: float, scale: Any) -> None:
        mdp = ring(discount=discount)
        cost = LinearCost(np.arange(18.0).reshape(6, 3), limit=20.0 * mdp.weighting(scale).full_mass)
        for constraints in ([], [cost]):
            best = solve(mdp, None, constraints, scale=scale)
            assert np.isfinite(numbers(best)).all()
            assert abs(best.gap) <= 1e-6 * max(1.0, abs(best.value))
        if discount > 0.5 and scale == "normalized":
            assert best.value == pytest.approx(math.log(18.0), abs=1e-3)

    def test_too_close_to_one_is_told(self) -> None:
        best = solve(ring(discount=1.0 - 1e-9))
        assert np.isfinite(numbers(best)).all()
        assert best.status == "inaccurate" or abs(best.gap) <= 1e-5

    @pytest.mark.parametrize("discount", [0.9, 0.99, 0.999])
    def test_many_cells_with_little_mass(self, discount: float) -> None:
        # 1600 cells, most of them with less than 1e-4: hard for exponential cones without the program's unit.
        desc = ["S" + "F" * 19, *["F" * 6 + "H" * 8 + "F" * 6] * 18, "F" * 19 + "G"]
        env = gym.make("constrained_maxent:SafeFrozenLake-v0", desc=desc, disable_env_checker=True)
        mdp = TabularMDP.from_env(env, discount=discount, horizon=None)
        costs = env.unwrapped.tables.costs  # type: ignore[attr-defined]
        best = solve(mdp, None, [LinearCost(mdp.tabulate(lambda state, action, after: costs[state]))])
        assert best.status == "optimal"
        assert abs(best.gap) <= 1e-8
        assert best.primal_residual <= 1e-10

    def test_horizon_one(self) -> None:
        best = solve(ring(horizon=1, discount=1.0))
        assert best.value == pytest.approx(LOG3)
        np.testing.assert_allclose(best.occupancy[0], 1 / 3, atol=1e-4)
        assert not best.occupancy[1:].any()

    def test_states_out_of_reach_are_empty(self) -> None:
        step = np.eye(3)[:, None, :].repeat(2, axis=1)
        mdp = TabularMDP.from_arrays(step, [1.0, 0.0, 0.0], discount=0.9)
        best = solve(mdp, None, [L2Distance(np.full((3, 2), 1 / 6), limit=1.0)])
        assert not best.occupancy[1:].any()
        assert best.value == pytest.approx(LOG2, abs=1e-8)
        # ‖(1/2 − 1/6, 1/2 − 1/6, −1/6 four times)‖ = √(2/9 + 4/36)
        assert best.constraints["L2Distance_0"] == pytest.approx(math.sqrt(1 / 3) - 1.0, abs=1e-6)
        np.testing.assert_allclose(best.policy[1:], 0.5)

    def test_limit_at_the_minimum(self) -> None:
        # Only (1, 0) costs nothing. No multiplier is enough there: the one found is large, the answer right.
        best = solve(bandit(), None, {"c": LinearCost([[0.0, 1.0]])})
        assert best.value == pytest.approx(0.0, abs=1e-5)
        assert best.multipliers["c"] > 10.0
        assert abs(best.gap) <= 1e-5

    def test_costs_of_any_size(self) -> None:
        for size in (1e-4, 1.0, 1e4):
            best = solve(bandit(), None, {"c": LinearCost([[0.0, size]], limit=0.25 * size)})
            assert best.value == pytest.approx(QUARTER, abs=1e-5)
            assert best.multipliers["c"] * size == pytest.approx(LOG3, rel=1e-3)


class TestErrors:
    cost = LinearCost([[0.0, 1.0]], limit=0.25)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"objective": KLDivergence([[0.5, 0.5]])}, "KLDivergence has no curvature 'concave'.*'objective'"),
            ({"constraints": {"c": Entropy(limit=1.0)}}, "Entropy has no curvature 'convex'.*'c'"),
            ({"equalities": {"e": L2Distance([[0.5, 0.5]])}}, "L2Distance has no curvature 'affine'.*'e'"),
            ({"constraints": {"c": cost}, "penalties": {"d": Quadratic(1.0)}}, "constraint d"),
            ({"constraints": {"c": cost}, "penalties": {"c": Lagrangian(0.1)}}, "Lagrangian"),
            ({"scale": "paper"}, "scale"),
        ],
    )
    def test_settings(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidSetting, match=message):
            solve(bandit(), **options)

    @pytest.mark.parametrize("options", [{"constraints": [LinearCost("cost")]}, {"objective": Reward()}], ids=str)
    def test_what_is_known_step_by_step_only(self, options: dict[str, Any]) -> None:
        with pytest.raises(MissingCost):
            solve(bandit(), **options)

    def test_names(self) -> None:
        with pytest.raises(DuplicateName, match="LinearCost_0"):
            solve(bandit(), None, [self.cost], equalities=[self.cost])

    @pytest.mark.parametrize("kind", [LinearCost, KLDivergence, L2Distance])
    def test_sizes(self, kind: Any) -> None:
        with pytest.raises(InvalidData, match=r"\(1, 2\)"):
            solve(bandit(), None, [kind(np.ones((2, 2)))])


def test_a_stiff_penalty_at_a_finite_horizon_is_solved() -> None:
    """Every way of solving but the last two stalls here; the dual bound, which trusts none of them, certifies it."""
    lake = SafeFrozenLake(desc=["SFFFFF", *["FFFFFF"] * 4, "FFFFFG"], horizon=25)
    mdp = TabularMDP.from_env(lake, discount=0.99)
    path = np.zeros((36, 4))
    path[np.arange(36), np.where(np.arange(36) % 6 < 5, 2, 1)] = 1.0  # right, then down
    distance = L2Distance(mdp.occupancy(path, scale="truncated"), limit=0.2)
    solution = solve(mdp, constraints={"d": distance}, penalties={"d": Quadratic(1000.0)}, scale="truncated")
    assert solution.gap <= 1e-5 * solution.value
    assert 0.0 < solution.constraints["d"] < 0.05


def two_states(chance: float, *, discount: float = 0.9, horizon: int | None = None) -> TabularMDP:
    """The second action leads to a bad state with that chance; from there back at once."""
    step = [[[1.0, 0.0], [1.0 - chance, chance]], [[1.0, 0.0], [1.0, 0.0]]]
    return TabularMDP.from_arrays(step, [1.0, 0.0], discount=discount, horizon=horizon)


def entropy_of(masses: Any) -> float:
    return -sum(mass * math.log(mass) for mass in masses if mass > 0.0)


@pytest.mark.fault
class TestSmallLimits:
    """Costs far below the average mass, in any unit: kept, at the value worked out by hand, or it is said."""

    @pytest.mark.parametrize("chance", [1e-2, 1e-5, 1e-9, 1e-11])
    @pytest.mark.parametrize("unit", [1.0, 1e6, 1e-9])
    def test_a_bad_state_that_is_hardly_reached(self, chance: float, unit: float) -> None:
        # With q of the second action d(bad) = γ·chance·q·d(start), both add up to 1, and the limit lets q be 0.005.
        share = 0.9 * chance * 0.005
        start, bad = 1.0 / (1.0 + share), share / (1.0 + share)
        cost = LinearCost([[0.0, 0.0], [unit, unit]], limit=unit * bad)
        best = solve(two_states(chance), None, {"cost": cost})
        assert best.status == "optimal"
        assert best.value == pytest.approx(
            entropy_of([0.995 * start, 0.005 * start, bad / 2, bad / 2]), abs=2e-6 if chance > 1e-10 else 1e-5
        )
        assert best.policy[0, 1] == pytest.approx(0.005, rel=1e-5 if chance > 1e-10 else 1e-3)
        assert best.constraints["cost"] <= 1e-6 * cost.limit
        assert best.primal_residual <= 1e-6
        # ∂H/∂q = log(0.995/0.005) at a price of γ·chance·d(start) each.
        expected = math.log(199.0) / (0.9 * chance * unit)
        assert best.multipliers["cost"] == pytest.approx(expected, rel=0.15)

    @pytest.mark.parametrize("unit", [1e-100, 1e-9, 1e9, 1e100])
    def test_an_objective_in_any_unit(self, unit: float) -> None:
        # As above, with λ (0.995, 0.005) of a start that has all but no mass elsewhere, and the multiplier in its unit.
        bad = 0.9e-5 * 0.005 / (1.0 + 0.9e-5 * 0.005)
        cost = LinearCost([[0.0, 0.0], [1.0, 1.0]], limit=bad)
        best, usual = (solve(two_states(1e-5), factor * Entropy(), {"cost": cost}) for factor in (unit, 1.0))
        assert best.status == "optimal"
        assert best.strong_duality
        assert best.policy[0, 1] == pytest.approx(0.005, rel=1e-5)
        assert best.value == pytest.approx(unit * usual.value, rel=1e-4)
        assert best.multipliers["cost"] == pytest.approx(unit * math.log(199.0) / 0.9e-5, rel=0.15)
        assert abs(best.gap) <= 1e-6 * unit
        # A reward: all of the second action, as far as the limit lets it, at the same unit.
        earns = solve(two_states(1e-5), Reward([[0.0, unit], [0.0, 0.0]]), {"cost": cost})
        assert earns.status == "optimal"
        assert earns.value == pytest.approx(0.005 * unit * (1.0 - bad), rel=1e-5)

    @pytest.mark.parametrize("scale", ["normalized", "truncated"])
    def test_within_a_finite_horizon(self, scale: Any) -> None:
        # The second action earns, but at the first of two steps it may be taken with 0.005 only.
        mdp = two_states(1e-7, discount=1.0, horizon=2)
        unit = 0.5 if scale == "normalized" else 1.0
        cost = LinearCost([[0.0, 0.0], [1.0, 1.0]], limit=unit * 1e-7 * 0.005)
        best = solve(mdp, Reward([[0.0, 1.0], [0.0, 0.0]]), {"c": cost}, scale=scale)
        assert best.status == "optimal"
        assert best.value == pytest.approx(1.005 * unit, abs=1e-6)
        assert best.constraints["c"] <= 1e-6 * cost.limit

    def test_nothing_is_allowed(self) -> None:
        best = solve(two_states(1e-9), None, {"c": LinearCost([[0.0, 0.0], [1.0, 1.0]], limit=0.0)})
        assert best.status == "optimal"
        assert best.value == pytest.approx(0.0, abs=1e-6)

    @pytest.mark.parametrize("share", [1e-3, 1e-5, 1e-9])
    @pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
    def test_a_rare_action(self, share: float, unit: float) -> None:
        best = solve(bandit(), None, {"c": LinearCost([[0.0, unit]], limit=share * unit)})
        assert best.status == "optimal"
        assert best.value == pytest.approx(entropy_of([share, 1.0 - share]), abs=1e-7)
        assert best.constraints["c"] <= 1e-6 * share * unit

    @pytest.mark.parametrize("limit", [1e-6, 1e-12, 0.0, -1e-9])
    def test_costs_that_cancel(self, limit: float) -> None:
        # −1 and 1 in turn: both alike, but for the limit.
        best = solve(bandit(), None, {"c": LinearCost([[-1.0, 1.0]], limit=limit)})
        assert best.status == "optimal"
        assert best.value == pytest.approx(LOG2, abs=1e-8)
        assert best.constraints["c"] <= 1e-6 * abs(limit)

    def test_limits_of_all_sizes_at_once(self) -> None:
        share = 0.9 * 1e-5 * 0.005
        table = np.zeros((4, 2, 2))
        table[0, 1], table[1, 0, 1], table[2, 0, 0], table[3, 1, 0] = 1.0, 1e6, 1e-12, 1e9
        limits = [share / (1.0 + share), 1e6, 1e-11, 0.3e9 * share]
        costs = {
            f"c{i}": LinearCost(cost, limit=limit) for i, (cost, limit) in enumerate(zip(table, limits, strict=True))
        }
        best = solve(two_states(1e-5), None, costs)
        assert best.status == "optimal"
        assert best.policy[0, 1] == pytest.approx(0.005, rel=1e-4)
        assert all(best.constraints[name] <= 1e-6 * cost.limit for name, cost in costs.items())

    @pytest.mark.parametrize("limit", [1e-2, 1e-6, 1e-10])
    def test_divergences(self, limit: float) -> None:
        """Near the reference entropy rises by √(2·limit·V) along the line of steepest ascent, V = Var(log ref)."""
        reference = np.array([0.7, 0.2, 0.1])
        best = solve(bandit(3), None, {"kl": KLDivergence([reference], limit=limit)})
        logs = np.log(reference)
        rise = math.sqrt(2.0 * limit * float(reference @ logs**2 - (reference @ logs) ** 2))
        assert best.value == pytest.approx(entropy_of(reference) + rise, abs=max(3.0 * limit, 2e-7))
        assert best.status == "inaccurate" or best.constraints["kl"] <= 1e-6 * limit

    def test_what_breaks_its_limit_is_not_called_optimal(self) -> None:
        """No multiplier is enough for a divergence of 0, which the solver exceeds by its noise."""
        best = solve(bandit(3), None, {"kl": KLDivergence([[0.7, 0.2, 0.1]])})
        price = best.multipliers["kl"] * best.constraints["kl"]
        assert best.status == ("optimal" if price <= 1e-6 else "inaccurate")

    @pytest.mark.parametrize("limit", [0.5e-7, 1e-7 - 1e-12, 0.0])
    def test_what_nobody_can_keep(self, limit: float) -> None:
        with pytest.raises(InfeasibleProblem) as caught:
            solve(bandit(), None, {"c": LinearCost([[1e-7, 2e-7]], limit=limit)})
        assert caught.value.slacks["c"] == pytest.approx(1e-7 - limit, rel=1e-3)

    @pytest.mark.parametrize("unit", [1e-9, 1e9])
    def test_penalties_in_any_unit(self, unit: float) -> None:
        # Between (1/2, 1/2) and the limit of 1/4: β = 1 in units of the cost; see the same in units of 1.
        cost = {"c": LinearCost([[0.0, unit]], limit=0.25 * unit)}
        best = solve(bandit(), None, cost, penalties={"c": Quadratic(1.0 / unit**2)})
        excess = best.policy[0, 1] - 0.25
        assert best.status == "optimal"
        assert math.log(best.policy[0, 0] / best.policy[0, 1]) == pytest.approx(2.0 * excess, rel=1e-5)

    @pytest.mark.parametrize("penalty", [Quadratic(1e300), Exact(1e300)])
    def test_penalties_beyond_the_solver(self, penalty: Any) -> None:
        cost = {"c": LinearCost([[0.0, 1.0]], limit=0.25)}
        with pytest.raises(InvalidSetting, match=r"beta=1e\+300.*solve without it"):
            solve(bandit(), None, cost, penalties={"c": penalty})
