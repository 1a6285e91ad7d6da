"""Steps of a policy against hand calculation, the surrogate in NumPy, linear algebra and automatic differentiation."""

import copy
import math
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch.distributions import Categorical

from constrained_maxent.agents import PGP
from constrained_maxent.agents.policies import TabularSoftmax, make_policy
from constrained_maxent.agents.settings import PGPSettings, complete
from constrained_maxent.agents.updates import NaturalGradient, estimated_visits, update_policy
from constrained_maxent.errors import NonFiniteValue
from constrained_maxent.occupancy import Counts, Weighting
from constrained_maxent.tracker import Tracker, find_tracker
from constrained_maxent.types import Measure, Points


class Recorder(torch.optim.SGD):
    """Plain steps; remembers the gradient of each, flat."""

    def __init__(self, policy, lr):
        super().__init__(policy.parameters(), lr=lr)
        self.gradients = []

    def step(self, closure=None):
        parameters = self.param_groups[0]["params"]
        # What is stepped down: the gradient to climb is its negative.
        self.gradients.append(-torch.cat([p.grad.flatten() for p in parameters]).double().numpy())
        return super().step(closure)


def hyperparameters(**settings):
    return complete(PGPSettings(**({"clip_range": 0.2} | settings)), {}, is_table=True)


def table(theta):
    policy = TabularSoftmax(Discrete(len(theta)), Discrete(len(theta[0])))
    with torch.no_grad():
        policy.theta.copy_(torch.tensor(np.array(theta)))
    return policy


def update(policy, rows, raw, factors, *, lr=1.0, seed=0, **settings):
    recorder = Recorder(policy, lr)
    norm = update_policy(
        policy,
        recorder,
        settings=hyperparameters(**settings),
        rows=np.array(rows),
        raw=np.array(raw),
        factor_t=np.array(factors, dtype=np.float64),
        rng=np.random.default_rng(seed),
    )
    return norm, recorder.gradients


