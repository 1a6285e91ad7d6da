"""What runners step: refused where it would not be what RLlib learns from, and with ends as problems have them."""

from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from constrained_maxent.errors import InvalidSetting, MissingTracker
from constrained_maxent.tracker import find_tracker

pytest.importorskip("ray")

from constrained_maxent.adapters.rllib import stacks
from constrained_maxent.adapters.rllib.stacks import make_stack


@pytest.fixture
def registered(monkeypatch):
    """Registers a function of env_config, without a cluster, and returns its name."""

    def register(make):
        registry = SimpleNamespace(contains=lambda kind, name: True, get=lambda kind, name: make)
        monkeypatch.setattr(stacks, "_global_registry", registry)
        return "its own"

    return register


def made(env, copies=2, **env_config):
    return make_stack(
        SimpleNamespace(env=env, num_envs_per_env_runner=copies, num_env_runners=1, env_config=env_config)
    )


class TestRefuses:
    def test_another_pairing(self):
        with pytest.raises(InvalidSetting, match="pairing='same'"):
            made("FrozenLake-PGP-v0", pairing="same")

    def test_another_autoreset(self):
        with pytest.raises(InvalidSetting, match="NEXT_STEP"):
            made("FrozenLake-PGP-v0", pairing="previous", autoreset_mode=AutoresetMode.SAME_STEP)

    def test_an_environment_without_a_tracker(self):
        with pytest.raises(MissingTracker):
            made("FrozenLake-v1")

    def test_rewards_that_are_the_environments(self, registered, grid):
        with pytest.raises(InvalidSetting, match="environment's own"):
            made(registered(lambda config: grid(config, replace_reward=False)))

    @pytest.mark.parametrize("make", [lambda _: gym.make("FrozenLake-PGP-v0"), lambda _: gym.make_vec("CartPole-v1")])
    def test_functions_that_return_something_else(self, make, registered):
        with pytest.raises(InvalidSetting, match="2 here"):
            made(registered(make))

    @pytest.mark.parametrize(
        "space", [gym.spaces.Discrete(4, start=5), gym.spaces.Tuple((gym.spaces.MultiDiscrete([2, 2], start=[0, 1]),))]
    )
    def test_numbers_that_do_not_begin_at_0(self, space, registered, grid):
        def make(config):
            env = grid(config)
            env.unwrapped.single_action_space = space
            return env

        with pytest.raises(InvalidSetting, match="from 0"):
            made(registered(make))


def test_a_function_gets_what_the_configuration_says(registered, grid):
    def make(config):
        assert (config["episodes"], config["num_envs"], config.worker_index) == (16, 2, 0)
        return grid(config, episodes_per_batch=config["episodes"])

    assert find_tracker(made(registered(make), episodes=16)).episodes_per_batch == 16


class TestEnds:
    def test_the_end_of_a_finite_discounted_problem_is_terminal(self):
        """25 steps, then a step that resets: twice the same."""
        env = made("FrozenLake-PGP-v0", pairing="previous")
        env.reset(seed=0)
        terminal, cut = [], []
        for _ in range(52):
            _, _, terminated, truncated, _ = env.step(np.array([3, 3]))  # up, into the wall: nobody gets anywhere
            terminal.append(terminated.tolist())
            cut.append(truncated.tolist())
        assert not np.any(cut)
        assert np.flatnonzero(np.all(terminal, axis=1)).tolist() == [24, 50]
        assert np.sum(terminal) == 4

    def test_a_time_limit_alone_cuts(self):
        env = made("SafeCartpole-PGP-v0", pairing="previous", time_limit=0.1, episodes_per_batch=4)
        env.reset(seed=0)
        ends = [env.step(np.zeros((2, 1), np.float32))[2:4] for _ in range(10)]
        assert [bool(terminated.any()) for terminated, _ in ends] == [False] * 10
        assert ends[-1][1].all()


def test_infos_are_without_what_is_the_reward_already():
    env = made("FrozenLake-PGP-v0", pairing="previous")
    _, infos = env.reset(seed=0)
    assert set(infos) <= {"original_reward", "_original_reward"}
    _, _, _, _, infos = env.step(np.array([0, 1]))
    assert set(infos) == {"cost", "_cost", "original_reward", "_original_reward"}
