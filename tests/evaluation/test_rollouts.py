"""Fresh rollouts: they agree with the exact values, and neither feel nor leave traces of training."""

import json

import gymnasium as gym
import numpy as np
import pytest
import torch

from constrained_maxent.agents import PGP
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.evaluation import (
    Coverage,
    Estimate,
    Grid,
    RolloutEvaluation,
    StateMeasures,
    UniformActions,
    evaluate_rollouts,
    exact_problem,
)
from constrained_maxent.functionals import Entropy, L2Distance, LinearCost
from constrained_maxent.occupancy import Counts, GaussianMixture, NearestNeighbors
from constrained_maxent.penalties import Lagrangian, Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.types import Batch
from constrained_maxent.wrappers import constrain, find_tracker

GRID = {"desc": ["SFH", "FHG"], "slippery": True, "horizon": 6}


@pytest.fixture
def agent_on(random_policy):
    """An agent with a policy that is neither uniform nor trained."""

    def make(env):
        agent = PGP(env, seed=0)
        agent.policy.theta.data = torch.as_tensor(np.log(random_policy[:6]))
        agent.policy.changed()
        return agent

    return make


@pytest.mark.parametrize("kind", ["scalar", "sync", "vector"])
@pytest.mark.parametrize("scale", ["truncated", "normalized"])
def test_agrees_with_the_exact_value(lake, agent_on, kind, scale):
    env = lake(kind, stack={"discount": 0.9, "scale": scale}, **GRID)
    agent = agent_on(env)
    exact = exact_problem(env)[0].evaluate(agent.policy_table())
    rollouts = evaluate_rollouts(env, agent, n_episodes=1600, seed=5)
    assert rollouts.n_episodes == 1600
    # The interval is at 95 %; twice as wide is 4 standard errors, which one right result in 16,000 misses.
    estimate = rollouts.constraints["cost"]
    assert abs(estimate.mean - exact.constraints["cost"]) < estimate.high - estimate.low
    # Plug-in entropies miss by about (cells - 1) / (2 · samples), here below 0.01 of a value near 4.
    assert rollouts.objective.mean == pytest.approx(exact.objective, rel=0.05)
    assert 1.0 <= rollouts.length.low < rollouts.length.mean < rollouts.length.high <= 6.0


@pytest.mark.parametrize("kind", ["scalar", "vector"])
def test_whole_episodes_where_batches_are_of_steps(lake, agent_on, kind):
    env = lake(kind, stack={"discount": 0.9, "episodes_per_batch": None, "steps_per_batch": 7}, **GRID)
    agent = agent_on(env)
    exact = exact_problem(env)[0].evaluate(agent.policy_table())
    rollouts = evaluate_rollouts(env, agent, n_episodes=400, seed=5)
    assert rollouts.n_episodes == 400
    estimate = rollouts.constraints["cost"]
    assert abs(estimate.mean - exact.constraints["cost"]) < estimate.high - estimate.low
    env.reset()
    infos = [env.step(env.action_space.sample())[-1] for _ in range(2 if kind == "vector" else 1)]
    assert ("batch" in infos[-1]) == (kind == "vector")  # 4 copies have 8 steps, one 1: batches are of steps again


def test_first_episodes_of_copies_that_start_staggered_do_not_count():
    """Episodes of 4 steps of 0.01 s, of which the first ones of 4 copies have 4, 3, 2 and 1."""
    env = gym.make_vec(
        "SafeCartpole-PGP-v0",
        num_envs=4,
        time_limit=0.04,
        steps_per_batch=12,
        estimator=GaussianMixture(n_components=1),
    )
    rollouts = evaluate_rollouts(env, PGP(env, seed=0, hidden_sizes=(4,)), n_episodes=6, seed=0)
    assert rollouts.n_episodes == 6
    assert (rollouts.length.low, rollouts.length.high) == (4.0, 4.0)


