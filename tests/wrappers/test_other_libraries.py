"""What other libraries read from ``info``: it is there, in the form that they want. Skipped where they are not."""

import os

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from constrained_maxent.wrappers import SteadyInfo, find_tracker

LAKE = "constrained_maxent:FrozenLake-PGP-v0"


def lake(**settings):
    return gym.make(LAKE, pairing="previous", iterations=1000, **({"episodes_per_batch": 2} | settings))


def lakes(mode, **settings):
    return gym.make_vec(
        LAKE, num_envs=3, pairing="previous", iterations=1000, episodes_per_batch=3, autoreset_mode=mode, **settings
    )


def walk(logged, info, prefix=""):
    """As loggers do: numbers, the means of arrays of numbers, and what is in mappings."""
    for key, value in info.items():
        if key.startswith("_"):
            continue
        if isinstance(value, dict):
            walk(logged, value, f"{prefix}{key}/")
        elif np.isscalar(value) or (isinstance(value, np.ndarray) and value.dtype != object):
            logged[prefix + key] = float(np.mean(value))


class TestLoggers:
    """W&B's and TensorBoard's users walk through infos."""

    KEYS = ("objective", "objective_fresh", "constraints/cost", "multipliers/cost", "penalty", "steps")

    def expected(self, env):
        report = find_tracker(env).last_report
        values = (report.objective, report.objective_fresh, report.constraints["cost"], report.multipliers["cost"])
        return pytest.approx([*values, report.penalty, report.steps])

    def test_scalar(self):
        env, logged = lake(), {}
        for _ in range(2):
            env.reset(seed=0)
            for _ in range(25):
                info = env.step(0)[-1]
        walk(logged, info)
        assert [logged[f"batch/{key}"] for key in self.KEYS] == self.expected(env)
        assert logged["pseudo_reward_cost"] == info["pseudo_reward_cost"]

    @pytest.mark.parametrize("mode", list(AutoresetMode))
    @pytest.mark.parametrize("as_list", [False, True])
    def test_vector(self, mode, as_list):
        env = lakes(mode)
        env = gym.wrappers.vector.RecordEpisodeStatistics(env)
        env = gym.wrappers.vector.DictInfoToList(env) if as_list else env
        env.reset(seed=0)
        for _ in range(25):
            infos = env.step(np.zeros(3, dtype=int))[-1]  # left: nobody moves, and episodes last 25 steps
        for info in infos if as_list else [infos]:
            logged = {}
            walk(logged, info)
            assert [logged[f"batch/{key}"] for key in self.KEYS] == self.expected(env)
            assert logged["episode/l"] == 25


@pytest.mark.parametrize("make", [lake, lambda: gym.make("constrained_maxent:SafeCartpole-PGP-v0", time_limit=1.0)])
def test_collators_find_a_dtype_everywhere(make):
    env = make()
    env.reset(seed=0)
    rows = [env.step(env.action_space.sample())[-1] for _ in range(3)]
    assert {np.stack([row[key] for row in rows]).dtype.kind for key in rows[0]} <= {"f", "b"}
    assert all(isinstance(value, (np.generic, np.ndarray)) for row in rows for value in row.values())


def test_keys_are_there_after_reset():
    """All but costs, which belong to steps."""
    env = lake()
    before, after = env.reset(seed=0)[1], env.step(0)[-1]
    assert after.keys() - before.keys() == {"cost"}
    venv = lakes("NextStep")
    before, after = venv.reset(seed=0)[1], venv.step([0, 0, 0])[-1]
    assert after.keys() - before.keys() == {"cost", "_cost"}
    assert before["_original_reward"].all()


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_vectors_say_their_mode_as_gymnasiums_own_do(mode):
    assert lakes(mode).autoreset_mode is mode


