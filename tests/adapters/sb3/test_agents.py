"""Models of Stable-Baselines3: log-probabilities and actions are its own."""

from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.error import DependencyNotInstalled

from constrained_maxent.adapters.sb3.agents import as_agent, network_of
from constrained_maxent.errors import InvalidSetting, UnlikeTraining, UnsupportedPolicy, UnsupportedSpace
from constrained_maxent.evaluation import evaluate_rollouts
from constrained_maxent.occupancy import GaussianMixture
from constrained_maxent.references import Reference
from constrained_maxent.wrappers import constrain

sb3 = pytest.importorskip("stable_baselines3")

RNG = np.random.default_rng(0)


def trained(kind, **settings):
    """With weights that are not the first ones."""
    model = kind("MlpPolicy", gym.make("Pendulum-v1"), seed=0, device="cpu", **settings)
    with torch.no_grad():
        for parameter in model.policy.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    return model


def test_sac():
    model = trained(sb3.SAC, policy_kwargs={"net_arch": [16, 16]})
    network = network_of(model)
    rows = RNG.normal(size=(40, 3)).astype(np.float32)
    observations = torch.as_tensor(rows)
    torch.manual_seed(0)
    with torch.no_grad():
        scaled, expected = model.policy.actor.action_log_prob(observations)
    actions = model.policy.unscale_action(scaled.numpy())
    inside = (np.abs(scaled.numpy()) < 0.999).all(axis=1)
    # Pendulum's torque lies in [-2, 2]: densities are half of those in [-1, 1].
    np.testing.assert_allclose(
        network.log_prob(rows, actions)[inside], expected.numpy()[inside] - np.log(2.0), atol=1e-3
    )
    assert inside.mean() > 0.5
    np.testing.assert_allclose(
        network.act(rows, RNG, deterministic=True), model.predict(rows, deterministic=True)[0], atol=1e-5
    )
    drawn = network.act(np.tile(rows[:1], (4000, 1)), np.random.default_rng(0))
    theirs = model.predict(np.tile(rows[:1], (4000, 1)))[0]
    assert drawn.mean() == pytest.approx(theirs.mean(), abs=4.0 * theirs.std() * np.sqrt(2.0 / 4000))
    assert drawn.std() == pytest.approx(theirs.std(), rel=0.1)


@pytest.mark.parametrize("kind", ["PPO", "A2C"])
def test_ppo(kind):
    model = trained(getattr(sb3, kind))
    network = network_of(model)
    rows, actions = RNG.normal(size=(40, 3)).astype(np.float32), RNG.uniform(-2.0, 2.0, size=(40, 1))
    with torch.no_grad():
        _, expected, _ = model.policy.evaluate_actions(torch.as_tensor(rows), torch.as_tensor(actions).float())
    np.testing.assert_allclose(network.log_prob(rows, actions), expected.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        network.act(rows, RNG, deterministic=True), model.predict(rows, deterministic=True)[0], atol=1e-5
    )


def test_a_reference_of_a_model():
    env = gym.make("Pendulum-v1", max_episode_steps=30)
    model = trained(sb3.SAC, policy_kwargs={"net_arch": [8]})
    reference = Reference.from_agent(as_agent(model), env, n_episodes=3, n_components=2, state=lambda o: o[2:], seed=1)
    assert reference.about["environment"] == "Pendulum-v1"
    assert reference.about["steps"] == 90
    assert reference.states.mass == pytest.approx(1.0)
    assert reference.about["mean_return"] < 0.0


