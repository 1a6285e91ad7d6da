"""One local cluster for all tests of RLlib, and stacks on the grid."""

import warnings

import gymnasium as gym
import pytest

from constrained_maxent.functionals import Entropy, LinearCost
from constrained_maxent.occupancy import Counts
from constrained_maxent.penalties import AugmentedLagrangian
from constrained_maxent.problem import Constraint
from constrained_maxent.wrappers import constrain


@pytest.fixture(scope="session")
def cluster():
    ray = pytest.importorskip("ray")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


@pytest.fixture(scope="session")
def grid():
    """A stack of one's own, as a function of RLlib's env_config."""
    return make_grid


def make_grid(env_config, *, cost="cost", estimator=None, **changes):
    env = gym.make_vec("SafeFrozenLake-v0", num_envs=env_config["num_envs"])
    constraint = Constraint(LinearCost(cost, limit=0.0), AugmentedLagrangian(0.01, learning_rate=0.001))
    settings = {"pairing": "previous", "discount": 0.99, "scale": "truncated", "episodes_per_batch": 8} | changes
    return constrain(env, Entropy(smoothing=1e-5), {"cost": constraint}, estimator=estimator or Counts(), **settings)
