"""A wrapper around the wrong kind of environment names its twin; around no environment, what it wants."""

import gymnasium as gym
import numpy as np
import pytest

from constrained_maxent import wrappers
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals import Entropy, L2Distance
from constrained_maxent.penalties import Quadratic
from constrained_maxent.wrappers import vector

TABLE = np.full((16, 4), 1 / 64)
ARGUMENTS = {
    "BooleanCosts": {},
    "TrackOccupancy": {"episodes_per_batch": 2},
    "Objective": {"functional": Entropy()},
    "EntropyObjective": {},
    "CostConstraint": {"limit": 0.5, "penalty": Quadratic(2.0)},
    "ImitationConstraint": {"reference": TABLE, "limit": 0.5, "penalty": Quadratic(2.0)},
    "ConvexConstraint": {"functional": L2Distance(TABLE), "penalty": Quadratic(2.0)},
    "PseudoReward": {},
}


def test_every_wrapper_is_here():
    assert sorted(ARGUMENTS) == sorted(vector.__all__)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_vector_environment_in_a_scalar_wrapper(name):
    env = gym.make_vec("FrozenLake-v1", num_envs=2, vectorization_mode="sync")
    with pytest.raises(InvalidSetting, match=rf"wrappers\.vector\.{name}"):
        getattr(wrappers, name)(env, **ARGUMENTS[name])


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_scalar_environment_in_a_vector_wrapper(name):
    with pytest.raises(InvalidSetting, match=rf"wrappers\.{name}"):
        getattr(vector, name)(gym.make("FrozenLake-v1"), **ARGUMENTS[name])


@pytest.mark.parametrize("kit", [wrappers, vector])
def test_no_environment_at_all(kit):
    with pytest.raises(InvalidSetting, match="TrackOccupancy"):
        kit.TrackOccupancy("FrozenLake-v1", episodes_per_batch=2)