class TestAgent:
    def test_acts_as_its_model_does(self):
        model = trained(sb3.PPO)
        agent, rows = as_agent(model), RNG.normal(size=(6, 3)).astype(np.float32)
        for observation in (rows, rows[0]):
            actions, state = agent.predict(observation, deterministic=True)
            np.testing.assert_array_equal(actions, model.predict(observation, deterministic=True)[0])
            assert state is None
        np.testing.assert_allclose(
            agent.log_prob(rows, 0.1 * rows[:, :1]), network_of(model).log_prob(rows, 0.1 * rows[:, :1])
        )

    def test_equal_seeds_draw_equal_actions_and_disturb_nobody(self):
        model, rows = trained(sb3.SAC, policy_kwargs={"net_arch": [8]}), RNG.normal(size=(6, 3)).astype(np.float32)
        first, second = as_agent(model, seed=3), as_agent(model, seed=3)
        torch.manual_seed(0)
        expected = torch.rand(4)
        torch.manual_seed(0)
        drawn = [first.predict(rows)[0] for _ in range(2)]
        assert torch.equal(torch.rand(4), expected)
        assert not np.array_equal(*drawn)
        np.testing.assert_array_equal([second.predict(rows)[0] for _ in range(2)], drawn)

    def test_a_softmax_over_discrete_actions(self):
        model = sb3.PPO("MlpPolicy", "CartPole-v1", seed=0, device="cpu")
        rows, actions = RNG.normal(size=(10, 4)).astype(np.float32), np.arange(10) % 2
        with torch.no_grad():
            logits = model.policy.action_net(model.policy.mlp_extractor.policy_net(torch.as_tensor(rows)))
        expected = torch.log_softmax(logits, 1).numpy()[np.arange(10), actions]
        agent = as_agent(model)
        np.testing.assert_allclose(agent.log_prob(rows, actions), expected, rtol=1e-5, atol=1e-6)
        reference = Reference.from_agent(
            agent, gym.make("CartPole-v1", max_episode_steps=20), n_episodes=2, n_components=1
        )
        np.testing.assert_allclose(reference.policy.log_prob(rows, actions), expected, rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("num_envs", [None, 2])
    @pytest.mark.parametrize("kind", ["PPO", "DQN"])
    def test_is_rolled_out(self, kind, num_envs):
        model = getattr(sb3, kind)("MlpPolicy", "CartPole-v1", seed=0, device="cpu")
        env = gym.make("CartPole-v1") if num_envs is None else gym.make_vec("CartPole-v1", num_envs=num_envs)
        env = constrain(env, estimator=GaussianMixture(n_components=1), episodes_per_batch=2)
        first, again = (evaluate_rollouts(env, as_agent(model), n_episodes=4, seed=1) for _ in range(2))
        assert first == again
        assert first.n_episodes == 4
        # CartPole falls after about 9 steps of one action, and stands for at most 500.
        assert 8.0 <= first.length.mean <= 500.0

    def test_what_has_no_log_probabilities_still_acts(self):
        agent = as_agent(sb3.DQN("MlpPolicy", "CartPole-v1", seed=0, device="cpu", buffer_size=10))
        assert agent.predict(np.zeros(4, np.float32))[0] in (0, 1)
        assert not hasattr(agent, "log_prob")
        with pytest.raises(UnsupportedPolicy, match="Sb3Agent"):
            Reference.from_agent(agent, gym.make("CartPole-v1"), n_episodes=2)
        with pytest.raises(UnsupportedPolicy, match="model="):
            as_agent(agent)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sb3.TD3("MlpPolicy", "Pendulum-v1"), "TD3Policy"),
        (lambda: sb3.PPO("MlpPolicy", "CartPole-v1", device="cpu"), "Discrete"),
        (lambda: sb3.SAC("MlpPolicy", "Pendulum-v1", use_sde=True), "gSDE"),
        (lambda: sb3.SAC("MlpPolicy", "Pendulum-v1", policy_kwargs={"activation_fn": torch.nn.ELU}), "ELU"),
    ],
)
def test_refuses_other_models(make, message):
    model = make()
    with pytest.raises(UnsupportedPolicy, match=message):
        network_of(model)


@pytest.mark.usefixtures("without_stable_baselines")
def test_says_what_to_install():
    for needs_it in (network_of, as_agent):
        with pytest.raises(DependencyNotInstalled, match="sb3"):
            needs_it(object())


