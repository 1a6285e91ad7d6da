"""Replayed rewards are those of the present estimate: by hand from its counts, and as they were given under it."""

import warnings

import numpy as np
import pytest
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.vec_env import VecMonitor, VecNormalize

import constrained_maxent as cmx
from constrained_maxent.adapters.sb3 import OccupancyCallback, OccupancyReplayBuffer, VecEnv
from constrained_maxent.errors import InvalidSetting, StaleRewards

sb3_contrib = pytest.importorskip("sb3_contrib")
SMALL = {"buffer_size": 600, "device": "cpu", "seed": 0}


def small(kind, venv, **settings):
    settings = {"replay_buffer_class": OccupancyReplayBuffer, "policy_kwargs": {"net_arch": [4]}} | SMALL | settings
    return kind("MlpPolicy", venv, **settings)


def grid():
    return VecEnv(
        "FrozenLake-PGP-v0", 3, preset="paper", episodes_per_batch=6, beta=0.01, smoothing=1e-3, hole_cost=2.0
    )


def test_rewards_by_hand():
    venv = grid()
    model = small(DQN, VecMonitor(venv), learning_starts=10_000).learn(450)
    batch, tracker = venv.tracker.last_batch, venv.tracker
    occupancy = np.zeros((36, 4))  # 6 episodes, weighted by 0.99^t
    np.add.at(occupancy, (batch.observations.astype(int), batch.actions.astype(int)), batch.weights / 6)
    costs = venv.env.unwrapped.cost_tables["cost"]
    slope = 2.0 * 0.01 * max((occupancy * costs).sum(), 0.0)  # of β R², R with the limit 0
    expected = -np.log(occupancy + 1e-3) - occupancy / (occupancy + 1e-3) - slope * costs
    samples = model.replay_buffer.sample(500)
    states, actions = samples.observations.numpy().astype(int)[:, 0], samples.actions.numpy().astype(int)[:, 0]
    rewards = expected[states, actions]
    np.testing.assert_allclose(samples.rewards.numpy()[:, 0], rewards, rtol=1e-4, atol=1e-4)
    assert slope > 0.0
    assert len(set(actions)) == 4
    assert tracker.iteration == 3


@pytest.mark.parametrize("with_log_prob", [False, True])
@pytest.mark.parametrize("kind", [SAC, sb3_contrib.TQC])
def test_the_latest_rewards_are_as_they_were_given(pendulum, kind, with_log_prob, monkeypatch):
    """Under one estimate and one policy; those of earlier estimates are others."""
    monkeypatch.setattr("constrained_maxent.adapters.sb3.evaluator._ENOUGH_EPISODES", 8)
    venv = pendulum(2, steps_per_batch=100)
    model = small(kind, venv, learning_starts=10, gradient_steps=0)
    found = {}

    class Last(OccupancyCallback):
        def _on_step(self):
            go_on = super()._on_step() if with_log_prob else True
            if self.num_timesteps == 298:
                buffer, places = self.model.replay_buffer, np.arange(buffer_length := 148)
                copies = np.arange(buffer_length) % 2
                found["anew"], found["given"] = buffer._rewards_anew(places, copies), buffer.rewards[places, copies]
            return go_on

        def _on_training_start(self):
            if with_log_prob:
                super()._on_training_start()

        def _on_training_end(self):
            pass

    model.learn(300, callback=Last(verbose=0))
    assert venv.tracker.iteration == 3
    np.testing.assert_allclose(found["anew"][100:], found["given"][100:], rtol=1e-4, atol=1e-4)
    assert np.abs(found["anew"][50:100] - found["given"][50:100]).max() > 0.1
    assert np.all(found["given"][:50] == 0.0)  # there was no estimate yet


def test_learns_and_is_saved(pendulum, tmp_path):
    venv = pendulum(2)
    model = small(SAC, venv, learning_starts=64, batch_size=16).learn(96)
    assert model.replay_buffer.timeouts.shape == (300, 2)
    model.save_replay_buffer(tmp_path / "buffer")
    model.save(tmp_path / "model")
    assert (tmp_path / "model.zip").stat().st_size < 100_000  # the environment is not in it
    other = pendulum(2)
    loaded = SAC.load(tmp_path / "model", env=other, device="cpu")
    loaded.load_replay_buffer(tmp_path / "buffer")
    with pytest.raises(InvalidSetting, match="follows no VecEnv"):
        loaded.replay_buffer.sample(4)
    loaded.learn(32, reset_num_timesteps=False)
    assert loaded.replay_buffer.size() == 64
    samples = loaded.replay_buffer.sample(16)
    assert np.all(np.isfinite(samples.rewards.numpy()))


def test_under_vec_normalize(pendulum):
    """Stable-Baselines3 divides what is sampled by its running scale: what is computed anew as well."""
    venv = VecNormalize(pendulum(2))
    model = small(SAC, venv, learning_starts=1000).learn(100)
    buffer, places = model.replay_buffer, np.full(20, 3)
    np.random.seed(0)  # noqa: NPY002
    samples = buffer._get_samples(places, env=venv)
    np.random.seed(0)  # noqa: NPY002
    copies = np.random.randint(0, high=2, size=20)  # noqa: NPY002
    expected = np.clip(buffer._rewards_anew(places, copies) / np.sqrt(venv.ret_rms.var + 1e-8), -10.0, 10.0)
    np.testing.assert_allclose(samples.rewards.numpy()[:, 0], expected, rtol=1e-5)
    seen = (buffer.observations[3, copies] - venv.obs_rms.mean) / np.sqrt(venv.obs_rms.var + 1e-8)
    np.testing.assert_allclose(samples.observations.numpy(), seen, rtol=1e-4, atol=1e-5)  # of the same copies


def test_a_problem_that_ends_is_no_timeout(make_corridor):
    """Episodes of 5 steps of a discounted problem end with it; those of an undiscounted one are cut."""
    for discount, share in ((0.9, 0.0), (1.0, 1.0)):
        venv = VecEnv(make_corridor(2, discount=discount))
        model = small(DQN, venv, learning_starts=10_000).learn(200)
        buffer = model.replay_buffer
        done = buffer.dones[: buffer.pos] == 1.0
        at_upper_end = buffer.next_observations[: buffer.pos, :, 0] >= 4.0
        assert buffer.timeouts[: buffer.pos][done & ~at_upper_end].mean() == share


def test_warns_of_stale_rewards_and_of_nothing_else(pendulum):
    with pytest.warns(StaleRewards, match="OccupancyReplayBuffer"):
        small(TD3, pendulum(2), replay_buffer_class=None, learning_starts=100).learn(8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small(TD3, pendulum(2), learning_starts=100).learn(8)
        PPO("MlpPolicy", pendulum(2), n_steps=4, batch_size=8, device="cpu").learn(8)


def test_needs_a_vec_env():
    import gymnasium as gym

    env = gym.make("FrozenLake-PGP-v0", pairing="previous", iterations=1)
    with pytest.raises(InvalidSetting, match="VecEnv"):
        small(DQN, env).learn(8)
    assert cmx.tracker.find_tracker(env).iteration == 0