def softmax(theta):
    weights = np.exp(theta - theta.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


N_STATES, N_ACTIONS, N = 3, 4, 7
RNG = np.random.default_rng(4)
THETA = RNG.normal(size=(N_STATES, N_ACTIONS))
ROWS, RAW = RNG.integers(N_STATES, size=N), RNG.integers(N_ACTIONS, size=N)
FACTORS = RNG.normal(size=N)


def plain_by_differences(theta, step=1e-6):
    """Gradient of the sum of f_t log pi(a_t|s_t)."""

    def objective(values):
        return float(FACTORS @ np.log(softmax(values)[ROWS, RAW]))

    gradient = np.zeros_like(theta)
    for cell in np.ndindex(*theta.shape):
        shift = np.zeros_like(theta)
        shift[cell] = step
        gradient[cell] = (objective(theta + shift) - objective(theta - shift)) / (2 * step)
    return gradient


class TestOneStep:
    @pytest.mark.parametrize("size", [0, N, N + 1, 1000])
    def test_is_the_gradient(self, size):
        policy = table(THETA)
        norm, gradients = update(policy, ROWS, RAW, FACTORS, lr=0.5, epochs=1, minibatch_size=size)
        expected = plain_by_differences(THETA)
        assert len(gradients) == 1
        np.testing.assert_allclose(gradients[0], expected.ravel(), atol=1e-8)
        np.testing.assert_allclose(policy.theta.detach(), THETA + 0.5 * expected, atol=1e-8)
        assert norm == pytest.approx(np.linalg.norm(expected), rel=1e-7)

    def test_asks_for_no_randomness(self):
        rng = np.random.default_rng(0)
        policy = table(THETA)
        update_policy(
            policy,
            Recorder(policy, 1.0),
            settings=hyperparameters(epochs=1, minibatch_size=0),
            rows=ROWS,
            raw=RAW,
            factor_t=FACTORS,
            rng=rng,
        )
        assert rng.random() == np.random.default_rng(0).random()


class TestByHand:
    """One state, two actions, first of probability 1/2; gradients of log pi: (1 - pi_0)(1, -1) and pi_0 (-1, 1)."""

    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_stops_where_the_ratio_went_too_far(self, sign):
        # theta = ±(1/2, -1/2), so pi_0 = 1/(1 + e^-±1) = 0.731 or 0.269, ratio 1.46 or 0.54: outside [0.8, 1.2]
        policy = table([[0.0, 0.0]])
        _, gradients = update(policy, [0], [0], [sign], epochs=3, minibatch_size=0)
        np.testing.assert_allclose(gradients, [[sign / 2, -sign / 2], [0.0, 0.0], [0.0, 0.0]], atol=1e-15)
        np.testing.assert_allclose(policy.theta.detach(), [[sign / 2, -sign / 2]], atol=1e-15)

    @pytest.mark.parametrize("clip_range", [0.5, 10.0, math.inf])
    def test_goes_on_inside_the_range(self, clip_range):
        policy = table([[0.0, 0.0]])
        _, gradients = update(policy, [0], [0], [1.0], epochs=2, minibatch_size=0, clip_range=clip_range)
        pi = 1.0 / (1.0 + math.exp(-1.0))
        slope = 2.0 * pi * (1.0 - pi)  # of the ratio: ratio times that of log pi
        np.testing.assert_allclose(gradients, [[0.5, -0.5], [slope, -slope]], rtol=1e-13)

    def test_comes_back_from_the_wrong_side(self):
        """A ratio that fell while its advantage is positive is not held."""
        policy = table([[0.0, 0.0]])
        _, gradients = update(policy, [0, 0], [0, 1], [1.0, 3.0], epochs=2, minibatch_size=0)
        # first (1/2, -1/2) + 3 (-1/2, 1/2); then action 1 has ratio 1.76 and stops, action 0 has 0.24 and does not
        pi = 1.0 / (1.0 + math.exp(2.0))
        slope = 2.0 * pi * (1.0 - pi)
        np.testing.assert_allclose(gradients, [[-1.0, 1.0], [slope, -slope]], rtol=1e-13)


class TestSurrogate:
    @pytest.mark.parametrize("clip_range", [0.2, math.inf])
    def test_first_gradient_is_the_plain_one(self, clip_range):
        norm, gradients = update(table(THETA), ROWS, RAW, FACTORS, epochs=2, minibatch_size=0, clip_range=clip_range)
        expected = plain_by_differences(THETA)
        np.testing.assert_allclose(gradients[0], expected.ravel(), atol=1e-8)
        assert norm == pytest.approx(np.linalg.norm(expected), rel=1e-7)

    def by_numpy(self, *, lr, epochs, size, clip_range, seed):
        """Epochs of unequal minibatches, gradient by gradient."""
        theta, rng, old = THETA.copy(), np.random.default_rng(seed), softmax(THETA)
        n_stopped = 0
        for _ in range(epochs):
            for chosen in np.array_split(rng.permutation(N), math.ceil(N / size)):
                policy = softmax(theta)
                gradient = np.zeros_like(theta)
                for t in chosen:
                    s, a, f = ROWS[t], RAW[t], FACTORS[t]
                    ratio = policy[s, a] / old[s, a]
                    if (f > 0.0 and ratio > 1.0 + clip_range) or (f < 0.0 and ratio < 1.0 - clip_range):
                        n_stopped += 1
                        continue
                    gradient[s] += N / len(chosen) * f * ratio * ((np.arange(N_ACTIONS) == a) - policy[s])
                theta += lr * gradient
        return theta, n_stopped

    @pytest.mark.parametrize("size", [1, 3, 4, 7])
    @pytest.mark.parametrize("clip_range", [0.1, math.inf])
    def test_epochs_of_minibatches(self, size, clip_range):
        policy = table(THETA)
        update(policy, ROWS, RAW, FACTORS, lr=0.1, seed=8, epochs=4, minibatch_size=size, clip_range=clip_range)
        theta, n_stopped = self.by_numpy(lr=0.1, epochs=4, size=size, clip_range=clip_range, seed=8)
        assert (n_stopped > 0) == math.isfinite(clip_range)
        np.testing.assert_allclose(policy.theta.detach(), theta, rtol=0, atol=1e-13)

    @pytest.mark.parametrize("size", [2, 3, 5])
    def test_minibatches_estimate_the_whole_batch(self, size):
        """Each in the scale of the whole; weighted by their steps they are it."""
        _, gradients = update(table(THETA), ROWS, RAW, FACTORS, lr=0.0, epochs=1, minibatch_size=size)
        lengths = [len(part) for part in np.array_split(np.arange(N), math.ceil(N / size))]
        assert len(gradients) == len(lengths)
        mean = np.average(gradients, axis=0, weights=lengths)
        np.testing.assert_allclose(mean, plain_by_differences(THETA).ravel(), atol=1e-8)

    @pytest.mark.parametrize(
        ("actions", "lr"), [(Discrete(3), 0.3), (Box(-1.0, 1.0, (2,)), 0.02)], ids=["categorical", "gaussian"]
    )
    def test_networks_by_automatic_differentiation(self, actions, lr):
        torch.manual_seed(0)
        rng = np.random.default_rng(0)
        policy = make_policy(Box(-1.0, 1.0, (3,)), actions, kind="mlp", hidden_sizes=(8,), normalize=True)
        rows, factors = rng.uniform(-1.0, 1.0, (40, 3)), rng.normal(size=40)
        policy.observe(rows)
        raw = policy.sample(rows, rng)
        twin = copy.deepcopy(policy)
        settings = {"epochs": 2, "minibatch_size": 0, "clip_range": 0.1, "max_gradient_norm": math.inf}
        _, gradients = update(policy, rows, raw, factors, lr=lr, **settings)

        inputs = torch.as_tensor((rows - rows.mean(axis=0)) / rows.std(axis=0), dtype=torch.float32)

        def log_prob():
            if isinstance(actions, Discrete):
                return Categorical(logits=twin.logits(inputs)).log_prob(torch.as_tensor(raw))
            u = torch.as_tensor(raw, dtype=torch.float32)  # the squashing cancels in ratios
            return torch.distributions.Normal(twin.mean(inputs), twin.log_std(inputs).exp()).log_prob(u).sum(dim=1)

        old, f = log_prob().detach(), torch.as_tensor(factors, dtype=torch.float32)
        parameters = list(twin.parameters())
        first = torch.autograd.grad((f * log_prob()).sum(), parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, first, strict=True):
                parameter += lr * gradient
        ratio = (log_prob() - old).exp()
        stopped = ((f > 0) & (ratio > 1.1)) | ((f < 0) & (ratio < 0.9))
        assert 0 < int(stopped.sum()) < 40
        second = torch.autograd.grad((f * ratio)[~stopped].sum(), parameters)
        for gradient, expected in zip(gradients, (first, second), strict=True):
            expected = torch.cat([part.flatten() for part in expected]).numpy()
            np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())

    def test_shuffles_by_the_generator_given(self):
        def theta(seed):
            policy = table(THETA)
            update(policy, ROWS, RAW, FACTORS, lr=0.1, seed=seed, epochs=2, minibatch_size=3)
            return policy.theta.detach().numpy()

        torch.manual_seed(1)
        first = theta(0)
        torch.manual_seed(2)
        np.testing.assert_array_equal(first, theta(0))
        assert (first != theta(1)).any()


