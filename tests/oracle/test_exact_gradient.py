"""P(θ) and its gradient against hand calculation and central differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained_maxent.errors import InvalidData, InvalidSetting, MissingCost, NonFiniteValue
from constrained_maxent.functionals import Entropy, Functional, KLDivergence, L2Distance, LinearCost
from constrained_maxent.oracle import SoftmaxProblem, TabularMDP
from constrained_maxent.penalties import AugmentedLagrangian, Exact, Lagrangian, Penalty, Quadratic

# In state 0 the actions stay and go to state 1, in state 1 the other way round.
PAIR = TabularMDP.from_arrays([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]], [1.0, 0.0], discount=0.5)
SIZE = (4, 3)
MODELS = {
    "infinite": TabularMDP.random(*SIZE, seed=1, discount=0.8),
    "finite": TabularMDP.random(*SIZE, seed=2, discount=0.9, horizon=6),
    "undiscounted": TabularMDP.random(*SIZE, seed=3, discount=1.0, horizon=4),
}


def table(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(12)).reshape(SIZE)


def central_differences(function: Callable[[np.ndarray], float], theta: np.ndarray, step: float = 1e-5) -> np.ndarray:
    gradient = np.empty_like(theta)
    for index in np.ndindex(theta.shape):
        shift = np.zeros_like(theta)
        shift[index] = step
        gradient[index] = (function(theta + shift) - function(theta - shift)) / (2.0 * step)
    return gradient


class TestByHand:
    def test_uniform_policy(self) -> None:
        # d = (3/4, 1/4), λ = d/2, Q(s, other) - Q(s, stay) = ±γ (r₁ - r₀) = ±(log 3)/2, and dH/dθ = d π (Q - V).
        point = SoftmaxProblem(PAIR).evaluate(np.zeros((2, 2)))
        assert point.objective == pytest.approx(0.75 * np.log(8 / 3) + 0.25 * np.log(8))
        assert point.value == -point.objective
        slope = np.log(3) / 4
        expected = [[0.375 * slope, -0.375 * slope], [-0.125 * slope, 0.125 * slope]]
        np.testing.assert_allclose(point.gradient, expected, rtol=1e-12)

    def test_a_penalty_adds_its_value(self) -> None:
        # Cost 1 in state 0, where 3/4 of the mass is; R = 3/4 - 1/4.
        cost = LinearCost([[1.0, 1.0], [0.0, 0.0]], limit=0.25)
        point = SoftmaxProblem(PAIR, constraints=[cost], penalty=Quadratic(2.0)).evaluate(np.zeros((2, 2)))
        assert point.constraints == pytest.approx({"LinearCost_0": 0.5})
        assert point.violation == pytest.approx(0.5)
        assert point.penalty == pytest.approx(0.5)
        assert point.value == pytest.approx(0.5 - point.objective)

    def test_policy(self) -> None:
        point = SoftmaxProblem(PAIR).evaluate([[0.0, np.log(3.0)], [1e4, 0.0]])
        np.testing.assert_allclose(point.policy, [[0.25, 0.75], [1.0, 0.0]], rtol=1e-14)


class TestGradient:
    @pytest.mark.parametrize("model", MODELS)
    @pytest.mark.parametrize("scale", ["normalized", "truncated"])
    @pytest.mark.parametrize(
        "objective", [Entropy(), Entropy(over="state"), LinearCost(table(3)), L2Distance(table(4))]
    )
    def test_objectives(self, model: str, scale: str, objective: Functional) -> None:
        problem = SoftmaxProblem(MODELS[model], objective, scale=scale)
        theta = np.random.default_rng(0).normal(size=SIZE)
        numerical = central_differences(lambda t: problem.evaluate(t).value, theta)
        np.testing.assert_allclose(problem.evaluate(theta).gradient, numerical, rtol=1e-6, atol=1e-8)

    @pytest.mark.parametrize("model", MODELS)
    @pytest.mark.parametrize(
        "penalty",
        [Quadratic(7.0), Exact(3.0), Lagrangian(0.1, multiplier=2.0), AugmentedLagrangian(3.0, multiplier=0.5)],
    )
    def test_penalties_of_several_constraints(self, model: str, penalty: Penalty) -> None:
        # Linear: violated; KL: violated; distance: slack.
        constraints = [
            LinearCost(table(5), limit=0.01),
            KLDivergence(table(6), limit=0.01),
            L2Distance(table(7), limit=9.0),
        ]
        problem = SoftmaxProblem(MODELS[model], constraints=constraints, penalty=penalty)
        theta = np.random.default_rng(1).normal(size=SIZE)
        point = problem.evaluate(theta)
        assert [r > 0.0 for r in point.constraints.values()] == [True, True, False]
        numerical = central_differences(lambda t: problem.evaluate(t).value, theta)
        np.testing.assert_allclose(point.gradient, numerical, rtol=1e-6, atol=1e-7)

    def test_episodes_that_end_early(self) -> None:
        rows = np.random.default_rng(5).dirichlet(np.ones(4), size=SIZE)
        mdp = TabularMDP.from_arrays(rows, [0.5, 0.5, 0.0, 0.0], discount=0.9, terminal=[3])
        problem = SoftmaxProblem(mdp)
        theta = np.random.default_rng(2).normal(size=SIZE)
        point = problem.evaluate(theta)
        numerical = central_differences(lambda t: problem.evaluate(t).value, theta)
        np.testing.assert_allclose(point.gradient, numerical, rtol=1e-6, atol=1e-8)
        assert not point.gradient[3].any()  # no action is ever taken there

    @settings(max_examples=20, deadline=None)
    @given(seed=st.integers(0, 2**32 - 1))
    def test_adding_a_constant_to_a_row_changes_nothing(self, seed: int) -> None:
        theta = np.random.default_rng(seed).normal(size=SIZE)
        point = SoftmaxProblem(MODELS["infinite"]).evaluate(theta)
        np.testing.assert_allclose(point.gradient.sum(axis=1), 0.0, atol=1e-14)

    def test_the_first_order_change_of_an_unsmoothed_entropy_is_finite_where_a_policy_underflows(self) -> None:
        point = SoftmaxProblem(PAIR).evaluate([[1e4, 0.0], [0.0, 1e4]])
        assert np.isfinite(point.gradient).all()
        assert point.objective == pytest.approx(0.0, abs=1e-12)  # always in state 0, always the same action


class TestErrors:
    def test_sizes(self) -> None:
        with pytest.raises(InvalidData, match="theta has shape"):
            SoftmaxProblem(PAIR).evaluate(np.zeros((3, 2)))
        with pytest.raises(InvalidData, match="2 states"):
            SoftmaxProblem(PAIR, constraints=[LinearCost(np.ones((3, 2)))], penalty=Exact(1.0))

    def test_not_finite(self) -> None:
        with pytest.raises(NonFiniteValue):
            SoftmaxProblem(PAIR).evaluate([[np.nan, 0.0], [0.0, 0.0]])

    def test_penalties_must_match_constraints(self) -> None:
        cost = {"cost": LinearCost(np.ones((2, 2)))}
        with pytest.raises(InvalidSetting, match="one penalty to each"):
            SoftmaxProblem(PAIR, constraints=cost)
        with pytest.raises(InvalidSetting, match="one penalty to each"):
            SoftmaxProblem(PAIR, constraints=cost, penalty={"other": Exact(1.0)})

    def test_a_reference_without_support(self) -> None:
        reference = KLDivergence([[1.0, 0.0], [0.0, 0.0]])
        with pytest.raises(InvalidSetting, match="infinite"):
            SoftmaxProblem(PAIR, constraints=[reference], penalty=Exact(1.0))

    def test_a_cost_that_is_only_observed(self) -> None:
        with pytest.raises(MissingCost):
            SoftmaxProblem(PAIR, constraints=[LinearCost()], penalty=Exact(1.0)).evaluate(np.zeros((2, 2)))
