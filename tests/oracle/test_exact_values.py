"""Occupancies and their derivatives against hand calculation, finite differences and Bellman's equations."""

from __future__ import annotations

import dataclasses
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained_maxent.errors import InvalidData, InvalidMDP, InvalidSetting, NonFiniteValue
from constrained_maxent.oracle import TabularMDP

TAXI = "Taxi-v4" if "Taxi-v4" in gym.registry else "Taxi-v3"
# From state 0, action 0 stays with probability 1/2 and goes to state 1 otherwise; action 1 and state 1 lead to state 1.
CHAIN = np.array([[[0.5, 0.5], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
STAY = np.array([[1.0, 0.0], [1.0, 0.0]])


def chain(**options: Any) -> TabularMDP:
    return TabularMDP.from_arrays(CHAIN, [1.0, 0.0], **{"discount": 0.5, **options})


def ring(n_states: int, **options: Any) -> TabularMDP:
    """A cycle on which action 0 goes back by one state and action 1 forward, started anywhere alike."""
    step = np.stack([np.roll(np.eye(n_states), shift, axis=1) for shift in (-1, 1)], axis=1)
    return TabularMDP.from_arrays(step, np.full(n_states, 1.0 / n_states), **options)


def random_policy(mdp: TabularMDP, seed: int, *, over_time: bool = False) -> np.ndarray:
    size = (mdp.horizon, mdp.n_states) if over_time else mdp.n_states
    return np.random.default_rng(seed).dirichlet(np.ones(mdp.n_actions), size=size)


mdps = st.builds(
    TabularMDP.random,
    st.integers(1, 5),
    st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
    discount=st.floats(0.05, 0.99),
    horizon=st.one_of(st.none(), st.integers(1, 12)),
)
seeds = st.integers(0, 2**32 - 1)


class TestOccupancyByHand:
    def test_geometric_series_at_infinite_horizon(self) -> None:
        # State 0 is visited with probability 2^-t at weight 2^-t: 1 / (1 - 1/4). The total is 1 / (1 - 1/2).
        occupancy = chain().occupancy(STAY, scale="truncated")
        np.testing.assert_allclose(occupancy, [[4 / 3, 0], [2 / 3, 0]], rtol=1e-14)

    def test_normalized_is_one_minus_discount_times_truncated(self) -> None:
        np.testing.assert_allclose(chain().occupancy(STAY), [[2 / 3, 0], [1 / 3, 0]], rtol=1e-14)

    def test_finite_horizon(self) -> None:
        # Three steps: 1 + 1/4 + 1/16 in state 0, of 1 + 1/2 + 1/4 in all.
        occupancy = chain(horizon=3).occupancy(STAY, scale="truncated")
        np.testing.assert_allclose(occupancy, [[21 / 16, 0], [7 / 16, 0]], rtol=1e-14)
        np.testing.assert_allclose(chain(horizon=3).occupancy(STAY), [[3 / 4, 0], [1 / 4, 0]], rtol=1e-14)

    def test_undiscounted_finite_horizon(self) -> None:
        mdp = chain(discount=1.0, horizon=3)
        np.testing.assert_allclose(mdp.occupancy(STAY, scale="truncated"), [[7 / 4, 0], [5 / 4, 0]], rtol=1e-14)
        np.testing.assert_allclose(mdp.occupancy(STAY), [[7 / 12, 0], [5 / 12, 0]], rtol=1e-14)

    @pytest.mark.parametrize("horizon", [None, 60])
    def test_termination_loses_the_mass_of_steps_not_taken(self, horizon: int | None) -> None:
        # Entering state 1 now ends the episode, so only the geometric series of state 0 is left: 4/3 of 2.
        mdp = chain(horizon=horizon, terminal=[1])
        np.testing.assert_allclose(mdp.occupancy(STAY, scale="truncated"), [[4 / 3, 0], [0, 0]], rtol=1e-14)
        assert mdp.occupancy(STAY).sum() == pytest.approx(2 / 3, rel=1e-14)

    @pytest.mark.parametrize("horizon", [None, 5])
    def test_a_start_in_a_terminal_state_takes_one_action(self, horizon: int | None) -> None:
        mdp = TabularMDP.from_arrays(CHAIN, [0.25, 0.75], discount=0.5, horizon=horizon, terminal=[1])
        occupancy = mdp.occupancy([[0.0, 1.0], [0.5, 0.5]], scale="truncated")
        np.testing.assert_allclose(occupancy, [[0, 0.25], [0.375, 0.375]], rtol=1e-14)

    def test_policy_over_time(self) -> None:
        # Stay, then leave, then (from wherever it is) action 0: weights 1, 1/2, 1/4.
        policy = np.array([[[1, 0], [1, 0]], [[0, 1], [1, 0]], [[1, 0], [1, 0]]], dtype=np.float64)
        occupancy = chain(horizon=3).occupancy(policy, scale="truncated")
        np.testing.assert_allclose(occupancy, [[1, 1 / 4], [1 / 2, 0]], rtol=1e-14)

    @pytest.mark.parametrize("horizon", [None, 7])
    def test_uniform_on_a_symmetric_ring(self, horizon: int | None) -> None:
        mdp = ring(5, discount=0.9, horizon=horizon)
        np.testing.assert_allclose(mdp.occupancy(np.full((5, 2), 0.5)), np.full((5, 2), 0.1), rtol=1e-13)

    def test_time_expanded_recursion(self) -> None:
        mdp = TabularMDP.random(4, 3, seed=1, discount=0.8, horizon=6)
        policy, dense = random_policy(mdp, 2), mdp.outcomes.toarray().reshape(4, 3, 4)
        rho, expected = mdp.initial.copy(), np.zeros((4, 3))
        for t in range(6):
            for s in range(4):
                for a in range(3):
                    expected[s, a] += 0.8**t * rho[s] * policy[s, a]
            rho = np.einsum("s,sa,sax->x", rho, policy, dense)
        np.testing.assert_allclose(mdp.occupancy(policy, scale="truncated"), expected, rtol=1e-13)


class TestOccupancyProperties:
    @given(mdps, seeds, st.sampled_from(["normalized", "truncated"]))
    @settings(deadline=None, max_examples=50)
    def test_mass_is_full_when_nothing_terminates(self, mdp: TabularMDP, seed: int, scale: Any) -> None:
        occupancy = mdp.occupancy(random_policy(mdp, seed), scale=scale)
        assert occupancy.sum() == pytest.approx(mdp.weighting(scale).full_mass, rel=1e-11)
        assert (occupancy >= 0.0).all()

    @given(mdps, seeds)
    @settings(deadline=None, max_examples=50)
    def test_flow_balance_at_infinite_horizon(self, mdp: TabularMDP, seed: int) -> None:
        mdp = dataclasses.replace(mdp, horizon=None)
        occupancy = mdp.occupancy(random_policy(mdp, seed))
        inflow = (1 - mdp.discount) * mdp.initial + mdp.discount * occupancy.ravel() @ mdp.transition.toarray()
        np.testing.assert_allclose(occupancy.sum(axis=1), inflow, rtol=1e-11, atol=1e-15)

    @pytest.mark.parametrize("scale", ["normalized", "truncated"])
    def test_finite_horizons_tend_to_the_infinite_one(self, scale: Any) -> None:
        mdp = TabularMDP.random(5, 2, seed=3, discount=0.9)
        policy = random_policy(mdp, 4)
        limit = mdp.occupancy(policy, scale=scale)
        gaps = [
            np.abs(dataclasses.replace(mdp, horizon=horizon).occupancy(policy, scale=scale) - limit).sum()
            for horizon in (5, 25, 125, 400)
        ]
        assert gaps == sorted(gaps, reverse=True)
        assert gaps[-1] < 1e-14

    def test_constant_policy_over_time_is_the_stationary_one(self) -> None:
        mdp = TabularMDP.random(4, 2, seed=5, discount=0.9, horizon=8)
        policy = random_policy(mdp, 6)
        over_time = np.broadcast_to(policy, (8, 4, 2))
        np.testing.assert_array_equal(mdp.occupancy(over_time), mdp.occupancy(policy))

    def test_rounding_leaves_no_negative_occupancy(self) -> None:
        # On this environment the bare solution of the linear system has entries of about -1e-18.
        mdp = TabularMDP.from_env(gym.make(TAXI), discount=0.99, horizon=None)
        rng = np.random.default_rng(0)
        assert min(mdp.occupancy(rng.dirichlet(np.full(6, 0.1), size=500)).min() for _ in range(5)) >= 0.0


class TestPolicyGradient:
    def test_by_hand(self) -> None:
        # Reward 1 in state 0, entering state 1 ends. With d(0) = 4/3: V(0) = 4/3, so Q(0, stay) = 1 + 1/4 * 4/3.
        gradient = chain(terminal=[1]).policy_gradient(STAY, [[1.0, 1.0], [0.0, 0.0]], scale="truncated")
        np.testing.assert_allclose(gradient, [[16 / 9, 4 / 3], [0, 0]], rtol=1e-14)

    @given(mdps, seeds, st.booleans(), st.sampled_from(["normalized", "truncated"]))
    @settings(deadline=None, max_examples=40)
    def test_finite_differences(self, mdp: TabularMDP, seed: int, over_time: bool, scale: Any) -> None:
        policy = random_policy(mdp, seed, over_time=over_time and mdp.horizon is not None)
        rng = np.random.default_rng(seed)
        reward = rng.normal(size=(mdp.n_states, mdp.n_actions))
        towards = rng.dirichlet(np.ones(mdp.n_actions), size=policy.shape[:-1]) - policy
        # Towards another policy every point is a policy, too. Central differences about the middle of the way.
        middle, h = policy + 0.5 * towards, 1e-5
        ahead, behind = ((reward * mdp.occupancy(middle + step * towards, scale=scale)).sum() for step in (h, -h))
        slope = (mdp.policy_gradient(middle, reward, scale=scale) * towards).sum()
        size = mdp.weighting(scale).full_mass / (1 - mdp.discount)
        assert slope == pytest.approx((ahead - behind) / (2 * h), rel=1e-6, abs=1e-7 * size)

    def test_bad_reward(self) -> None:
        with pytest.raises(InvalidMDP, match="reward has shape"):
            chain().policy_gradient(STAY, [1.0, 0.0])
        with pytest.raises(NonFiniteValue, match="reward"):
            chain().policy_gradient(STAY, [[np.nan, 0.0], [0.0, 0.0]])


class TestErrors:
    @pytest.mark.parametrize(
        ("policy", "error", "message"),
        [
            (np.full(2, 0.5), InvalidMDP, r"policy has shape \(2,\), expected \(2, 2\)"),
            (np.full((3, 2, 2), 0.5), InvalidMDP, "policy has shape"),
            ([[0.5, 0.5], [1.0]], InvalidData, "policy cannot be made an array"),
            (np.full((2, 2), 0.4), InvalidMDP, "must sum to 1"),
            (np.array([[1.5, -0.5], [0.5, 0.5]]), InvalidMDP, "negative"),
            (np.array([[np.nan, 0.5], [0.5, 0.5]]), NonFiniteValue, "policy"),
        ],
    )
    def test_bad_policy(self, policy: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            chain().occupancy(policy)

    def test_policy_over_another_time(self) -> None:
        with pytest.raises(InvalidMDP, match=r"\(2, 2\) or \(3, 2, 2\)"):
            chain(horizon=3).occupancy(np.full((4, 2, 2), 0.5))

    def test_bad_scale(self) -> None:
        with pytest.raises(InvalidSetting, match="scale"):
            chain().occupancy(STAY, scale="unit")  # type: ignore[arg-type]