def test_length_and_intervals_by_hand(lake):
    # One step from the start to the goal or, in three cases of four, back to the start; there are two steps.
    env = lake(desc=["SG"], horizon=2, base_cost=1.0, limit=0.0, stack={"discount": 0.5})
    rollouts = evaluate_rollouts(env, PGP(env, seed=0), n_episodes=4000, seed=1)
    assert rollouts.length.mean == pytest.approx(1.75, abs=4 * (0.25 * 0.75 / 4000) ** 0.5)
    cost = rollouts.constraints["cost"]
    assert cost.mean == pytest.approx(1.0 + 0.5 * (rollouts.length.mean - 1.0))
    assert cost.high - cost.low == pytest.approx(2 * 1.96 * 0.5 * (0.25 * 0.75 / 4000) ** 0.5, rel=0.1)


def test_every_linear_cost_has_an_interval_others_have_none(lake, agent_on):
    charged = np.repeat([[-0.001], [-0.001], [50.0], [-0.001], [50.0], [-0.001]], 4, axis=1)
    costs = {
        "key": LinearCost("cost", limit=2.0),
        "table": LinearCost(charged, limit=2.0),
        "function": LinearCost(lambda s, a, s_next: float(charged[s, a]), limit=2.0),
        "near": L2Distance(np.zeros((6, 4)), limit=0.5),
    }
    constraints = {name: Constraint(functional, Quadratic(1.0)) for name, functional in costs.items()}
    env = lake("vector", stack={"discount": 0.9, "constraints": constraints}, **GRID)
    agent = agent_on(env)
    estimates = evaluate_rollouts(env, agent, n_episodes=100, seed=5).constraints
    for name in ("table", "function"):
        assert estimates[name].mean == pytest.approx(estimates["key"].mean)
        assert estimates[name].high == pytest.approx(estimates["key"].high)
    assert estimates["key"].low < estimates["key"].high
    assert estimates["near"].low == estimates["near"].mean == estimates["near"].high


def test_memory_is_not_mixed_in(lake, agent_on):
    evaluations = []
    for memory in (0.0, 0.9):
        env = lake("vector", stack={"discount": 0.9, "estimator": Counts(memory=memory)}, **GRID)
        PGP(env, seed=1, learning_rate=1.0).learn(iterations=3)
        evaluations.append(evaluate_rollouts(env, agent_on(env), n_episodes=64, seed=5))
    assert evaluations[0] == evaluations[1]


@pytest.mark.parametrize("n_iterations", [0, 3])
def test_training_goes_on_as_if_nothing_had_happened(lake, n_iterations):
    """Evaluated in between or not: the same estimate, the same multiplier, the same policy."""
    policies, states = [], []
    for evaluated in (False, True):
        budget = Constraint(LinearCost("cost", limit=0.0), Lagrangian(learning_rate=0.1))
        stack = {"discount": 0.9, "estimator": Counts(memory=0.9), "constraints": {"cost": budget}}
        env = lake("vector", stack=stack, **GRID)
        agent = PGP(env, seed=1).learn(iterations=n_iterations)
        if evaluated:
            evaluate_rollouts(env, agent, n_episodes=64, seed=5)
        agent.learn(iterations=2)
        policies.append(agent.policy_table())
        states.append(find_tracker(env).state_dict())
    np.testing.assert_array_equal(*policies)
    np.testing.assert_equal(*states)


def test_one_seed_one_result(lake, agent_on):
    env = lake("vector", stack={"discount": 0.9}, **GRID)
    agent = agent_on(env)
    first, again, other = (evaluate_rollouts(env, agent, n_episodes=16, seed=seed) for seed in (5, 5, 6))
    assert first == again != other


def test_at_least_so_many_episodes_in_whole_batches(lake):
    env = lake("vector", stack={"discount": 0.9}, **GRID)
    assert evaluate_rollouts(env, PGP(env), n_episodes=9, seed=0).n_episodes == 16


