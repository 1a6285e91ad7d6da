"""The penalized problem and its pseudo-reward: sums worked out by hand, and the derivative of P itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from constrained_maxent.errors import DuplicateName, InvalidSetting, MissingCost
from constrained_maxent.functionals import Entropy, KLDivergence, L2Distance, LinearCost, Reward
from constrained_maxent.penalties import (
    AdaptiveLagrangian,
    AugmentedLagrangian,
    Exact,
    Lagrangian,
    Quadratic,
    QuadraticContinuation,
)
from constrained_maxent.problem import Constraint, Problem
from constrained_maxent.types import Measure, Points

TABLE = np.array([[0.5, 0.25], [0.0, 0.25]])
COST = np.array([[2.0, 0.0], [8.0, 4.0]])
LN2 = math.log(2)


def problem() -> Problem:
    """Cost 2·0.5 + 4·0.25 = 2: above its limit by 1.5. Distance to itself 0: below its limit by 0.1."""
    return Problem(
        Entropy(smoothing=0.0),
        {
            "cost": Constraint(LinearCost(COST, limit=0.5), Quadratic(beta=0.1)),
            "near": Constraint(L2Distance(TABLE, limit=0.1), Exact(beta=7.0)),
        },
    )


class TestEvaluate:
    def test_by_hand(self) -> None:
        value = problem().evaluate(TABLE)
        assert value.objective == pytest.approx(1.5 * LN2)
        assert value.constraints == {"cost": 1.5, "near": pytest.approx(-0.1)}
        assert value.penalty == pytest.approx(0.1 * 1.5**2)

    def test_without_objective_and_constraints(self) -> None:
        value = Problem().evaluate(TABLE)
        assert (value.objective, value.constraints, value.penalty) == (None, {}, 0.0)

    def test_an_exactly_met_limit_costs_nothing(self) -> None:
        met = Problem(None, {"cost": Constraint(LinearCost(COST, limit=2.0), Quadratic(beta=1e6))})
        assert met.evaluate(TABLE).constraints["cost"] == 0.0
        assert met.evaluate(TABLE).penalty == 0.0


class TestRewardFunction:
    def test_by_hand(self) -> None:
        reward = problem().reward_function(TABLE, problem().evaluate(TABLE))
        cells = np.array([0, 1, 3])
        parts = reward.at_cells(cells, {})
        assert tuple(parts) == ("objective", "cost", "near")
        # ∂H/∂λ = -log λ - 1; -2β[R]₊ c = -0.3 c; a satisfied constraint adds nothing.
        np.testing.assert_allclose(parts["objective"], [LN2 - 1, 2 * LN2 - 1, 2 * LN2 - 1])
        np.testing.assert_allclose(parts["cost"], [-0.6, 0.0, -1.2])
        np.testing.assert_array_equal(parts["near"], 0.0)

    def test_is_minus_the_derivative_of_the_penalized_problem(self) -> None:
        rng = np.random.default_rng(0)
        table, reference = rng.dirichlet(np.ones(12), size=2).reshape(2, 4, 3)
        penalized = Problem(
            Entropy(over="state"),
            {
                "cost": Constraint(LinearCost(rng.normal(size=(4, 3)), limit=-1.0), Quadratic(0.7)),
                "kl": Constraint(KLDivergence(reference, limit=0.1), AugmentedLagrangian(0.4, multiplier=0.3)),
                "l2": Constraint(L2Distance(reference, limit=5.0), Lagrangian(0.1, multiplier=0.9)),
            },
        )

        def penalized_value(occupancy: np.ndarray) -> float:
            value = penalized.evaluate(occupancy)
            return -value.objective + value.penalty

        parts = penalized.reward_function(table, penalized.evaluate(table)).at(Measure.from_table(table).points)
        for cell in np.ndindex(table.shape):
            step = np.zeros_like(table)
            step[cell] = 1e-6
            difference = (penalized_value(table + step) - penalized_value(table - step)) / 2e-6
            assert sum(part[cell] for part in parts.values()) == pytest.approx(-difference, rel=1e-5, abs=1e-7)

    def test_one_cell_many_cells_and_points_agree(self) -> None:
        reward = problem().reward_function(TABLE, problem().evaluate(TABLE))
        cells = np.array([3, 0, 1])
        points = Points(density=TABLE.ravel()[cells], state_density=TABLE.sum(1)[cells // 2], cells=cells)
        many, at = reward.at_cells(cells, {}), reward.at(points)
        for name in at:
            np.testing.assert_allclose(many[name], at[name])
            one = [reward.at_cell(int(cell), {})[name] for cell in cells]
            assert all(type(value) is float for value in one)
            np.testing.assert_array_equal(one, many[name])

    def test_observed_costs_are_charged_as_they_were(self) -> None:
        observed = Problem(None, {"cost": Constraint(LinearCost("cost", limit=1.0), Quadratic(0.5))})
        measure = Measure.from_table(TABLE, {"cost": 3.0})
        value = observed.evaluate(measure)
        assert value.constraints == {"cost": 2.0}
        assert value.penalty == 2.0
        reward = observed.reward_function(measure, value)
        assert reward.is_tabular
        # Twice in the same cell at other costs: -2·0.5·2 times each.
        np.testing.assert_array_equal(
            reward.at_cells(np.array([0, 0]), {"cost": np.array([1.0, -4.0])})["cost"], [-2, 8]
        )
        assert reward.at_cell(0, {"cost": 1.5}) == {"cost": -3.0}

    def test_an_observed_cost_that_was_not_recorded_is_an_error(self) -> None:
        observed = Problem(None, {"cost": Constraint(LinearCost("heat", limit=1.0), Quadratic(0.5))})
        with pytest.raises(MissingCost, match="heat"):
            observed.evaluate(Measure.from_table(TABLE, {"cost": 3.0}))

    def test_a_sparse_measure_is_asked_by_points(self) -> None:
        cells = np.array([0, 1, 3])
        sparse = Measure(
            points=Points(density=TABLE.ravel()[cells], state_density=TABLE.sum(1)[cells // 2], cells=cells),
            weights=TABLE.ravel()[cells],
        )
        assert problem().evaluate(sparse).penalty == pytest.approx(problem().evaluate(TABLE).penalty)
        reward = problem().reward_function(sparse, problem().evaluate(sparse))
        dense = problem().reward_function(TABLE, problem().evaluate(TABLE))
        assert not reward.is_tabular
        for name, part in reward.at(sparse.points).items():
            np.testing.assert_allclose(part, dense.at_cells(cells, {})[name])


class TestDeclaration:
    def test_terms_are_named_in_order(self) -> None:
        declared = Problem()
        declared.add_constraint("b", problem().constraints["cost"])
        declared.set_objective(Entropy())
        declared.add_constraint("a", problem().constraints["near"])
        assert declared.term_names == ("objective", "b", "a")

    def test_a_second_objective_is_refused(self) -> None:
        with pytest.raises(DuplicateName, match="objective"):
            problem().set_objective(Entropy())

    def test_a_name_used_twice_is_refused(self) -> None:
        with pytest.raises(DuplicateName, match="'cost'"):
            problem().add_constraint("cost", problem().constraints["cost"])

    @pytest.mark.parametrize("name", ["objective", "ready", "", "two words", "1st", None])
    def test_a_name_that_is_no_key_of_info_is_refused(self, name: Any) -> None:
        with pytest.raises(InvalidSetting, match="name="):
            problem().add_constraint(name, problem().constraints["cost"])


class TestUpdatePenalties:
    def test_multipliers_follow_the_violations(self) -> None:
        dual = Problem(
            None,
            {
                "cost": Constraint(LinearCost(COST, limit=0.5), Lagrangian(learning_rate=0.2)),
                "near": Constraint(L2Distance(TABLE, limit=0.1), Quadratic(1.0)),
            },
        )
        value = dual.evaluate(TABLE)
        assert value.penalty == 0.0
        dual.update_penalties(value, 0.0)
        assert dual.constraints["cost"].penalty.multiplier == pytest.approx(0.2 * 1.5)
        np.testing.assert_allclose(
            dual.reward_function(TABLE, dual.evaluate(TABLE)).at_cells(np.arange(4), {})["cost"], -0.3 * COST.ravel()
        )

    def test_fixed_penalties_stay(self) -> None:
        fixed = problem()
        fixed.update_penalties(fixed.evaluate(TABLE), 0.5)
        assert fixed.constraints["cost"].penalty == Quadratic(beta=0.1)
        assert fixed.constraints["near"].penalty == Exact(beta=7.0)

    def test_schedules_stand_where_the_run_stands(self) -> None:
        """From 1 to 100 geometrically: 10 halfway."""
        scheduled = Problem(None, {"cost": Constraint(LinearCost(COST, limit=0.5), QuadraticContinuation(1.0, 100.0))})
        scheduled.update_penalties(scheduled.evaluate(TABLE), 0.5)
        assert scheduled.evaluate(TABLE).penalty == pytest.approx(10.0 * 1.5**2)

    def test_other_coefficients_of_the_same_estimate(self) -> None:
        """The multiplier moves from 0 to 0.3; the objective's part stays what it was."""
        dual = Problem(
            Entropy(smoothing=0.0), {"cost": Constraint(LinearCost(COST, limit=0.5), Lagrangian(learning_rate=0.2))}
        )
        value = dual.evaluate(TABLE)
        before = dual.reward_function(TABLE, value)
        dual.update_penalties(value, 0.0)
        after = before.with_coefficients(dual.terms(value))
        assert [reward.at_cell(3, {})["cost"] for reward in (before, after)] == pytest.approx([0.0, -0.3 * 4.0])
        assert [reward.at_cell(3, {})["objective"] for reward in (before, after)] == pytest.approx([2 * LN2 - 1] * 2)


