"""MujocoVectorEnv.from_gymnasium, held against Gymnasium's own environments."""

import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.mujoco.inverted_pendulum_v5 import InvertedPendulumEnv
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import ClipReward

from constrained_maxent.envs import MujocoVectorEnv
from constrained_maxent.errors import InvalidSetting

NO_CONTACTS = {"include_cfrc_ext_in_observation": False}


@pytest.mark.parametrize("env_id", ["HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Swimmer-v5", "InvertedPendulum-v5"])
def test_one_step_from_gymnasiums_own_state(env_id):
    """Theirs starts the solver from the step before, ours cold: beside its tolerance, nothing differs."""
    theirs = gym.make(env_id)
    ours = MujocoVectorEnv.from_gymnasium(env_id)
    assert ours.single_observation_space == theirs.observation_space
    assert ours.single_action_space == theirs.action_space
    assert ours.horizon == theirs.spec.max_episode_steps
    observation, _ = theirs.reset(seed=3)
    assert ours.reset(seed=3)[0][0].tolist() == observation.tolist()
    theirs.action_space.seed(0)
    for _ in range(25):
        data, action = theirs.unwrapped.data, theirs.action_space.sample()
        given = ours.reset(options={"qpos": data.qpos[None].copy(), "qvel": data.qvel[None].copy()})[0]
        assert given[0].tolist() == observation.tolist()
        observation, reward, terminated, *_ = theirs.step(action)
        observations, rewards, ended, *_ = ours.step(action[None])
        assert observations[0] == pytest.approx(observation, abs=1e-6)
        assert rewards[0] == pytest.approx(reward, abs=1e-6)
        assert ended[0] == terminated
        if terminated:
            observation, _ = theirs.reset()


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_episodes_end_and_begin_as_gymnasiums(mode):
    """Nothing touches the inverted pendulum, so that whole episodes agree."""
    theirs = gym.make_vec(
        "InvertedPendulum-v5",
        num_envs=3,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": AutoresetMode(mode)},
        max_episode_steps=6,
    )
    ours = MujocoVectorEnv.from_gymnasium("InvertedPendulum-v5", 3, autoreset_mode=mode, max_episode_steps=6)
    assert ours.horizon == 6
    np.testing.assert_array_equal(ours.reset(seed=0)[0], theirs.reset(seed=0)[0])
    theirs.action_space.seed(1)
    ends = np.zeros((60, 2), dtype=int)
    for step in range(len(ends)):
        actions = theirs.action_space.sample()
        results = theirs.step(actions)
        for mine, other in zip(ours.step(actions)[:4], results[:4], strict=True):
            np.testing.assert_allclose(mine, other, atol=1e-9)
        ends[step] = results[2].sum(), results[3].sum()
    assert ends.sum(axis=0).min() >= 2


def test_what_its_step_asks_for_can_be_left_out():
    theirs = gym.make("Ant-v5", **NO_CONTACTS)
    ours = MujocoVectorEnv.from_gymnasium("Ant-v5", 2, reward=None, terminated=None, **NO_CONTACTS)
    assert ours.reset(seed=0)[0][0].tolist() == theirs.reset(seed=0)[0].tolist()
    action = np.full(8, 0.3, dtype=np.float32)
    observations, rewards, terminated, *_ = ours.step(np.stack([action, action]))
    assert observations[0] == pytest.approx(theirs.step(action)[0], abs=1e-6)
    assert rewards.tolist() == [0.0, 0.0]
    assert not terminated.any()


def test_pickled():
    env = MujocoVectorEnv.from_gymnasium("Hopper-v5", 2, frame_skip=2, cost=torso_is_low)
    again = pickle.loads(pickle.dumps(env))
    assert again.timestep == env.timestep == pytest.approx(2 * 0.002)
    np.testing.assert_array_equal(again.reset(seed=0)[0], env.reset(seed=0)[0])
    for mine, other in zip(again.step(np.ones((2, 3)))[:4], env.step(np.ones((2, 3)))[:4], strict=True):
        np.testing.assert_array_equal(mine, other)
    assert env.step(np.ones((2, 3)))[4]["cost"].tolist() == [0.0, 0.0]


def torso_is_low(states, controls):
    return states.qpos[:, 1] < 0.5


