"""Frank–Wolfe from rollouts against the exact one and the global optimum, its mixture in play, and checkpoints."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from constrained_maxent.agents import PGP, FrankWolfe, PGPSettings, frank_wolfe
from constrained_maxent.agents.line_search import highest_point
from constrained_maxent.agents.pool import Pool
from constrained_maxent.errors import (
    CheckpointMismatch,
    DamagedCheckpoint,
    InvalidData,
    InvalidSetting,
    NotFitted,
    UnsupportedSpace,
)
from constrained_maxent.evaluation import ExactProblem, evaluate_rollouts
from constrained_maxent.functionals import Entropy, LinearCost
from constrained_maxent.occupancy import Counts, GaussianMixture
from constrained_maxent.oracle import TabularMDP
from constrained_maxent.penalties import Lagrangian, Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.wrappers import constrain, find_tracker

HORIZON, BETA = 15, 20.0


@pytest.fixture(scope="module")
def mdp():
    """At the end of a horizon of 15 weights have faded to 0.7 to the 15th = 0.005."""
    return TabularMDP.random(4, 2, seed=3, discount=0.7, horizon=HORIZON, branching=2)


@pytest.fixture(scope="module")
def cost(mdp):
    table = np.random.default_rng(1).normal(size=(4, 2))
    uniform = mdp.occupancy(np.full((4, 2), 0.5))
    return LinearCost(table, limit=float((table * uniform).sum()) - 0.1)


class Sampled(gym.Env):
    """A finite MDP as an environment."""

    def __init__(self, mdp):
        self.observation_space, self.action_space = Discrete(mdp.n_states), Discrete(mdp.n_actions)
        self.mdp, self.rows = mdp, mdp.transition.toarray()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = int(self.np_random.choice(self.mdp.n_states, p=self.mdp.initial))
        return self.state, {}

    def step(self, action):
        row = self.rows[self.state * self.mdp.n_actions + action]
        self.state = int(self.np_random.choice(len(row), p=row / row.sum()))
        return self.state, 0.0, False, False, {}


def wrapped(mdp, constraints=None, *, episodes=8, **options):
    env = gym.wrappers.TimeLimit(Sampled(mdp), HORIZON)
    return constrain(env, constraints=constraints, episodes_per_batch=episodes, discount=0.7, **options)


def lake(**options):
    options = {"preset": "paper", "episodes_per_batch": 8} | options
    return gym.make_vec("FrozenLake-PGP-v0", num_envs=8, **options)


QUICK = {"planning_batches": 3, "evaluation_batches": 2}


class TestAgainstExact:
    def test_value_on_a_small_mdp(self, mdp, cost):
        """f of the mixture, by exact densities, within 0.05 nats of exact Frank–Wolfe's, whose policies depend on time;
        the uniform policy is 0.14 below."""
        constraints = {"cost": Constraint(cost, Quadratic(BETA))}
        best = frank_wolfe(mdp, constraints=constraints, iterations=300)
        agent = FrankWolfe(wrapped(mdp, constraints), planning_batches=15, evaluation_batches=12, seed=0).learn(8)

        def value(occupancy):
            violation = max(cost.value(occupancy) - cost.limit, 0.0)
            return Entropy().value(occupancy) - BETA * violation**2

        mixture = agent.mixture()
        exact = sum(w * mdp.occupancy(pi) for w, pi in zip(mixture.weights, mixture.policies, strict=True))
        uniform = value(mdp.occupancy(np.full((4, 2), 0.5)))
        assert value(best.occupancy) - 0.05 < value(exact) < value(best.occupancy) + 1e-3
        assert uniform < value(best.occupancy) - 0.14
        # What it believes is what it has.
        np.testing.assert_allclose(find_tracker(agent.env).estimator.occupancy_, exact, atol=0.03)

    def test_the_grid_gets_better_than_uniform_in_both(self):
        exact = ExactProblem.from_env(gym.make("FrozenLake-PGP-v0", preset="paper"))
        reports = []
        agent = FrankWolfe(lake(), planning_batches=25, seed=1)
        agent.learn(6, callback=lambda agent, report: reports.append(report))
        mixture = agent.mixture()
        tables = zip(mixture.weights, mixture.policies, strict=True)
        occupancy = sum(w * exact.mdp.occupancy(pi, scale=exact.scale) for w, pi in tables)
        uniform = exact.evaluate(np.full((36, 4), 0.25))
        cost = exact.constraints["cost"].value(occupancy)
        penalised = Entropy().value(occupancy) - 0.005 * max(cost, 0.0) ** 2
        assert penalised > uniform.objective - 0.005 * uniform.constraints["cost"] ** 2 + 5.0
        assert cost < uniform.constraints["cost"] / 2.0
        # f rises, as every step is the best on its line.
        values = [report.objective - 0.005 * max(report.constraints["cost"], 0.0) ** 2 for report in reports]
        assert (np.diff(values) > -1e-3).all()
        assert [report.iteration for report in reports] == [1, 2, 3, 4, 5, 6]
        # 25 batches of planning and 4 of evaluation, of 8 episodes of at most 25 steps, and 4 of the first policy.
        assert 0 < reports[0].timesteps <= (25 + 4 + 4) * 8 * 26

    def test_frozen_lake_wrapped_by_hand(self):
        """Gymnasium's own, slippery, with a cost that is a function: the entropy of the uniform policy is 0.606, as
        docs/results/pgp.md has it."""

        def falls(observation, action, next_observation):
            return float(next_observation in (5, 7, 11, 12))

        env = constrain(
            gym.make("FrozenLake-v1"),
            constraints={"hole": Constraint(LinearCost(falls, limit=0.0), Quadratic(1.0))},
            episodes_per_batch=8,
        )
        reports = []
        FrankWolfe(env, planning_batches=20, seed=0).learn(3, callback=lambda agent, report: reports.append(report))
        assert reports[-1].objective > 0.75
        assert reports[-1].objective >= reports[0].objective - 1e-6

    def test_open_loop_weights(self, mdp):
        """η = 1, 2/3, 1/2: the first drops the untrained policy; then 1/3 · 1/2, 2/3 · 1/2 and 1/2."""
        agent = FrankWolfe(wrapped(mdp), steps="open-loop", **QUICK).learn(3)
        np.testing.assert_allclose(agent.weights, [1 / 6, 1 / 3, 1 / 2])

    def test_rewards_are_held_while_a_policy_is_trained(self, mdp):
        """∇H at the mixture's λ̂, whatever the planner visits; afterwards batches are taken as ever."""
        env = wrapped(mdp)
        tracker = find_tracker(env)
        agent = FrankWolfe(env, **QUICK).learn(1)
        expected = Entropy().derivative(tracker.estimator.occupancy_).reshape(4, 2)
        seen, close = [], tracker.close

        def watched(batch, *, n_first):
            held = tracker.refit is not None
            report = close(batch, n_first=n_first)
            seen.append((held, np.concatenate(report["pseudo_rewards"]), expected[batch.observations, batch.actions]))
            return report

        tracker.close = watched
        agent.learn(1)
        assert len(seen) == 3 + 2
        for held, found, wanted in seen:
            assert held
            np.testing.assert_allclose(found, wanted, rtol=1e-12)
        assert tracker.refit is None

    @pytest.mark.parametrize("pairing", ["split", "previous"])
    def test_pairings_and_memories_have_no_say(self, mdp, pairing):
        env = wrapped(mdp, estimator=Counts(memory=0.9), pairing=pairing)
        agent = FrankWolfe(env, **QUICK).learn(2)
        pooled = Counts().bind(Discrete(4), Discrete(2)).fit(agent._pool.batch(agent.weights))
        np.testing.assert_array_equal(find_tracker(env).estimator.occupancy_, pooled.occupancy_)


