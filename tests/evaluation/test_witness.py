"""What steps say of published dynamics: nothing where they are right, and what is wrong where they are not."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.toy_text import FrozenLakeEnv

from constrained_maxent.agents import PGP
from constrained_maxent.envs import SafeFrozenLake
from constrained_maxent.errors import ContradictedDynamics
from constrained_maxent.evaluation import ExactProblem, evaluate_rollouts
from constrained_maxent.evaluation.witness import Witness
from constrained_maxent.functionals import LinearCost, Reward
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.tracker import find_tracker
from constrained_maxent.types import Batch
from constrained_maxent.wrappers import constrain

pytestmark = pytest.mark.fault

HOLES = ["SFFH", "FHFF", "FFFF", "HFFG"]


class Lake(SafeFrozenLake):
    """A lake that does otherwise than it publishes."""

    def __init__(self, *, slips: float = 0.0, start: int = 0, fee: float = 0.0, hurry: float = 0.0, **arguments: Any):
        super().__init__(desc=HOLES, **arguments)
        self.slips, self.start, self.fee, self.hurry = slips, start, fee, hurry

    def reset(self, **arguments: Any) -> Any:
        observation, info = super().reset(**arguments)
        if self.start:
            self.s = observation = self.start
        return observation, info

    def step(self, action: int) -> Any:
        if self.np_random.random() < self.slips:
            action = int(self.np_random.integers(4))
        observation, reward, terminated, truncated, info = super().step(action)
        terminated = terminated or bool(self.np_random.random() < self.hurry)
        return observation, reward, terminated, truncated, info | {"cost": info["cost"] + self.fee}


def stack(make: Any, n: int = 20) -> Any:
    budget = Constraint(LinearCost("cost", limit=2.0), Quadratic(1.0))
    return constrain(gym.vector.SyncVectorEnv([make] * n), None, {"cost": budget}, episodes_per_batch=n)


@pytest.mark.parametrize(
    ("faults", "what"),
    [
        ({}, None),
        ({"slippery": True}, None),
        ({"slips": 0.1}, "came next in state"),
        ({"slips": 0.3, "slippery": True}, "came next in state"),
        ({"start": 5}, "State 5 came first 100 times of 100, which has a probability of 0 "),
        ({"fee": 2.0}, "The cost 'cost' was .* per step where its table says"),
        ({"hurry": 0.05}, "The episode ended in state"),
    ],
)
def test_fresh_episodes(faults: dict[str, Any], what: str | None) -> None:
    env = stack(lambda: Lake(**faults))
    agent = PGP(env, seed=0)
    if what is None:
        assert evaluate_rollouts(env, agent, n_episodes=100, seed=0).contradiction is None
        return
    with pytest.warns(ContradictedDynamics, match=what):
        found = evaluate_rollouts(env, agent, n_episodes=100, seed=0)
    assert json.loads(json.dumps(found.to_json()))["contradiction"] == found.contradiction


class Impatient(FrozenLakeEnv):
    """A lake that pays more than it publishes, or ends earlier."""

    def __init__(self, *, pays: float = 1.0, patience: int = 100) -> None:
        super().__init__(desc=["SFFG"], is_slippery=False)
        self.pays, self.patience, self.time = pays, patience, 0

    def reset(self, **arguments: Any) -> Any:
        self.time = 0
        return super().reset(**arguments)

    def step(self, action: int) -> Any:
        self.time += 1
        observation, reward, terminated, _, info = super().step(action)
        return observation, self.pays * reward, terminated, self.time >= self.patience, info


@pytest.mark.parametrize(
    ("faults", "what"),
    [
        ({}, None),
        ({"pays": 2.0}, "The cost 'reward\\(\\)' was .* per step where its table says"),
        ({"patience": 4}, "Episodes had 0.062.* of their mass in all, and by the dynamics it is 0.3"),
    ],
)
@pytest.mark.filterwarnings("ignore::constrained_maxent.errors.HorizonMismatch")
def test_rewards_and_ends(faults: dict[str, Any], what: str | None) -> None:
    env = gym.vector.SyncVectorEnv([lambda: gym.wrappers.TimeLimit(Impatient(**faults), 100)] * 20)
    env = constrain(env, Reward(), episodes_per_batch=20)
    agent = PGP(env, seed=0)
    if what is None:
        assert evaluate_rollouts(env, agent, n_episodes=200, seed=0).contradiction is None
        return
    with pytest.warns(ContradictedDynamics, match=what):
        evaluate_rollouts(env, agent, n_episodes=200, seed=0)


def test_a_policy_that_does_not_act_as_its_table_says() -> None:
    env = stack(lambda: Lake())
    agent = PGP(env, seed=0)
    agent.policy_table = lambda: np.tile([0.4, 0.2, 0.2, 0.2], (16, 1))
    with pytest.warns(ContradictedDynamics, match="The policy acted in state 0 with action"):
        evaluate_rollouts(env, agent, n_episodes=200, seed=0)


def test_what_was_changed_after_it_was_made() -> None:
    bare = FrozenLakeEnv(is_slippery=False)
    env = constrain(gym.wrappers.TimeLimit(bare, 20), episodes_per_batch=10)
    exact = ExactProblem.from_env(env)
    bare.P = FrozenLakeEnv(is_slippery=True).P
    witness = Witness(exact)
    agent = PGP(env, seed=0).learn(iterations=1)
    assert agent is not None
    witness.see(find_tracker(env).last_batch)
    assert "came next in state" in str(witness.contradiction())


def batch_of(pairs: Any, costs: Any, *, terminated: Any) -> Batch:
    """Steps of a lake of two tiles, in episodes that go on until one is terminated."""
    states, actions = np.transpose(pairs)
    last = np.unique(np.append(np.flatnonzero(terminated), len(states) - 1))
    return Batch(
        observations=states,
        actions=actions,
        lengths=np.diff(last, prepend=-1),
        costs={"cost": np.asarray(costs, dtype=float)},
        terminated=np.asarray(terminated)[last],
    )


@pytest.fixture
def ends() -> Witness:
    """Right of the start is the goal: ends by 1/3 each of two actions, if slippery; no cost, says the table."""
    bare = SafeFrozenLake(desc=["SG"], slippery=True, base_cost=0.25, horizon=5)
    return Witness(ExactProblem.from_env(stack(lambda: bare, n=1)))


@pytest.mark.parametrize("n", [1, 10, 1000, 100_000])
def test_rare_and_few_are_no_contradiction(ends: Witness, n: int) -> None:
    """As many ends as one would expect, and as many as no more than four standard deviations allow."""
    for k in (round(n / 3), round(n / 3 + 4.0 * np.sqrt(n * 2.0 / 9.0)) if n > 100 else n // 3):
        witness = Witness(ends.problem)
        witness.see(batch_of([(0, 2)] * n, [0.25] * n, terminated=np.arange(n) < k))
        assert witness.contradiction() is None
    assert ends.contradiction() is None


def test_what_cannot_be_is_one_too_many(ends: Witness) -> None:
    ends.see(batch_of([(0, 0)], [0.25], terminated=[True]))  # left: the wall, or up or down, which are walls as well
    assert "The episode ended in state 0 with action 0 1 times of 1, which has a probability of 0 " in str(
        ends.contradiction()
    )


def test_costs_that_vary_about_their_table(ends: Witness) -> None:
    """A coin with a quarter of a chance to cost 1, whose table says 1/4; and one that costs more than that."""
    rng = np.random.default_rng(0)
    n = 4000
    terminated = rng.random(n) < 1 / 3
    for share, is_right in ((0.25, True), (0.33, False)):
        witness = Witness(ends.problem)
        witness.see(batch_of([(0, 2)] * n, rng.random(n) < share, terminated=terminated))
        found = witness.contradiction()
        assert (found is None) is is_right
        assert is_right or "where its table says 0.25" in str(found)


def test_no_false_alarms_in_batches_of_any_size() -> None:
    """The frozen lakes that are as published, looked at after every batch."""
    for seed in range(3):
        env = stack(lambda: SafeFrozenLake(desc=HOLES, slippery=True), n=4)
        witness, agent = Witness(ExactProblem.from_env(env)), PGP(env, seed=seed, learning_rate=1e-9)

        def look(agent: Any, report: Any, witness: Witness = witness, env: Any = env) -> None:
            witness.see(find_tracker(env).last_batch)
            assert witness.contradiction() is None

        agent.learn(iterations=20, callback=look)