class TestRefusals:
    @pytest.mark.parametrize(
        ("env_id", "settings", "message"),
        [
            ("Ant-v5", {}, r"observation reads data.cfrc_ext.*include_cfrc_ext_in_observation=False"),
            ("Ant-v5", NO_CONTACTS, r"step reads data.body.*give reward= and terminated="),
            ("Humanoid-v5", {}, "include_cinert_in_observation=False"),
            ("InvertedDoublePendulum-v5", {}, "observation reads data.qfrc_constraint"),
            ("Reacher-v5", {}, "observation reads data.body"),
            ("Pendulum-v1", {}, "is a PendulumEnv"),
            ("Hopper-v5", {"reward": None}, "both"),
        ],
    )
    def test_of_gymnasiums(self, env_id, settings, message):
        with pytest.raises(InvalidSetting, match=message):
            MujocoVectorEnv.from_gymnasium(env_id, **settings)

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("KeepsAGoal", "goal"),
            ("CountsSteps", "n_steps"),
            ("DrawsInSteps", "random numbers"),
            ("SimulatesTwice", "more than once"),
            ("ScalesActions", "other controls"),
            ("CallsMujoco", "its step fails on them alone"),
            ("WritesItsState", "fails on them alone.*read-only"),
            ("ReadsTime", "data.time"),
            ("EndsByItself", "truncates"),
            ("DrawsItsMass", "model"),
            ("IsBlownAway", "moves otherwise"),
            ("OtherActions", "actions are not the controls"),
        ],
    )
    def test_of_ones_own(self, name, message):
        with pytest.raises(InvalidSetting, match=message):
            MujocoVectorEnv.from_gymnasium(f"{name}-v0")

    def test_of_a_layer(self):
        with pytest.raises(InvalidSetting, match="wrapped in ClipReward"):
            MujocoVectorEnv.from_gymnasium("Clipped-v0")


class KeepsAGoal(InvertedPendulumEnv):
    goal = 0.0

    def reset_model(self):
        self.goal = self.np_random.uniform()
        return super().reset_model()

    def step(self, action):
        observation, _, *others = super().step(action)
        return observation, -abs(observation[0] - self.goal), *others


class CountsSteps(InvertedPendulumEnv):
    n_steps = 0

    def step(self, action):
        self.n_steps += 1
        return super().step(action)


class DrawsInSteps(InvertedPendulumEnv):
    def step(self, action):
        self.np_random.uniform()
        return super().step(action)


class SimulatesTwice(InvertedPendulumEnv):
    def step(self, action):
        self.do_simulation(action, self.frame_skip)
        return super().step(action)


class ScalesActions(InvertedPendulumEnv):
    def step(self, action):
        return super().step(0.5 * action)


class CallsMujoco(InvertedPendulumEnv):
    def step(self, action):
        import mujoco

        result = super().step(action)
        mujoco.mj_forward(self.model, self.data)
        return result


class WritesItsState(InvertedPendulumEnv):
    def step(self, action):
        self.data.qvel[0] = 0.0
        return super().step(action)


class ReadsTime(InvertedPendulumEnv):
    def step(self, action):
        observation, _, *others = super().step(action)
        return observation, self.data.time, *others


class EndsByItself(InvertedPendulumEnv):
    def step(self, action):
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, True, info


class DrawsItsMass(InvertedPendulumEnv):
    def reset_model(self):
        self.model.body_mass[1] = self.np_random.uniform(8.0, 12.0)
        return super().reset_model()


class IsBlownAway(InvertedPendulumEnv):
    def reset_model(self):
        self.data.xfrc_applied[1] = 3.0
        return super().reset_model()


class OtherActions(InvertedPendulumEnv):
    def _set_action_space(self):
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,))


def clipped(**settings):
    return ClipReward(InvertedPendulumEnv(**settings), min_reward=0.0)


KINDS = (
    KeepsAGoal,
    CountsSteps,
    DrawsInSteps,
    SimulatesTwice,
    ScalesActions,
    CallsMujoco,
    WritesItsState,
    ReadsTime,
    EndsByItself,
    DrawsItsMass,
    IsBlownAway,
    OtherActions,
)


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setattr("gymnasium.envs.registration.registry", dict(gym.registry))
    for kind in KINDS:
        gym.register(f"{kind.__name__}-v0", entry_point=kind, max_episode_steps=50)
    gym.register("Clipped-v0", entry_point=clipped)
