"""Plans of short runs, and environments that go wrong in ways of their own, in a module that workers can import."""

import sys

import gymnasium as gym
import pytest

MODULE = '''
"""Two states, two actions, ten steps; what goes wrong in the third episode of a training says ``fault``."""

import errno
import os
import signal
import time

import gymnasium as gym


class Tiny(gym.Env):
    observation_space = action_space = gym.spaces.Discrete(2)

    def __init__(self, fault=None):
        self.fault, self.n_steps = fault, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        self.n_steps += 1
        if self.n_steps == 16 + 25:  # a training begins by looking at 16 steps
            if self.fault == "nan":
                return int(action), 0.0, False, False, {"cost": float("nan")}
            if self.fault == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.fault == "disk":
                from constrained_maxent.runs.run_folder import RunFolder
                RunFolder.write_json = full
        if self.fault == "slow":
            time.sleep(0.02)
        return int(action), 0.0, False, False, {"cost": float(action)}


def full(self, path, content):
    with open("/dev/full", "w") as file:  # raises what writing to a full disk does
        file.write("x" * 100_000)


gym.register("Tiny-v0", entry_point=Tiny, max_episode_steps=10)
'''


@pytest.fixture(scope="session")
def modules(tmp_path_factory):
    """The folder of that module, which processes that are started here find, too."""
    place = tmp_path_factory.mktemp("modules")
    (place / "tiny_module.py").write_text(MODULE)
    sys.path.insert(0, str(place))
    yield place
    sys.path.remove(str(place))
    gym.registry.pop("Tiny-v0", None)


@pytest.fixture
def described(modules):
    """The description of a sweep over seeds in it, with changes."""

    def make(*, settings=(), **changes):
        usual = {"iterations": 5, "num_envs": 1, "episodes_per_batch": 1, "discount": 0.9, "checkpoint_every": 1}
        return {"environment": "tiny_module:Tiny-v0", "seeds": 2, "settings": usual | dict(settings)} | changes

    return make
