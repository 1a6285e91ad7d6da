"""Whether a limit is kept: statuses worked out by hand, and what is said of them."""

import math

import gymnasium as gym
import numpy as np
import pytest

import constrained_maxent as cmx
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.evaluation import Estimate, describe_training, evaluate_rollouts, judge
from constrained_maxent.functionals import LinearCost
from constrained_maxent.penalties import AdaptiveLagrangian, Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.records import Violations
from constrained_maxent.tracker import find_tracker

COST = Constraint(LinearCost("cost", limit=0.5))
pytestmark = pytest.mark.fault


@pytest.mark.parametrize(
    ("violation", "n_episodes", "status"),
    [
        (Estimate(-0.2, -0.3, -0.1), 20, "kept"),
        (Estimate(-0.2, -0.3, 0.0), 20, "kept"),
        (Estimate(-0.2, -0.5, 0.1), 20, "undecided"),
        (Estimate(0.2, -0.1, 0.5), 20, "undecided"),
        (Estimate(0.2, 0.1, 0.3), 20, "broken"),
        (Estimate(0.2, 0.1, 0.3), 5, "undecided"),
        (Estimate.exactly(0.0), 20, "kept"),
        (Estimate.exactly(-0.5), 2, "undecided"),
        (Estimate.exactly(1e-15), None, "kept"),
        (Estimate.exactly(1e-6), None, "broken"),
        (Estimate.exactly(math.nan), None, "undecided"),
        (Estimate.exactly(math.nan), 20, "undecided"),
        (Estimate(0.2, -math.inf, math.inf), 20, "undecided"),
        (Estimate(0.2, math.nan, math.nan), 20, "undecided"),
        (Estimate.exactly(math.inf), None, "broken"),
    ],
)
def test_status(violation, n_episodes, status):
    assert judge("cost", COST, violation, n_episodes=n_episodes).status == status


@pytest.mark.parametrize(("limit", "status"), [(1e-12, "broken"), (0.0, "kept"), (-1e-12, "broken"), (1.0, "kept")])
def test_rounding_is_that_of_the_limit(limit, status):
    """5e-10 is five hundred times a limit of 1e-12, and nothing beside 1."""
    constraint = Constraint(LinearCost("cost", limit=limit))
    assert judge("cost", constraint, Estimate.exactly(5e-10)).status == status


@pytest.mark.parametrize("limit", [np.float32(0.5), np.float64(0.5), np.float16(0.5)])
def test_a_limit_is_a_float(limit):
    assert type(LinearCost("cost", limit=limit).limit) is type(LinearCost("cost").with_limit(limit).limit) is float
    with pytest.raises(InvalidSetting, match="finite"):
        LinearCost("cost", limit=10**400)


def test_a_cost_that_is_the_limit_is_no_violation():
    """Five times 0.3 · 0.2 is 0.30000000000000004: the price of a limit of 0.3 does not rise for that."""

    class Clock(gym.Env):
        observation_space = action_space = gym.spaces.Discrete(6)
        horizon = 5

        def reset(self, *, seed=None, options=None):
            self.time = 0
            return 0, {}

        def step(self, action):
            self.time += 1
            return self.time, 0.0, False, self.time == 5, {"cost": 0.3}

    at_limit = {"cost": Constraint(LinearCost("cost", limit=0.3))}
    env = cmx.wrappers.constrain(Clock(), constraints=at_limit, episodes_per_batch=1, discount=1.0)
    for _ in range(3):
        env.reset()
        for _ in range(5):
            *_, info = env.step(0)
        assert info["batch"]["multipliers"]["cost"] == info["batch"]["constraints"]["cost"] == 0.0
    assert "no batch of the training was above its limit" in describe_training(env)[-1]