class TestOf:
    """Parts that a user gives."""

    def test_is_a_problem_of_its_own(self) -> None:
        given = dict(problem().constraints)
        made = Problem.of(Entropy(), given)
        given.clear()
        assert made.term_names == ("objective", "cost", "near")

    @pytest.mark.parametrize("objective", ["entropy", 1.0, Entropy, Constraint(Entropy(), Exact(1.0))])
    def test_an_objective_that_is_none(self, objective: Any) -> None:
        with pytest.raises(InvalidSetting, match="objective="):
            Problem.of(objective, {})

    @pytest.mark.parametrize(
        "constraint", [LinearCost(COST), (LinearCost(COST), Exact(1.0)), Constraint("cost", Exact(1.0)), None]
    )
    def test_a_constraint_that_is_none(self, constraint: Any) -> None:
        with pytest.raises(InvalidSetting, match="'cost'"):
            Problem.of(None, {"cost": constraint})

    def test_a_constraint_without_its_penalty(self) -> None:
        with pytest.raises(InvalidSetting, match="'cost'"):
            Problem.of(None, {"cost": Constraint(LinearCost(COST), 1.0)})  # type: ignore[arg-type]

    def test_constraints_without_names(self) -> None:
        with pytest.raises(InvalidSetting, match="constraints="):
            Problem.of(None, [problem().constraints["cost"]])  # type: ignore[arg-type]


