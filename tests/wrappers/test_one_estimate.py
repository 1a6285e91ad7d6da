"""Copies with an occupancy estimate each are refused, whoever steps them, and everything else is left alone."""

import threading

import gymnasium as gym
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from constrained_maxent.errors import SeparateEstimates
from constrained_maxent.wrappers import constrain

pytestmark = [
    pytest.mark.fault,
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),  # newer Pythons, beside PyTorch's threads
]


def stack():
    return constrain(gym.make("FrozenLake-v1"), episodes_per_batch=4, pairing="previous")


def drive(env, n_steps):
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(n_steps):
        *_, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()


class OwnManager(gym.vector.VectorEnv):
    """A vector environment as a user writes one."""

    def __init__(self, n):
        self.copies, self.num_envs = [stack() for _ in range(n)], n

    def reset(self, *, seed=None, options=None):
        return [copy.reset(seed=seed)[0] for copy in self.copies], {}


class TestCopies:
    @pytest.mark.parametrize("mode", list(AutoresetMode))
    def test_in_one_process(self, mode):
        with pytest.raises(SeparateEstimates, match=r"gymnasium\.vector.*constrain\(gym\.make_vec"):
            SyncVectorEnv([stack] * 2, autoreset_mode=mode).reset()

    def test_in_a_manager_of_ones_own(self):
        with pytest.raises(SeparateEstimates):
            OwnManager(2).reset()
        OwnManager(1).reset()

    @pytest.mark.filterwarnings("ignore:.*ERROR:UserWarning")  # what Gymnasium logs
    def test_in_processes(self):
        env = AsyncVectorEnv([stack] * 2)
        with pytest.raises(SeparateEstimates):
            env.reset()
        env.close(terminate=True)

    def test_of_stable_baselines(self):
        vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
        with pytest.raises(SeparateEstimates, match=r"dummy_vec_env"):
            vec_env.VecMonitor(vec_env.DummyVecEnv([stack] * 2)).reset()
        vec_env.DummyVecEnv([stack]).reset()

    def test_in_turns(self):
        copies = [stack(), stack()]
        for copy in copies:
            copy.reset(seed=0)

        def take_turns(n_steps):
            for _ in range(n_steps):
                for copy in copies:
                    *_, terminated, truncated, _ = copy.step(0)
                    if terminated or truncated:
                        copy.reset()

        take_turns(100)
        with pytest.warns(SeparateEstimates, match="FrozenLake.*in turns") as caught:
            take_turns(300)
        assert len(caught) == 2  # one each


class TestOthers:
    def test_one_copy(self):
        drive(SyncVectorEnv([stack]).envs[0], 5)
        SyncVectorEnv([stack]).reset()

    def test_vector_stack(self):
        env = constrain(SyncVectorEnv([lambda: gym.make("FrozenLake-v1")] * 2), episodes_per_batch=4)
        env.reset()

    def test_evaluation_now_and_then(self):
        one, other = stack(), stack()
        for _ in range(10):
            drive(one, 100)
            drive(other, 100)

    def test_threads(self):
        failures = []

        def run():
            try:
                drive(stack(), 2000)
            except Exception as error:  # a warning is one here
                failures.append(error)

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
