"""Where the length of an episode is found."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.envs.toy_text import FrozenLakeEnv
from gymnasium.wrappers import MaxAndSkipObservation, StickyAction, TimeLimit

from constrained_maxent.occupancy.horizon import find_horizon


class Repeating(gym.Wrapper[Any, Any, Any, Any]):
    """What Gymnasium has from 1.3 on, as far as it is looked at."""

    def __init__(self, env: Any, num_repeats: int) -> None:
        super().__init__(env)
        self.num_repeats = num_repeats


Repeating.__name__ = "RepeatAction"
RepeatAction: Any = getattr(gym.wrappers, "RepeatAction", Repeating)


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


@pytest.mark.fault
class TestRepeats:
    @pytest.mark.parametrize(
        ("layer", "horizon"),
        [
            (lambda env: RepeatAction(env, 4), 5),
            (lambda env: RepeatAction(env, 3), 7),
            (lambda env: RepeatAction(RepeatAction(env, 2), 3), 4),
            (lambda env: TimeLimit(RepeatAction(env, 4), 3), 3),
            (lambda env: RepeatAction(TimeLimit(env, 8), 4), 2),
            (lambda env: MaxAndSkipObservation(env, 4), 5),
            (lambda env: StickyAction(env, 0.5), 20),
        ],
    )
    def test_steps_are_those_above_them(self, layer: Any, horizon: int) -> None:
        env = gym.make("CartPole-v1", max_episode_steps=20)
        assert find_horizon(layer(env)) == horizon
        assert find_horizon(gym.vector.SyncVectorEnv([lambda: layer(env)] * 2)) == horizon

    def test_the_name_of_a_layer_of_somebody_elses(self) -> None:
        class MaxAndSkipEnv(gym.Wrapper[Any, Any, Any, Any]):  # as Stable-Baselines3 calls it
            _skip = 4

        class Own(MaxAndSkipEnv):
            pass

        assert find_horizon(Own(limited())) == 2

    def test_copies_that_differ_have_the_longest(self) -> None:
        assert find_horizon(gym.vector.SyncVectorEnv([limited, lambda: TimeLimit(endless(), 9)])) == 9
        assert find_horizon(gym.vector.SyncVectorEnv([limited, endless])) is None


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