class TestRewards:
    """Charged by the step: what the environment pays, by hand at cells."""

    def test_an_objective_with_the_own_reward(self) -> None:
        mixed = Problem(0.5 * Entropy(smoothing=0.0) + 2.0 * Reward())
        measure = Measure.from_table(TABLE, {"reward()": 1.25})
        value = mixed.evaluate(measure)
        assert value.objective == pytest.approx(0.5 * 1.5 * LN2 + 2.5)
        reward = mixed.reward_function(measure, value)
        # 0.5 (-log 0.5 - 1) + 2 r and 0.5 (-log 0.25 - 1) + 2 r; -log 0 is the smoothing's business.
        assert reward.at_cell(0, {"reward()": 3.0})["objective"] == pytest.approx(0.5 * (LN2 - 1) + 6.0)
        assert reward.at_cell(1, {"reward()": -1.0})["objective"] == pytest.approx(0.5 * (2 * LN2 - 1) - 2.0)
        many = reward.at_cells(np.array([0, 1]), {"reward()": np.array([3.0, -1.0])})["objective"]
        np.testing.assert_allclose(many, [0.5 * (LN2 - 1) + 6.0, 0.5 * (2 * LN2 - 1) - 2.0])

    def test_an_infinite_slope_of_a_satisfied_constraint_adds_nothing(self) -> None:
        """Cell 2 is empty, where the derivative of -H is -∞; its multiplier is 0."""
        ordered = Problem(None, {"order": Constraint(-1.0 * Entropy(smoothing=0.0), Exact(1.0))})
        assert ordered.evaluate(TABLE).constraints["order"] < 0.0
        reward = ordered.reward_function(TABLE, ordered.evaluate(TABLE))
        assert reward.at_cell(2, {}) == {"order": 0.0}
        np.testing.assert_array_equal(reward.at_cells(np.array([2, 0]), {})["order"], 0.0)

    def test_a_reward_alone(self) -> None:
        paid = Problem(Reward("coins"))
        measure = Measure.from_table(TABLE, {"coins": 4.0})
        reward = paid.reward_function(measure, paid.evaluate(measure))
        assert (paid.evaluate(measure).objective, reward.at_cell(2, {"coins": 7.0})) == (4.0, {"objective": 7.0})


@pytest.mark.fault
def test_the_spread_of_a_cost_is_its_standard_deviation() -> None:
    """Costs 1 and 3, twice as heavy: mean 7/3, variance 8/9, mass 1.5; a step without weight counts for nothing."""
    cost = Constraint(LinearCost("cost", limit=0.0))
    found = Problem.of(None, {"cost": cost, "fixed": Constraint(LinearCost("cost", limit=0.0), Quadratic(1.0))})
    points = Points(density=np.ones(3), state_density=np.ones(3), costs={"cost": np.array([1.0, 3.0, 99.0])})
    weights = np.array([0.5, 1.0, 0.0])
    found.measure_spreads(Measure(points=points, weights=weights, expected_costs={"cost": 3.5}), points, weights)
    penalty = found.constraints["cost"].penalty
    assert isinstance(penalty, AdaptiveLagrangian)
    assert penalty.largest_violation == pytest.approx(1.5 * np.sqrt(8.0) / 3.0)
    assert found.constraints["fixed"].penalty == Quadratic(1.0)
