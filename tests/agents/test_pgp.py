"""PGP against Algorithm 1 written out by hand, against exact gradients, and as its users meet it."""

import math
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Text, Tuple
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import constrained_maxent as cmx
from constrained_maxent.agents import PGP, IterationReport
from constrained_maxent.errors import InvalidSetting, MissingTracker, NonFiniteValue, UnplannedRun, UnsupportedSpace
from constrained_maxent.oracle import TabularMDP
from constrained_maxent.tracker import find_tracker
from constrained_maxent.wrappers import constrain

GAMMA, BETA, ETA = 0.99, 0.005, 0.01  # of the paper's grid
SIGMA = 1e-6  # of the entropy's smoothing, by default

PLAIN = {
    "epochs": 1,
    "minibatch_size": 0,
    "normalize_advantages": False,
    "normalize_observations": False,
    "gae_lambda": 1.0,
}
"""Algorithm 1's single step up the gradient, for networks with a critic."""


def lake(**settings):
    """The grid with the paper's settings."""
    return gym.make("FrozenLake-PGP-v0", preset="paper", **settings)


def lakes(num_envs, **settings):
    """Several of them."""
    return gym.make_vec("FrozenLake-PGP-v0", num_envs=num_envs, preset="paper", **settings)


def set_theta(agent, theta):
    agent.policy.theta.data.copy_(agent.policy.theta.data.new_tensor(theta))
    agent.policy.changed()


def theta_of(agent):
    return agent.policy.theta.detach().numpy().copy()


