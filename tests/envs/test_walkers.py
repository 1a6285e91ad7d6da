"""SafeHalfCheetah, SafeAnt and SafeHumanoid, held against MuJoCo and Gymnasium's own environments."""

import pickle

import gymnasium as gym
import mujoco
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from scipy.spatial.transform import Rotation
from stable_baselines3.common.env_checker import check_env as check_env_of_sb3

import constrained_maxent.envs
from constrained_maxent.envs import SafeAnt, SafeAntVector, SafeHalfCheetah, SafeHumanoid, SafeHumanoidVector

NAMES = ["HalfCheetah", "Ant", "Humanoid"]
WITHOUT = {
    "HalfCheetah": {},
    "Ant": {"include_cfrc_ext_in_observation": False},
    "Humanoid": {f"include_{part}_in_observation": False for part in ("cinert", "cvel", "qfrc_actuator", "cfrc_ext")},
}
# Gymnasium stops the humanoid's solver (PGS) after 50 iterations, from wherever it began.
SOLVED_TO = {"HalfCheetah": 1e-6, "Ant": 1e-6, "Humanoid": 2e-5}


def gymnasiums(name, **settings):
    return gym.make(f"{name}-v5", **WITHOUT[name], **settings)


@pytest.mark.parametrize("name", NAMES)
def test_one_step_from_gymnasiums_own_state(name):
    theirs, ours = gymnasiums(name), gym.make(f"Safe{name}-v0", terminate_when_unhealthy=name != "HalfCheetah")
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.unwrapped.horizon == 100
    assert ours.unwrapped.timestep == theirs.unwrapped.dt
    observation, _ = theirs.reset(seed=3)
    assert ours.reset(seed=3)[0].tolist() == observation.tolist()
    theirs.action_space.seed(0)
    ends = 0
    for _ in range(35):
        data, action = theirs.unwrapped.data, theirs.action_space.sample()
        x = data.qpos[0]
        given, _ = ours.reset(options={"qpos": data.qpos.copy(), "qvel": data.qvel.copy()})
        assert given.tolist() == observation.tolist()
        observation, _, terminated, _, info = theirs.step(action)
        mine, reward, ended, _, _ = ours.step(action)
        assert mine == pytest.approx(observation, abs=SOLVED_TO[name])
        forward = (data.qpos[0] - x) / theirs.unwrapped.dt
        weight = 1.25 if name == "Humanoid" else 1.0
        expected = weight * forward + info["reward_ctrl"] + info.get("reward_survive", 0.0)
        assert reward == pytest.approx(expected, abs=1e-5)
        assert ended == terminated
        if terminated:
            ends += 1
            observation, _ = theirs.reset()
    assert ends >= (name == "Humanoid")


@pytest.mark.parametrize("name", NAMES)
def test_equal_to_mujoco_started_cold(name):
    """MuJoCo's own steps, one after the other, with no acceleration remembered at the beginning of each action."""
    n = 3
    env = gym.make_vec(f"Safe{name}-v0", num_envs=n, exclude_current_positions_from_observation=False)
    model = gymnasiums(name).unwrapped.model
    observations, _ = env.reset(seed=0)
    copies = [mujoco.MjData(model) for _ in range(n)]
    for data, first in zip(copies, observations, strict=True):
        data.qpos[:], data.qvel[:] = first[: model.nq], first[model.nq :]
    env.action_space.seed(0)
    for _ in range(20):
        actions = env.action_space.sample()
        observations, *_ = env.step(actions)
        for data, action, mine in zip(copies, actions, observations, strict=True):
            data.qacc_warmstart[:] = 0.0
            data.ctrl[:] = action
            mujoco.mj_step(model, data, nstep=5)
            np.testing.assert_allclose(mine, np.concatenate([data.qpos, data.qvel]), rtol=0.0, atol=1e-11)


