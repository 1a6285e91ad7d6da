import pickle

import gymnasium as gym
import numpy as np
import pytest
from dm_control import suite
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_of_sb3

from constrained_maxent.envs import PointMass, PointMassVector

MASS, GEAR, DAMPING, TIMESTEP = 0.3, 0.1, 1.0, 0.02  # dm_control's model [kg, N, N s/m, s]


def test_motion_by_hand():
    """Implicit damping: v' = (v + dt·F/m) / (1 + dt·d/m), x' = x + dt·v'."""
    env = PointMass()
    env.reset(options={"qpos": [0.0, 0.1], "qvel": [0.2, 0.0]})
    action = np.array([0.5, -1.0], dtype=np.float32)
    *_, info = env.step(action)
    force = GEAR * action.astype(float)
    velocity = (np.array([0.2, 0.0]) + TIMESTEP * force / MASS) / (1.0 + TIMESTEP * DAMPING / MASS)
    position = np.array([0.0, 0.1]) + TIMESTEP * velocity
    assert info["state"] == pytest.approx(np.concatenate([position, velocity]), abs=1e-12)


def test_same_steps_and_rewards_as_dm_control():
    theirs = suite.load("point_mass", "easy", task_kwargs={"random": 0})
    theirs.reset()
    env = PointMass()
    env.reset(options={"qpos": [0.01, 0.012], "qvel": [0.0, 0.0]})
    with theirs.physics.reset_context():
        theirs.physics.data.qpos[:] = 0.01, 0.012
    generator = np.random.default_rng(0)
    rewards = []
    for _ in range(100):
        action = generator.uniform(-1.0, 1.0, size=2).astype(np.float32)
        expected = theirs.step(action)
        observation, reward, *_ = env.step(action)
        assert observation == pytest.approx(np.concatenate(list(expected.observation.values())), abs=1e-7)
        assert reward == pytest.approx(expected.reward, abs=1e-9)
        rewards.append(reward)
    assert max(rewards) > 0.8


def test_episode():
    env = PointMass()
    assert env.horizon == 1000
    observation, info = env.reset(seed=0)
    assert observation == pytest.approx(info["state"], abs=1e-7)
    infos = []
    for _ in range(1000):
        observation, _, terminated, truncated, info = env.step(env.action_space.sample())
        assert observation in env.observation_space
        assert observation.dtype == np.float32
        assert not terminated
        infos.append((truncated, info["cost"], info["physics_error"]))
    assert infos == [(False, 0.0, False)] * 999 + [(True, 0.0, False)]
    assert "margin" not in info


def test_uniform_starts_at_rest():
    # The mean of 400 uniform positions has standard deviation 0.29/√3/20 = 0.0084.
    starts = PointMassVector(400).reset(seed=0)[1]["state"]
    assert (starts[:, 2:] == 0.0).all()
    assert 0.28 < np.abs(starts[:, :2]).max() <= 0.29
    assert np.abs(starts[:, :2].mean(axis=0)).max() < 4.5 * 0.0084


@pytest.mark.filterwarnings("ignore:.*A Box observation space m.*imum value is.*infinity")
def test_contract():
    env = gym.make("PointMass-v0")
    assert isinstance(env.unwrapped, PointMass)
    check_env(env.unwrapped, skip_render_check=True)
    check_env_of_sb3(env, skip_render_check=True)


def test_spec_and_pickle():
    env = gym.make("PointMass-v0", time_limit=1.0)
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert again.unwrapped.horizon == 50
    for twin in (again, pickle.loads(pickle.dumps(env))):
        assert twin.reset(seed=0)[1]["state"].tolist() == env.reset(seed=0)[1]["state"].tolist()