class Targets(gym.Env):
    """Each observation, far from 0, says which action earns nothing; what is off the target costs ten times as much."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def _observation(self):
        self.target = self.np_random.uniform(-1.0, 1.0)
        return np.array([500.0 + 100.0 * self.target], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._observation(), {}

    def step(self, action):
        reward, self.time = -10.0 * abs(float(action[0]) - self.target), self.time + 1
        return self._observation(), reward, False, self.time == 10, {}


@pytest.fixture(scope="module")
def expert(tmp_path_factory):
    """PPO whose mean action is a tenth of what it sees: the target, at the statistics that are given."""
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    folder = tmp_path_factory.mktemp("expert")
    make = lambda: Monitor(Targets())  # noqa: E731
    venv = VecNormalize(DummyVecEnv([make]), clip_obs=2.5)
    model = sb3.PPO(
        "MlpPolicy", venv, n_steps=200, batch_size=200, n_epochs=1, learning_rate=0.0, seed=0, device="cpu",
        policy_kwargs={"net_arch": [], "log_std_init": -4.0},
    )  # fmt: skip
    with torch.no_grad():
        model.policy.action_net.weight.fill_(0.1)
        model.policy.action_net.bias.zero_()
    model.learn(200)
    # What it would have found: the observations' moments, at which 0.1 is a tenth of the way.
    venv.obs_rms.mean[:], venv.obs_rms.var[:] = 500.0, 100.0
    model.save(folder / "model")
    venv.save(folder / "statistics.pkl")
    return SimpleNamespace(model=model, venv=venv, folder=folder, make=make, normalize=VecNormalize)


@pytest.mark.fault
class TestNormalizedObservations:
    """Statistics of ``VecNormalize`` are no part of a model: with them it acts as in its training, and not without."""

    def test_are_folded_in(self, expert):
        agent = as_agent(expert.model)
        rows = np.array([[510.0], [490.0], [600.0]], np.float32)
        # 10 above the mean at a deviation of 10 is 1, and 0.1 of that the action; 10 is clipped to 2.5.
        expected = np.array([[0.1], [-0.1], [0.25]])
        np.testing.assert_allclose(agent.predict(rows, deterministic=True)[0], expected, atol=1e-5)
        np.testing.assert_allclose(agent.policy.act(rows, RNG, deterministic=True), expected, atol=1e-5)
        log_density = -0.5 * 0.5**2 / np.exp(-8.0) + 4.0 - 0.5 * np.log(2.0 * np.pi)  # half an action from the mean
        np.testing.assert_allclose(agent.log_prob(rows, expected + 0.5), log_density, rtol=1e-3)

    def test_of_a_file_have_to_be_given(self, expert):
        from stable_baselines3.common.vec_env import DummyVecEnv

        loaded = sb3.PPO.load(expert.folder / "model", device="cpu")
        with pytest.raises(UnsupportedPolicy, match="trained under VecNormalize"):
            as_agent(loaded)
        statistics = expert.normalize.load(expert.folder / "statistics.pkl", DummyVecEnv([expert.make]))
        rows = np.array([[510.0]], np.float32)
        agent = as_agent(loaded, normalization=statistics)
        assert agent.predict(rows, deterministic=True)[0] == pytest.approx(0.1, abs=1e-5)
        with pytest.raises(InvalidSetting, match="has seen no observations"):
            as_agent(loaded, normalization=expert.normalize(DummyVecEnv([expert.make])))
        with pytest.raises(InvalidSetting, match="must be a VecNormalize"):
            as_agent(loaded, normalization="statistics.pkl")

    def test_that_normalize_rewards_alone_change_nothing(self, expert):
        from stable_baselines3.common.vec_env import DummyVecEnv

        venv = expert.normalize(DummyVecEnv([expert.make]), norm_obs=False)
        agent = as_agent(sb3.PPO.load(expert.folder / "model", device="cpu"), normalization=venv)
        assert agent.predict(np.array([[2.0]], np.float32), deterministic=True)[0] == pytest.approx(0.2, abs=1e-5)

    def test_of_other_observations(self, expert):
        from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack

        with pytest.raises(InvalidSetting, match="below VecNormalize"):
            as_agent(expert.model, normalization=expert.normalize(VecFrameStack(DummyVecEnv([expert.make]), 2)))

    def test_that_nobody_can_know_of_show_in_the_returns(self, expert):
        model = sb3.PPO.load(expert.folder / "model", device="cpu")
        model._last_original_obs = None  # as in the files of off-policy algorithms, which do not tell
        model.ep_info_buffer.clear()
        model.ep_info_buffer.extend({"r": -60.0 - i, "l": 10} for i in range(10))
        # Without the statistics each action is 1: on average 1 from the target, ten times 10 an episode.
        env = gym.wrappers.TimeLimit(Targets(), 10)
        with pytest.warns(UnlikeTraining, match=r"earned -64.5 \[-69, -60\], here it earns -\d"):
            reference = Reference.from_agent(as_agent(model), env, n_episodes=30, n_components=1)
        assert reference.about["mean_return"] == pytest.approx(-100.0, abs=12.0)

    def test_a_model_that_earns_what_it_earned_is_not_warned_of(self, expert):
        model = sb3.PPO.load(expert.folder / "model", device="cpu")
        model._last_original_obs = None
        model.ep_info_buffer.clear()
        model.ep_info_buffer.extend({"r": -20.0 - i, "l": 2} for i in range(10))  # ten a step, within two steps
        Reference.from_agent(as_agent(model), gym.wrappers.TimeLimit(Targets(), 10), n_episodes=30, n_components=1)


@pytest.mark.fault
@pytest.mark.parametrize(
    ("wrap", "message"),
    [
        (lambda env: gym.wrappers.RescaleAction(env, np.float32(-1.0), np.float32(1.0)), "actions in"),
        (lambda env: gym.wrappers.FrameStackObservation(env, 2), "observations in"),
        (lambda env: gym.wrappers.TimeAwareObservation(env), "observations in"),
        (gym.wrappers.NormalizeObservation, "observations in"),
        (lambda env: gym.wrappers.RescaleObservation(env, np.float32(-1.0), np.float32(1.0)), "observations in"),
    ],
)
def test_an_environment_with_other_wrappers_than_the_training_had(wrap, message):
    agent = as_agent(trained(sb3.PPO))
    env = wrap(gym.make("Pendulum-v1"))
    with pytest.raises(UnsupportedSpace, match=message):
        Reference.from_agent(agent, env, n_episodes=1)
    stack = constrain(env, estimator=GaussianMixture(n_components=1), episodes_per_batch=1)
    with pytest.raises(UnsupportedSpace, match=message):
        evaluate_rollouts(stack, agent, n_episodes=1, seed=0)


@pytest.mark.fault
def test_a_model_itself_is_no_agent():
    env = constrain(gym.make("Pendulum-v1"), estimator=GaussianMixture(n_components=1), episodes_per_batch=1)
    with pytest.raises(UnsupportedPolicy, match=r"as_agent\(model\)"):
        evaluate_rollouts(env, trained(sb3.PPO), n_episodes=1, seed=0)


@pytest.mark.fault
def test_a_policy_that_remembers():
    model = trained(sb3.PPO)
    model.policy.lstm_actor = torch.nn.LSTM(3, 3)  # what policies of sb3-contrib have
    with pytest.raises(UnsupportedPolicy, match="recurrent"):
        as_agent(model)