class TestCosts:
    """Of the state in which the action was taken, by hand."""

    def info(self, env, qpos=None, qvel=None):
        model = env.model
        first = {"qpos": model.qpos0.copy(), "qvel": np.zeros(model.nv)}
        for name, changes in (("qpos", qpos or {}), ("qvel", qvel or {})):
            for i, value in changes.items():
                first[name][i] = value
        env.reset(options=first)
        return env.step(np.zeros(model.nu))[4]

    @pytest.mark.parametrize(("velocity", "cost"), [((0.6, 0.8), 0.0), ((0.6, -0.81), 1.0), ((-1.01, 0.0), 1.0)])
    def test_speed_is_horizontal(self, velocity, cost):
        env = SafeAnt(costs=("speed",), speed_limit=1.0 + 1e-9)
        info = self.info(env, qvel=dict(enumerate((*velocity, 5.0))))
        assert (info["cost"], info["cost_speed"]) == (cost, cost)
        assert "cost_tilt" not in info

    @pytest.mark.parametrize("angle", [0.0, 0.69, 0.71, 3.0])
    @pytest.mark.parametrize("axis", [(1.0, 0.0, 0.0), (0.6, 0.8, 0.0)])
    def test_tilt_is_the_angle_of_the_torso(self, angle, axis):
        quaternion = np.r_[np.cos(angle / 2), np.sin(angle / 2) * np.array(axis)]
        for kind in (SafeAnt, SafeHumanoid):
            info = self.info(kind(tilt_limit=0.7), qpos=dict(enumerate(quaternion, start=3)))
            assert (info["cost_tilt"], info["cost_speed"]) == (angle > 0.7, 0.0)

    def test_turning_about_the_vertical_is_no_tilt(self):
        info = self.info(SafeAnt(tilt_limit=0.01), qpos={3: np.cos(1.0), 6: np.sin(1.0)})
        assert info["cost_tilt"] == 0.0

    @pytest.mark.parametrize(("pitch", "cost"), [(-0.31, 1.0), (0.29, 0.0), (2 * np.pi + 0.29, 0.0), (np.pi, 1.0)])
    def test_pitch_of_the_half_cheetah(self, pitch, cost):
        info = self.info(SafeHalfCheetah(tilt_limit=0.3), qpos={2: pitch}, qvel={0: -3.0})
        assert (info["cost_tilt"], info["cost_speed"], info["cost"]) == (cost, 1.0, cost + 1.0)

    @pytest.mark.parametrize(("kind", "index", "offset"), [(SafeHalfCheetah, 1, 0.7), (SafeAnt, 2, 0.0)])
    def test_height_is_that_of_mujocos_torso(self, kind, index, offset):
        env = kind(costs=("height", "speed"), height_limit=0.6)
        for height, cost in ((0.61, 0.0), (0.59, 1.0)):
            info = self.info(env, qpos={index: height - offset})
            assert (info["cost_height"], info["cost"]) == (cost, cost)
        data = mujoco.MjData(env.model)
        data.qpos[index] = 0.6 - offset
        mujoco.mj_kinematics(env.model, data)
        assert data.body("torso").xpos[2] == pytest.approx(0.6)

    @pytest.mark.parametrize("name", NAMES)
    def test_several_and_their_sum(self, name):
        env = getattr(constrained_maxent.envs, f"Safe{name}Vector")(4, costs=("height", "tilt", "speed"))
        env.reset(seed=0)
        env.action_space.seed(0)
        for _ in range(5):
            *_, infos = env.step(env.action_space.sample())
        parts = [infos[f"cost_{part}"] for part in ("height", "tilt", "speed")]
        np.testing.assert_array_equal(infos["cost"], np.sum(parts, axis=0))
        assert list(env.limits) == ["height", "tilt", "speed"]


class TestState:
    def test_angles_are_those_of_scipy(self):
        turns = Rotation.random(50, random_state=0)
        env = SafeAntVector(50)
        qpos = np.tile(env.model.qpos0, (50, 1))
        qpos[:, 3:7] = 1.7 * np.roll(turns.as_quat(), 1, axis=1)  # SciPy has the scalar last; lengths do not matter
        _, infos = env.reset(options={"qpos": qpos, "qvel": np.zeros((50, 14))})
        np.testing.assert_allclose(infos["torso"][:, 3:], turns.as_euler("ZYX"), atol=1e-12)

    def test_holds_what_the_observation_holds(self):
        env = SafeHumanoidVector(2, exclude_current_positions_from_observation=False)
        observations, infos = env.reset(seed=0)
        state = infos["state"]
        assert (observations.shape, state.shape) == ((2, 47), (2, 46))
        np.testing.assert_array_equal(state[:, :3], observations[:, :3])
        np.testing.assert_array_equal(state[:, 6:], observations[:, 7:])
        np.testing.assert_array_equal(state[:, :6], infos["torso"])

    def test_pitch_of_the_half_cheetah_is_folded(self):
        env = SafeHalfCheetah()
        _, info = env.reset(options={"qpos": [4.0, 0.1, 3.5 * np.pi, *[0.0] * 6], "qvel": np.zeros(9)})
        assert info["torso"] == pytest.approx([4.0, 0.1, -0.5 * np.pi])


@pytest.mark.parametrize(("height", "ends"), [(0.7, False), (1.4, True)])
def test_ends_where_gymnasiums_would(height, ends):
    for terminate in (False, True):
        env = SafeAnt(terminate_when_unhealthy=terminate)
        first = env.model.qpos0.copy()
        first[2] = height
        env.reset(options={"qpos": first, "qvel": np.zeros(14)})
        _, _, terminated, truncated, _ = env.step(np.zeros(8))
        assert (terminated, truncated) == (ends and terminate, False)
    if ends:
        with pytest.raises(ResetNeeded):
            env.step(np.zeros(8))


@pytest.mark.filterwarnings("ignore:.*A Box observation space m.*imum value is.*infinity")
@pytest.mark.filterwarnings("ignore:We recommend you to use a symmetric and normalized Box action space")
@pytest.mark.parametrize("name", NAMES)
def test_contract(name):
    env = gym.make(f"Safe{name}-v0", time_limit=1.0)
    assert isinstance(env.unwrapped, getattr(constrained_maxent.envs, f"Safe{name}"))
    check_env(env.unwrapped, skip_render_check=True)
    check_env_of_sb3(env, skip_render_check=True)
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert again.unwrapped.horizon == env.unwrapped.horizon
    for twin in (again, pickle.loads(pickle.dumps(env))):
        assert twin.reset(seed=0)[1]["state"].tolist() == env.reset(seed=0)[1]["state"].tolist()