def test_monitor_of_stable_baselines(tmp_path):
    monitor = pytest.importorskip("stable_baselines3.common.monitor")
    keys = ("pseudo_reward", "pseudo_reward_cost", "pseudo_reward_ready", "original_reward", "cost")
    env = monitor.Monitor(lake(), str(tmp_path / "lake"), info_keywords=keys)
    env.reset(seed=0)
    for _ in range(25):
        info = env.step(0)[-1]
    assert {key: info["episode"][key] for key in keys} == {key: info[key] for key in keys}
    env.close()


@pytest.mark.filterwarnings("ignore")  # Minari recommends links to code
@pytest.mark.parametrize("make", [lambda: SteadyInfo(lake()), lambda: SteadyInfo(lake(episodes_per_batch=3))])
def test_minari_records_infos(make, tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    pytest.importorskip("jax")
    pytest.importorskip("h5py")
    monkeypatch.setitem(os.environ, "MINARI_DATASETS_PATH", str(tmp_path))
    env = minari.DataCollector(make(), record_infos=True)
    for _ in range(6):
        env.reset(seed=0)
        while not any(env.step(0)[2:4]):
            pass
    report = find_tracker(env.env).last_report
    episodes = list(env.create_dataset("lake-v0"))
    assert len(episodes) == 6
    assert {episode.infos["cost"].shape for episode in episodes} == {(26,)}
    assert episodes[-1].infos["batch_objective"][-1] == report.objective
    assert np.isnan(episodes[-1].infos["batch_objective"][:-1]).all()


@pytest.mark.filterwarnings("ignore")  # of TorchRL and tensordict
class TestTorchRL:
    def rollout(self, env, n_steps):
        return env.rollout(n_steps, break_when_any_done=False)["next"]

    @pytest.mark.parametrize("keys", [None, ["pseudo_reward", "pseudo_reward_ready", "original_reward", "cost"]])
    def test_reads_infos(self, keys):
        envs = pytest.importorskip("torchrl.envs")
        env = envs.GymWrapper(lake()).set_info_dict_reader(envs.default_info_dict_reader(keys))
        steps = self.rollout(env, 60)
        assert keys is None or set(keys) <= set(steps.keys())
        assert find_tracker(env._env).iteration == 1
        np.testing.assert_array_equal(steps["pseudo_reward"].float(), steps["reward"].squeeze(-1))

    def test_steps_vectors_whose_episodes_it_resets(self):
        envs = pytest.importorskip("torchrl.envs")
        env = envs.GymWrapper(lakes("Disabled")).auto_register_info_dict()
        steps = self.rollout(env, 60)
        assert steps["pseudo_reward"].shape == (3, 60)
        np.testing.assert_array_equal(steps["pseudo_reward"].float(), steps["reward"].squeeze(-1))


@pytest.mark.filterwarnings("ignore")  # of Tianshou
@pytest.mark.parametrize("size", [{"episodes_per_batch": 2}, {"steps_per_batch": 30, "episodes_per_batch": None}])
def test_tianshou_collects_infos(size):
    """Batches of steps have more or fewer trajectories from one to the next: buffers want one shape."""
    env_room, data = pytest.importorskip("tianshou.env"), pytest.importorskip("tianshou.data")
    torch = pytest.importorskip("torch")
    from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy

    class Uniform(torch.nn.Module):
        def forward(self, observations, state=None, info=None):
            return torch.full((len(observations), 4), 0.25), state

    env = SteadyInfo(lake(**size), missing=0.0)
    policy = ProbabilisticActorPolicy(
        actor=Uniform(),
        dist_fn=torch.distributions.Categorical,
        action_space=env.action_space,
        action_scaling=False,
        action_bound_method=None,
    )
    collector = data.Collector(policy, env_room.DummyVectorEnv([lambda: env]), data.VectorReplayBuffer(200, 1))
    collector.reset()
    collector.collect(n_step=110)
    infos = collector.buffer[:110].info
    assert find_tracker(env).iteration >= 2
    assert (infos.batch_steps > 0).sum() == find_tracker(env).iteration
    assert not infos.hasnull()  # which Tianshou's algorithms refuse
    np.testing.assert_array_equal(infos.pseudo_reward, collector.buffer[:110].rew)