def test_bad_input(lake, constrained):
    env = lake(**GRID)
    with pytest.raises(InvalidSetting, match="episodes=0"):
        evaluate_rollouts(env, PGP(env), n_episodes=0, seed=0)
    with pytest.raises(InvalidSetting, match="seed=-1"):
        evaluate_rollouts(env, PGP(env), n_episodes=1, seed=-1)
    env = constrained(gym.make("SafeFrozenLake-v0", horizon=None), episodes_per_batch=None, steps_per_batch=30)
    with pytest.raises(InvalidSetting, match="need not end"):
        evaluate_rollouts(env, PGP(env), n_episodes=1, seed=0)


class TestContinuous:
    """Densities over states that observations alone do not tell."""

    @staticmethod
    def swing(estimator):
        def speed(observation, action, next_observation):
            return abs(float(observation[2]))

        return constrain(
            gym.make("Pendulum-v1", max_episode_steps=40),
            constraints={"speed": Constraint(LinearCost(speed, limit=0.5), Quadratic(1.0))},
            estimator=estimator,
            episodes_per_batch=2,
            discount=1.0,
            state=lambda observation: (np.arctan2(observation[1], observation[0]), observation[2]),
        )

    def test_neither_memory_nor_buffer_is_mixed_in(self):
        evaluations = []
        for samples in ({}, {"memory": 0.5}, {"buffer_size": 50}, {"buffer_size": 1000}):
            env = self.swing(GaussianMixture(n_components=2, periodic=(0,), **samples))
            agent = PGP(env, seed=1, hidden_sizes=(8,), learning_rate=1e-12).learn(iterations=3)
            evaluations.append(evaluate_rollouts(env, agent, n_episodes=4, seed=5))
        assert all(evaluation == evaluations[0] for evaluation in evaluations)
        assert evaluations[0].n_episodes == 4
        assert np.isfinite(evaluations[0].objective.mean)

    def test_costs_are_means_over_steps(self):
        env = self.swing(GaussianMixture(n_components=2))
        evaluation = evaluate_rollouts(env, PGP(env, hidden_sizes=(8,)), n_episodes=2, seed=5)
        assert evaluation.constraints["speed"].mean == pytest.approx(evaluation.costs["speed()"].mean.mean - 0.5)


class Metronome(gym.Env):
    """Two steps an episode, in the states 0 and 1; every third episode is charged 0.5 in its second."""

    observation_space = gym.spaces.Box(-10.0, 10.0, (1,))
    action_space = gym.spaces.Box(-1.0, 1.0, (1,))
    metadata = {}
    n_started = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.n_started += 1
        self.time = 0
        return np.zeros(1, dtype=np.float32), {}

    def step(self, action):
        cost = 0.5 if self.n_started % 3 == 0 and self.time == 1 else 0.0
        self.time += 1
        observation = np.full(1, self.time, dtype=np.float32)
        return observation, 0.0, False, self.time == 2, {"cost": cost}