def softmax(theta):
    weights = np.exp(theta - theta.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def algorithm_1(theta, first, second, *, hole_states, beta, constant=1.0, limit=0.0):
    """One gradient step's direction. ``first`` and ``second``: (state, action) lists, one for each trajectory."""
    occupancy = np.zeros_like(theta)
    for trajectory in first:
        for t, (s, a) in enumerate(trajectory):
            occupancy[s, a] += constant * GAMMA**t / len(first)
    cost = np.full(len(theta), -0.001)
    cost[list(hole_states)] = 50.0
    violation = (occupancy * cost[:, None]).sum() - limit
    # -dP/dlambda, with P = -H + beta [R]_+^2 and H = -sum lambda log(lambda + sigma)
    reward = -np.log(occupancy + SIGMA) - occupancy / (occupancy + SIGMA)
    reward -= 2.0 * beta * max(violation, 0.0) * cost[:, None]
    policy, gradient = softmax(theta), np.zeros_like(theta)
    for trajectory in second:
        for t, (s, a) in enumerate(trajectory):
            factor = sum(constant * GAMMA**k * reward[trajectory[k]] for k in range(t, len(trajectory)))
            gradient[s] += factor * ((np.arange(theta.shape[1]) == a) - policy[s]) / len(second)
    return SimpleNamespace(gradient=gradient, violation=violation)


class Watched(gym.Wrapper):
    """(state, action) of every step, cut into episodes."""

    def reset(self, **kwargs):
        self.state, info = self.env.reset(**kwargs)
        self.episodes = getattr(self, "episodes", [])
        self.episodes.append([])
        return self.state, info

    def step(self, action):
        self.episodes[-1].append((self.state, action))
        self.state, *rest = self.env.step(action)
        return self.state, *rest


class WatchedVector(gym.vector.VectorWrapper):
    """The same for sub-environments: episodes in the order in which they start, ties by sub-environment."""

    def reset(self, **kwargs):
        self.states, infos = self.env.reset(**kwargs)
        self.episodes, self.current = [], [None] * self.num_envs
        self.ignored = np.zeros(self.num_envs, dtype=bool)
        return self.states, infos

    def step(self, actions):
        for i in np.flatnonzero(~self.ignored):
            if self.current[i] is None:
                self.current[i] = []
                self.episodes.append(self.current[i])
            self.current[i].append((int(self.states[i]), int(actions[i])))
        self.states, rewards, terminated, truncated, infos = self.env.step(actions)
        done = terminated | truncated
        for i in np.flatnonzero(done):
            self.current[i] = None
        if self.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP:
            self.ignored = done
        return self.states, rewards, terminated, truncated, infos


def full_mass(horizon):
    return sum(GAMMA**t for t in range(horizon))


class TestOneIterationByHand:
    HOLES = (14, 15, 20, 21)  # of the paper's 6x6 map
    THETA = np.random.default_rng(5).normal(scale=0.5, size=(36, 4))

    def one_step(self, env, **settings):
        agent = PGP(env, learning_rate=ETA, seed=3, **settings)
        set_theta(agent, self.THETA)
        reports = []
        agent.learn(iterations=1, callback=lambda agent, report: reports.append(report))
        return agent, reports[0]

    @pytest.mark.parametrize("scale", ["truncated", "normalized"])
    @pytest.mark.parametrize("pairing", ["same", "split"])
    def test_scalar(self, pairing, scale):
        env = Watched(lake(slippery=True, pairing=pairing, scale=scale))
        agent, report = self.one_step(env)
        episodes = env.episodes
        assert len(episodes) == 8
        first, second = (episodes[:4], episodes[4:]) if pairing == "split" else (episodes, episodes)
        constant = 1.0 if scale == "truncated" else 1.0 / full_mass(25)
        expected = algorithm_1(self.THETA, first, second, hole_states=self.HOLES, beta=BETA, constant=constant)
        assert expected.violation > 0.0, "the penalty should take part"
        np.testing.assert_allclose(theta_of(agent), self.THETA + ETA * expected.gradient, rtol=0, atol=1e-12)
        assert report.gradient_norm == pytest.approx(np.linalg.norm(expected.gradient), rel=1e-9)
        assert report.constraints["cost"] == pytest.approx(expected.violation, rel=1e-9)

    def test_previous(self):
        """The second batch answers to the estimate of the first; the first teaches nothing."""
        env = Watched(lake(slippery=True, pairing="previous"))
        agent, report = self.one_step(env)
        np.testing.assert_array_equal(theta_of(agent), self.THETA)
        assert report.gradient_norm == 0.0
        agent.learn(iterations=1)
        first, second = env.episodes[:8], env.episodes[8:]
        expected = algorithm_1(self.THETA, first, second, hole_states=self.HOLES, beta=BETA)
        np.testing.assert_allclose(theta_of(agent), self.THETA + ETA * expected.gradient, rtol=0, atol=1e-12)

    @pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
    @pytest.mark.parametrize("pairing", ["same", "split"])
    def test_vector(self, pairing, mode):
        """Small and slippery, so that episodes end at different times; 7 episodes in 3 sub-environments."""
        env = WatchedVector(
            gym.make_vec(
                "FrozenLake-PGP-v0",
                preset="paper",
                num_envs=3,
                desc=["SFH", "FFG"],
                horizon=6,
                slippery=True,
                episodes_per_batch=7,
                pairing=pairing,
                autoreset_mode=mode.value,
            )
        )
        agent = PGP(env, learning_rate=ETA, seed=0)
        theta = self.THETA[:6]
        set_theta(agent, theta)
        agent.learn(iterations=1)
        episodes = env.episodes[:7]
        assert len({len(episode) for episode in episodes}) > 1, "the seed should give different lengths"
        first, second = (episodes[:3], episodes[3:]) if pairing == "split" else (episodes, episodes)
        expected = algorithm_1(theta, first, second, hole_states=[2], beta=BETA)
        np.testing.assert_allclose(theta_of(agent), theta + ETA * expected.gradient, rtol=0, atol=1e-12)

    def test_projection(self):
        env = Watched(lake(slippery=True))
        agent, _ = self.one_step(env, projection_radius=0.4)
        expected = algorithm_1(self.THETA, env.episodes, env.episodes, hole_states=self.HOLES, beta=BETA)
        unprojected = self.THETA + ETA * expected.gradient
        assert np.abs(unprojected).max() > 0.4
        np.testing.assert_allclose(theta_of(agent), np.clip(unprojected, -0.4, 0.4), rtol=0, atol=1e-12)

    def test_gradient_clipping(self):
        env = Watched(lake(slippery=True))
        agent, report = self.one_step(env, max_gradient_norm=2.0)
        gradient = algorithm_1(self.THETA, env.episodes, env.episodes, hole_states=self.HOLES, beta=BETA).gradient
        norm = np.linalg.norm(gradient)
        assert norm > 2.0
        # torch divides by the norm plus 1e-6
        np.testing.assert_allclose(theta_of(agent), self.THETA + ETA * 2.0 * gradient / norm, rtol=0, atol=1e-7)
        assert report.gradient_norm == pytest.approx(norm, rel=1e-9)


class TestReturns:
    """Baselines and bootstrapping, on made-up rewards: r = 1 + state."""

    def gradient(self, reporter, end="truncated", **settings):
        env = reporter(Discrete(3), Discrete(2), reward=lambda s, a: 1.0 + s, horizon=3, episodes=2, end=end)
        agent = PGP(env, learning_rate=1.0, max_gradient_norm=1e9, optimizer="sgd", **settings)
        agent.learn(iterations=1)
        episodes = [env.last[:3], env.last[3:]]
        return agent, theta_of(agent), episodes

    def by_hand(self, episodes, advantage):
        """Sum over steps of 0.5^t A_t (1{a} - 1/2), over 2 episodes."""
        gradient = np.zeros((3, 2))
        for b, episode in enumerate(episodes):
            for t, (s, a, _) in enumerate(episode):
                gradient[s] += 0.5**t * advantage(b, t) * ((np.arange(2) == a) - 0.5) / 2
        return gradient

    @staticmethod
    def to_go(episode, t, discount=0.5):
        return sum(discount ** (k - t) * (1.0 + episode[k][0]) for k in range(t, 3))

    def test_batch_mean_baseline(self, reporter):
        _, theta, episodes = self.gradient(reporter, baseline="batch-mean")
        mean = [np.mean([self.to_go(episode, t) for episode in episodes]) for t in range(3)]
        expected = self.by_hand(episodes, lambda b, t: self.to_go(episodes[b], t) - mean[t])
        np.testing.assert_allclose(theta, expected, atol=1e-12)

    def test_the_agents_own_discount(self, reporter):
        """The weights keep the occupancy's discount, the returns take the agent's."""
        _, theta, episodes = self.gradient(reporter, return_discount=1.0)
        expected = self.by_hand(episodes, lambda b, t: self.to_go(episodes[b], t, 1.0))
        np.testing.assert_allclose(theta, expected, atol=1e-12)

    @pytest.mark.parametrize("end", ["terminated", "truncated"])
    def test_critic_bootstraps_after_truncation_only(self, reporter, end):
        """The untrained critic's own values are the baseline and, after a truncation, the value of what comes next."""
        agent, theta, episodes = self.gradient(reporter, end=end, baseline="critic", gae_lambda=1.0, hidden_sizes=(4,))
        fresh = PGP(agent.env, baseline="critic", hidden_sizes=(4,)).critic
        value = lambda s: fresh.values(np.array([s]))[0]  # noqa: E731
        assert any(value(s) != 0.0 for s in range(3))

        def advantage(b, t):
            tail = value(episodes[b][2][2]) if end == "truncated" else 0.0
            return self.to_go(episodes[b], t) + 0.5 ** (3 - t) * tail - value(episodes[b][t][0])

        np.testing.assert_allclose(theta, self.by_hand(episodes, advantage), atol=1e-7)

    @pytest.mark.parametrize("end", ["terminated", "truncated"])
    def test_generalized_advantages(self, reporter, end):
        """sum over k of (discount lambda)^(k-t) delta_k, with the untrained critic's values."""
        agent, theta, episodes = self.gradient(reporter, end=end, baseline="critic", gae_lambda=0.4, hidden_sizes=(4,))
        fresh = PGP(agent.env, baseline="critic", hidden_sizes=(4,)).critic
        value = fresh.values(np.arange(3))

        def difference(b, k):
            s, _, following = episodes[b][k]
            after = 0.0 if k == 2 and end == "terminated" else value[following]
            return 1.0 + s + 0.5 * after - value[s]

        def advantage(b, t):
            return sum((0.5 * 0.4) ** (k - t) * difference(b, k) for k in range(t, 3))

        np.testing.assert_allclose(theta, self.by_hand(episodes, advantage), atol=1e-7)

    def test_normalized_advantages(self, reporter):
        """Weighted as the steps are: mean 0 and variance 1."""
        _, theta, episodes = self.gradient(reporter, normalize_advantages=True)
        returns = np.array([[self.to_go(episode, t) for t in range(3)] for episode in episodes])
        weights = np.tile([1.0, 0.5, 0.25], (2, 1))
        centered = returns - np.average(returns, weights=weights)
        standard = centered / np.sqrt(np.average(centered**2, weights=weights))
        np.testing.assert_allclose(theta, self.by_hand(episodes, lambda b, t: standard[b, t]), atol=1e-12)

    def test_only_ready_trajectories_count(self, reporter):
        env = reporter(Discrete(3), Discrete(2), reward=lambda s, a: 1.0, episodes=3, ready=lambda i: i == 1)
        agent = PGP(env, learning_rate=1.0).learn(iterations=1)
        expected = self.by_hand([env.last[3:6]], lambda b, t: sum(0.5 ** (k - t) for k in range(t, 3)))
        np.testing.assert_allclose(theta_of(agent), 2.0 * expected, atol=1e-12)


class TestExactGradient:
    """The mean of PGP's gradient over many large batches is the gradient of the penalized problem.

    The plug-in estimate of λ makes it biased by O(1/B); at these batch sizes the bias is below the noise of the mean.
    """

    DESC, HORIZON, BETA, N = ["SHF", "FFG"], 4, 2e-3, 60
    THETA = np.random.default_rng(2).normal(scale=0.5, size=(6, 4))

    def penalized(self, mdp, theta):
        """P = -H + beta [<c, lambda>]_+^2, exactly."""
        occupancy = mdp.occupancy(softmax(theta), scale="truncated")
        cost = np.array([-0.001, 50.0, -0.001, -0.001, -0.001, -0.001])
        violation = (occupancy * cost[:, None]).sum()
        assert violation > 0.0
        return (occupancy * np.log(occupancy + SIGMA)).sum() + self.BETA * violation**2

    def exact(self):
        """-dP/dtheta by central differences."""
        mdp = TabularMDP.from_env(gym.make("SafeFrozenLake-v0", desc=self.DESC, horizon=self.HORIZON), discount=GAMMA)
        gradient, step = np.zeros_like(self.THETA), 1e-5
        for cell in np.ndindex(*self.THETA.shape):
            shift = np.zeros_like(self.THETA)
            shift[cell] = step
            change = self.penalized(mdp, self.THETA + shift) - self.penalized(mdp, self.THETA - shift)
            gradient[cell] = -change / (2 * step)
        return gradient

    @pytest.mark.parametrize("pairing", ["same", "split"])
    def test_mean_over_batches(self, pairing):
        size = 2_000
        env = gym.make_vec(
            "FrozenLake-PGP-v0",
            preset="paper",
            num_envs=size,
            desc=self.DESC,
            horizon=self.HORIZON,
            beta=self.BETA,
            episodes_per_batch=size,
            pairing=pairing,
        )
        agent = PGP(env, learning_rate=1.0, seed=11)
        gradients = []
        for _ in range(self.N):
            set_theta(agent, self.THETA)
            agent.learn(iterations=1)
            gradients.append(theta_of(agent) - self.THETA)
        mean, error = np.mean(gradients, axis=0), np.std(gradients, axis=0, ddof=1) / math.sqrt(self.N)
        exact = self.exact()
        # 24 components: |t| < 5.5 with 59 degrees of freedom holds for all of them with probability 1 - 2e-5.
        assert (np.abs(mean - exact) <= 5.5 * error + 1e-12).all()
        # and the test could tell: the direction is known to a few per cent
        assert np.linalg.norm(mean - exact) < 0.05 * np.linalg.norm(exact)


class TestLearn:
    def test_total_timesteps(self):
        env = lake(desc=["SF"], horizon=10, episodes_per_batch=2)
        agent = PGP(env).learn(total_timesteps=50)
        assert (agent.iteration, agent.timesteps) == (3, 60)  # the batch under way is finished
        agent.learn(total_timesteps=1)
        assert (agent.iteration, agent.timesteps) == (4, 80)  # further steps, not a total

    def test_iterations(self):
        agent = PGP(lake()).learn(iterations=3)
        assert agent.iteration == 3
        assert agent.learn(iterations=2) is agent
        assert agent.iteration == 5

    @pytest.mark.parametrize("amount", [{"iterations": 0}, {"total_timesteps": 0}])
    def test_nothing(self, amount):
        agent = PGP(lake()).learn(**amount)
        assert (agent.iteration, agent.timesteps) == (0, 0)
        np.testing.assert_array_equal(agent.policy_table(), 0.25)

    @pytest.mark.parametrize("value", [-1, math.nan, math.inf, "10", True])
    @pytest.mark.parametrize("name", ["iterations", "total_timesteps"])
    def test_refused_amounts(self, name, value):
        with pytest.raises(InvalidSetting, match=name):
            PGP(lake()).learn(**{name: value})

    def test_batches_are_whole(self):
        with pytest.raises(InvalidSetting, match="iterations"):
            PGP(lake()).learn(iterations=2.5)
        assert PGP(lake()).learn(iterations=2.0).iteration == 2

    @pytest.mark.parametrize("amounts", [{}, {"iterations": 1, "total_timesteps": 1}])
    def test_exactly_one_amount(self, amounts):
        with pytest.raises(InvalidSetting, match="total_timesteps"):
            PGP(lake()).learn(**amounts)

    def test_scientific_notation(self):
        assert PGP(lake(desc=["SF"], horizon=10)).learn(1e2).timesteps == 160

    @pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
    def test_the_run_is_over_when_the_steps_are_done(self, mode):
        """Episodes of one or two steps: resets are many, and each counts as a step on both sides."""
        fns = [lambda: gym.make("FrozenLake-v1", desc=["SFG"], max_episode_steps=2)] * 4
        env = constrain(SyncVectorEnv(fns, autoreset_mode=mode), episodes_per_batch=8)
        agent, tracker = PGP(env).learn(200), find_tracker(env)
        assert agent.timesteps == tracker.timesteps >= 200
        assert tracker.progress == 1.0

    @pytest.mark.parametrize("answer", [False, np.False_])
    def test_callback_stops(self, answer):
        agent = PGP(lake())
        agent.learn(iterations=10, callback=lambda agent, report: answer if report.iteration == 3 else None)
        assert agent.iteration == 3

    @pytest.mark.parametrize("answer", [None, True])
    def test_callback_goes_on(self, answer):
        assert PGP(lake()).learn(iterations=3, callback=lambda *_: answer).iteration == 3

    def test_reports(self):
        env = lake()
        reports = []
        agent = PGP(env, baseline="critic", hidden_sizes=(4,), critic_steps=1)
        agent.learn(iterations=2, callback=lambda agent, report: reports.append(report))
        assert [type(report) for report in reports] == [IterationReport] * 2
        assert [report.iteration for report in reports] == [1, 2]
        assert reports[-1].timesteps == agent.timesteps
        for report in reports:
            # slope of the penalty: 2 beta [R]_+
            violation = report.constraints["cost"]
            assert report.multipliers["cost"] == pytest.approx(2.0 * BETA * max(violation, 0.0))
            assert report.penalty == pytest.approx(BETA * max(violation, 0.0) ** 2)
            assert math.isfinite(report.objective)
            assert math.isfinite(report.critic_loss)
            assert report.gradient_norm > 0.0

    def test_works_on_after_an_error(self):
        agent = PGP(lake(), seed=1)

        def fail(agent, report):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            agent.learn(iterations=5, callback=fail)
        agent.learn(iterations=1)
        whole = PGP(lake(), seed=1).learn(iterations=2)
        np.testing.assert_array_equal(agent.policy_table(), whole.policy_table())

    @pytest.mark.parametrize("unwrapped", ["SafeFrozenLake-v0", "CartPole-v1"])
    def test_unwrapped(self, unwrapped):
        with pytest.raises(MissingTracker):
            PGP(gym.make(unwrapped), hidden_sizes=(4,))

    def test_disabled_autoreset(self):
        with pytest.raises(InvalidSetting, match="autoreset_mode"):
            PGP(lakes(num_envs=2, autoreset_mode="Disabled"))

    def test_unsupported_actions(self, reporter):
        with pytest.raises(UnsupportedSpace, match="Text"):
            PGP(reporter(Discrete(2), Text(3), reward=lambda s, a: 0.0))


class TestPlan:
    """η from 0.1 to 0.001 shows the progress of the run: 0.1 · 0.01^progress, where each batch of 6 steps begins."""

    def agent(self, reporter, **settings):
        env = reporter(Discrete(2), Discrete(2), reward=lambda s, a: float(s + a))
        rates = {"learning_rate": 0.1, "final_learning_rate": 0.001}
        return PGP(env, optimizer="sgd", **(rates | settings))

    def rates(self, agent, *amounts):
        """η of each iteration as the optimizer has it, and as the length of its plain steps shows it."""
        thetas, told, norms = [theta_of(agent)], [], []

        def note(agent, report):
            thetas.append(theta_of(agent))
            told.append(agent.optimizer.param_groups[0]["lr"])
            norms.append(report.gradient_norm)

        for amount in amounts:
            agent.learn(**amount, callback=note)
        steps = np.linalg.norm(np.diff(thetas, axis=0), axis=(1, 2))
        np.testing.assert_allclose(steps / norms, told, rtol=1e-9)
        return told

    @pytest.mark.parametrize(
        ("amounts", "progress"),
        [
            ([{"iterations": 4}], [0.0, 0.25, 0.5, 0.75]),
            ([{"iterations": 1, "planned": 4}] * 3, [0.0, 0.25, 0.5]),
            ([{"iterations": 1, "planned": 4}, {"iterations": 2}], [0.0, 0.25, 0.5]),
            ([{"iterations": 2}, {"iterations": 1, "planned": 4}], [0.0, 0.5, 0.5]),
            ([{"iterations": 0, "planned": 2}, {"iterations": 3}], [0.0, 0.5, 1.0]),
            ([{"iterations": 0}, {"iterations": 2}], [0.0, 0.5]),
            ([{"total_timesteps": 12, "planned": 24}], [0.0, 0.25]),
            ([{"iterations": 1, "planned": 2}, {"total_timesteps": 6}], [0.0, 0.5]),
        ],
        ids=str,
    )
    def test_progress_of_the_whole_run(self, reporter, amounts, progress):
        expected = 0.1 * 0.01 ** np.array(progress)
        assert self.rates(self.agent(reporter), *amounts) == pytest.approx(expected.tolist(), rel=1e-12)

    @pytest.mark.parametrize(
        ("amounts", "progress"),
        [
            ([{"iterations": 2}, {"iterations": 3}], [0.0, 0.5, 1.0, 1.0, 1.0]),
            ([{"total_timesteps": 12}, {"total_timesteps": 6}], [0.0, 0.5, 1.0]),
        ],
        ids=str,
    )
    def test_past_the_end_that_the_first_call_announced_it_stays_and_says_so(self, reporter, amounts, progress):
        expected = 0.1 * 0.01 ** np.array(progress)
        with pytest.warns(UnplannedRun, match=r"past its planned end: the step size stays at 0\.001"):
            rates = self.rates(self.agent(reporter), *amounts)
        assert rates == pytest.approx(expected.tolist())

    def test_what_the_environment_announced_holds(self, reporter):
        agent = self.agent(reporter)
        find_tracker(agent.env).announce(iterations=4)
        assert self.rates(agent, {"iterations": 2}) == pytest.approx([0.1, 0.1 * 0.01**0.25], rel=1e-12)
        # unless the whole length is given
        assert self.rates(agent, {"iterations": 1, "planned": 3}) == pytest.approx([0.1 * 0.01 ** (2 / 3)], rel=1e-12)

    @pytest.mark.parametrize("name", ["iterations", "total_timesteps"])
    def test_where_others_have_acted_before(self, reporter, name):
        """Four batches without a plan, then as many: the run is at its half."""
        agent = self.agent(reporter)
        tracker = find_tracker(agent.env)
        tracker.iteration, tracker.timesteps = 4, 24
        amount = 4 if name == "iterations" else 24
        expected = 0.1 * 0.01 ** np.array([0.5, 0.625, 0.75, 0.875])
        assert self.rates(agent, {name: amount}) == pytest.approx(expected.tolist(), rel=1e-12)

    def test_the_rate_stays_without_a_final_one(self, reporter):
        assert self.rates(self.agent(reporter, final_learning_rate=None), {"iterations": 5}) == [0.1] * 5

    def test_of_networks_the_usual_rate_shrinks_after_twenty_batches_to_a_tenth(self, reporter):
        rates, given = {}, {"final_learning_rate": None, "policy": "mlp", "hidden_sizes": (4,), "baseline": "none"}
        agent = self.agent(reporter, learning_rate=None, **given)

        def note(agent, report):
            rates[agent.iteration] = agent.optimizer.param_groups[0]["lr"]

        # In two parts: where the first call planned to end is no matter.
        agent.learn(iterations=21, callback=note)
        agent.learn(iterations=190, callback=note)
        expected = {1: 3e-4, 20: 3e-4, 40: 1.5e-4, 100: 6e-5, 200: 3e-5, 211: 3e-5}
        assert {t: rates[t] for t in expected} == pytest.approx(expected, rel=1e-12)
        # One that is given does not.
        constant = self.agent(reporter, **given).learn(iterations=40)
        assert constant.optimizer.param_groups[0]["lr"] == 0.1

    @pytest.mark.parametrize("planned", [0, -1, 1.5, "2", True])
    def test_refused(self, reporter, planned):
        with pytest.raises(InvalidSetting, match="planned"):
            self.agent(reporter).learn(iterations=1, planned=planned)


class TestNormalizedObservations:
    def make(self, reporter, **settings):
        env = reporter(Box(-1.0, 1.0, (2,)), Discrete(2), reward=lambda s, a: float(a), episodes=3, **settings)
        return env, PGP(env, hidden_sizes=(4,), critic_steps=1)

    def test_over_all_rows_so_far(self, reporter):
        env, agent = self.make(reporter)
        seen = []
        agent.learn(iterations=3, callback=lambda agent, report: seen.extend(s for s, _, _ in env.last))
        for features in (agent.policy.features, agent.critic.features):
            assert features.count == len(seen) == 3 * 9
            np.testing.assert_allclose(features.mean, np.mean(seen, axis=0, dtype=np.float64), rtol=1e-9)
            np.testing.assert_allclose(features.variance, np.var(seen, axis=0, dtype=np.float64), rtol=1e-9)

    def test_of_what_was_used(self, reporter):
        env, agent = self.make(reporter, ready=lambda i: i == 1)
        agent.learn(iterations=1)
        rows = [s for s, _, _ in env.last[3:6]]
        np.testing.assert_allclose(agent.policy.features.mean, np.mean(rows, axis=0, dtype=np.float64), rtol=1e-9)

    def test_acting_changes_nothing(self, reporter):
        _, agent = self.make(reporter)
        agent.learn(iterations=1)
        before = agent.policy.features.mean.clone()
        agent.predict(np.ones((5, 2)))
        assert agent.policy.features.count == 9
        assert (agent.policy.features.mean == before).all()

    def test_off(self, reporter):
        env = reporter(Box(-1.0, 1.0, (2,)), Discrete(2), reward=lambda s, a: float(a))
        agent = PGP(env, hidden_sizes=(4,), critic_steps=1, normalize_observations=False).learn(iterations=1)
        assert not [name for name in agent.policy.state_dict() if name.startswith("features")]


class TestDivergence:
    @pytest.mark.parametrize("policy", ["tabular", "mlp"])
    def test_of_the_parameters(self, policy):
        agent = PGP(lake(), policy=policy, hidden_sizes=(4,))
        for parameter in agent.learner.parameters():
            parameter.data.fill_(math.nan)
        agent.learner.changed()
        with pytest.raises(NonFiniteValue, match="policy"):
            agent.learn(iterations=1)

    def test_of_the_gradient(self, reporter):
        """An infinite step is not taken."""
        env = reporter(Discrete(2), Discrete(2), reward=lambda s, a: 1e308)
        agent = PGP(env, return_discount=1.0)
        with pytest.raises(NonFiniteValue, match="gradient"), np.errstate(over="ignore"):
            agent.learn(iterations=1)
        np.testing.assert_array_equal(agent.policy_table(), 0.5)


class TestSeeds:
    @pytest.mark.parametrize(
        ("num_envs", "settings"),
        [
            (None, {}),
            (4, {}),
            (None, {"policy": "mlp", "hidden_sizes": (8,), "baseline": "critic", "critic_steps": 2}),
        ],
    )
    def test_one_seed_one_policy(self, num_envs, settings):
        def train(seed):
            kind = {"slippery": True}
            env = lake(**kind) if num_envs is None else lakes(num_envs=num_envs, **kind)
            return PGP(env, seed=seed, **settings).learn(iterations=4).policy_table()

        first = train(0)
        np.random.default_rng().random()  # nothing global is asked
        np.testing.assert_array_equal(first, train(0))
        assert (first != train(1)).any()

    def test_networks_leave_torchs_generator_alone(self):
        torch.manual_seed(7)
        expected = torch.rand(1)
        torch.manual_seed(7)
        PGP(lake(), policy="mlp", hidden_sizes=(4,), baseline="critic").learn(iterations=1)
        assert torch.rand(1) == expected

    def test_acting_in_between_changes_nothing(self):
        def act(agent, report):
            agent.predict(0)

        def train(callback):
            return PGP(lake(), seed=0).learn(iterations=3, callback=callback).policy_table()

        np.testing.assert_array_equal(train(act), train(None))


class TestPredict:
    def test_discrete(self):
        agent = PGP(lake())
        action, state = agent.predict(3)
        assert type(action) is int
        assert state is None
        actions, _ = agent.predict(np.array([0, 3, 35]))
        assert actions.shape == (3,)
        assert actions.dtype.kind == "i"

    def test_vector(self):
        env = lakes(num_envs=3)
        agent = PGP(env)
        observations, _ = env.reset(seed=0)
        assert env.action_space.contains(agent.predict(observations)[0])
        assert type(agent.predict(observations[0])[0]) is int

    def test_deterministic(self):
        agent = PGP(lake())
        theta = np.zeros((36, 4))
        theta[np.arange(36), np.arange(36) % 4] = 0.1
        set_theta(agent, theta)
        actions, _ = agent.predict(np.arange(36), deterministic=True)
        assert actions.tolist() == [s % 4 for s in range(36)]
        assert agent.predict(7, deterministic=True)[0] == 3
        assert len({agent.predict(7)[0] for _ in range(100)}) == 4

    def test_continuous(self, reporter):
        box = Box(np.array([-2.0, 0.0]), np.array([0.0, 1.0]), dtype=np.float64)
        agent = PGP(reporter(Box(-1.0, 1.0, (3,)), box, reward=lambda s, a: 0.0), hidden_sizes=(4,))
        single = np.zeros(3)
        action, _ = agent.predict(single)
        assert box.contains(action)
        assert agent.predict(single[None])[0].shape == (1, 2)
        # A policy of this kind is near 0 before the squashing, so its mode is near the middle.
        np.testing.assert_allclose(agent.predict(single, deterministic=True)[0], [-1.0, 0.5], atol=0.1)

    def test_observations_of_another_dtype_or_beside_the_bounds(self, reporter):
        agent = PGP(reporter(Box(-1.0, 1.0, (3,)), Discrete(2), reward=lambda s, a: 0.0), hidden_sizes=(4,))
        for observation in ([0, 0, 0], np.array([0.0, 0.0, 3.0]), np.zeros(3, dtype=np.float16)):
            assert type(agent.predict(observation)[0]) is int

    def test_tuple(self, reporter):
        space = Tuple((Discrete(2), Discrete(3)))
        agent = PGP(reporter(space, Discrete(2), reward=lambda s, a: 0.0))
        assert agent.is_tabular
        assert type(agent.predict((1, 2))[0]) is int
        assert agent.predict((np.array([1, 0]), np.array([2, 0])))[0].shape == (2,)


class TestPolicyTable:
    def test_of_a_network(self):
        agent = PGP(lake(), policy="mlp", hidden_sizes=(8,)).learn(iterations=2)
        table = agent.policy_table()
        assert table.shape == (36, 4)
        np.testing.assert_allclose(table.sum(axis=1), 1.0, rtol=1e-6)
        assert agent.predict(np.arange(36), deterministic=True)[0].tolist() == table.argmax(axis=1).tolist()

    def test_of_continuous_spaces(self, reporter):
        for observations, actions in [(Box(-1.0, 1.0), Discrete(2)), (Discrete(2), Box(-1.0, 1.0))]:
            agent = PGP(reporter(observations, actions, reward=lambda s, a: 0.0), hidden_sizes=(4,))
            with pytest.raises(UnsupportedSpace):
                agent.policy_table()


class TestReportsAreAllItReads:
    """The reporter stands alone: what PGP learns on it, it learns from the tracker's reports."""

    def test_discrete(self, reporter):
        env = reporter(Discrete(3, start=1), Discrete(3, start=-1), reward=lambda s, a: float(a == s - 2), horizon=1)
        agent = PGP(env, learning_rate=0.5, seed=0).learn(iterations=200)
        assert agent.policy_table().diagonal().min() > 0.9

    @pytest.mark.parametrize(
        "settings", [PLAIN, {"minibatch_size": 32, "learning_rate": 0.01, "critic_steps": 10}], ids=["plain", "usual"]
    )
    def test_continuous(self, reporter, settings):
        """The best action is 0.3 + 0.5 s; reward -(a - best)^2."""
        env = reporter(
            Box(-1.0, 1.0, (1,), dtype=np.float64),
            Box(-1.0, 1.0, (1,), dtype=np.float64),
            reward=lambda s, a: -10.0 * (a[0] - 0.3 - 0.5 * s[0]) ** 2,
            horizon=1,
            episodes=256,
        )
        settings = {"learning_rate": 0.02, "critic_learning_rate": 0.01} | settings
        agent = PGP(env, hidden_sizes=(16,), baseline="critic", seed=0, **settings)
        agent.learn(iterations=80)
        observations = np.array([[-0.8], [0.0], [0.8]])
        actions, _ = agent.predict(observations, deterministic=True)
        np.testing.assert_allclose(actions, 0.3 + 0.5 * observations, atol=0.08)


@pytest.mark.filterwarnings("ignore::constrained_maxent.errors.PartialEpisodes")  # small on purpose
class TestFragments:
    """Batches of steps."""

    @pytest.mark.parametrize("baseline", ["none", "critic"])
    def test_vector(self, baseline):
        env = gym.make_vec(
            "FrozenLake-PGP-v0", preset="paper", num_envs=4, steps_per_batch=30, autoreset_mode="SameStep"
        )
        resets = []
        reset = env.reset
        env.reset = lambda **kwargs: (resets.append(kwargs), reset(**kwargs))[1]
        agent = PGP(env, baseline=baseline, hidden_sizes=(4,), critic_steps=1).learn(iterations=10)
        # 8 calls of 4 steps make a batch of 32
        assert agent.timesteps == 10 * 32
        assert len(resets) == 1
        assert (agent.policy_table() != 0.25).any()

    def test_scalar_episodes_go_on(self):
        """Episodes of 25 steps, batches of 10: resets come at the ends of episodes only."""
        env = Watched(lake(desc=["SFF"], steps_per_batch=10))
        agent = PGP(env).learn(total_timesteps=100)
        assert (agent.iteration, agent.timesteps) == (10, 100)
        assert [len(episode) for episode in env.episodes] == [25, 25, 25, 25]

    def test_learning_again_starts_afresh(self):
        env = Watched(lake(desc=["SFF"], steps_per_batch=10))
        agent = PGP(env).learn(iterations=1)
        agent.learn(iterations=1)
        assert [len(episode) for episode in env.episodes] == [10, 10]

    def test_entropy_rises(self, grid):
        """Exactly, from 29.2 of the uniform policy; about 33.5 measured."""
        env = gym.make_vec(
            "FrozenLake-PGP-v0", preset="paper", num_envs=8, steps_per_batch=400, autoreset_mode="SameStep"
        )
        agent = PGP(env, seed=0, learning_rate=0.05).learn(iterations=100)
        entropy, cost = grid.evaluate(agent.policy_table())
        assert entropy > grid.uniform[0] + 3.0
        assert cost < grid.uniform[1] / 4.0


class TestDeep:
    @pytest.mark.parametrize(
        ("settings", "iterations"),
        [(PLAIN, 210), ({"learning_rate": 6e-3, "minibatch_size": 100, "critic_steps": 20}, 100)],
        ids=["plain", "usual"],
    )
    def test_entropy_rises(self, grid, settings, iterations):
        """Networks, Adam and a critic; exactly, from 29.2 of the uniform policy; about 32.5 and 31.9 measured."""
        env = lakes(num_envs=8)
        agent = PGP(
            env,
            **{
                "policy": "mlp",
                "hidden_sizes": (64,),
                "optimizer": "adam",
                "learning_rate": 3e-3,
                "baseline": "critic",
                "critic_learning_rate": 1e-2,
            }
            | settings,
            seed=0,
        ).learn(iterations=iterations)
        entropy, cost = grid.evaluate(agent.policy_table())
        assert entropy > grid.uniform[0] + 2.0
        assert cost < grid.uniform[1] / 4.0

    def test_cartpole_in_cells(self):
        """Gymnasium's CartPole with its observation rounded to 6^4 cells, as inputs of networks."""
        bins = gym.wrappers.TransformObservation(
            gym.make("CartPole-v1"),
            lambda observation: np.clip((observation * 2.0 + 3.0).astype(np.int64), 0, 5),
            MultiDiscrete([6, 6, 6, 6]),
        )
        env = cmx.wrappers.constrain(bins, episodes_per_batch=4)
        agent = PGP(env, policy="mlp", hidden_sizes=(16,), baseline="critic", critic_steps=2)
        reports = []
        agent.learn(iterations=3, callback=lambda agent, report: reports.append(report))
        assert all(0.0 < report.gradient_norm < math.inf for report in reports)


@pytest.mark.filterwarnings("ignore::constrained_maxent.errors.PartialEpisodes")  # small on purpose
def test_fragments_go_on_after_an_evaluation_in_between():
    """Within ``frozen`` the steps under way are forgotten: the next batch begins anew instead of failing."""
    env = gym.make_vec("FrozenLake-PGP-v0", num_envs=4, preset="paper", steps_per_batch=60)

    def interrupt(agent, report):
        with find_tracker(env).frozen():
            env.reset(seed=0)
            env.step(np.zeros(4, int))

    agent = PGP(env, seed=0).learn(iterations=3, callback=interrupt)
    assert (agent.iteration, find_tracker(env).iteration) == (3, 3)
