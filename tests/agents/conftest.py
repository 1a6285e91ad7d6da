"""An environment that reports batches without this package's wrappers, and the grid with its exact values."""

from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

from constrained_maxent.agents import PGP
from constrained_maxent.evaluation import ExactProblem
from constrained_maxent.occupancy import Counts, Weighting
from constrained_maxent.records import Report
from constrained_maxent.tracker import Tracker


class Reporter(gym.Env):
    """Reports made-up batches by a tracker of its own, which never sees a step.

    Observations are drawn at random; an episode lasts ``horizon`` steps and then is truncated, or terminated.
    """

    def __init__(
        self,
        observation_space,
        action_space,
        *,
        reward,
        episodes=2,
        horizon=3,
        end="truncated",
        discount=0.5,
        ready=lambda i: True,
    ):
        self.observation_space, self.action_space = observation_space, action_space
        self.reward, self.episodes, self.horizon, self.end = reward, episodes, horizon, end
        self.discount, self.ready = discount, ready
        # Nothing is fitted, so that any spaces will do.
        nothing = gym.spaces.Discrete(1)
        self.tracker = Tracker(
            Counts().bind(nothing, nothing), Weighting(discount, horizon, "truncated"), pairing="same"
        )
        self.log = []  # (observation, action, next observation) of every step since the last new batch

    def draw(self):
        space = self.observation_space
        if isinstance(space, gym.spaces.Discrete):
            return int(space.start + self.np_random.integers(space.n))
        return self.np_random.uniform(-1.0, 1.0, space.shape).astype(space.dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if options and options["new_batch"]:
            self.log = []
        self.observation, self.time = self.draw(), 0
        return self.observation, {}

    def step(self, action):
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        before, self.observation = self.observation, self.draw()
        self.log.append((before, action, self.observation))
        self.time += 1
        over = self.time == self.horizon
        info = {"pseudo_reward": float(self.reward(before, action))}
        self.tracker.timesteps += 1
        if len(self.log) == self.episodes * self.horizon:
            self.tracker.last_report = self.report()
            self.tracker.iteration += 1
            info["batch"] = self.tracker.last_report.to_info()
            self.log, self.last = [], self.log
        return self.observation, 0.0, over and self.end == "terminated", over and self.end == "truncated", info

    def report(self):
        n, steps = self.episodes, self.horizon
        rewards = np.array([self.reward(s, a) for s, a, _ in self.log]).reshape(n, steps)
        return Report(
            iteration=self.tracker.iteration,
            episodes=n,
            steps=n * steps,
            episode_count=float(n),
            objective=None,
            constraints={},
            objective_fresh=None,
            constraints_fresh={},
            multipliers={},
            penalty=0.0,
            discount=self.discount,
            pseudo_rewards=list(rewards),
            ready=[self.ready(i) for i in range(n)],
            weights=list(np.tile(self.discount ** np.arange(steps), (n, 1))),
            sub_environments=[0] * n,
            started_ago=[n * steps - 1 - i * steps for i in range(n)],
            whole_episodes=True,
        )


@pytest.fixture(scope="session")
def reporter():
    return Reporter


@pytest.fixture(scope="session")
def grid():
    """The wrapped grid, PGP trained on it, and the exact value of a policy table."""

    def train(seed, iterations, *, eta, **settings):
        env = gym.make("FrozenLake-PGP-v0", preset="paper", **settings)
        return PGP(env, learning_rate=eta, seed=seed).learn(iterations=iterations).policy_table()

    problem = ExactProblem.from_env(gym.make("FrozenLake-PGP-v0", preset="paper"))

    def evaluate(table):
        """Entropy and cost of a policy."""
        exact = problem.evaluate(table)
        return np.array([exact.objective, exact.constraints["cost"]])

    def make(**settings):
        return gym.make("FrozenLake-PGP-v0", preset="paper", **settings)

    return SimpleNamespace(make=make, train=train, evaluate=evaluate, uniform=evaluate(np.full((36, 4), 0.25)))
