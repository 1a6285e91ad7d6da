"""Exact occupancies against hand calculation, Gymnasium's own rollouts, finite differences and Bellman's equations."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array

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

    def test_normalised_is_one_minus_discount_times_truncated(self) -> None:
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
    @given(mdps, seeds, st.sampled_from(["normalised", "truncated"]))
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

    @pytest.mark.parametrize("scale", ["normalised", "truncated"])
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


class TestAgainstGymnasium:
    def test_rollouts_of_frozen_lake(self) -> None:
        """20,000 random-policy episodes: every cell within 5 standard errors of the exact value.

        An episode's share of a cell has a standard deviation that the sample gives; 5 standard errors are exceeded by
        chance in one of 64 cells with probability below 1e-4, and the seed is fixed.
        """
        env, discount, n_episodes = gym.make("FrozenLake-v1", is_slippery=True, max_episode_steps=20), 0.95, 20_000
        mdp = TabularMDP.from_env(env, discount=discount)
        policy = np.random.default_rng(7).dirichlet(np.ones(4), size=16)
        rng, cumulative = np.random.default_rng(8), policy.cumsum(axis=1)
        total, squares = np.zeros((16, 4)), np.zeros((16, 4))
        env.reset(seed=9)
        for _ in range(n_episodes):
            state, _ = env.reset()
            episode, weight, done = np.zeros((16, 4)), 1.0, False
            while not done:
                action = int(np.searchsorted(cumulative[state], rng.random()))
                episode[state, action] += weight
                state, _, terminated, truncated, _ = env.step(action)
                weight, done = weight * discount, terminated or truncated
            total += episode
            squares += episode**2
        mean = total / n_episodes
        standard_error = np.sqrt((squares / n_episodes - mean**2) / n_episodes)
        exact = mdp.occupancy(policy, scale="truncated")
        assert (np.abs(mean - exact) <= 5 * standard_error + 1e-12).all()
        assert exact.sum() < mdp.weighting("truncated").full_mass

    def test_frozen_lake(self) -> None:
        mdp = TabularMDP.from_env(gym.make("FrozenLake-v1"), discount=0.99)
        assert (mdp.n_states, mdp.n_actions, mdp.horizon, mdp.discount) == (16, 4, 100, 0.99)
        assert mdp.initial[0] == 1.0
        # In the corner, going left bumps into two walls (stay, 2 of 3) or slips down (1 of 3).
        np.testing.assert_allclose(mdp.transition.toarray()[0, [0, 4]], [2 / 3, 1 / 3])
        # From state 14, next to the goal 15, going right arrives with probability 1/3, for reward 1.
        assert mdp.termination[14, 2] == pytest.approx(1 / 3)
        assert mdp.reward[14, 2] == pytest.approx(1 / 3)
        assert mdp.ending.toarray()[14 * 4 + 2, 15] == pytest.approx(1 / 3)
        holes_and_goal = [5, 7, 11, 12, 15]
        assert np.flatnonzero(~mdp.reachable).tolist() == holes_and_goal

    def test_taxi(self) -> None:
        mdp = TabularMDP.from_env(gym.make(TAXI), discount=0.99)
        assert (mdp.n_states, mdp.n_actions, mdp.horizon) == (500, 6, 200)
        # In 100 of the 500 states the passenger has arrived or waits where they want to go: never acted in.
        assert mdp.reachable.sum() == 400
        # Only dropping off at the destination ends an episode, for +20: once for each of the 4 destinations.
        assert mdp.termination.sum(axis=0).tolist()[:5] == [0.0] * 5
        assert (mdp.reward[mdp.termination == 1.0] == 20.0).all()

    def test_cliff_walking_has_no_time_limit(self) -> None:
        mdp = TabularMDP.from_env(gym.make("CliffWalking-v1"), discount=0.9)
        assert mdp.horizon is None
        # Only the goal (47) is entered by an ending step, from above.
        assert np.argwhere(mdp.termination).tolist() == [[35, 2], [46, 1], [47, 1], [47, 2]]
        # Stepping off the start into the cliff: back to the start, at -100, and the episode goes on.
        assert mdp.reward[36, 1] == -100.0
        assert mdp.transition.toarray()[36 * 4 + 1, 36] == 1.0
        assert np.flatnonzero(~mdp.reachable).tolist() == list(range(37, 48))
        with pytest.raises(InvalidSetting, match="finite horizon"):
            TabularMDP.from_env(gym.make("CliffWalking-v1"), discount=1.0)

    @pytest.mark.parametrize(
        ("env", "horizon"),
        [
            (FrozenLakeEnv(), None),
            (gym.wrappers.TimeLimit(FrozenLakeEnv(), 30), 30),
            (gym.wrappers.TimeLimit(gym.make("FrozenLake-v1"), 500), 100),
            (gym.make("FrozenLake-v1", max_episode_steps=7), 7),
            (gym.make("FrozenLake-v1", max_episode_steps=-1), None),
        ],
    )
    def test_horizon_is_the_smallest_time_limit(self, env: gym.Env, horizon: int | None) -> None:
        assert TabularMDP.from_env(env, discount=0.9).horizon == horizon

    def test_horizon_of_an_environment_that_truncates_itself(self) -> None:
        env = FrozenLakeEnv()
        env.horizon = 25
        assert TabularMDP.from_env(env, discount=0.9).horizon == 25
        assert TabularMDP.from_env(gym.wrappers.TimeLimit(env, 10), discount=0.9).horizon == 10

    def test_horizon_given_by_hand(self) -> None:
        assert TabularMDP.from_env(gym.make("FrozenLake-v1"), discount=0.9, horizon=3).horizon == 3
        assert TabularMDP.from_env(gym.make("FrozenLake-v1"), discount=0.9, horizon=None).horizon is None

    @pytest.mark.parametrize(("limit", "own", "horizon"), [(50, 25, 25), (20, None, 20), (None, None, None)])
    def test_vector_environment(self, limit: int | None, own: int | None, horizon: int | None) -> None:
        source = FrozenLakeEnv()
        env = gym.vector.VectorEnv()
        env.P, env.initial_state_distrib, env.horizon = source.P, source.initial_state_distrib, own
        env.spec = gym.envs.registration.EnvSpec("Vector-v0", max_episode_steps=limit)
        vector, scalar = TabularMDP.from_env(env, discount=0.9), TabularMDP.from_env(source, discount=0.9)
        assert vector.horizon == horizon
        np.testing.assert_array_equal(vector.outcomes.toarray(), scalar.outcomes.toarray())


class TestPolicyGradient:
    def test_by_hand(self) -> None:
        # Reward 1 in state 0, entering state 1 ends. With d(0) = 4/3: V(0) = 4/3, so Q(0, stay) = 1 + 1/4 * 4/3.
        gradient = chain(terminal=[1]).policy_gradient(STAY, [[1.0, 1.0], [0.0, 0.0]], scale="truncated")
        np.testing.assert_allclose(gradient, [[16 / 9, 4 / 3], [0, 0]], rtol=1e-14)

    @given(mdps, seeds, st.booleans(), st.sampled_from(["normalised", "truncated"]))
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

    def test_state_values_need_an_infinite_horizon(self) -> None:
        with pytest.raises(InvalidSetting, match="infinite horizon"):
            chain(horizon=3).state_values(STAY, [[1.0, 0.0], [0.0, 0.0]])

    def test_bad_reward(self) -> None:
        for method in (chain().policy_gradient, chain().state_values):
            with pytest.raises(InvalidMDP, match="reward has shape"):
                method(STAY, [1.0, 0.0])
            with pytest.raises(NonFiniteValue, match="reward"):
                method(STAY, [[np.nan, 0.0], [0.0, 0.0]])


class TestTorch:
    @pytest.mark.parametrize("scale", ["normalised", "truncated"])
    @pytest.mark.parametrize(
        "mdp",
        [
            TabularMDP.random(3, 2, seed=10, discount=0.9, horizon=3),
            TabularMDP.random(4, 3, seed=10, discount=0.9),
            chain(terminal=[1]),
            chain(terminal=[1], horizon=4),
        ],
        ids=repr,
    )
    def test_gradcheck(self, mdp: TabularMDP, scale: Any) -> None:
        def occupancy(logits: torch.Tensor) -> torch.Tensor:
            return mdp.occupancy_torch(torch.softmax(logits, dim=-1), scale=scale)

        torch.manual_seed(0)
        logits = torch.randn(mdp.n_states, mdp.n_actions, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(occupancy, logits)
        if mdp.horizon is not None:
            over_time = torch.randn(mdp.horizon, *logits.shape, dtype=torch.float64, requires_grad=True)
            assert torch.autograd.gradcheck(occupancy, over_time)

    def test_gradient_through_torchs_own_dense_solve(self) -> None:
        mdp = TabularMDP.random(5, 2, seed=11, discount=0.95)
        logits = torch.randn(5, 2, dtype=torch.float64, generator=torch.manual_seed(1), requires_grad=True)
        policy = torch.softmax(logits, dim=-1)
        dense = torch.from_numpy(mdp.transition.toarray()).reshape(5, 2, 5)
        moves = torch.einsum("sa,sax->xs", policy, dense)
        visits = torch.linalg.solve(torch.eye(5, dtype=torch.float64) - 0.95 * moves, torch.tensor(mdp.initial.copy()))
        entropies = [
            -(occupancy * occupancy.log()).sum()
            for occupancy in (0.05 * visits[:, None] * policy, mdp.occupancy_torch(policy))
        ]
        expected, actual = (torch.autograd.grad(value, logits, retain_graph=True)[0] for value in entropies)
        torch.testing.assert_close(entropies[1], entropies[0], rtol=1e-12, atol=0)
        torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-12)

    def test_single_precision_policy(self) -> None:
        mdp = TabularMDP.random(5, 4, seed=12, discount=0.9)
        logits = torch.randn(5, 4, generator=torch.manual_seed(2), requires_grad=True)
        occupancy = mdp.occupancy_torch(torch.softmax(logits, dim=-1))
        assert occupancy.dtype == torch.float64
        assert occupancy.sum().item() == pytest.approx(1.0, abs=1e-5)
        occupancy[0, 0].backward()
        assert logits.grad is not None
        assert logits.grad.dtype == torch.float32

    def test_second_derivatives_are_refused(self) -> None:
        policy = torch.full((2, 2), 0.5, dtype=torch.float64, requires_grad=True)
        with pytest.raises(InvalidSetting, match="second derivative"):
            torch.autograd.grad(chain().occupancy_torch(policy)[0, 0], policy, create_graph=True)

    def test_bad_policy(self) -> None:
        with pytest.raises(InvalidMDP, match="policy"):
            chain().occupancy_torch(torch.ones(2, 2))


class TestTabulate:
    def test_expectation_over_outcomes_with_the_last_step(self) -> None:
        table = chain(terminal=[1]).tabulate(lambda s, a, successor: 100 * s + 10 * a + successor)
        np.testing.assert_allclose(table, [[0.5, 11.0], [101.0, 111.0]], rtol=1e-14)

    def test_passes_whole_numbers_and_only_possible_outcomes(self) -> None:
        seen = []
        chain(terminal=[1]).tabulate(lambda *outcome: seen.append(outcome) or 0.0)
        assert sorted(seen) == [(0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 1)]
        assert all(type(number) is int for outcome in seen for number in outcome)

    def test_an_outcome_may_both_end_and_go_on(self) -> None:
        env = SimpleNamespace(
            P={0: {0: [(0.5, 0, 0.0, False), (0.25, 0, 8.0, True), (0.25, 0, 0.0, True)]}}, initial_state_distrib=[1.0]
        )
        mdp = TabularMDP.from_env(SimpleNamespace(unwrapped=env), discount=0.5)
        assert mdp.tabulate(lambda *_: 3.0) == pytest.approx(3.0)
        assert (mdp.termination.item(), mdp.reward.item()) == (0.5, 2.0)
        assert mdp.occupancy([[1.0]], scale="truncated") == pytest.approx(4 / 3)

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_not_finite(self, value: float) -> None:
        with pytest.raises(NonFiniteValue, match=r"cost\(0, 1, 1\)"):
            chain().tabulate(lambda s, a, _: value if (s, a) == (0, 1) else 0.0)

    def test_a_cost_that_is_no_number(self) -> None:
        with pytest.raises(InvalidData, match="must be a number, got None"):
            chain().tabulate(lambda *_: None)


class TestReachable:
    def test_stops_where_the_episode_ends(self) -> None:
        assert chain().reachable.tolist() == [True, True]
        assert chain(terminal=[1]).reachable.tolist() == [True, False]

    def test_within_the_horizon(self) -> None:
        for horizon, reached in [(1, 1), (2, 3), (3, 5), (4, 6), (None, 6)]:
            mdp = dataclasses.replace(ring(6, discount=0.9), initial=np.eye(6)[0], horizon=horizon)
            assert mdp.reachable.sum() == reached

    @given(seeds, st.integers(1, 3), st.one_of(st.none(), st.integers(1, 6)))
    @settings(deadline=None, max_examples=40)
    def test_is_the_support_of_the_uniform_policy(self, seed: int, branching: int, horizon: int | None) -> None:
        mdp = TabularMDP.random(6, 2, seed=seed, discount=0.9, horizon=horizon, branching=branching)
        mdp = dataclasses.replace(mdp, initial=np.eye(6)[0])
        visited = mdp.occupancy(np.full((6, 2), 0.5)).sum(axis=1) > 1e-15
        np.testing.assert_array_equal(mdp.reachable, visited)


class TestConstruction:
    def test_sparse_and_dense_agree(self) -> None:
        for matrix in (csr_array(CHAIN.reshape(4, 2)), coo_array(CHAIN.reshape(4, 2))):
            sparse = TabularMDP.from_arrays(matrix, [1.0, 0.0], discount=0.5, terminal={1})
            np.testing.assert_array_equal(sparse.outcomes.toarray(), CHAIN.reshape(4, 2))
            np.testing.assert_array_equal(sparse.termination, [[0.5, 1.0], [1.0, 1.0]])

    def test_arrays_are_read_only_copies(self) -> None:
        transition, initial = csr_array(CHAIN.reshape(4, 2)), np.array([1.0, 0.0])
        mdp = TabularMDP.from_arrays(transition, initial, discount=0.5)
        initial[:], transition.data[:] = 0.5, 0.25
        assert mdp.initial.tolist() == [1.0, 0.0]
        np.testing.assert_array_equal(mdp.transition.toarray(), CHAIN.reshape(4, 2))
        for array in (mdp.initial, mdp.reward, mdp.transition.data, mdp.ending.indices):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
        with pytest.raises(dataclasses.FrozenInstanceError):
            mdp.discount = 0.9  # type: ignore[misc]

    @pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda mdp: pickle.loads(pickle.dumps(mdp))])
    def test_copies(self, duplicate: Any) -> None:
        mdp = chain(horizon=3)
        np.testing.assert_array_equal(duplicate(mdp).occupancy(STAY), mdp.occupancy(STAY))

    def test_repr_is_short(self) -> None:
        assert repr(chain(horizon=3)) == "TabularMDP(n_states=2, n_actions=2, discount=0.5, horizon=3)"

    def test_random_is_reproducible_and_branches(self) -> None:
        first, second, other = (TabularMDP.random(6, 2, seed=s, discount=0.9, branching=3) for s in (1, 1, 2))
        np.testing.assert_array_equal(first.transition.toarray(), second.transition.toarray())
        assert (first.transition.toarray() != other.transition.toarray()).any()
        assert np.diff(first.transition.indptr).tolist() == [3] * 12
        assert first.termination.max() == 0.0


class TestErrors:
    @pytest.mark.parametrize(
        ("transition", "initial", "error", "message"),
        [
            (CHAIN[:, 0], [1.0, 0.0], InvalidMDP, "expected"),
            (CHAIN[:1], [1.0, 0.0], InvalidMDP, "expected"),
            (np.zeros((0, 1, 0)), [], InvalidMDP, "expected"),
            (csr_array(CHAIN.reshape(4, 2)[:3]), [1.0, 0.0], InvalidMDP, "expected"),
            ([[[1.0, 0.0]], [[1.0]]], [1.0, 0.0], InvalidData, "transition cannot be made an array"),
            (CHAIN, ["first", "second"], InvalidData, "initial cannot be made an array"),
            (CHAIN, [1.0], InvalidMDP, "initial has shape"),
            (CHAIN, [[1.0, 0.0]], InvalidMDP, "initial has shape"),
            (CHAIN, [0.5, 0.4], InvalidMDP, "initial must sum to 1"),
            (CHAIN, [1.5, -0.5], InvalidMDP, "negative"),
            (CHAIN, [np.nan, 1.0], NonFiniteValue, "initial"),
            (0.9 * CHAIN, [1.0, 0.0], InvalidMDP, r"index \(0, 0\) it sums to 0.9"),
            (CHAIN + np.array([-0.1, 0.1]), [1.0, 0.0], InvalidMDP, "negative"),
            (np.where(CHAIN == 0.5, np.nan, CHAIN), [1.0, 0.0], NonFiniteValue, "transition"),
            (np.where(CHAIN == 0.5, np.inf, CHAIN), [1.0, 0.0], NonFiniteValue, "transition"),
        ],
    )
    def test_bad_arrays(self, transition: Any, initial: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            TabularMDP.from_arrays(transition, initial, discount=0.9, terminal=[1] if len(initial) > 1 else [])

    @pytest.mark.parametrize("terminal", [[2], [-1], [0.5], [False, True], [[1]]])
    def test_bad_terminal_states(self, terminal: Any) -> None:
        with pytest.raises(InvalidMDP, match="terminal"):
            chain(terminal=terminal)

    @pytest.mark.parametrize(
        "options", [{"discount": 0.0}, {"discount": 1.1}, {"discount": math.nan}, {"discount": 1.0}, {"horizon": 0}]
    )
    def test_bad_discount_or_horizon(self, options: dict[str, Any]) -> None:
        with pytest.raises(InvalidSetting):
            chain(**options)

    @pytest.mark.parametrize("sizes", [(0, 1, None), (1, 0, None), (3, 2, 0), (3, 2, 4)])
    def test_bad_random_sizes(self, sizes: tuple[int, int, int | None]) -> None:
        with pytest.raises(InvalidSetting, match="n_states"):
            TabularMDP.random(*sizes[:2], seed=0, discount=0.9, branching=sizes[2])

    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [
            ({"ending": csr_array((2, 2))}, InvalidMDP, "ending has shape"),
            ({"reward": np.zeros(2)}, InvalidMDP, "reward has shape"),
            ({"reward": np.full((2, 2), np.nan)}, NonFiniteValue, "reward"),
        ],
    )
    def test_bad_fields(self, change: dict[str, Any], error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            dataclasses.replace(chain(), **change)

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

    def test_environment_without_dynamics(self) -> None:
        with pytest.raises(InvalidMDP, match=r"no attribute P and no initial_state_distrib.*from_arrays"):
            TabularMDP.from_env(gym.make("CartPole-v1"), discount=0.9)

    @pytest.mark.parametrize(
        "table",
        [
            {},
            {0: {0: [(1.0, 0, 0.0, False)]}},
            {0: {0: [(1.0, 0, 0.0, False)]}, 1: {}},
            {0: {0: [(1.0, 0, 0.0, False)]}, 1: {1: [(1.0, 0, 0.0, False)]}},
            {0: {0: [(1.0, 2, 0.0, False)]}, 1: {0: [(1.0, 0, 0.0, False)]}},
            {0: {0: [(1.0, 0, 0.0)]}, 1: {0: [(1.0, 0, 0.0)]}},
            {0: {0: []}, 1: {0: []}},
            {s: {0: [(1.0, s, 0.0, False)]} for s in range(3)},
            None,
        ],
    )
    def test_malformed_toy_text(self, table: Any) -> None:
        env = FrozenLakeEnv()
        env.P, env.initial_state_distrib = table, np.array([1.0, 0.0])
        with pytest.raises(InvalidMDP):
            TabularMDP.from_env(env, discount=0.9)