class TestEachStep:
    def test_has_a_largest_norm(self):
        norm, gradients = update(table(THETA), ROWS, RAW, FACTORS, epochs=2, minibatch_size=3, max_gradient_norm=1e-3)
        assert len(gradients) == 6
        # torch divides by the norm plus 1e-6
        np.testing.assert_allclose([np.linalg.norm(gradient) for gradient in gradients], 1e-3, rtol=1e-3)
        assert norm > 0.1, "before clipping"

    def test_is_projected(self):
        """The ratio of the first step is what comes from the projected table."""
        policy = table([[0.0, 0.0]])
        _, gradients = update(policy, [0], [0], [1.0], epochs=2, minibatch_size=0, projection_radius=0.05)
        pi = 1.0 / (1.0 + math.exp(-0.1))  # ratio 1.05: goes on
        np.testing.assert_allclose(gradients[1], [2.0 * pi * (1.0 - pi), -2.0 * pi * (1.0 - pi)], rtol=1e-13)
        np.testing.assert_array_equal(policy.theta.detach(), [[0.05, -0.05]])

    def test_is_known_to_the_samples(self):
        policy = table([[0.0, 0.0]])
        rows, rng = np.zeros(200, dtype=int), np.random.default_rng(0)
        policy.sample(rows, rng)
        update(policy, [0], [0], [1.0], lr=1e3, epochs=2, minibatch_size=0)
        assert set(policy.sample(rows, rng).tolist()) == {0}

    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
    @pytest.mark.parametrize("epochs", [1, 2])
    def test_is_not_taken_up_a_gradient_that_is_not_finite(self, bad, epochs):
        policy = table(THETA)
        with pytest.raises(NonFiniteValue, match="gradient"):
            update(policy, ROWS, RAW, [bad, *FACTORS[1:]], epochs=epochs, minibatch_size=0)
        np.testing.assert_array_equal(policy.theta.detach(), THETA)


