"""What the control environments say to arguments of another type, scalar and vector alike."""

import gymnasium as gym
import numpy as np
import pytest

import constrained_maxent  # noqa: F401  (registers the ids)
from constrained_maxent.errors import InvalidData, InvalidSetting

NO_NUMBERS = ("2", [1.0], float("nan"))
NO_COUNTS = ("2", [1], 1.5)

BOTH = {"time_limit": NO_NUMBERS, "frame_skip": (*NO_COUNTS, None), "width": ("2",), "height": (None,)}
OWN = {
    "SafeCartpole-v0": {"slider_limit": (*NO_NUMBERS, None), "rail": (*NO_NUMBERS, None)},
    "PointMass-v0": {},
    "SafeHalfCheetah-v0": {
        "costs": ("speed", (), ("speed", "speed"), ("force",)),
        "speed_limit": NO_NUMBERS,
        "tilt_limit": (*NO_NUMBERS, 0.0),
        "height_limit": (*NO_NUMBERS, -1.0),
        "terminate_when_unhealthy": (True, "no"),
        "exclude_current_positions_from_observation": (2,),
    },
}
VECTOR = {"num_envs": (*NO_COUNTS, None), "threads": NO_COUNTS, "staggered_starts": ("yes",)}


@pytest.mark.parametrize("env_id", OWN)
@pytest.mark.parametrize("kind", ["scalar", "vector"])
def test_each_is_refused_by_its_name(env_id, kind):
    make = gym.make if kind == "scalar" else gym.make_vec
    for name, values in (BOTH | OWN[env_id] | (VECTOR if kind == "vector" else {})).items():
        for value in values:
            with pytest.raises(InvalidSetting, match=f"{name}="):
                make(env_id, **{name: value})


@pytest.mark.parametrize("env_id", OWN)
@pytest.mark.parametrize("kind", ["scalar", "vector"])
def test_numbers_of_numpy_are_numbers(env_id, kind):
    make = gym.make if kind == "scalar" else gym.make_vec
    settings = {"time_limit": np.float64(1.0), "frame_skip": np.int64(2), "width": np.int32(64)}
    env = make(env_id, **settings)
    step = {"SafeCartpole-v0": 0.01, "PointMass-v0": 0.02, "SafeHalfCheetah-v0": 0.01}[env_id]
    assert env.unwrapped.horizon == round(1.0 / (2 * step))


@pytest.mark.parametrize("kind", ["scalar", "vector"])
def test_a_first_state_of_letters(kind):
    env = gym.make("PointMass-v0") if kind == "scalar" else gym.make_vec("PointMass-v0", num_envs=1)
    with pytest.raises(InvalidData, match="qpos"):
        env.reset(options={"qpos": "ab", "qvel": [0.0, 0.0]})
