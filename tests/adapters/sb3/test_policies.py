"""Log π by SciPy and by Stable-Baselines3's own distributions, and tables against the policies that are drawn."""

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3 as sb3
import torch
from scipy import stats
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from constrained_maxent.adapters.sb3 import as_agent, policy_log_prob, policy_table
from constrained_maxent.errors import UnsupportedPolicy
from constrained_maxent.evaluation import ExactProblem

sb3_contrib = pytest.importorskip("sb3_contrib")
RNG = np.random.default_rng(0)


def small(kind, env, **settings):
    return kind("MlpPolicy", env, policy_kwargs={"net_arch": [8]}, seed=0, device="cpu", **settings)


class Blank(gym.Env):
    """Two numbers are seen, and nothing happens."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, action_space):
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, False, {}


BOX = gym.spaces.Box(np.float32([-1.0, -0.5]), np.float32([2.0, 0.5]))
ROWS = RNG.uniform(-1.0, 1.0, size=(5, 2)).astype(np.float32)


@pytest.mark.parametrize("kind", [sb3.PPO, sb3.A2C, sb3_contrib.TRPO])
def test_a_clipped_gaussian_has_masses_on_its_bounds(kind):
    """By SciPy's normal distribution: its density inside, its tails on the bounds, and one in all."""
    model = small(kind, Blank(BOX))
    with torch.no_grad():
        model.policy.log_std.copy_(torch.tensor([0.3, -0.4]))
        found = model.policy.get_distribution(torch.as_tensor(ROWS)).distribution
    mean, std = found.mean.numpy().astype(float), np.exp([0.3, -0.4])
    actions = np.array([[2.0, 0.1], [-1.0, -0.5], [0.3, 0.5], [0.0, 0.0], [2.0, 0.5]])
    normal = stats.norm(mean, std)
    expected = np.where(
        actions == BOX.low,
        normal.logcdf(BOX.low),
        np.where(actions == BOX.high, normal.logsf(BOX.high), normal.logpdf(actions)),
    )
    log_prob = policy_log_prob(model)
    np.testing.assert_allclose(log_prob(ROWS, actions), expected.sum(axis=1), atol=1e-5)
    np.testing.assert_allclose(as_agent(model).log_prob(ROWS, actions), expected.sum(axis=1), atol=1e-5)
    # One coordinate at a time, the other on a bound: the masses of all cases of both add up to 1.
    grids = [
        np.concatenate([[low], np.linspace(low, high, 201)[:-1] + (high - low) / 400, [high]])
        for low, high in zip(BOX.low, BOX.high, strict=True)
    ]
    widths = [
        np.concatenate([[1.0], np.full(200, (high - low) / 200), [1.0]])
        for low, high in zip(BOX.low, BOX.high, strict=True)
    ]
    pairs = np.stack(np.meshgrid(*grids, indexing="ij"), axis=-1).reshape(-1, 2)
    mass = np.exp(log_prob(np.repeat(ROWS[:1], len(pairs), axis=0), pairs)) @ np.outer(*widths).reshape(-1)
    assert mass == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("kind", [sb3.SAC, sb3_contrib.TQC])
def test_a_squashed_gaussian(kind):
    """By SB3's own log π of the same draws, in units of the box: log(1.5) and log(0.5) less."""
    model = small(kind, Blank(BOX), buffer_size=10)
    with torch.no_grad():
        scaled, expected = model.policy.actor.action_log_prob(torch.as_tensor(ROWS))
    actions = model.policy.unscale_action(scaled.numpy())
    np.testing.assert_allclose(
        policy_log_prob(model)(ROWS, actions), expected.numpy().reshape(-1) - np.log(1.5) - np.log(0.5), atol=1e-3
    )