def grid(**settings):
    """The grid with the paper's settings, a vector of four."""
    return gym.make_vec("FrozenLake-PGP-v0", num_envs=4, preset="paper", episodes_per_batch=4, **settings)


def parameters(policy):
    return torch.cat([parameter.detach().flatten() for parameter in policy.parameters()]).double().numpy()


kinds = pytest.mark.parametrize(
    "settings",
    [
        {"learning_rate": 0.3},
        {"policy": "mlp", "hidden_sizes": (8,), "critic_steps": 2, "learning_rate": 0.01},
    ],
    ids=["table", "networks"],
)
"""Both kinds of policy."""


class TestNaturalGradient:
    def stepped(self, theta, gradient, visits, *, lr, damping, horizon=1):
        """At γ = 1 and scale truncated, a full-length episode has the mass of its horizon."""
        policy = table(theta)
        spaces = Discrete(len(theta)), Discrete(len(theta[0]))
        tracker = Tracker(Counts().bind(*spaces), Weighting(1.0, horizon, "truncated"), pairing="same")
        optimizer = NaturalGradient(policy, tracker, lr=lr, damping=damping)
        optimizer.visits = np.array(visits, dtype=np.float64)
        policy.theta.grad = -torch.as_tensor(np.array(gradient, dtype=np.float64))
        optimizer.step()
        return policy.theta.detach().numpy()

    def test_is_the_inverse_fisher_matrix_times_the_gradient(self):
        """(d (diag π - π πᵀ) + δ M I)⁻¹ g, solved in every state."""
        rng = np.random.default_rng(3)
        theta, visits = rng.normal(size=(4, 3)), rng.random(4)
        gradient = rng.normal(size=(4, 3))
        gradient -= gradient.mean(axis=1, keepdims=True)  # scores sum to 0 over the actions
        expected = theta.copy()
        for s, pi in enumerate(softmax(theta)):
            fisher = visits[s] * (np.diag(pi) - np.outer(pi, pi)) + 0.05 * 22.0 * np.eye(3)
            expected[s] += 0.3 * np.linalg.solve(fisher, gradient[s])
        found = self.stepped(theta, gradient, visits, lr=0.3, damping=0.05, horizon=22)
        np.testing.assert_allclose(found, expected, rtol=1e-12)

    def test_by_hand_on_a_bandit(self):
        """One state, two actions, rewards r: ĝ = π₀π₁(r₀ - r₁)(1, -1) = (r₀ - r₁)/4 (1, -1) under the uniform policy.

        The Fisher matrix has the eigenvalue 2π₀π₁ = 1/2 along (1, -1), so that the step is η (r₀ - r₁)/4 / (1/2 + δ)
        each way: with r = (3, 1), δ = 1/2 and η = 1 it is 1/2.
        """
        found = self.stepped([[0.0, 0.0]], [[0.5, -0.5]], [1.0], lr=1.0, damping=0.5)
        np.testing.assert_allclose(found, [[0.5, -0.5]], rtol=1e-12)

    def test_an_agent_without_an_estimate_steps_by_hand(self, reporter):
        """One state, two actions, reward 2 for action 1, d from the batch's own steps.

        Four episodes of one step, of which n take action 1: ĝ₁ = Σ r (1{a=1} - 1/2) / 4 = 2n / 8 = n/4, d = 1, δ = 1/2.
        """
        env = reporter(Discrete(1), Discrete(2), reward=lambda s, a: 2.0 * a, episodes=4, horizon=1)
        agent = PGP(env, optimizer="natural", damping=0.5, learning_rate=0.1, seed=0).learn(iterations=1)
        n = sum(action for _, action, _ in env.last)
        assert n > 0
        step = 0.1 * (n / 4) / (0.5 + 0.5)
        np.testing.assert_allclose(agent.policy.theta.detach().numpy(), [[-step, step]], rtol=1e-12)

    def test_visits_are_the_marginal_of_the_estimate(self):
        env = grid(memory=0.9)
        agent = PGP(env, optimizer="natural", seed=0).learn(iterations=3)
        np.testing.assert_array_equal(agent.optimizer.visits, find_tracker(env).estimator.occupancy_.sum(axis=1))

    def test_of_pairing_previous_that_before_the_batch(self):
        env = grid(memory=0.9, pairing="previous")
        agent = PGP(env, optimizer="natural", seed=0).learn(iterations=2)
        marginal = find_tracker(env).estimator.occupancy_.sum(axis=1)
        agent.learn(iterations=1)
        np.testing.assert_array_equal(agent.optimizer.visits, marginal)

    def test_visits_of_a_sparse_estimate(self):
        """As the dense one's, in which the same numbers stand between zeros."""
        env = grid(memory=0.5)
        agent = PGP(env, optimizer="natural", seed=0).learn(iterations=2)
        dense = estimated_visits(find_tracker(env), agent.policy)
        measure = find_tracker(env).estimator.measure()
        cells = np.flatnonzero(measure.weights)
        weights = measure.weights.reshape(-1)[cells]
        points = Points(density=weights, state_density=measure.points.state_density.reshape(-1)[cells], cells=cells)
        estimator = SimpleNamespace(
            is_fitted=True, table_shape=lambda: (36, 4), measure=lambda: Measure(points=points, weights=weights)
        )
        found = estimated_visits(SimpleNamespace(estimator=estimator, is_over_observations=True), agent.policy)
        np.testing.assert_allclose(found, dense, rtol=1e-15)

    def test_each_of_several_minibatches_is_a_step_of_its_own(self):
        moved = [
            np.abs(PGP(grid(), optimizer="natural", seed=0, epochs=n).learn(iterations=1).policy_table() - 0.25).sum()
            for n in (1, 4)
        ]
        assert moved[1] > 2.0 * moved[0]


