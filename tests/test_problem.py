"""The penalized problem and its pseudo-reward: sums worked out by hand, and the derivative of P itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from constrained_maxent.errors import DuplicateName, InvalidSetting, MissingCost
from constrained_maxent.functionals import Entropy, KLDivergence, L2Distance, LinearCost
from constrained_maxent.penalties import AugmentedLagrangian, Exact, Lagrangian, Quadratic
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
        evaluation = problem().evaluate(TABLE)
        assert evaluation.objective == pytest.approx(1.5 * LN2)
        assert evaluation.constraints == {"cost": 1.5, "near": pytest.approx(-0.1)}
        assert evaluation.penalty == pytest.approx(0.1 * 1.5**2)

    def test_without_objective_and_constraints(self) -> None:
        evaluation = Problem().evaluate(TABLE)
        assert (evaluation.objective, evaluation.constraints, evaluation.penalty) == (None, {}, 0.0)

    def test_an_exactly_met_limit_costs_nothing(self) -> None:
        met = Problem(None, {"cost": Constraint(LinearCost(COST, limit=2.0), Quadratic(beta=1e6))})
        assert met.evaluate(TABLE).constraints["cost"] == 0.0
        assert met.evaluate(TABLE).penalty == 0.0


class TestPseudoReward:
    def test_by_hand(self) -> None:
        reward = problem().pseudo_reward(TABLE, problem().evaluate(TABLE))
        cells = np.array([0, 1, 3])
        parts = reward.at_cells(cells, {})
        assert reward.names == ("objective", "cost", "near")
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

        def value(occupancy: np.ndarray) -> float:
            evaluation = penalized.evaluate(occupancy)
            return -evaluation.objective + evaluation.penalty

        parts = penalized.pseudo_reward(table, penalized.evaluate(table)).at(Measure.from_table(table).points)
        for cell in np.ndindex(table.shape):
            step = np.zeros_like(table)
            step[cell] = 1e-6
            difference = (value(table + step) - value(table - step)) / 2e-6
            assert sum(part[cell] for part in parts.values()) == pytest.approx(-difference, rel=1e-5, abs=1e-7)

    def test_one_cell_many_cells_and_points_agree(self) -> None:
        reward = problem().pseudo_reward(TABLE, problem().evaluate(TABLE))
        cells = np.array([3, 0, 1])
        points = Points(density=TABLE.ravel()[cells], state_density=TABLE.sum(1)[cells // 2], cells=cells)
        many, at = reward.at_cells(cells, {}), reward.at(points)
        for name in reward.names:
            np.testing.assert_allclose(many[name], at[name])
            one = [reward.at_cell(int(cell), {})[name] for cell in cells]
            assert all(type(value) is float for value in one)
            np.testing.assert_array_equal(one, many[name])

    def test_observed_costs_are_charged_as_they_were(self) -> None:
        observed = Problem(None, {"cost": Constraint(LinearCost("cost", limit=1.0), Quadratic(0.5))})
        measure = Measure.from_table(TABLE, {"cost": 3.0})
        evaluation = observed.evaluate(measure)
        assert evaluation.constraints == {"cost": 2.0}
        assert evaluation.penalty == 2.0
        reward = observed.pseudo_reward(measure, evaluation)
        assert reward.is_tabular
        # Twice in the same cell at other costs: -2·0.5·2 times each.
        np.testing.assert_array_equal(
            reward.at_cells(np.array([0, 0]), {"cost": np.array([1.0, -4.0])})["cost"], [-2, 8]
        )
        assert reward.at_cell(0, {"cost": 1.5}) == {"cost": -3.0}

    def test_an_observed_cost_that_was_not_recorded_is_an_error(self) -> None:
        observed = Problem(None, {"cost": Constraint(LinearCost("heat", limit=1.0), Quadratic(0.5))})
        with pytest.raises(MissingCost, match="No cost 'heat' was recorded \\(recorded: cost\\)"):
            observed.evaluate(Measure.from_table(TABLE, {"cost": 3.0}))

    def test_a_sparse_measure_is_asked_by_points(self) -> None:
        cells = np.array([0, 1, 3])
        sparse = Measure(
            points=Points(density=TABLE.ravel()[cells], state_density=TABLE.sum(1)[cells // 2], cells=cells),
            weights=TABLE.ravel()[cells],
        )
        assert problem().evaluate(sparse).penalty == pytest.approx(problem().evaluate(TABLE).penalty)
        reward = problem().pseudo_reward(sparse, problem().evaluate(sparse))
        dense = problem().pseudo_reward(TABLE, problem().evaluate(TABLE))
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
        with pytest.raises(DuplicateName, match="one objective"):
            problem().set_objective(Entropy())

    def test_a_name_used_twice_is_refused(self) -> None:
        with pytest.raises(DuplicateName, match=r"'cost' is there already.*name="):
            problem().add_constraint("cost", problem().constraints["cost"])

    @pytest.mark.parametrize("name", ["objective", "ready", "", "two words", "1st", None])
    def test_a_name_that_is_no_key_of_info_is_refused(self, name: Any) -> None:
        with pytest.raises(InvalidSetting, match="identifier"):
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
        evaluation = dual.evaluate(TABLE)
        assert evaluation.penalty == 0.0
        assert dual.update_penalties(evaluation)
        assert dual.constraints["cost"].penalty.multiplier == pytest.approx(0.2 * 1.5)
        np.testing.assert_allclose(
            dual.pseudo_reward(TABLE, dual.evaluate(TABLE)).at_cells(np.arange(4), {})["cost"], -0.3 * COST.ravel()
        )

    def test_fixed_penalties_report_no_change(self) -> None:
        assert not problem().update_penalties(problem().evaluate(TABLE))
