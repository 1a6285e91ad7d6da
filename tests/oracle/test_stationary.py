"""The best stationary policies, against the convex program and the values measured for the paper's grid."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import constrained_maxent  # noqa: F401  # registers the environments
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals import LinearCost
from constrained_maxent.oracle import TabularMDP, best_stationary, solve

MDP = TabularMDP.random(4, 3, seed=0, discount=0.8)
COST = {"cost": LinearCost(np.random.default_rng(0).uniform(size=(4, 3)), limit=0.4)}


def grid() -> tuple[TabularMDP, LinearCost]:
    env: Any = gym.make("SafeFrozenLake-v0")
    mdp = TabularMDP.from_env(env, discount=0.99, horizon=25)
    return mdp, LinearCost(np.repeat(env.unwrapped.tables.costs[:, None], mdp.n_actions, axis=1))


class TestGrid:
    """H = 25, γ = 0.99, scale truncated."""

    def test_unconstrained(self) -> None:
        mdp, cost = grid()
        optima = best_stationary(mdp, scale="truncated", starts=3, seed=0)
        assert [optimum.value for optimum in optima] == pytest.approx([38.8427] * 3, rel=1e-5)
        spent = cost(mdp.occupancy(optima[0].policy, scale="truncated"))
        assert spent == pytest.approx(123.874, rel=1e-3)

    def test_without_cost(self) -> None:
        mdp, cost = grid()
        (optimum,) = best_stationary(mdp, constraints={"cost": cost}, scale="truncated", starts=1, seed=0)
        assert optimum.value == pytest.approx(34.5415, rel=1e-5)
        assert optimum.constraints["cost"] == pytest.approx(0.0, abs=1e-4)
        assert optimum.multipliers["cost"] == pytest.approx(0.333, rel=1e-2)
        assert optimum.is_feasible


class TestAtInfiniteHorizon:
    """There the global optimum is stationary."""

    def test_constraint_that_binds(self) -> None:
        best = solve(MDP, constraints=COST)
        for optimum in best_stationary(MDP, constraints=COST, starts=2, seed=1):
            assert optimum.value == pytest.approx(best.value, abs=1e-4)
            assert optimum.multipliers["cost"] == pytest.approx(best.multipliers["cost"], rel=1e-2)
            assert optimum.is_feasible

    def test_constraint_that_does_not_bind(self) -> None:
        (optimum,) = best_stationary(MDP, constraints=[LinearCost(np.ones((4, 3)), limit=2.0)], starts=1)
        assert optimum.value == pytest.approx(solve(MDP).value, abs=1e-6)
        assert optimum.multipliers == {"LinearCost_0": 0.0}


class TestAtFiniteHorizon:
    def test_time_dependent_policies_are_an_upper_bound(self) -> None:
        mdp = TabularMDP.random(4, 2, seed=5, discount=0.9, horizon=5)
        assert best_stationary(mdp, starts=1)[0].value <= solve(mdp).value + 1e-6

    def test_what_cannot_be_met_is_not_called_feasible(self) -> None:
        (optimum,) = best_stationary(MDP, constraints=[LinearCost(np.ones((4, 3)), limit=0.5)], starts=1)
        assert not optimum.is_feasible
        assert optimum.constraints["LinearCost_0"] == pytest.approx(0.5)

    def test_one_seed_gives_one_answer(self) -> None:
        first, second = (best_stationary(MDP, starts=2, seed=7) for _ in range(2))
        assert [a.value for a in first] == [b.value for b in second]
        assert first[0].value >= first[1].value


@pytest.mark.parametrize("options", [{"starts": 0}, {"tolerance": 0.0}, {"tolerance": np.inf}])
def test_settings_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting):
        best_stationary(MDP, **options)


@pytest.mark.fault
def test_a_small_limit_is_kept() -> None:
    step = [[[1.0, 0.0], [1.0 - 1e-9, 1e-9]], [[1.0, 0.0], [1.0, 0.0]]]
    mdp = TabularMDP.from_arrays(step, [1.0, 0.0], discount=0.9)
    limit = 0.9e-9 * 0.005  # lets the second action be taken with 0.005
    (best,) = best_stationary(mdp, None, {"c": LinearCost([[0.0, 0.0], [1.0, 1.0]], limit=limit)}, starts=1)
    assert best.is_feasible
    assert best.constraints["c"] <= 1e-5 * limit
    assert best.policy[0, 1] == pytest.approx(0.005, rel=1e-4)
