"""A small environment with a policy whose occupancy is known."""

from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

from constrained_maxent.occupancy import Gaussians, Mixture
from constrained_maxent.references import GaussianNetwork, Layer, Reference

BOX = gym.spaces.Box(-1.0, 1.0, (2,), dtype=np.float32)


class Line(gym.Env):
    """The action is the next position; ten steps, or four where the first position is above 0.9."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), dtype=np.float32)
    action_space = BOX

    def __init__(self, horizon=10):
        self.horizon = horizon

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-0.5, 0.5, 2).astype(np.float32)
        self.time = 0
        return self.place, {"place": self.place[:1].astype(np.float64)}

    def step(self, action):
        self.place, self.time = np.array(action, dtype=np.float32), self.time + 1
        info = {"place": self.place[:1].astype(np.float64)}
        return self.place, 2.0, False, self.time == self.horizon, info


def network(seed=0, hidden=5, **settings):
    """A network with a trunk, of random weights."""
    rng = np.random.default_rng(seed)

    def layer(n_inputs, n_outputs, activation="identity"):
        weights = rng.normal(size=(n_inputs, n_outputs)).astype(np.float32)
        return Layer(weights, rng.normal(size=n_outputs).astype(np.float32), activation)

    return GaussianNetwork(
        trunk=(layer(2, hidden, "relu"),),
        mean=(layer(hidden, hidden, "tanh"), layer(hidden, 2)),
        log_std=(layer(hidden, 2),),
        **({"low": BOX.low, "high": BOX.high, "log_std_bounds": (-5.0, 2.0)} | settings),
    )


def plane(**settings):
    rng = np.random.default_rng(1)
    factors = rng.normal(size=(3, 2, 2))
    covariances = factors @ factors.swapaxes(1, 2) + 0.3 * np.eye(2)
    return Mixture(Gaussians(np.array([0.2, 0.3, 0.5]), rng.normal(size=(3, 2)), covariances), **settings)


@pytest.fixture(scope="session")
def small():
    reference = Reference(plane(mass=0.8), network(), {"environment": "Line", "mean_return": 2.5})
    return SimpleNamespace(Line=Line, network=network, plane=plane, reference=reference, box=BOX)
