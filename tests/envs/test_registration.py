import importlib
import warnings

import gymnasium as gym

import constrained_maxent.envs
from constrained_maxent.envs import SafeFrozenLake


def test_ids_bring_no_time_limit_of_their_own():
    env = gym.make("SafeFrozenLake-v0")
    assert isinstance(env.unwrapped, SafeFrozenLake)
    assert gym.spec("SafeFrozenLake-v0").max_episode_steps is None


def test_make_imports_the_package_by_itself():
    assert gym.make("constrained_maxent.envs:SafeFrozenLake-v0").spec.id == "SafeFrozenLake-v0"


def test_registering_again_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        importlib.reload(constrained_maxent.envs)
