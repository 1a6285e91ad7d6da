"""PyTorch's settings of a whole process: an agent learns the same whatever they are, and leaves them as they were."""

from contextlib import ExitStack

import gymnasium as gym
import numpy as np
import pytest
import torch

from constrained_maxent.agents import PGP, PGPSettings
from constrained_maxent.agents.pytorch import LARGEST_ALONE, device_named, threads_for
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals import Entropy
from constrained_maxent.occupancy import GaussianMixture
from constrained_maxent.wrappers import constrain

pytestmark = pytest.mark.fault


def learnt(**settings):
    """Two iterations of networks on four copies, and an action after them."""
    env = gym.make_vec("CartPole-v1", num_envs=4, vectorization_mode="sync")
    estimator = GaussianMixture(n_components=1)
    env = constrain(env, Entropy(resolution=0.01), steps_per_batch=64, discount=0.9, estimator=estimator)
    agent = PGP(env, seed=0, hidden_sizes=(8,), critic_steps=2, averaging=0.5, **settings).learn(iterations=2)
    assert agent.critic is not None
    return agent


@pytest.fixture
def restored():
    yield
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)


STATES = {
    "float64": lambda stack: torch.set_default_dtype(torch.float64),
    "float16": lambda stack: torch.set_default_dtype(torch.float16),
    "meta": lambda stack: torch.set_default_device("meta"),
    "no gradients": lambda stack: stack.enter_context(torch.no_grad()),
    "inference": lambda stack: stack.enter_context(torch.inference_mode()),
}


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("name", STATES)
def test_other_settings_change_nothing(name, tmp_path):
    usual = learnt()
    with ExitStack() as stack:
        STATES[name](stack)
        dtype = torch.get_default_dtype()
        agent = learnt()
        assert agent.predict(np.zeros(4, dtype=np.float32))[0] in (0, 1)
        agent.save(tmp_path / "agent.pt")
        again = PGP.load(tmp_path / "agent.pt", agent.env).learn(iterations=1)
        assert torch.get_default_dtype() == dtype
        if name == "meta":
            assert torch.get_default_device().type == "meta"
    for mine, theirs in zip(agent.learner.parameters(), usual.learner.parameters(), strict=True):
        assert mine.dtype == torch.float32
        assert torch.equal(mine, theirs)
    assert again.iteration == 3


@pytest.mark.parametrize("device", ["meta", "cuda:99", "nonsense", "cpu:x", "", None, 7])
def test_devices_that_cannot_be_used(device):
    with pytest.raises(InvalidSetting, match=r"device='.*' cannot be used here \(.+\): take 'cpu'"):
        PGP(gym.make("FrozenLake-PGP-v0"), device=device)


def test_a_device_is_plain_data():
    assert PGPSettings(device=torch.device("cpu")) == PGPSettings(device="cpu")
    assert device_named("cpu:0") == torch.device("cpu:0")


class TestThreads:
    @pytest.fixture(autouse=True)
    def _two(self):
        before = torch.get_num_threads()
        torch.set_num_threads(2)
        yield
        torch.set_num_threads(before)

    def test_networks_of_the_usual_size_take_one(self):
        seen = []
        agent = learnt()
        agent.learn(iterations=1, callback=lambda *_: seen.append(torch.get_num_threads()))
        assert (seen, torch.get_num_threads()) == ([1], 2)

    def test_they_are_put_back_after_an_error(self):
        agent = learnt()
        with pytest.raises(ZeroDivisionError):
            agent.learn(iterations=1, callback=lambda *_: 1 / 0)
        assert torch.get_num_threads() == 2

    def test_large_networks_take_all(self):
        with threads_for(LARGEST_ALONE + 1):
            assert torch.get_num_threads() == 2
        torch.set_num_threads(1)
        with threads_for(LARGEST_ALONE + 1):
            assert torch.get_num_threads() == 1
