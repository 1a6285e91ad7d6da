"""Momentum of PGP: weighted gradients against enumeration, what it reduces to, checkpoints, and where it is refused.

That its steps are those of the batched engine, ``tabular/test_agreement_with_pgp.py`` shows.
"""

import math
from itertools import product
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from scipy.special import log_softmax

from constrained_maxent.agents import PGP
from constrained_maxent.agents.momentum import Momentum, importance_weights
from constrained_maxent.agents.normalised import NormalisedGradient
from constrained_maxent.agents.policies import TabularSoftmax
from constrained_maxent.errors import CheckpointMismatch, DamagedCheckpoint, InvalidSetting, NonFiniteValue
from constrained_maxent.functionals.base import DENSITY_SMOOTHING
from constrained_maxent.occupancy import Counts, GaussianMixture
from constrained_maxent.wrappers import constrain, find_tracker

TABLE = {"learning_rate": 0.3}
NETWORK = {"policy": "mlp", "hidden_sizes": (8,), "critic_steps": 2, "learning_rate": 0.01}


def grid(**settings):
    options = {"pairing": "previous", "episodes_per_batch": 4, "preset": "paper"} | settings
    return gym.make_vec("FrozenLake-PGP-v0", num_envs=4, **options)


class Walk(gym.Env):
    """On a line, for six steps."""

    observation_space, action_space = Box(-9.0, 9.0, (1,), np.float64), Box(-1.0, 1.0, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.normal(size=1)
        return self.x, {}

    def step(self, action):
        self.x = np.clip(self.x + action + 0.3 * self.np_random.normal(size=1), -9.0, 9.0)
        return self.x, 0.0, False, False, {}


def line():
    env = gym.wrappers.TimeLimit(Walk(), 6)
    mixture = GaussianMixture(n_components=1, over="state")
    return constrain(env, estimator=mixture, episodes_per_batch=5, discount=0.9, pairing="previous")


def parameters(agent):
    return torch.cat([parameter.detach().flatten() for parameter in agent.policy.parameters()]).numpy()


class TestWeightedGradient:
    """Two states, two actions that lead to the state of their number, three steps from state 0: eight trajectories."""

    RNG = np.random.default_rng(8)
    OLD, NEW = RNG.normal(size=(2, 2, 2))
    REWARD = RNG.normal(size=(2, 2))
    WEIGHTS = 0.5 ** np.arange(3)
    ACTIONS = np.array(list(product((0, 1), repeat=3)))
    STATES = np.hstack([np.zeros((8, 1), dtype=int), ACTIONS[:, :-1]])

    def log_probs(self, theta):
        """Of every trajectory, ``(8,)``."""
        return log_softmax(theta, axis=1)[self.STATES, self.ACTIONS].sum(axis=1)

    def value(self, theta):
        """Expected weighted reward, exactly."""
        return float(np.exp(self.log_probs(theta)) @ (self.REWARD[self.STATES, self.ACTIONS] @ self.WEIGHTS))

    def differences(self, function, theta, step=1e-6):
        gradient = np.zeros_like(theta)
        for cell in np.ndindex(*theta.shape):
            shift = np.zeros_like(theta)
            shift[cell] = step
            gradient[cell] = (function(theta + shift) - function(theta - shift)) / (2.0 * step)
        return gradient

    def weighted(self, bound):
        """E over τ ~ π_θ of w ĝ(τ; θ', r'), as ``Momentum`` computes it, and w of every trajectory."""
        policy = TabularSoftmax(Discrete(2), Discrete(2))
        rewards = self.REWARD[self.STATES, self.ACTIONS]
        twin = SimpleNamespace(rewards_of=lambda batch: rewards.ravel(), load_state_dict=lambda state: None)
        tracker = SimpleNamespace(
            pairing="previous",
            estimator=None,
            refit=None,
            last_batch=SimpleNamespace(log_probs=None),
            twin=lambda: twin,
            state_dict=dict,
        )
        momentum = Momentum(policy, tracker, share=0.25, importance_bound=bound)
        self.set(policy, self.OLD)
        with momentum.batch():
            pass
        momentum.end_batch(stepped=True)
        self.set(policy, self.NEW)
        rollout = SimpleNamespace(rows=self.STATES.ravel(), actions=self.ACTIONS.ravel(), lengths=np.full(8, 3))
        found, importance = momentum.old_batch(rollout)
        returns = np.cumsum((found.reshape(8, 3) * self.WEIGHTS)[:, ::-1], axis=1)[:, ::-1]
        factors = importance * (np.exp(self.log_probs(self.NEW))[:, None] * returns).ravel()
        policy.theta.grad = torch.zeros(2, 2, dtype=torch.float64)
        momentum.direction = [torch.zeros(2, 2, dtype=torch.float64)]
        momentum.follow(rollout.rows, rollout.actions, factors)
        # d = 0 + 0.75 (0 - w ĝ), and what optimisers step down is its negative.
        np.testing.assert_array_equal(momentum._pending[0], policy.theta.grad)
        return policy.theta.grad.numpy() / 0.75, importance.reshape(8, 3)[:, 0]

    def set(self, policy, theta):
        with torch.no_grad():
            policy.theta.copy_(torch.as_tensor(theta))
        policy.changed()

    def test_is_the_gradient_of_the_old_policy(self):
        """Without a cut there is no bias: finite differences of the old policy's value."""
        gradient, _ = self.weighted(bound=1e6)
        np.testing.assert_allclose(gradient, self.differences(self.value, self.OLD), atol=1e-8)

    def test_with_the_cut(self):
        """Finite differences of Σ p_θ(τ) w(τ) Σ_t (Σ_{k≥t} w_k r'_k) log π(a_t|s_t) at θ', weights held."""
        gradient, weights = self.weighted(bound=1.3)
        ratios = np.exp(self.log_probs(self.OLD) - self.log_probs(self.NEW))
        assert 0 < (ratios > 1.3).sum() < 8
        np.testing.assert_allclose(weights, np.minimum(ratios, 1.3), rtol=1e-12)

        def surrogate(theta):
            total = 0.0
            for t in range(3):
                rest = self.REWARD[self.STATES, self.ACTIONS][:, t:] @ self.WEIGHTS[t:]
                scores = log_softmax(theta, axis=1)[self.STATES[:, t], self.ACTIONS[:, t]]
                total += float((np.exp(self.log_probs(self.NEW)) * weights * rest) @ scores)
            return total

        np.testing.assert_allclose(gradient, self.differences(surrogate, self.OLD), atol=1e-8)

    def test_weights_are_finite_however_far_policies_are_apart(self):
        weights = importance_weights(np.array([900.0, 900.0, -900.0]), np.array([1, 2]), bound=5.0)
        np.testing.assert_allclose(weights, [5.0, 1.0])
        assert importance_weights(np.array([-1e300]), np.array([1]), bound=5.0).tolist() == [0.0]


class TestReducesTo:
    @pytest.mark.parametrize("settings", [TABLE, NETWORK], ids=["table", "networks"])
    def test_plain_steps_at_weight_1(self, settings):
        """To the last bit, though the code of momentum runs."""
        one_step = {"epochs": 1, "minibatch_size": 0, "normalize_advantages": False}
        plain = PGP(grid(), seed=1, optimizer="normalised", **one_step, **settings)
        through = PGP(grid(), seed=1, optimizer="normalised", **one_step, **settings)
        through._momentum = Momentum(through.policy, find_tracker(through.env), share=1.0, importance_bound=2.0)
        reduced = PGP(grid(), seed=1, optimizer="normalised", momentum=0.5, **settings)
        for agent in (plain, through, reduced):
            agent.learn(iterations=5)
        np.testing.assert_array_equal(parameters(through), parameters(plain))
        assert (parameters(reduced) != parameters(plain)).any()

    def test_what_counts_know(self):
        """λ̂ by hand: batch + (1 - α) (before - w batch), cut at 0, with w from the two policies' tables."""
        env = grid()
        tracker = find_tracker(env)
        agent = PGP(env, seed=0, momentum=0.25, learning_rate=0.001, importance_bound=1.01).learn(iterations=3)
        tables = [agent._momentum._old_policy.table(), agent.policy_table()]
        before = tracker.estimator.occupancy_.copy()
        agent.learn(iterations=1)
        batch, expected = tracker.last_batch, np.zeros((36, 4))
        ratios = np.log(tables[0] / tables[1])[batch.observations, batch.actions]
        ends = np.cumsum(batch.lengths)
        weights = [min(math.exp(part.sum()), 1.01) for part in np.split(ratios, ends[:-1])]
        assert max(weights) == 1.01
        assert min(weights) < 1.0
        shares = 1.0 - 0.75 * np.repeat(weights, batch.lengths)
        np.add.at(expected, (batch.observations, batch.actions), batch.weights * shares / 4)
        expected = np.maximum(expected + 0.75 * before, 0.0)
        np.testing.assert_allclose(tracker.estimator.occupancy_, expected, rtol=1e-12)

    def test_the_first_batch_with_a_new_agent_is_taken_plainly(self):
        env = grid()
        PGP(env, seed=5).learn(iterations=2)
        PGP(env, seed=0, momentum=0.25).learn(iterations=1)
        batch, counts = find_tracker(env).last_batch, np.zeros((36, 4))
        np.add.at(counts, (batch.observations, batch.actions), batch.weights / 4)
        np.testing.assert_allclose(find_tracker(env).estimator.occupancy_, counts, rtol=1e-12)


class TestContinuousStates:
    SETTINGS = NETWORK | {"momentum": 0.4}

    def test_old_rewards_are_of_the_old_density_and_policy(self):
        r"""r' = -log(λ'+σ) - λ'/(λ'+σ) at λ' = mass · N(s; mean, variance) · π'(a|s), from the two networks."""
        env = line()
        agent = PGP(env, seed=2, **self.SETTINGS).learn(iterations=3)
        seen = {}
        original = agent._momentum.old_batch

        def watched(rollout):
            old = agent._momentum._old_tracker.estimator
            with torch.no_grad():
                log_pi = agent._momentum._old_policy.log_prob(rollout.rows, rollout.actions).double().numpy()
                now = agent.policy.log_prob(rollout.rows, rollout.actions).double().numpy()
            density = old.mass_ * np.exp(old.log_prob(rollout.rows, rollout.actions) + log_pi)
            seen["distance"] = np.abs(log_pi - now).max()
            sigma = DENSITY_SMOOTHING
            seen["expected"] = -np.log(density + sigma) - density / (density + sigma)
            seen["found"], seen["weights"] = original(rollout)
            return seen["found"], seen["weights"]

        agent._momentum.old_batch = watched
        agent.learn(iterations=1)
        assert seen["distance"] > 1e-3
        np.testing.assert_allclose(seen["found"], seen["expected"], rtol=1e-9)
        assert len(np.unique(seen["weights"])) > 1

    def test_the_density_is_the_batch_s_own(self):
        env = line()
        PGP(env, seed=2, **self.SETTINGS).learn(iterations=3)
        states = find_tracker(env).last_batch.observations
        samples = find_tracker(env).estimator.measure().points.states
        np.testing.assert_array_equal(np.sort(samples.ravel()), np.sort(states.ravel()))


class TestCheckpoints:
    @pytest.mark.parametrize(
        ("make", "settings"),
        [
            pytest.param(grid, TABLE | {"optimizer": "normalised"}, id="table"),
            pytest.param(grid, NETWORK | {"proximal_weight": 2.0, "inner_iterations": 3}, id="networks"),
            pytest.param(line, NETWORK, id="continuous states"),
        ],
    )
    @pytest.mark.parametrize("saved_at", [0, 1, 2, 4])
    def test_going_on_equals_one_call(self, make, settings, saved_at, tmp_path):
        """To the last bit: before the first estimate, before the first step, before the first correction, and later."""
        settings = {"momentum": 0.4, **settings}
        whole = PGP(make(), seed=1, **settings).learn(iterations=7)
        PGP(make(), seed=1, **settings).learn(iterations=saved_at).save(tmp_path / "agent.pt")
        agent = PGP.load(tmp_path / "agent.pt", make()).learn(iterations=7 - saved_at)
        np.testing.assert_array_equal(parameters(agent), parameters(whole))
        for one, other in zip(agent._momentum.direction, whole._momentum.direction, strict=True):
            np.testing.assert_array_equal(one, other)

    def test_with_an_average(self, tmp_path):
        whole = PGP(grid(), seed=1, momentum=0.4, averaging=0.8).learn(iterations=5)
        PGP(grid(), seed=1, momentum=0.4, averaging=0.8).learn(iterations=2).save(tmp_path / "agent.pt")
        agent = PGP.load(tmp_path / "agent.pt", grid()).learn(iterations=3)
        np.testing.assert_array_equal(parameters(agent), parameters(whole))

    def test_another_environment_is_refused(self, tmp_path):
        path = tmp_path / "agent.pt"
        PGP(grid(), momentum=0.4).learn(iterations=2).save(path)
        with pytest.raises(InvalidSetting, match="pairing='previous'"):
            PGP.load(path, grid(pairing="same"))
        content = torch.load(path, weights_only=True)
        for part, error in (
            ({"direction": {0: torch.zeros(3)}}, DamagedCheckpoint),
            ({"policy": 1}, DamagedCheckpoint),
        ):
            torch.save(content | {"momentum": content["momentum"] | part}, path)
            with pytest.raises(error, match="does not fit"):
                PGP.load(path, grid())
        torch.save(
            content | {"momentum": content["momentum"] | {"wrappers": content["wrappers"] | {"terms": []}}}, path
        )
        with pytest.raises(CheckpointMismatch, match="terms"):
            PGP.load(path, grid())


class TestRefused:
    @pytest.mark.parametrize("pairing", ["same", "split"])
    def test_rewards_of_the_batch_itself(self, pairing):
        with pytest.raises(InvalidSetting, match="Build the environment with pairing='previous', or"):
            PGP(grid(pairing=pairing), momentum=0.5)

    def test_an_estimate_that_remembers(self):
        with pytest.raises(InvalidSetting, match="Build the environment with memory=0"):
            PGP(grid(memory=0.9), momentum=0.5)
        PGP(grid(memory=0.9), momentum=1.0)

    def test_both_needs_are_told_at_once(self):
        """The defaults of the grid need both changes, and what the message asks for is enough."""
        with pytest.raises(InvalidSetting, match=r"with pairing='previous' and memory=0\.0, or"):
            PGP(gym.make_vec("FrozenLake-PGP-v0", num_envs=4), momentum=0.5)
        env = gym.make_vec("FrozenLake-PGP-v0", num_envs=4, pairing="previous", memory=0.0)
        assert PGP(env, momentum=0.5).learn(iterations=2).iteration == 2

    def test_no_wrappers(self, reporter):
        with pytest.raises(InvalidSetting, match="wrap the environment"):
            PGP(reporter(Discrete(2), Discrete(2), reward=lambda s, a: 0.0), momentum=0.5)

    def test_fragments(self):
        """The agent is as it was, and the environment can be used on."""
        env = gym.make_vec("SafeFrozenLake-v0", num_envs=4)
        env = constrain(env, estimator=Counts(), steps_per_batch=40, pairing="previous")
        agent = PGP(env, momentum=0.5)
        for _ in range(2):
            with pytest.raises(InvalidSetting, match="momentum needs batches of whole episodes"):
                agent.learn(iterations=1)
        assert not parameters(agent).any()
        assert find_tracker(env).refit is None
        assert PGP(env).learn(iterations=2).iteration == 2


def test_a_hook_of_someone_else_comes_back():
    env = grid()
    tracker, seen = find_tracker(env), []
    agent = PGP(env, seed=1, momentum=0.4).learn(iterations=1)

    def hook(batch):
        seen.append(len(batch))
        tracker.estimator.fit(batch)

    tracker.refit = hook
    agent.learn(iterations=2)  # momentum says meanwhile how counts take a batch
    assert seen == []
    assert tracker.refit is hook


class TestNormalisedSteps:
    @pytest.mark.parametrize("settings", [TABLE, NETWORK], ids=["table", "networks"])
    def test_have_the_length_of_the_learning_rate(self, settings):
        agent = PGP(grid(), seed=1, optimizer="normalised", momentum=0.5, **settings)
        agent.learn(iterations=2)
        for _ in range(3):
            before = parameters(agent)
            agent.learn(iterations=1)
            step = np.linalg.norm((parameters(agent) - before).astype(np.float64))
            assert step == pytest.approx(settings["learning_rate"], rel=1e-4)

    def test_by_hand_over_two_parameters(self):
        one, two = (torch.nn.Parameter(torch.tensor([value])) for value in (1.0, 2.0))
        one.grad, two.grad = torch.tensor([3.0]), torch.tensor([-4.0])
        NormalisedGradient([one, two], lr=0.5).step()
        np.testing.assert_allclose([one.item(), two.item()], [1.0 - 0.3, 2.0 + 0.4])

    def test_a_gradient_of_0_takes_none(self):
        theta = torch.nn.Parameter(torch.ones(3))
        theta.grad = torch.zeros(3)
        NormalisedGradient([theta], lr=0.5).step()
        assert theta.tolist() == [1.0, 1.0, 1.0]


def test_a_gradient_that_is_not_finite_is_forgotten():
    agent = PGP(grid(), seed=1, momentum=0.4).learn(iterations=2)
    before = parameters(agent)
    ascend, learner = agent.learner.ascend, agent.learner

    def diverging(*arguments):
        ascend(*arguments)
        learner.theta.grad[0, 0] = np.nan

    learner.ascend = diverging
    with pytest.raises(NonFiniteValue, match="not finite"):
        agent.learn(iterations=1)
    np.testing.assert_array_equal(parameters(agent), before)
    assert all(torch.isfinite(part).all() for part in agent._momentum.direction)
    learner.ascend = ascend
    agent.learn(iterations=2)
    assert np.isfinite(parameters(agent)).all()