def test_a_broken_limit_in_words():
    """0.048 above a limit of 0.5 is 10 % of it."""
    constraint = Constraint(COST.functional, Quadratic(1.0))
    words = str(judge("speed", constraint, Estimate(0.048, 0.04, 0.05), n_episodes=20))
    assert words == (
        "speed: limit 0.5 broken, by 0.048 (10% of it), in 20 episodes, 95 % interval of value - limit +0.04 to +0.05. "
        "Raise β, or take AdaptiveLagrangian(), which finds the price of a limit by itself."
    )
    assert "Train longer" in judge("speed", COST, Estimate(0.048, 0.04, 0.05), n_episodes=20).remedy


def test_how_many_episodes_decide():
    """Of 25 episodes ±0.4 around 0.1: sixteen times as many make it ±0.1, and a fifth more for the estimate's error."""
    verdict = judge("cost", COST, Estimate(0.1, -0.3, 0.5), n_episodes=25)
    assert verdict.remedy == "Evaluate about 480 episodes to decide."
    assert "no number of episodes" in judge("cost", COST, Estimate(0.001, -0.4, 0.4), n_episodes=25).remedy


def test_violations_by_hand():
    """Three batches of ten steps, the second of which keeps its limit."""
    record = Violations()
    for k, violation in enumerate((0.25, -1.0, 0.5)):
        record = record.after(violation, steps=10, iteration=k)
    assert record == Violations(total=0.75, worst=0.5, worst_iteration=2, steps=20)


@pytest.fixture
def lake():
    env = gym.make_vec("SafeFrozenLake-v0", num_envs=8)
    return cmx.wrappers.constrain(
        env, constraints={"cost": Constraint(LinearCost("cost", limit=0.0))}, episodes_per_batch=8
    )


def test_fresh_episodes_say_whether_limits_are_kept(lake):
    """Uniform actions on the paper's grid cost 83 an episode, 3.7 a step: of 64 episodes beyond doubt."""
    agent = cmx.agents.PGP(lake, seed=0)
    [verdict] = evaluate_rollouts(lake, agent, n_episodes=64, seed=1).limits
    assert (verdict.name, verdict.status, verdict.n_episodes, verdict.limit) == ("cost", "broken", 64, 0.0)


def test_a_training_in_words(lake):
    cmx.agents.PGP(lake, seed=0).learn(iterations=3)
    tracker = find_tracker(lake)
    record = tracker.violations["cost"]
    last, on_the_way = describe_training(lake)
    assert last.startswith("cost: limit 0 ")
    assert on_the_way.startswith("cost, while training: 100% of all steps were in batches above the limit")
    assert (record.steps, tracker.recorded_steps) == (600, 600) == (record.steps, tracker.timesteps)
    assert record.worst <= record.total <= 3 * record.worst


def test_what_was_violated_is_in_the_checkpoint(lake):
    cmx.agents.PGP(lake, seed=0).learn(iterations=2)
    tracker = find_tracker(lake)
    before = tracker.violations, tracker.recorded_steps
    state = tracker.state_dict()
    with tracker.frozen():
        evaluate_rollouts(lake, cmx.agents.PGP(lake, seed=3), n_episodes=8, seed=0)
    assert (tracker.violations, tracker.recorded_steps) == before, "fresh episodes are no training"
    tracker.violations, tracker.recorded_steps = {}, 0
    tracker.load_state_dict(state)
    assert (tracker.violations, tracker.recorded_steps) == before


def test_a_limit_without_a_penalty_finds_its_price(lake):
    assert isinstance(find_tracker(lake).problem.constraints["cost"].penalty, AdaptiveLagrangian)
    cmx.agents.PGP(lake, seed=0).learn(iterations=1)
    batch = find_tracker(lake).last_batch
    # At scale "normalized" the mass of whole episodes of 25 steps is 1.
    shares = batch.weights / batch.weights.sum()
    cost = batch.costs["cost"]
    spread = np.sqrt(shares @ cost**2 - (shares @ cost) ** 2) * batch.weights.sum() / 8
    penalty = find_tracker(lake).problem.constraints["cost"].penalty
    assert penalty.largest_violation == pytest.approx(max(spread, shares @ cost))