class TestByHand:
    """Steps of an environment so small that everything can be counted."""

    MEASURES = StateMeasures(
        grid=Grid((-0.5,), (3.5,), (4,)), events={"late": lambda states: states[:, 0] > 0.5}, units=("beat",)
    )

    @pytest.fixture
    def beats(self):
        budget = Constraint(LinearCost("cost", limit=0.1), Quadratic(1.0))
        return constrain(
            Metronome(),
            constraints={"budget": budget},
            estimator=GaussianMixture(n_components=1, buffer_size=100),
            episodes_per_batch=6,
            discount=1.0,
            horizon=2,
        )

    def test_every_figure(self, beats):
        found = evaluate_rollouts(beats, PGP(beats, hidden_sizes=(4,)), n_episodes=6, seed=0, measures=self.MEASURES)
        cost = found.costs["cost"]
        assert found.n_episodes == 6
        # Two of six episodes are charged 0.5 once in their two steps.
        assert cost.violated.mean == pytest.approx(2 / 6)
        assert cost.mean.mean == pytest.approx(2 * 0.5 / 12)
        assert cost.maximum == 0.5
        assert found.constraints["budget"].mean == pytest.approx(1 / 12 - 0.1)
        # The states in which actions are taken are 0 and 1, each half of the time.
        assert found.states.coverage == Coverage(share=2 / 4, effective=pytest.approx(2 / 4), outside=0.0, n_states=12)
        assert found.states.events["late"] == Estimate(0.5, 0.5, 0.5)
        assert found.states.units == ("beat",)
        assert found.length == Estimate(2.0, 2.0, 2.0)

    def test_names_of_the_figures(self, beats):
        found = evaluate_rollouts(beats, PGP(beats, hidden_sizes=(4,)), n_episodes=6, seed=0, measures=self.MEASURES)
        figures = found.figures()
        assert list(figures) == [
            "entropy (nats)",
            "mass of λ",
            "episode length (steps)",
            "budget - limit",
            "cost, mean per step",
            "cost, maximum",
            "cost, share of episodes above 0",
            "state entropy (nats)",
            "grid cells visited, share",
            "grid cells visited in a row, share",
            "effective grid cells, share",
            "outside the grid, share of steps",
            "late, share of steps",
        ]
        assert figures["cost, maximum"] == Estimate(0.5, 0.5, 0.5)
        plain = json.loads(json.dumps(found.to_json()))
        assert plain["costs"]["cost"]["violated"]["mean"] == pytest.approx(1 / 3)
        assert plain["states"]["coverage"] == {
            "share": 0.5,
            "effective": pytest.approx(0.5),
            "outside": 0.0,
            "n_states": 12,
        }
        assert RolloutEvaluation.from_json(plain) == found

    @pytest.mark.parametrize("n_iterations", [0, 2])
    def test_training_goes_on_as_if_nothing_had_happened(self, beats, n_iterations):
        agent = PGP(beats, seed=1, hidden_sizes=(4,)).learn(iterations=n_iterations)
        tracker = find_tracker(beats)
        before = tracker.state_dict(), {name: p.clone() for name, p in agent.policy.named_parameters()}
        draws = agent._rng.bit_generator.state
        evaluate_rollouts(beats, agent, n_episodes=6, seed=0, measures=self.MEASURES)
        np.testing.assert_equal(tracker.state_dict(), before[0])
        assert (tracker.live is None) == (n_iterations == 0)
        assert agent._rng.bit_generator.state == draws
        assert all(torch.equal(p, before[1][name]) for name, p in agent.policy.named_parameters())

    def test_measures_are_those_of_continuous_states(self, lake):
        env = lake(**GRID)
        assert evaluate_rollouts(env, PGP(env), n_episodes=1, seed=0).states is None
        with pytest.raises(InvalidSetting, match="continuous states"):
            evaluate_rollouts(env, PGP(env), n_episodes=1, seed=0, measures=self.MEASURES)


class Pusher:
    """An agent of anybody's own: it pushes with all its might to one side or the other, for one copy or for many."""

    def predict(self, observation, *, deterministic=False):
        return np.ones((*np.shape(observation)[:-1], 1), np.float32), None


