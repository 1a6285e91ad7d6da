"""Where the length of an episode is found."""

from __future__ import annotations

from types import SimpleNamespace
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


class Timed:
    """As much of dm_control as is looked at: a limit in steps, or one in seconds that physics' clock reaches."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    reset = step = print


class Adapter(gym.Env[Any, Any]):
    """What Shimmy puts around: not a wrapper, but it hands on what it does not have."""

    def __init__(self, env: Any) -> None:
        self._env = env

    def __getattr__(self, item: str) -> Any:
        return getattr(self._env, item)


def composed(seconds: float, timestep: float, each: int) -> Timed:
    physics = SimpleNamespace(timestep=lambda: timestep)
    return Timed(_time_limit=seconds, _n_sub_steps=each, physics=physics)


class TestAdapters:
    @pytest.mark.parametrize(("limit", "horizon"), [(1000.0, 1000), (999.2, 1000), (float("inf"), None)])
    def test_a_limit_in_steps_below_an_adapter(self, limit: float, horizon: int | None) -> None:
        assert find_horizon(Adapter(Timed(_step_limit=limit))) == horizon

    @pytest.mark.parametrize(("seconds", "timestep", "each"), [(10.0, 0.002, 20), (0.3, 0.1, 1), (30.0, 0.005, 6)])
    def test_a_limit_in_seconds(self, seconds: float, timestep: float, each: int) -> None:
        clock, steps = 0.0, 0
        while clock < seconds:  # as composer has it, with the rounding of MuJoCo's clock
            for _ in range(each):
                clock += timestep
            steps += 1
        assert find_horizon(Adapter(composed(seconds, timestep, each))) == steps

    def test_no_limit_in_seconds(self) -> None:
        assert find_horizon(Adapter(composed(float("inf"), 0.002, 20))) is None

    def test_repeats_on_either_side(self) -> None:
        below = Timed(_num_repeats=3, _environment=Timed(_step_limit=100.0))
        assert find_horizon(Adapter(below)) == 34
        assert find_horizon(RepeatAction(Adapter(below), 4)) == 9

    def test_a_duration_with_a_rate(self) -> None:
        env = endless()
        env.config = {"duration": 7, "policy_frequency": 5, "simulation_frequency": 15}
        clock, steps = 0.0, 0
        while clock < 7:
            clock += 1 / 5
            steps += 1
        assert find_horizon(env) == steps

    def test_frames_of_a_game(self) -> None:
        env = endless()
        env.ale = SimpleNamespace(getInt={"max_num_frames_per_episode": 101}.get)
        env._frameskip = 4
        assert find_horizon(env) == 26
        env._frameskip = (2, 5)  # 2, 3 or 4 frames
        assert find_horizon(env) == 51

    @pytest.mark.parametrize("name", ["max_steps", "max_episode_steps", "_max_episode_steps", "max_path_length"])
    def test_what_environments_and_layers_call_it(self, name: str) -> None:
        env = endless()
        setattr(env, name, 9)
        assert find_horizon(env) == 9
        layer = gym.Wrapper(endless())
        setattr(layer, name, 9)
        assert find_horizon(layer) == 9

    def test_one_that_changes_with_every_episode(self) -> None:
        env = endless()
        env.max_steps, env.fixed_max_steps = 9, False  # BabyAI
        assert find_horizon(env) is None


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

    @pytest.mark.parametrize("name", ["num_repeats", "_num_repeats", "_action_repeat", "frame_skip", "_frame_skip"])
    def test_what_others_call_it(self, name: str) -> None:
        layer = gym.Wrapper(limited())
        setattr(layer, name, 3)
        assert find_horizon(layer) == 3  # of 7 steps, the last with one

    def test_a_frame_skip_of_the_bare_environment_is_in_its_limit(self) -> None:
        env = endless()
        env.frame_skip = 5
        assert find_horizon(TimeLimit(env, 12)) == 12

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