class TestProximalTerm:
    def train(self, iterations=5, **settings):
        return parameters(PGP(grid(), seed=1, **settings).learn(iterations=iterations).policy)

    @kinds
    def test_weight_0_is_plain(self, settings):
        plain = self.train(**settings)
        np.testing.assert_array_equal(self.train(proximal_weight=0.0, **settings), plain)
        assert (self.train(proximal_weight=0.5, inner_iterations=3, **settings) != plain).any()

    @kinds
    def test_a_center_that_always_moves_is_plain(self, settings):
        """With one step from each center the pull is always 0."""
        one = {"epochs": 1, "minibatch_size": 0, **settings}
        np.testing.assert_array_equal(self.train(proximal_weight=9.0, inner_iterations=1, **one), self.train(**one))

    def test_two_steps_by_hand(self, reporter):
        """One state, two actions, reward 2 for action 1, four episodes of one step, η = 0.1, ρ̂ = 5, center (0, 0).

        A step is θ ← θ + η (ĝ - ρ̂ θ), and ĝ₁ = Σ 2·1{a=1} (1 - π₁) / 4 - Σ 0 = n (1 - π₁) / 2 for n times action 1.
        """
        env = reporter(Discrete(1), Discrete(2), reward=lambda s, a: 2.0 * a, episodes=4, horizon=1)
        agent = PGP(env, learning_rate=0.1, proximal_weight=5.0, inner_iterations=2, seed=0)
        theta = 0.0  # of action 1; that of action 0 is its negative
        for _ in range(2):
            agent.learn(iterations=1)
            n = sum(action for _, action, _ in env.last)
            theta += 0.1 * (n * (1.0 - 1.0 / (1.0 + math.exp(-2.0 * theta))) / 2.0 - 5.0 * theta)
        assert theta > 0.01
        np.testing.assert_allclose(agent.policy.theta.detach(), [[-theta, theta]], rtol=1e-12)


