"""Where the length of an episode is found."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.envs.toy_text import FrozenLakeEnv
from gymnasium.wrappers import TimeLimit

from constrained_maxent.occupancy.horizon import find_horizon


def limited() -> gym.Env[Any, Any]:
    return gym.make("FrozenLake-v1", max_episode_steps=7)


def endless() -> gym.Env[Any, Any]:
    return FrozenLakeEnv()


class TestScalar:
    def test_time_limit(self) -> None:
        assert find_horizon(limited()) == 7

    def test_the_least_of_several_limits(self) -> None:
        assert find_horizon(TimeLimit(limited(), 9)) == 7
        assert find_horizon(TimeLimit(limited(), 5)) == 5

    def test_an_attribute_of_the_environment_itself(self) -> None:
        env = endless()
        env.horizon = 4
        assert find_horizon(env) == 4
        assert find_horizon(TimeLimit(env, 3)) == 3
        assert find_horizon(TimeLimit(env, 6)) == 4

    def test_none_without_a_limit(self) -> None:
        assert find_horizon(endless()) is None


class TestVector:
    @pytest.mark.parametrize("kind", [gym.vector.SyncVectorEnv, gym.vector.AsyncVectorEnv])
    @pytest.mark.parametrize(("make", "horizon"), [(limited, 7), (endless, None)])
    def test_asks_a_sub_environment(self, kind: Any, make: Any, horizon: int | None) -> None:
        env = kind([make, make])
        try:
            assert find_horizon(env) == horizon
            assert find_horizon(gym.wrappers.vector.RecordEpisodeStatistics(env)) == horizon
        finally:
            env.close()

    @pytest.mark.parametrize(
        ("own", "limit", "horizon"), [(25, 50, 25), (None, 20, 20), (25, None, 25), (None, None, None)]
    )
    def test_a_vector_environment_of_its_own_kind(
        self, own: int | None, limit: int | None, horizon: int | None
    ) -> None:
        env: Any = gym.vector.VectorEnv()
        env.horizon = own
        env.spec = EnvSpec("Own-v0", max_episode_steps=limit)
        assert find_horizon(env) == horizon
        env.spec = None
        assert find_horizon(env) == own
