"""Functionals as plain data: what JSON keeps, and what it gives back."""

import json

import gymnasium as gym
import pytest

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals import Combination, Entropy, LinearCost, Reward
from constrained_maxent.functionals.config import functional_config, functional_from_config
from constrained_maxent.wrappers import constrain, find_tracker


@pytest.mark.parametrize(
    "functional",
    [Reward(), Reward("r", limit=2.0), 0.1 * Entropy(smoothing=0.01) + Reward() - 3.0 * LinearCost("cost")],
    ids=["own reward", "key", "sum"],
)
def test_through_json(functional):
    config = functional_config(functional)
    again = functional_from_config(json.loads(json.dumps(config)))
    assert repr(again) == repr(functional)
    assert functional_config(again) == config


@pytest.mark.parametrize("functional", [Reward([[1.0]]), Reward([[1.0]]) + Entropy(), Reward(max) + Reward()])
def test_tables_and_functions_stay_themselves(functional):
    assert functional_config(functional) is functional


def test_nothing_is_left_of_a_sum():
    """F - F has no parts: it is 0 wherever it is asked for."""
    cost = LinearCost("cost")
    again = functional_from_config(functional_config(Combination(parts=())))
    assert (again([[1.0]]), (cost - cost)([[1.0]])) == (0.0, 0.0)


def test_a_spec_of_a_sum_is_json_and_remade():
    env = constrain(gym.make("FrozenLake-v1"), 0.1 * Entropy() + Reward(), episodes_per_batch=4)
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert repr(find_tracker(again).problem.objective) == repr(find_tracker(env).problem.objective)
    assert again.spec == env.spec


@pytest.mark.parametrize(
    "config", [{}, {"kind": "Functional"}, {"kind": "Entropy", "under": 1}, "Entropy", {"kind": "OwnReward"}]
)
def test_refused(config):
    with pytest.raises(InvalidSetting, match="functional"):
        functional_from_config(config)