class Walk(gym.Env):
    """On a line."""

    observation_space, action_space = Box(-9.0, 9.0, (1,), np.float64), Box(-1.0, 1.0, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.normal(size=1)
        return self.x, {}

    def step(self, action):
        self.x = np.clip(self.x + action, -9.0, 9.0)
        return self.x, 0.0, False, False, {}


def line(**options):
    env = gym.wrappers.TimeLimit(Walk(), 6)
    return constrain(env, Entropy("state"), estimator=GaussianMixture(n_components=1), episodes_per_batch=6, **options)


NETWORK = PGPSettings(hidden_sizes=(8,), critic_steps=2, learning_rate=0.01)


class TestContinuous:
    def test_the_density_is_of_the_pooled_states(self):
        """A single Gaussian: weighted mean of all states of the mixture; and more spread than an untrained policy."""
        env = line()
        agent = FrankWolfe(env, NETWORK, steps="open-loop", planning_batches=6, evaluation_batches=3).learn(3)
        pool = agent._pool.batch(agent.weights)
        measure = find_tracker(env).estimator.measure()
        assert not measure.points.is_over_actions
        expected = np.average(pool.observations, weights=pool.weights, axis=0)
        found = np.average(measure.points.states, weights=measure.weights, axis=0)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        action, state = agent.predict(np.zeros(1))
        assert agent.env.action_space.contains(action)
        with pytest.raises(UnsupportedSpace, match="predict"):
            agent.mixture()
        assert state.shape == (1,)

    def test_open_loop_by_default(self):
        assert FrankWolfe(line()).steps == "open-loop"
        assert FrankWolfe(lake()).steps == "line-search"


class TestPlaying:
    @pytest.fixture
    def agent(self, mdp):
        agent = FrankWolfe(wrapped(mdp), **QUICK).learn(2)
        agent.policies, agent.weights = agent.policies[:2], np.array([0.25, 0.75])
        with torch.no_grad():
            for action, policy in enumerate(agent.policies):
                policy.theta.zero_()
                policy.theta[:, action] = 50.0
                policy.changed()
        return agent

    def test_one_policy_for_each_episode(self, agent):
        """A scalar environment: the same action until the episode ends, and each with its weight, at 5 deviations."""
        firsts = []
        for _ in range(400):
            state, taken = None, set()
            for t in range(4):
                action, state = agent.predict(1, state, np.array([t == 0]))
                assert isinstance(action, int)
                taken.add(action)
            assert len(taken) == 1
            firsts += taken
        assert abs(np.mean(firsts) - 0.75) < 5.0 * np.sqrt(0.25 * 0.75 / 400)

    def test_a_vector_draws_where_an_episode_begins(self, agent):
        rows = np.array([0, 1, 2, 3] * 50)
        actions, state = agent.predict(rows)
        np.testing.assert_array_equal(actions, state)
        assert 0.5 < actions.mean() < 0.95
        again, kept = agent.predict(rows, state)
        np.testing.assert_array_equal(kept, state)
        np.testing.assert_array_equal(again, state)
        starts = np.arange(200) < 100
        _, drawn = agent.predict(rows, state, starts)
        np.testing.assert_array_equal(drawn[100:], state[100:])
        assert (drawn[:100] != state[:100]).any()

    def test_deterministic_actions_of_a_drawn_policy(self, agent):
        actions, state = agent.predict(np.zeros(50, dtype=int), deterministic=True)
        np.testing.assert_array_equal(actions, state)
        assert set(actions.tolist()) == {0, 1}

    def test_is_marked(self, agent):
        assert not agent.is_single_policy
        assert not agent.mixture().is_single_policy
        np.testing.assert_array_equal(agent.mixture().weights, [0.25, 0.75])


class TestCheckpoints:
    @pytest.mark.parametrize(
        ("make", "planner"), [(lake, None), (line, NETWORK)], ids=["the grid", "continuous states"]
    )
    def test_going_on_equals_one_call(self, make, planner, tmp_path):
        whole = FrankWolfe(make(), planner, seed=2, **QUICK).learn(3)
        FrankWolfe(make(), planner, seed=2, **QUICK).learn(2).save(tmp_path / "agent.pt")
        agent = FrankWolfe.load(tmp_path / "agent.pt", make()).learn(1)
        np.testing.assert_array_equal(agent.weights, whole.weights)
        assert (agent.iteration, agent.timesteps) == (3, whole.timesteps)
        for one, other in zip(agent.policies, whole.policies, strict=True):
            for name, value in other.state_dict().items():
                np.testing.assert_array_equal(one.state_dict()[name], value)
        rows = np.zeros((5, 1)) if planner else np.arange(5)
        np.testing.assert_array_equal(agent.predict(rows)[0], whole.predict(rows)[0])

    def test_refused(self, tmp_path):
        path = tmp_path / "agent.pt"
        FrankWolfe(lake(), **QUICK).learn(1).save(path)
        with pytest.raises(CheckpointMismatch, match="holds an agent FrankWolfe, not PGP"):
            PGP.load(path, lake())
        with pytest.raises(CheckpointMismatch, match="observation space"):
            FrankWolfe.load(path, lake(map_name="4x4"))
        for other in ({"discount": 0.5}, {"scale": "normalised"}):
            with pytest.raises(CheckpointMismatch, match=next(iter(other))):
                FrankWolfe.load(path, lake(**other))
        for other in ({"beta": 0.1}, {"limit": 2.0}, {"hole_cost": 2.0}, {"smoothing": 0.1}):
            with pytest.raises(CheckpointMismatch, match=r"of a problem whose (cost|objective) is .*train anew"):
                FrankWolfe.load(path, lake(**other))
        assert FrankWolfe.load(path, gym.make("FrozenLake-PGP-v0", preset="paper", episodes_per_batch=8)).iteration == 1
        content = torch.load(path, weights_only=True)
        torch.save(content | {"weights": content["weights"][:0]}, path)
        with pytest.raises(DamagedCheckpoint, match="as many weights"):
            FrankWolfe.load(path, lake())
        older = {key: value for key, value in content.items() if key != "terms"}
        torch.save(older, path)
        assert FrankWolfe.load(path, lake(beta=0.1)).iteration == 1, "a file that does not tell is taken as it is"
        path.write_bytes(path.read_bytes()[:1000])
        with pytest.raises(DamagedCheckpoint, match="truncated"):
            FrankWolfe.load(path, lake())

    def test_a_table_of_costs_and_numbers_of_any_type(self, mdp, cost, tmp_path):
        def env(*, shift=0.0, limit=1, beta=1):
            table = (np.asarray(cost.table) + shift).tolist()
            return wrapped(mdp, {"cost": Constraint(LinearCost(table, limit=limit), Quadratic(beta))})

        path = tmp_path / "agent.pt"
        FrankWolfe(env(), **QUICK).learn(1).save(path)
        assert FrankWolfe.load(path, env(limit=np.float64(1.0), beta=1.0)).iteration == 1
        for other in ({"shift": 0.1}, {"limit": 2}, {"beta": 2}):
            with pytest.raises(CheckpointMismatch, match="of a problem whose cost is"):
                FrankWolfe.load(path, env(**other))

    def test_a_mixture_is_evaluated_not_its_agent(self, tmp_path):
        agent = FrankWolfe(lake(), **QUICK).learn(1)
        exact = ExactProblem.from_env(lake())
        assert exact.evaluate(agent.mixture()).objective > 0.0
        with pytest.raises(InvalidData, match=r"give agent\.mixture\(\)"):
            exact.evaluate(agent)


def test_a_search_that_ends_at_an_end():
    assert highest_point(lambda x: -x) == 0.0
    assert highest_point(lambda x: x) == 1.0


class TestRefused:
    def test_what_the_environment_suggests(self):
        env = lake()
        find_tracker(env).agent_defaults = {"momentum": 0.5}
        with pytest.raises(InvalidSetting, match="and momentum="):
            FrankWolfe(env, PGPSettings(policy="mlp", hidden_sizes=(4,)))

    def test_rollouts_are_of_one_policy(self):
        env = lake()
        with pytest.raises(InvalidSetting, match="is a mixture"):
            evaluate_rollouts(env, FrankWolfe(env, **QUICK).learn(1), n_episodes=4, seed=0)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"planning_batches": 0},
            {"evaluation_batches": 1.5},
            {"steps": "newton"},
            {"seed": -1},
            {"planner": PGPSettings(optimizer="natural")},
            {"planner": PGPSettings(momentum=0.5)},
        ],
        ids=str,
    )
    def test_settings(self, wrong):
        with pytest.raises(InvalidSetting):
            FrankWolfe(lake(), **wrong)

    def test_environments(self, mdp, cost, reporter):
        with pytest.raises(InvalidSetting, match="Quadratic"):
            FrankWolfe(wrapped(mdp, {"cost": Constraint(cost, Lagrangian(0.1))}))
        with pytest.raises(InvalidSetting, match=r"gym\.make\('FrozenLake-PGP-v0', beta=0\.005\)"):
            FrankWolfe(gym.make("FrozenLake-PGP-v0"))
        advised = gym.make("FrozenLake-PGP-v0", beta=0.005)
        assert FrankWolfe(advised, planning_batches=1, evaluation_batches=1).learn(1).iteration == 1
        with pytest.raises(InvalidSetting, match="PGPSettings"):
            FrankWolfe(lake(), {"learning_rate": 0.1})
        with pytest.raises(InvalidSetting, match="wrap the environment"):
            FrankWolfe(reporter(Discrete(2), Discrete(2), reward=lambda s, a: 0.0))
        with pytest.raises(InvalidSetting, match="policy_log_prob"):
            FrankWolfe(line(policy_log_prob=lambda rows, actions: np.zeros(len(rows))))
        fragments = constrain(gym.wrappers.TimeLimit(Sampled(mdp), HORIZON), steps_per_batch=20)
        with pytest.raises(InvalidSetting, match="FrankWolfe needs batches of whole episodes"):
            FrankWolfe(fragments, **QUICK).learn(1)

    def test_before_the_first_iteration(self, mdp):
        agent = FrankWolfe(wrapped(mdp), **QUICK).learn(0)
        for act in (agent.mixture, lambda: agent.predict(0)):
            with pytest.raises(NotFitted, match="learn"):
                act()

    def test_an_interruption_leaves_the_mixture_whole(self, mdp):
        env = wrapped(mdp)
        agent = FrankWolfe(env, **QUICK).learn(2)
        before, planner = agent.mixture(), agent._make_planner

        def interrupted(k):
            made = planner(k)
            made.learn = lambda **options: (_ for _ in ()).throw(KeyboardInterrupt)
            return made

        agent._make_planner = interrupted
        with pytest.raises(KeyboardInterrupt):
            agent.learn(1)
        np.testing.assert_array_equal(agent.mixture().weights, before.weights)
        assert find_tracker(env).refit is None
        del agent._make_planner
        assert agent.learn(1).iteration == 3


def test_a_pool_is_the_weighted_mean(mdp):
    """Of λ̂ and costs; batches with different numbers of episodes count by their weights alone."""
    env = wrapped(mdp)
    FrankWolfe(env, **QUICK).learn(1)
    batch = find_tracker(env).last_batch
    parts = [
        replace(part, costs={"cost": rng.normal(size=part.n_steps)})
        for part, rng in ((batch.take(0, 2), np.random.default_rng(0)), (batch.take(2, 8), np.random.default_rng(1)))
    ]
    fits = [Counts().bind(Discrete(4), Discrete(2)).fit(part) for part in parts]
    pooled = Counts().bind(Discrete(4), Discrete(2)).fit(Pool(tuple(parts)).batch(np.array([0.3, 0.7])))
    np.testing.assert_allclose(pooled.occupancy_, 0.3 * fits[0].occupancy_ + 0.7 * fits[1].occupancy_, rtol=1e-12)
    expected = 0.3 * fits[0].expected_costs_["cost"] + 0.7 * fits[1].expected_costs_["cost"]
    assert pooled.expected_costs_["cost"] == pytest.approx(expected)
