"""``VecEnv``: what Stable-Baselines3's own DummyVecEnv says of the bare copies, with pseudo-rewards and one λ̂."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    VecCheckNan,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
)

import constrained_maxent as cmx
from constrained_maxent.adapters.sb3 import VecEnv
from constrained_maxent.errors import InvalidData, InvalidSetting, MissingTracker, MovingReward
from constrained_maxent.tracker import find_tracker

OURS = ("pseudo_reward", "pseudo_reward_objective", "pseudo_reward_cost", "pseudo_reward_ready", "original_reward")


def equal(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    return np.array_equal(one, other)


@pytest.mark.parametrize("is_dict", [False, True])
@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
def test_says_what_dummy_vec_env_says(make_corridor, mode, is_dict):
    """The oracle is SB3's own vector of the same copies: observations, ends, and infos but for our keys."""
    bare = DummyVecEnv([lambda: make_corridor.one(is_dict=is_dict)] * 3)
    venv = VecEnv(make_corridor(3, mode=mode, is_dict=is_dict))
    for each in (bare, venv):
        each.seed(5)
    assert equal(venv.reset(), bare.reset())
    random, n_ends = np.random.default_rng(0), 0
    for _ in range(40):
        actions = random.integers(2, size=3)
        expected, found = bare.step(actions), venv.step(actions)
        assert equal(found[0], expected[0])
        assert np.array_equal(found[2], expected[2])
        assert found[1].dtype == expected[1].dtype
        for i in range(3):
            info, theirs = dict(found[3][i]), expected[3][i]
            assert info["original_reward"] == expected[1][i]
            assert found[1][i] == np.float32(info["pseudo_reward"])
            info = {key: value for key, value in info.items() if key not in (*OURS, "batch")}
            if not found[2][i]:
                assert not theirs.pop("TimeLimit.truncated")
                info.pop("begun", None)
            else:  # a reset's own key may be there as well
                n_ends += 1
                info.pop("begun", None)
                assert venv.reset_infos[i]["begun"] == bare.reset_infos[i]["begun"]
            assert equal(info, theirs)
    assert n_ends > 20


def test_a_horizon_of_the_problem_is_terminal_and_a_time_limit_is_not(make_corridor):
    for discount, is_cut in ((0.9, False), (1.0, True)):
        venv = VecEnv(make_corridor(2, discount=discount))
        venv.set_options({"at": 0})
        venv.reset()
        for _ in range(5):
            _, _, dones, infos = venv.step(np.zeros(2, int))
        assert dones.all()
        assert infos[0]["TimeLimit.truncated"] is is_cut
    grid = VecEnv("FrozenLake-PGP-v0", num_envs=2)
    grid.reset()
    for _ in range(25):
        infos = grid.step(np.zeros(2, int))[3]
    assert infos[1]["TimeLimit.truncated"] is False


def test_one_estimate_and_the_batch_in_the_info_of_the_first_copy(make_corridor):
    venv = VecEnv(make_corridor(3))
    assert find_tracker(venv) is venv.tracker is venv.env.tracker
    venv.reset()
    for step in range(8):
        infos = venv.step(np.ones(3, int))[3]
        assert ["batch" in info for info in infos] == [step % 4 == 3, False, False]
    assert type(infos[0]["batch"]) is dict
    assert infos[0]["batch"]["iteration"] == venv.tracker.last_report.iteration == 1
    assert infos[0]["batch"]["steps"] == 12
    assert all(type(info["pseudo_reward"]) is float for info in infos)
    venv.step(np.ones(3, int))
    venv.reset()  # the batch under way is forgotten, and begins anew
    assert [("batch" in venv.step(np.ones(3, int))[3][0]) for _ in range(4)] == [False, False, False, True]


def test_seeds_are_used_once(make_corridor):
    venv = VecEnv(make_corridor(3))
    assert venv.seed(7) == [7, 8, 9]
    first, later = venv.reset(), [venv.reset() for _ in range(5)]
    assert not all(np.array_equal(first, each) for each in later)
    venv.seed(7)
    assert np.array_equal(venv.reset(), first)
    venv.set_options([{"at": 1}, {"at": 2}, {"at": 2}])
    with pytest.raises(InvalidSetting, match="the same options"):
        venv.reset()


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"mode": AutoresetMode.NEXT_STEP}, InvalidSetting, "SAME_STEP"),
        ({"pairing": "same"}, InvalidSetting, 'pairing="previous"'),
        ({"replace_reward": False}, InvalidSetting, "PseudoReward"),
        ({"tracks": False}, MissingTracker, "constrain"),
    ],
)
def test_refuses_what_would_be_learnt_wrongly(make_corridor, settings, error, message):
    with pytest.raises(error, match=message):
        VecEnv(make_corridor(2, **settings))


