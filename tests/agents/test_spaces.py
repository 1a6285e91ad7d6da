"""PGP on dictionaries, tuples and pictures, with actions of several components: it learns, is saved, and goes on."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from constrained_maxent.agents import PGP
from constrained_maxent.errors import UnseenObservation
from constrained_maxent.functionals import Entropy, Reward
from constrained_maxent.occupancy import GaussianMixture
from constrained_maxent.wrappers import constrain, find_tracker

BRIGHT = 255
OBSERVATIONS = {
    "words": (
        Dict(word=Text(5), goal=Discrete(2), at=Box(-1, 1, (2,))),
        lambda goal, noise: {"word": "find", "goal": goal, "at": noise.astype(np.float32)},
    ),
    "Dict": (
        Dict(goal=Discrete(2), at=Box(-1, 1, (2,))),
        lambda goal, noise: {"goal": goal, "at": noise.astype(np.float32)},
    ),
    "Tuple": (Tuple((Discrete(2), Box(-1, 1, (2,)))), lambda goal, noise: (goal, noise.astype(np.float32))),
    "picture": (
        Box(0, 255, (16, 16, 1), np.uint8),
        lambda goal, noise: np.full((16, 16, 1), BRIGHT * goal, np.uint8),
    ),
}
ACTIONS = {"MultiDiscrete": MultiDiscrete([2, 3]), "MultiBinary": MultiBinary(2), "Dict": Dict(b=Discrete(2, start=1))}


class Asked(gym.Env):
    """The first component of an action should be what the observation says; episodes of four steps."""

    horizon = 4

    def __init__(self, observations, action_space):
        self.observation_space, self._observe = OBSERVATIONS[observations]
        self.action_space = action_space

    def _see(self):
        self.goal = int(self.np_random.integers(2))
        return self._observe(self.goal, self.np_random.uniform(-1.0, 1.0, 2))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._see(), {"at": self.np_random.normal(size=2)}

    def step(self, action):
        assert self.action_space.contains(action), action
        first = action["b"] - 1 if isinstance(action, dict) else action[0]
        reward, self.time = float(first == self.goal), self.time + 1
        return self._see(), reward, False, self.time == 4, {"at": self.np_random.normal(size=2)}


def make(observations, actions, mode=AutoresetMode.NEXT_STEP, objective=None, **tracking):
    copies = [lambda: Asked(observations, ACTIONS[actions])] * 8
    env = copies[0]() if mode is None else SyncVectorEnv(copies, autoreset_mode=mode)
    settings = {"estimator": GaussianMixture(n_components=1), "state": "at", "episodes_per_batch": 32, "discount": 1.0}
    return constrain(env, objective or Reward(), **(settings | tracking))


@pytest.mark.parametrize(
    ("observations", "actions"), [("Dict", "MultiDiscrete"), ("Tuple", "MultiBinary"), ("picture", "Dict")]
)
def test_it_learns_what_is_asked(observations, actions):
    env = make(observations, actions)
    agent = PGP(env, seed=0, hidden_sizes=(16,), learning_rate=0.02).learn(iterations=8)
    found = find_tracker(env).last_report.objective
    assert found > 0.85, f"of 1 at best, and 0.5 by chance, {found}"
    assert agent.iteration == 8


@pytest.mark.parametrize("mode", [None, AutoresetMode.SAME_STEP], ids=str)
def test_it_is_saved_and_goes_on(mode, tmp_path):
    """Whole episodes: a run in parts is what one run would be, bit for bit."""

    def entropy():
        return make("picture", "MultiDiscrete", mode, Entropy(smoothing=1e-9), episodes_per_batch=8)

    through = PGP(entropy(), seed=3, hidden_sizes=(8,)).learn(iterations=2, planned=4)
    through.save(tmp_path / "agent.pt")
    through.learn(iterations=2)
    again = PGP.load(tmp_path / "agent.pt", entropy()).learn(iterations=2)
    picture = np.full((16, 16, 1), BRIGHT, np.uint8)
    for one, other in zip(through.policy.parameters(), again.policy.parameters(), strict=True):
        np.testing.assert_array_equal(one.detach(), other.detach())
    chosen = [agent.predict(picture, deterministic=True)[0].tolist() for agent in (through, again)]
    assert chosen[0] == chosen[1]
    assert again.predict(np.stack([picture] * 3))[0].shape == (3, 2)


def test_log_probabilities_make_densities_of_states_ones_of_actions_too():
    env = make("Dict", "MultiDiscrete", objective=Entropy(smoothing=1e-9), episodes_per_batch=8)
    PGP(env, seed=0, hidden_sizes=(8,)).learn(iterations=1)
    batch = find_tracker(env).last_batch
    # The first policy is nearly uniform over six actions.
    np.testing.assert_allclose(batch.log_probs, -np.log(6.0), atol=0.15)
    assert batch.observations.shape == (32, 3)


def test_a_table_of_several_components():
    env = constrain(
        SyncVectorEnv([lambda: Asked("Dict", ACTIONS["MultiDiscrete"])] * 2), state=["goal"], episodes_per_batch=4
    )
    agent = PGP(env, seed=0, hidden_sizes=(8,)).learn(iterations=1)
    assert find_tracker(env).estimator.table_shape() == (2, 6)
    assert agent.predict({"goal": 1, "at": np.zeros(2)}, deterministic=True)[0].shape == (2,)


@pytest.mark.parametrize("mode", [None, AutoresetMode.SAME_STEP], ids=str)
def test_words_are_not_seen_and_that_is_said(mode, tmp_path):
    env = make("words", "MultiDiscrete", mode, Entropy(smoothing=1e-9), episodes_per_batch=8)
    with pytest.warns(UnseenObservation, match="does not see word of"):
        agent = PGP(env, seed=0, hidden_sizes=(8,))
    agent.learn(iterations=1).save(tmp_path / "agent.pt")
    assert find_tracker(env).last_batch.observations.shape == (32, 3)
    assert agent.predict({"word": "go", "goal": 1, "at": np.zeros(2)}, deterministic=True)[0].shape == (2,)
    with pytest.warns(UnseenObservation):
        PGP.load(tmp_path / "agent.pt", env)