class TestPolicyAverage:
    @kinds
    def test_by_hand(self, settings):
        """With d = 0.7 the plain mean of up to three iterates; from the fourth on 0.7 of what was."""
        iterates, shown = [], []

        def record(agent, report):
            iterates.append(parameters(agent.learner))
            shown.append(parameters(agent.policy))

        PGP(grid(), seed=1, averaging=0.7, **settings).learn(iterations=5, callback=record)
        expected = [iterates[0], np.mean(iterates[:2], axis=0), np.mean(iterates[:3], axis=0)]
        expected.append(0.7 * expected[2] + 0.3 * iterates[3])
        expected.append(0.7 * expected[3] + 0.3 * iterates[4])
        np.testing.assert_allclose(shown, expected, rtol=0.0, atol=1e-7)
        assert (shown[-1] != iterates[-1]).any()

    @kinds
    def test_learning_does_not_see_it(self, settings):
        one = PGP(grid(), seed=1, averaging=0.9, **settings).learn(iterations=3)
        other = PGP(grid(), seed=1, averaging=0.0, **settings).learn(iterations=3)
        np.testing.assert_array_equal(parameters(one.learner), parameters(other.policy))
        assert other.policy is other.learner

    @kinds
    def test_it_is_what_the_agent_shows(self, settings):
        agent = PGP(grid(), seed=1, averaging=0.9, **settings).learn(iterations=3)
        rows = np.arange(36)
        with torch.no_grad():
            log_probs = [agent.policy.log_prob(rows, np.full(36, action)).double().numpy() for action in range(4)]
        np.testing.assert_allclose(agent.policy_table(), np.exp(log_probs).T, atol=1e-6)
        assert (agent.policy_table() != agent.learner.table()).any()
        draws = [int(agent.predict(0)[0]) for _ in range(2000)]
        # Four standard errors of a frequency from 2000 draws are at most 0.045.
        np.testing.assert_allclose(np.bincount(draws, minlength=4) / 2000, agent.policy_table()[0], atol=0.045)

    def test_observations_are_normalized_as_the_learner_does(self, reporter):
        env = reporter(
            Box(-1.0, 1.0, (3,)), Box(-1.0, 1.0, (2,)), reward=lambda s, a: float(a @ s[:2]), episodes=3, horizon=5
        )
        agent = PGP(env, averaging=0.5, hidden_sizes=(8,), critic_steps=1, seed=0).learn(iterations=2)
        assert agent.learner.features.count == 30
        for name, buffer in agent.learner.named_buffers():
            np.testing.assert_array_equal(dict(agent.policy.named_buffers())[name], buffer)