@pytest.mark.parametrize(
    ("space", "actions"),
    [
        (gym.spaces.Discrete(3), [0, 1, 2, 1, 0]),
        (gym.spaces.MultiDiscrete([2, 3]), [[0, 0], [1, 1], [0, 2], [1, 0], [1, 2]]),
        (gym.spaces.MultiBinary(2), [[0, 0], [1, 1], [0, 1], [1, 0], [1, 1]]),
    ],
)
def test_softmax_and_products(space, actions):
    """By hand, from the outputs of the network."""
    model = small(sb3.PPO, Blank(space))
    with torch.no_grad():
        policy = model.policy
        z = policy.action_net(policy.mlp_extractor.policy_net(torch.as_tensor(ROWS))).numpy().astype(float)
    actions = np.array(actions)
    log_softmax = lambda part: part - np.log(np.exp(part).sum(axis=1, keepdims=True))  # noqa: E731
    if isinstance(space, gym.spaces.MultiBinary):
        expected = (actions * z - np.log1p(np.exp(z))).sum(axis=1)
    elif isinstance(space, gym.spaces.Discrete):
        expected = log_softmax(z)[np.arange(5), actions]
    else:
        expected = log_softmax(z[:, :2])[np.arange(5), actions[:, 0]]
        expected = expected + log_softmax(z[:, 2:])[np.arange(5), actions[:, 1]]
    np.testing.assert_allclose(policy_log_prob(model)(ROWS, actions), expected, atol=1e-5)


def test_normalized_observations():
    """The model sees (x - mean) / σ: log π of raw rows is that of the normalized ones without statistics."""
    venv = VecNormalize(DummyVecEnv([lambda: Blank(BOX)]))
    venv.obs_rms.mean, venv.obs_rms.var = np.array([0.5, -1.0]), np.array([4.0, 0.25])
    model = small(sb3.PPO, venv)
    bare = small(sb3.PPO, Blank(BOX))  # of the same seed
    seen = ((ROWS - [0.5, -1.0]) / np.sqrt(np.array([4.0, 0.25]) + 1e-8)).astype(np.float32)
    actions = np.zeros((5, 2))
    np.testing.assert_allclose(policy_log_prob(model)(ROWS, actions), policy_log_prob(bare)(seen, actions), atol=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sb3.TD3("MlpPolicy", Blank(BOX), buffer_size=10), "deterministic"),
        (lambda: sb3.DQN("MlpPolicy", Blank(gym.spaces.Discrete(2)), buffer_size=10), "greedy"),
        (lambda: sb3.SAC("MlpPolicy", Blank(BOX), buffer_size=10, action_noise=NormalActionNoise(0.0, 1.0)), "noise"),
        (lambda: sb3.PPO("MlpPolicy", Blank(BOX), use_sde=True), "gSDE"),
        (lambda: sb3_contrib.RecurrentPPO("MlpLstmPolicy", Blank(BOX)), "remembers"),
        (lambda: sb3_contrib.MaskablePPO("MlpPolicy", Blank(gym.spaces.Discrete(2))), "masks"),
    ],
)
def test_refuses_what_has_no_log_prob(make, message):
    with pytest.raises(UnsupportedPolicy, match=message):
        policy_log_prob(make())


@pytest.fixture(scope="module")
def problem():
    return ExactProblem.from_env(gym.make("FrozenLake-PGP-v0"))


def test_a_table_is_what_is_drawn(problem):
    model = small(sb3.PPO, gym.make("SafeFrozenLake-v0"))
    with torch.no_grad():
        for parameter in model.policy.action_net.parameters():
            parameter.mul_(200.0)  # unlike a uniform one
        expected = model.policy.get_distribution(torch.arange(36)).distribution.probs
    np.testing.assert_allclose(policy_table(model, problem.mdp), expected.numpy(), atol=1e-5)


def test_a_greedy_table_has_its_exploration(problem):
    model = small(sb3.DQN, gym.make("SafeFrozenLake-v0"), buffer_size=10)
    model.exploration_rate = 0.2
    table = policy_table(model, problem.mdp)
    with torch.no_grad():
        best = model.policy.q_net(torch.arange(36)).argmax(dim=1).numpy()
    assert np.array_equal(table.argmax(axis=1), best)
    np.testing.assert_allclose(np.sort(table, axis=1), [[0.05, 0.05, 0.05, 0.85]] * 36)