def test_refuses_other_things(make_corridor):
    with pytest.raises(InvalidSetting, match="made already"):
        VecEnv(make_corridor(2), num_envs=2)
    with pytest.raises(InvalidSetting, match="vector environment"):
        VecEnv(gym.make("FrozenLake-PGP-v0"))
    with pytest.raises(MissingTracker, match="constrain"):
        VecEnv("CartPole-v1", num_envs=2, vectorization_mode="sync")
    with pytest.raises(MissingTracker, match="estimate of its own"):
        VecEnv("FrozenLake-PGP-v0", num_envs=2, vectorization_mode="sync")
    with pytest.raises(InvalidData, match="DictInfoToList"):
        VecEnv(gym.wrappers.vector.DictInfoToList(make_corridor(2))).reset()


def test_attributes_and_methods_of_copies(make_corridor):
    venv = VecEnv(make_corridor(3))
    assert venv.get_attr("gain") == [1.0] * 3
    venv.set_attr("gain", 2.0, indices=[1])
    assert venv.env_method("double", 3.0) == [6.0, 12.0, 6.0]
    assert venv.env_method("double", 3.0, indices=1) == [12.0]
    assert venv.get_attr("action_space") == [gym.spaces.Discrete(2)] * 3
    assert not venv.has_attr("nothing")
    assert venv.env_is_wrapped(gym.wrappers.TimeLimit) == [True] * 3
    assert venv.env_is_wrapped(Monitor, indices=0) == [False]
    with pytest.raises(InvalidSetting, match="HerReplayBuffer"):
        venv.env_method("compute_reward", indices=[0])
    grid = VecEnv("FrozenLake-PGP-v0", num_envs=2)
    assert grid.get_attr("horizon") == [25, 25]
    assert grid.env_is_wrapped(cmx.wrappers.vector.TrackOccupancy) == [True, True]
    with pytest.raises(InvalidSetting, match="all copies at once"):
        grid.set_attr("mark", 1, indices=[0])
    grid.set_attr("mark", 1)
    assert grid.get_attr("mark") == [1, 1]


def test_under_the_wrappers_of_stable_baselines(make_corridor):
    venv = VecMonitor(VecEnv(make_corridor(2, render_mode="rgb_array")), info_keywords=("cost",))
    assert venv.render_mode == "rgb_array"
    assert venv.render().shape == (8, 6, 3)  # two pictures, tiled as everywhere in Stable-Baselines3
    assert venv.unwrapped.metadata["render_fps"] == 7  # what films are made with
    whole = VecFrameStack(VecCheckNan(VecNormalize(venv), raise_exception=True), 2)
    model = A2C("MlpPolicy", whole, n_steps=5, seed=0, device="cpu").learn(200)
    lengths = [episode["l"] for episode in model.ep_info_buffer]
    assert len(lengths) >= 40
    assert max(lengths) == 5
    assert {episode["cost"] for episode in model.ep_info_buffer} <= {0.0, 1.0}
    with pytest.warns(MovingReward, match="evaluate_rollouts"):
        mean, _ = evaluate_policy(model, whole, n_eval_episodes=2)
    assert np.isfinite(mean)


def test_rewards_reach_the_agent_as_they_are(make_corridor):
    """PPO's own buffer holds the rewards that were given, and a bootstrapped value is added to cut episodes alone."""
    seen = []

    class Spy(VecEnv):
        def step_wait(self):
            seen.append(super().step_wait())
            return seen[-1]

    model = PPO("MlpPolicy", Spy(make_corridor(2, discount=0.9)), n_steps=30, batch_size=60, seed=0, device="cpu")
    model.learn(60)
    assert any(dones.any() for _, _, dones, _ in seen)
    assert np.array_equal(model.rollout_buffer.rewards, [rewards for _, rewards, _, _ in seen])


def test_an_id_with_the_module_that_registers_it():
    assert VecEnv("constrained_maxent:FrozenLake-PGP-v0", num_envs=2).num_envs == 2


def test_a_vector_of_the_users_own():
    env = gym.make_vec("Pendulum-v1", num_envs=2, vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP})
    env = cmx.wrappers.constrain(
        env,
        estimator=cmx.occupancy.GaussianMixture(n_components=2, periodic=(0,)),
        state=lambda seen: (np.arctan2(seen[1], seen[0]), seen[2]),
        steps_per_batch=64,
        discount=1.0,
        pairing="previous",
    )
    venv = VecEnv(env)
    venv.seed(0)
    venv.reset()
    for _ in range(200):
        _, rewards, dones, infos = venv.step(np.zeros((2, 1), np.float32))
    assert dones.all()
    assert all(info["TimeLimit.truncated"] for info in infos)
    assert np.all(rewards != 0.0)
