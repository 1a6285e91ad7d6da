"""An agent of one's own, NumPy only and by public names only: it learns, says its log π, is saved and goes on."""

import json
import math
from functools import partial

import gymnasium as gym
import numpy as np
import pytest

from constrained_maxent.agents import Collector, Rollout, checkpoints
from constrained_maxent.errors import CheckpointMismatch, DamagedCheckpoint, InvalidSetting
from constrained_maxent.functionals import Entropy, LinearCost
from constrained_maxent.occupancy import GaussianMixture
from constrained_maxent.penalties import Lagrangian, Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.spaces import FiniteSpace
from constrained_maxent.tracker import NEW_BATCH, find_tracker
from constrained_maxent.wrappers import constrain


class SoftmaxReinforce:
    """REINFORCE on a softmax table over finite observations and actions: rows are numbers of states, from 0."""

    def __init__(self, env, *, learning_rate=0.05, seed=0):
        self.env = env
        self.learning_rate = learning_rate
        self.collector = Collector(env)
        self.actions = FiniteSpace(self.collector.action_space)
        self.theta = np.zeros((FiniteSpace(self.collector.observation_space).n, self.actions.n))
        self.rng = np.random.default_rng(seed)
        self.iteration = 0

    def probabilities(self):
        weights = np.exp(self.theta - self.theta.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    # What a Collector asks of a policy.

    def sample(self, rows, rng):
        cumulative = self.probabilities()[rows].cumsum(axis=1)[:, :-1]
        return (cumulative < rng.random(len(rows))[:, None]).sum(axis=1)

    def sample_with_log_prob(self, rows, rng):
        raw = self.sample(rows, rng)
        return raw, np.log(self.probabilities()[rows, raw])

    def to_env(self, raw):
        return self.actions.decode(raw)

    # Learning.

    def learn(self, iterations):
        for _ in range(iterations):
            self.collector.restart(seed=self.iteration)
            rollout = self.collector.collect(self, self.rng)
            if len(rollout.rows):
                self.theta += self.learning_rate * self.gradient(rollout)
            self.iteration += 1
        return self

    def gradient(self, rollout: Rollout):
        gradient, ends = np.zeros_like(self.theta), np.cumsum(rollout.lengths)
        policy = self.probabilities()
        for steps in map(slice, ends - rollout.lengths, ends):
            weighted = rollout.weights[steps] * rollout.rewards[steps]
            factors = weighted[::-1].cumsum()[::-1] / rollout.n_episodes
            np.add.at(gradient, (rollout.rows[steps], rollout.actions[steps]), factors)
            np.add.at(gradient, rollout.rows[steps], -factors[:, None] * policy[rollout.rows[steps]])
        return gradient

    # Checkpoints.

    def state_dict(self):
        # The generator's state has integers of 128 bits, which JSON can hold.
        return {"theta": self.theta, "iteration": self.iteration, "random": json.dumps(self.rng.bit_generator.state)}

    def load_state_dict(self, state):
        self.theta[...] = state["theta"]
        self.iteration = state["iteration"]
        self.rng.bit_generator.state = json.loads(state["random"])


def lake(num_envs=None, **settings):
    settings = {"preset": "paper", "penalty": Lagrangian(0.001), "memory": 0.5} | settings
    if num_envs is None:
        return gym.make("FrozenLake-PGP-v0", **settings)
    return gym.make_vec("FrozenLake-PGP-v0", num_envs=num_envs, **settings)


on_each_stack = pytest.mark.parametrize(
    "stack",
    [
        {},
        {"num_envs": 4},
        {"num_envs": 4, "autoreset_mode": "SameStep", "pairing": "split"},
        {"pairing": "previous"},
    ],
    ids=["scalar", "vector", "same step, split", "scalar, previous"],
)


@on_each_stack
def test_it_climbs(stack):
    """H - β[R]₊² is 29.2 - 0.005 · 83.3² = -5.5 for the uniform policy; estimates from few episodes are noisy, and
    after 60 batches lie at 20 to 25.
    """
    env = lake(penalty=Quadratic(0.005), **stack)
    agent, values = SoftmaxReinforce(env), []
    for _ in range(60):
        agent.learn(1)
        report = find_tracker(env).last_report
        values.append(report.objective - report.penalty)
    assert np.mean(values[:5]) < 10.0
    assert np.mean(values[-10:]) > 15.0


@on_each_stack
def test_it_goes_on_from_a_checkpoint(stack, tmp_path):
    path, make = tmp_path / "agent.pt", partial(lake, **stack)
    whole = SoftmaxReinforce(make()).learn(8)
    agent = SoftmaxReinforce(make(), learning_rate=0.05).learn(5)
    checkpoints.save(path, agent, arguments={"learning_rate": 0.05})

    env = make()
    content = checkpoints.read(path, env, "SoftmaxReinforce")
    again = SoftmaxReinforce(env, **content["arguments"])
    checkpoints.restore(path, content, again)
    again.learn(3)
    np.testing.assert_array_equal(again.theta, whole.theta)
    there, here = find_tracker(whole.env), find_tracker(env)
    np.testing.assert_array_equal(here.estimator.occupancy_, there.estimator.occupancy_)
    assert here.problem.constraints["cost"].penalty == there.problem.constraints["cost"].penalty
    assert (here.iteration, here.timesteps) == (there.iteration, there.timesteps)


def test_a_checkpoint_of_another_agent_or_environment_is_refused(tmp_path):
    path = tmp_path / "agent.pt"
    agent = SoftmaxReinforce(lake()).learn(1)
    checkpoints.save(path, agent)
    with pytest.raises(CheckpointMismatch, match="Another"):
        checkpoints.read(path, lake(), "Another")
    with pytest.raises(CheckpointMismatch, match="discount"):
        checkpoints.read(path, lake(discount=0.5), "SoftmaxReinforce")
    content = checkpoints.read(path, agent.env, "SoftmaxReinforce")
    del content["state"]["theta"]
    with pytest.raises(DamagedCheckpoint, match="theta"):
        checkpoints.restore(path, content, agent)


@pytest.mark.parametrize("num_envs", [None, 4])
def test_schedules_run_once_the_end_is_announced(num_envs):
    """β goes from 1 to 16 over four batches, so it is doubled by each."""
    env = lake(num_envs, penalty={"kind": "QuadraticContinuation", "start": 1.0, "end": 16.0})
    tracker, betas = find_tracker(env), []
    tracker.announce(iterations=4)
    agent = SoftmaxReinforce(env)
    for _ in range(5):
        betas.append(tracker.problem.constraints["cost"].penalty.beta)
        agent.learn(1)
    assert betas == pytest.approx([1.0, 2.0, 4.0, 8.0, 16.0])


class TestActingWithoutCollector:
    """Two fair actions in a world whose state is a number: λ̂(s, a) = d̂(s) π(a|s), so H(λ) = H(d) + log 2 nats."""

    class Walk(gym.Env):
        observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), dtype=np.float64)
        action_space = gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return self.np_random.normal(size=1), {}

        def step(self, action):
            return self.np_random.normal(size=1), 0.0, False, False, {}

    def stack(self, num_envs):
        limits = {"max_episode_steps": 5}
        env = gym.wrappers.TimeLimit(self.Walk(), **limits)
        if num_envs is not None:
            env = gym.vector.SyncVectorEnv([lambda: gym.wrappers.TimeLimit(self.Walk(), **limits)] * num_envs)
        return constrain(
            env,
            Entropy(over="state-action"),
            constraints={"ones": Constraint(LinearCost(lambda s, a, s_next: float(a)), Lagrangian(0.1))},
            estimator=GaussianMixture(n_components=1),
            episodes_per_batch=8,
            discount=1.0,
            horizon=5,
        )

    def batch(self, env, log_prob):
        rng, tracker = np.random.default_rng(0), find_tracker(env)
        n = getattr(env, "num_envs", None)
        env.reset(seed=0, options={NEW_BATCH: True})
        info = {}
        with tracker.acting(log_prob=log_prob):
            while "batch" not in info:
                actions = rng.integers(2, size=n)
                _, _, terminated, truncated, info = env.step(int(actions) if n is None else actions)
                if n is None and (terminated or truncated) and "batch" not in info:
                    env.reset()
        return tracker.last_report

    @pytest.mark.parametrize("num_envs", [None, 4])
    def test_log_prob_is_part_of_the_density(self, num_envs):
        seen = []

        def fair(rows, actions):
            seen.append((rows.shape, actions.shape))
            return np.full(len(rows), math.log(0.5))

        told = self.batch(self.stack(num_envs), fair)
        n = num_envs or 1
        assert set(seen) == {((n, 1), (n,))}
        # The same seeds, and a policy of which each action is sure: H(d) alone.
        states = self.batch(self.stack(num_envs), lambda rows, actions: np.zeros(len(rows)))
        assert told.objective - states.objective == pytest.approx(math.log(2.0), rel=1e-9)
        assert told.episodes == 8

    def test_it_ends_with_the_block_also_after_an_error(self):
        env = self.stack(None)
        tracker = find_tracker(env)
        assert not tracker.knows_log_prob

        def fail():
            with tracker.acting(log_prob=lambda rows, actions: np.zeros(len(rows))):
                assert tracker.knows_log_prob
                raise KeyError("stop")

        with pytest.raises(KeyError, match="stop"):
            fail()
        assert not tracker.knows_log_prob

    def test_one_agent_at_a_time(self):
        tracker = find_tracker(self.stack(None))
        with tracker.acting(), pytest.raises(InvalidSetting, match="acting"), tracker.acting():
            pass
