"""Expected costs: inner products with tables, and costs that an environment reported."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

from constrained_maxent.errors import InvalidData, InvalidSetting, MissingCost, NonFiniteValue
from constrained_maxent.functionals import OWN_REWARD, LinearCost, Reward
from constrained_maxent.functionals.base import as_measure
from constrained_maxent.types import Measure, Points

OCCUPANCY = np.array([[0.5, 0.0], [0.25, 0.25]])
COST = [[1.0, 7.0], [2.0, -4.0]]


class TestTable:
    def test_value_and_derivative_by_hand(self) -> None:
        linear = LinearCost(COST, limit=3.0)
        # 0.5·1 + 0.25·2 - 0.25·4; the limit is the constraint's business.
        assert linear(OCCUPANCY) == 0.0
        assert linear.gradient(OCCUPANCY).tolist() == COST
        assert linear.charges(as_measure(OCCUPANCY)) == {}

    def test_is_a_copy_that_cannot_be_changed(self) -> None:
        table = np.array(COST)
        linear = LinearCost(table)
        table[:] = 0.0
        derivative = linear.gradient(OCCUPANCY)
        assert derivative.tolist() == COST
        with pytest.raises(ValueError, match="read-only"):
            derivative[0, 0] = 1.0

    @pytest.mark.parametrize(
        ("cost", "error", "message"),
        [
            ([1.0, 2.0], InvalidData, r"cost must be a table.*\(2,\)"),
            (3.0, InvalidData, "cost must be a table"),
            ([[1.0], [1.0, 2.0]], InvalidData, "cost cannot be made an array"),
            ([["high", "low"]], InvalidData, "cost cannot be made an array"),
            ([[1.0, math.nan]], NonFiniteValue, "cost must be finite"),
            ([[1.0, math.inf]], NonFiniteValue, "cost must be finite"),
        ],
    )
    def test_refuses_what_is_no_table(self, cost: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            LinearCost(cost)

    def test_refuses_an_occupancy_of_another_size(self) -> None:
        with pytest.raises(InvalidData, match=r"shape \(2, 2\).*shape \(1, 3\)"):
            LinearCost(COST)([[1.0, 0.0, 0.0]])
        with pytest.raises(InvalidData, match=r"cost has shape \(2, 2\), .* 4 states and 3 actions"):
            LinearCost(COST).check(4, 3)
        LinearCost(COST).check(2, 2)

    def test_a_transposed_table_is_not_of_the_same_size(self) -> None:
        with pytest.raises(InvalidData, match=r"shape \(1, 2\) does not fit"):
            LinearCost([[1.0, 2.0]])([[0.5], [0.5]])


class TestObserved:
    def test_value_is_the_recorded_expectation_and_derivative_the_charge(self) -> None:
        measure = Measure.from_table(OCCUPANCY, {"cost": 1.5, "heat": 9.0})
        points = Points(density=np.ones(3), state_density=np.ones(3), costs={"cost": np.array([1.0, -2.0, 0.0])})
        assert LinearCost()(measure) == 1.5
        assert LinearCost("heat")(measure) == 9.0
        assert LinearCost().derivative(as_measure(measure), points).tolist() == [1.0, -2.0, 0.0]

    def test_a_missing_cost_is_an_error_and_never_zero(self) -> None:
        with pytest.raises(MissingCost, match=r"No cost 'cost' was recorded \(recorded: heat\)"):
            LinearCost()(Measure.from_table(OCCUPANCY, {"heat": 9.0}))
        with pytest.raises(MissingCost, match=r"recorded: none"):
            LinearCost().gradient(OCCUPANCY)

    def test_a_function_is_left_to_the_wrappers(self) -> None:
        def cost(observation: int, action: int, next_observation: int) -> float:
            return 1.0

        linear = LinearCost(cost, limit=2.0)
        with pytest.raises(MissingCost, match=r"CostConstraint.*tabulate"):
            linear(OCCUPANCY)
        named, sources = linear.observing("spin")
        assert sources == {"spin()": cost}
        assert (named.charges(as_measure(OCCUPANCY)), named.limit) == ({"spin()": 1.0}, 2.0)

    @pytest.mark.parametrize("limit", [math.nan, math.inf, None, "25"])
    def test_a_limit_that_is_no_finite_number_is_refused(self, limit: Any) -> None:
        with pytest.raises(InvalidSetting, match="limit="):
            LinearCost(limit=limit)

    def test_fits_any_space(self) -> None:
        LinearCost("cost").check(10, 10)


class TestReward:
    def test_by_hand(self) -> None:
        assert Reward(COST)(OCCUPANCY) == LinearCost(COST)(OCCUPANCY) == 0.0
        assert Reward(COST).gradient(OCCUPANCY).tolist() == COST

    def test_the_environments_own_is_recorded_under_a_name_of_its_own(self) -> None:
        observing, sources = Reward().observing("objective")
        assert sources == {"reward()": OWN_REWARD}
        assert observing(Measure.from_table(OCCUPANCY, {"reward()": 2.5, "reward": 9.0})) == 2.5
        assert observing.tabulated(lambda name: np.array(COST) if name == "reward()" else None)(OCCUPANCY) == 0.0

    def test_names_its_argument(self) -> None:
        with pytest.raises(InvalidData, match="source"):
            Reward([1.0, 2.0])
        with pytest.raises(InvalidData, match="source"):
            Reward(COST).check(4, 3)

    def test_survives_a_pickle(self) -> None:
        assert pickle.loads(pickle.dumps(Reward())).source is OWN_REWARD