class TestAnyAgent:
    """Whatever can predict can be evaluated; without log π a density is one of states."""

    @pytest.mark.parametrize("kind", ["scalar", "vector"])
    def test_a_policy_that_is_known(self, kind):
        """Full push: by hand every action is 1, and the cost, which is the action, is 1 on every step."""

        def effort(observation, action, next_observation):
            return float(np.asarray(action).item())

        bare = gym.make("Pendulum-v1") if kind == "scalar" else gym.make_vec("Pendulum-v1", num_envs=2)
        env = constrain(
            bare,
            constraints={"effort": Constraint(LinearCost(effort, limit=0.25), Quadratic(1.0))},
            estimator=GaussianMixture(n_components=2),
            episodes_per_batch=2,
            discount=1.0,
            state=lambda observation: observation[2:],
        )
        evaluation = evaluate_rollouts(env, Pusher(), n_episodes=2, seed=0)
        assert evaluation.constraints["effort"].mean == pytest.approx(0.75)
        assert (evaluation.n_episodes, evaluation.length.mean) == (2, 200.0)
        assert find_tracker(env).last_batch is None

    def test_log_prob_makes_a_density_of_states_and_actions(self):
        """log π is 3 everywhere: the entropy is that of the states less 3."""

        class Certain(Pusher):
            def log_prob(self, observations, actions):
                return np.full(len(observations), 3.0)

        values = []
        for agent in (Pusher(), Certain()):
            env = constrain(
                gym.make("Pendulum-v1"),
                estimator=GaussianMixture(n_components=1),
                episodes_per_batch=2,
                discount=1.0,
                state=lambda observation: observation[2:],
            )
            values.append(evaluate_rollouts(env, agent, n_episodes=2, seed=0).objective.mean)
        assert values[1] == pytest.approx(values[0] - 3.0)

    def test_what_cannot_act(self, lake):
        with pytest.raises(InvalidSetting, match="predict"):
            evaluate_rollouts(lake(desc=["SG"], horizon=2), object(), n_episodes=1, seed=0)


class Compass(gym.Env):
    """Where it looks is counted; what it sees beside that nobody asks for."""

    observation_space = gym.spaces.Dict(direction=gym.spaces.Discrete(4), view=gym.spaces.Box(0, 255, (4,), np.uint8))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.direction = 0
        return self.seen(), {}

    def step(self, action):
        self.direction = (self.direction + 2 * int(action) - 1) % 4
        return self.seen(), 0.0, False, False, {}

    def seen(self):
        return {"direction": self.direction, "view": np.full(4, self.direction, np.uint8)}


@pytest.mark.parametrize("is_vector", [False, True])
def test_an_agent_that_knows_its_probabilities_where_a_part_of_the_observation_is_counted(is_vector):
    def one():
        return gym.wrappers.TimeLimit(Compass(), 4)

    bare = gym.vector.SyncVectorEnv([one] * 2) if is_vector else one()
    env = constrain(bare, Entropy(over="state"), state=("direction",), episodes_per_batch=2, discount=1.0)
    found = evaluate_rollouts(env, UniformActions(env, seed=0), n_episodes=400, seed=0)
    # By hand: of the four times two are at an even and two at an odd direction; at time 2 it is 0 or 2, each half of
    # the time, at 1 and 3 it is 1 or 3, each half.
    shares = np.array([(1.0 + 0.5) / 4, 0.25, 0.5 / 4, 0.25])
    assert found.objective.mean == pytest.approx(-(shares * np.log(shares)).sum(), abs=0.05)


def test_what_training_measures_is_not_counted_afterwards():
    """Places of episodes, 12 of them: of 8 episodes most have one of their own, of 40 they look like a flag."""
    rng = np.random.default_rng(0)

    def walked(n_episodes):
        places = np.repeat(rng.integers(12, size=n_episodes), 8)
        rows = np.stack((places, rng.normal(size=8 * n_episodes)), axis=1)
        return Batch(observations=rows, actions=np.zeros(len(rows), dtype=int), lengths=np.full(n_episodes, 8))

    class Places(gym.Env):
        observation_space, action_space = gym.spaces.Box(-1e3, 1e3, (2,)), gym.spaces.Discrete(2)

    env = constrain(Places(), Entropy(over="state"), estimator=NearestNeighbors(), episodes_per_batch=8, horizon=8)
    tracker = find_tracker(env)
    tracker.estimator.fit(walked(8))
    assert tracker.estimator.counts_few == ()
    assert tracker.fresh_estimator().fit(walked(40)).counts_few == ()
    assert tracker.estimator.fresh().bind(*tracker.spaces).fit(walked(40)).counts_few == (0,)
