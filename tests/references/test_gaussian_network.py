"""Log-probabilities against the policies that were copied, against SciPy and against quadrature."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import nn

from constrained_maxent.agents.policies import CategoricalMLP, GaussianMLP, Squashing
from constrained_maxent.errors import InvalidData, InvalidSetting, UnsupportedPolicy
from constrained_maxent.references import GaussianNetwork, Layer
from constrained_maxent.references.gaussian_network import layers_of, log_prob_of_clipped

PLANE = gym.spaces.Box(-np.inf, np.inf, (3,), dtype=np.float32)
BOXES = {
    "interval": gym.spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 5.0], np.float32)),
    "rays": gym.spaces.Box(np.array([0.5, -np.inf], np.float32), np.array([np.inf, 2.0], np.float32)),
    "line": gym.spaces.Box(-np.inf, np.inf, (2,), dtype=np.float32),
}
RNG = np.random.default_rng(0)


@pytest.fixture(params=BOXES)
def policy(request):
    torch.manual_seed(0)
    policy = GaussianMLP(PLANE, BOXES[request.param], (8, 8))
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.mul_(3.0)
    return policy


def test_is_the_policy_that_it_copies(policy):
    rows = RNG.normal(size=(50, 3))
    raw = policy.sample(rows, np.random.default_rng(1)).clip(-3.0, 3.0)
    expected = policy.log_prob(rows, raw).detach().numpy()
    copy = GaussianNetwork.from_policy(policy)
    # Actions are float32, as the environment gets them.
    np.testing.assert_allclose(copy.log_prob(rows, policy.to_env(raw)), expected, atol=2e-3)
    np.testing.assert_allclose(
        copy.act(rows, RNG, deterministic=True), policy.to_env(policy.mode(rows)), rtol=1e-5, atol=1e-6
    )
    # The same noise gives the same actions.
    np.testing.assert_allclose(
        copy.act(rows, np.random.default_rng(2)),
        policy.to_env(policy.sample(rows, np.random.default_rng(2))),
        rtol=1e-5,
        atol=1e-6,
    )
    before = copy.log_prob(rows, policy.to_env(raw))
    with torch.no_grad():
        policy.mean[0].weight.zero_()
    np.testing.assert_array_equal(copy.log_prob(rows, policy.to_env(raw)), before)


def test_the_density_integrates_to_one(small):
    box = {"low": np.array([-1.0, 0.0], np.float32), "high": np.array([1.0, 3.0], np.float32)}
    network = small.network(log_std_bounds=(-1.5, -0.5), **box)
    u = np.linspace(-7.0, 7.0, 401)
    width = 1.0 - np.tanh(u) ** 2
    a = np.stack(np.meshgrid(np.tanh(u), 1.5 * (np.tanh(u) + 1.0), indexing="ij"), axis=-1).reshape(-1, 2)
    log_prob = network.log_prob(np.tile([[0.1, -0.2]], (len(a), 1)), a).reshape(401, 401)
    volume = np.outer(width, 1.5 * width) * (u[1] - u[0]) ** 2
    assert np.sum(np.exp(log_prob) * volume) == pytest.approx(1.0, abs=2e-3)


def test_actions_on_a_bound_count_as_almost_there(small):
    network = small.network()
    rows = np.zeros((1, 2))
    on, near = (network.log_prob(rows, np.array([[a, 0.3]])) for a in (1.0, 1.0 - 1e-6))
    assert np.isfinite(on).all()
    np.testing.assert_allclose(on, near, rtol=1e-9)
    assert not np.allclose(on, network.log_prob(rows, np.array([[1.0 - 2e-6, 0.3]])))


@pytest.mark.parametrize("box", BOXES.values(), ids=BOXES)
def test_squashing_is_inverted(box):
    squashing = Squashing(gym.spaces.Box(box.low.astype(np.float64), box.high.astype(np.float64), dtype=np.float64))
    u = RNG.uniform(-5.0, 5.0, size=(200, 2))
    np.testing.assert_allclose(squashing.to_reals(squashing.to_box(u)), u, atol=1e-8)
    assert np.isfinite(squashing.to_reals(np.array([np.where(np.isfinite(box.low), box.low, 0.0)]))).all()


def test_what_has_no_choice_has_the_mass_1():
    """Of a component whose bounds are one number; the other one is a normal density."""
    low, high = np.array([-1.0, 0.5]), np.array([1.0, 0.5])
    found = log_prob_of_clipped(np.array([[0.3, 0.5]]), np.array([[0.1, 9.0]]), np.zeros((1, 2)), low, high)
    assert found == pytest.approx([norm.logpdf(0.3, 0.1, 1.0)], rel=1e-12)


def test_without_squashing_it_is_a_clipped_normal(small):
    network = small.network(is_squashed=False, log_std_bounds=(-0.5, -0.5))
    rows, actions = RNG.normal(size=(6, 2)), RNG.uniform(-1.0, 1.0, size=(6, 2))
    hidden = np.maximum(rows @ network.trunk[0].weights + network.trunk[0].bias, 0.0)
    mean = np.tanh(hidden @ network.mean[0].weights + network.mean[0].bias)
    mean = mean @ network.mean[1].weights + network.mean[1].bias
    expected = norm.logpdf(actions, mean, np.exp(-0.5)).sum(axis=1)
    np.testing.assert_allclose(network.log_prob(rows, actions), expected, rtol=1e-5)
    np.testing.assert_allclose(network.act(rows, RNG, deterministic=True), mean.clip(-1.0, 1.0), atol=1e-5)
    assert np.abs(network.act(np.zeros((500, 2)), RNG)).max() == 1.0


def test_refuses_other_policies_and_networks():
    with pytest.raises(UnsupportedPolicy, match="CategoricalMLP"):
        GaussianNetwork.from_policy(CategoricalMLP(PLANE, gym.spaces.Discrete(2), (4,)))
    with pytest.raises(UnsupportedPolicy, match="Dropout"):
        layers_of(nn.Sequential(nn.Linear(2, 2), nn.Dropout()))
    with pytest.raises(UnsupportedPolicy, match="flatten"):
        GaussianNetwork.from_policy(GaussianMLP(PLANE, gym.spaces.Box(-1.0, 1.0, (2, 2)), (4,)))


def test_refuses_a_network_of_one_hot_observations():
    with pytest.raises(UnsupportedPolicy, match="one-hot"):
        GaussianNetwork.from_policy(GaussianMLP(gym.spaces.Discrete(3), BOXES["line"], (4,)))


def test_copies_the_normalization_of_observations():
    torch.manual_seed(0)
    policy = GaussianMLP(PLANE, BOXES["interval"], (8,), normalize=True)
    rows = RNG.normal([3.0, -40.0, 0.0], [0.1, 5.0, 1.0], size=(200, 3))
    policy.observe(rows)
    copy = GaussianNetwork.from_policy(policy)
    far = np.vstack((rows[:20], rows[:20] * 50.0))  # beyond ten standard deviations too
    np.testing.assert_allclose(
        copy.act(far, RNG, deterministic=True), policy.to_env(policy.mode(far)), rtol=1e-5, atol=1e-5
    )
    policy.observe(100.0 * rows)
    assert not np.allclose(copy.act(rows, RNG, deterministic=True), policy.to_env(policy.mode(rows)), rtol=1e-3)


def test_refuses_layers_that_do_not_fit(small):
    good = small.network()
    layer = Layer(np.ones((2, 3), np.float32), np.ones(3, np.float32))
    for wrong in ({"trunk": (layer,)}, {"mean": ()}, {"log_std": (layer,)}, {"low": np.zeros(3, np.float32)}):
        parts = {name: getattr(good, name) for name in ("trunk", "mean", "log_std", "low", "high", "log_std_bounds")}
        with pytest.raises(InvalidData):
            GaussianNetwork(**(parts | wrong))
    with pytest.raises(InvalidSetting, match="activation"):
        Layer(layer.weights, layer.bias, "sine")
    for weights, bias in ((np.ones((2, 3)), np.ones(2)), (np.full((2, 3), np.nan), np.ones(3))):
        with pytest.raises(InvalidData):
            Layer(weights, bias)


def test_refuses_rows_of_another_size(small):
    network = small.network()
    with pytest.raises(InvalidData, match="observations"):
        network.log_prob(np.zeros((4, 3)), np.zeros((4, 2)))
    with pytest.raises(InvalidData, match="actions"):
        network.log_prob(np.zeros((4, 2)), np.zeros((4, 1)))
