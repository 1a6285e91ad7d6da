"""Exact models against hand calculation and Gymnasium's own rollouts; what is no model is refused."""

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
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array

from constrained_maxent.errors import InvalidData, InvalidMDP, InvalidSetting, MissingCost, NonFiniteValue
from constrained_maxent.functionals import LinearCost, Reward
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


def termination(mdp: TabularMDP) -> np.ndarray:
    """Probability that the episode ends with the step."""
    total: np.ndarray = mdp.ending.sum(axis=1).reshape(mdp.shape)
    return total


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
        assert termination(mdp)[14, 2] == pytest.approx(1 / 3)
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
        assert termination(mdp).sum(axis=0).tolist()[:5] == [0.0] * 5
        assert (mdp.reward[termination(mdp) == 1.0] == 20.0).all()

    def test_cliff_walking_has_no_time_limit(self) -> None:
        mdp = TabularMDP.from_env(gym.make("CliffWalking-v1"), discount=0.9)
        assert mdp.horizon is None
        # Only the goal (47) is entered by an ending step, from above.
        assert np.argwhere(termination(mdp)).tolist() == [[35, 2], [46, 1], [47, 1], [47, 2]]
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
        assert (termination(mdp).item(), mdp.reward.item()) == (0.5, 2.0)
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

    @given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.one_of(st.none(), st.integers(1, 6)))
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
            np.testing.assert_array_equal(termination(sparse), [[0.5, 1.0], [1.0, 1.0]])

    def test_arrays_are_read_only_copies(self) -> None:
        transition, initial = csr_array(CHAIN.reshape(4, 2)), np.array([1.0, 0.0])
        mdp = TabularMDP.from_arrays(transition, initial, discount=0.5, reward=np.ones((2, 2)))
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
        assert termination(first).max() == 0.0


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


class TestTables:
    """Tables of what is observed on each step."""

    mdp = TabularMDP.from_arrays(np.full((2, 1, 2), 0.5), [1.0, 0.0], discount=0.5, reward=[[1.0], [2.0]])

    def test_of_every_source(self) -> None:
        total = Reward() + LinearCost(lambda state, action, after: 10.0 * after)
        # Rewards 1 and 2; half of all steps lead to state 1.
        assert self.mdp.with_tables(total).gradient(np.zeros((2, 1))).tolist() == [[6.0], [7.0]]
        assert self.mdp.table_of("heat", {"heat": [[100], [0]]}).tolist() == [[100.0], [0.0]]

    def test_what_is_not_known_is_an_error(self) -> None:
        with pytest.raises(MissingCost, match="heat"):
            self.mdp.with_tables(LinearCost("heat"))
        unknown = dataclasses.replace(self.mdp, reward=None)
        with pytest.raises(MissingCost, match="reward"):
            unknown.with_tables(Reward())
        with pytest.raises(InvalidMDP, match="reward"):
            dataclasses.replace(self.mdp, reward=[[1.0]])
