"""Dynamics are those of the process that is stepped, or there are no exact values, and the reason is said."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.toy_text import FrozenLakeEnv
from gymnasium.wrappers import NormalizeReward, StickyAction, TimeLimit, TransformAction, TransformObservation

import constrained_maxent as cmx
from constrained_maxent.errors import HorizonMismatch, InvalidMDP, MissingCost, UnknownProcess
from constrained_maxent.evaluation import ExactProblem, exact_problem
from constrained_maxent.functionals import Entropy, LinearCost, Reward
from constrained_maxent.oracle import TabularMDP
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.wrappers import constrain

pytestmark = pytest.mark.fault

Space = gym.spaces.Discrete
PAIR = gym.spaces.Tuple((Space(2), Space(2, start=3)))
TWO = Space(2)


class Corridor(gym.Env[Any, Any]):
    """Two steps: from the first element anywhere, with the chance of the last one given by the action, 1/4 or 3/4.

    ``P`` counts from 0; the elements of the spaces are what they are.
    """

    horizon = 2

    def __init__(self, observations: gym.Space[Any] = PAIR, actions: gym.Space[Any] = TWO, size: int = 4) -> None:
        self.observation_space, self.action_space, self.size = observations, actions, size
        shares = {0: 0.25, 1: 0.75}
        self.P = {
            s: {a: [(1.0 - p, 0, 0.0, False), (p, size - 1, 1.0, False)] for a, p in shares.items()}
            for s in range(size)
        }
        self.initial_state_distrib = np.eye(size)[0]


class Watched(gym.Wrapper[Any, Any, Any, Any]):
    """A layer of somebody's own."""


def wrapped(env: Any, *, objective: Any = None, **arguments: Any) -> Any:
    return constrain(env, objective, {"cost": Constraint(LinearCost(in_last, limit=0.0), Quadratic(1.0))},
                     episodes_per_batch=8, discount=1.0, **arguments)  # fmt: skip


def in_last(observation: Any, action: Any, after: Any) -> float:
    return 0.0


@pytest.mark.parametrize("in_vector", [False, True])
@pytest.mark.parametrize(
    ("observations", "last", "actions", "second"),
    [
        (Space(4, start=5), 8, Space(2, start=10), 11),
        (Space(4, start=-2), 1, Space(2, start=-1), 0),
        (gym.spaces.MultiDiscrete([2, 2], start=[3, 1]), (4, 2), gym.spaces.MultiBinary(1), (1,)),
        (PAIR, (1, 4), gym.spaces.Tuple((Space(2, start=7),)), (8,)),
    ],
)
def test_functions_see_the_elements_that_they_see_on_steps(
    observations: Any, last: Any, actions: Any, second: Any, in_vector: bool
) -> None:
    """Half of the weight is on time 0; in the last state at time 1, with the share of the action taken before.

    The cost charges the arrival there, and 10 where the second action was taken.
    """

    def arrives(observation: Any, action: Any, after: Any) -> float:
        assert type(after) is type(observation)
        if isinstance(observations, Space):
            assert isinstance(observation, np.int64 if in_vector else int)
        elif not isinstance(observations, gym.spaces.Tuple):
            observation[...] = -99  # a copy: this spoils nothing
        same = np.array_equal(np.ravel(after), np.ravel(last))
        return float(same) + 10.0 * np.array_equal(np.ravel(action), np.ravel(second))

    def make() -> Any:
        return Corridor(observations, actions)

    env = gym.vector.SyncVectorEnv([make] * 3) if in_vector else make()
    budget = Constraint(LinearCost(arrives, limit=0.0), Quadratic(1.0))
    problem = ExactProblem.from_env(constrain(env, None, {"c": budget}, episodes_per_batch=8, discount=1.0))
    always = np.tile([0.0, 1.0], (4, 1))
    assert problem.evaluate(always).constraints["c"] == pytest.approx(0.75 + 10.0)
    assert problem.evaluate(1.0 - always).constraints["c"] == pytest.approx(0.25)


def test_spaces_of_another_size_are_of_another_numbering() -> None:
    with pytest.raises(UnknownProcess, match="4 states and 2 actions"):
        ExactProblem.from_env(wrapped(Corridor(Space(5))))


CHANGED = {
    "observations": lambda env: TransformObservation(env, lambda s: 15 - s, env.observation_space),
    "actions": lambda env: TransformAction(env, lambda a: 3 - a, env.action_space),
    "sticky": lambda env: StickyAction(env, 0.3),
    "own": Watched,
}


class TestLayers:
    @pytest.mark.parametrize("kind", CHANGED)
    @pytest.mark.parametrize("where", ["below", "above", "in copies", "around a vector"])
    def test_that_may_change_the_process(self, kind: str, where: str) -> None:
        def make() -> Any:
            lake = gym.make("FrozenLake-v1")
            return CHANGED[kind](lake) if where in ("below", "in copies") else lake

        if where == "around a vector":
            env: Any = gym.vector.VectorWrapper(gym.vector.SyncVectorEnv([make] * 2))
        else:
            env = gym.vector.SyncVectorEnv([make] * 2) if where == "in copies" else make()
        env = wrapped(env)
        env = CHANGED[kind](env) if where == "above" else env
        name = (
            "VectorWrapper" if where == "around a vector" else type(CHANGED[kind](gym.make("FrozenLake-v1"))).__name__
        )
        with pytest.raises(UnknownProcess, match=f"{name} may change the process that FrozenLakeEnv publishes"):
            ExactProblem.from_env(env)
        problem, reason = exact_problem(env)
        assert problem is None
        assert name in str(reason)
        with pytest.raises(UnknownProcess):
            TabularMDP.from_env(env, discount=0.9)
        if where in ("below", "above"):  # what is published can be had on its own
            assert TabularMDP.from_env(env.unwrapped, discount=0.9, horizon=None).n_states == 16

    def test_that_change_nothing(self) -> None:
        env = gym.wrappers.RecordEpisodeStatistics(gym.make("FrozenLake-v1", max_episode_steps=7))
        assert ExactProblem.from_env(wrapped(env)).mdp.horizon == 7
        vector = gym.wrappers.vector.RecordEpisodeStatistics(gym.make_vec("FrozenLake-v1", num_envs=2))
        env = gym.wrappers.vector.DictInfoToList(wrapped(vector))
        assert ExactProblem.from_env(env).mdp.horizon == 100

    @pytest.mark.parametrize("wrap", [NormalizeReward, lambda env: gym.wrappers.TransformReward(env, lambda r: 2 * r)])
    def test_that_change_the_reward_alone(self, wrap: Any) -> None:
        """An entropy is known all the same; the reward is, where it is changed above the tracker only."""
        below = wrapped(wrap(gym.make("FrozenLake-v1")))
        assert ExactProblem.from_env(below).mdp.reward is None
        with pytest.raises(MissingCost, match="a wrapper changes it"):
            ExactProblem.from_env(wrapped(wrap(gym.make("FrozenLake-v1")), objective=Reward()))
        above = wrap(wrapped(gym.make("FrozenLake-v1", is_slippery=False, max_episode_steps=6), objective=Reward()))
        down_right = np.eye(4)[[1, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0, 0, 0, 2, 2, 0]]  # to the goal by the sixth step
        assert ExactProblem.from_env(above).evaluate(down_right).objective == pytest.approx(1.0 / 6.0)

    def test_a_subclass_of_a_known_one_may_do_more(self) -> None:
        class Limit(TimeLimit):
            pass

        with pytest.raises(UnknownProcess, match="Limit"):
            ExactProblem.from_env(wrapped(Limit(gym.make("FrozenLake-v1"), 10)))

    def test_a_time_limit_above_the_tracker(self) -> None:
        env = TimeLimit(wrapped(gym.make("FrozenLake-v1")), 10)
        with pytest.raises(UnknownProcess, match=r"after 10 steps.*horizon 100"):
            ExactProblem.from_env(env)

    def test_a_horizon_longer_than_the_time_limit(self) -> None:
        with pytest.warns(HorizonMismatch, match="horizon=200"):
            env = wrapped(gym.make("FrozenLake-v1"), horizon=200)
        with pytest.raises(UnknownProcess, match=r"horizon 200.*give it horizon=100"):
            ExactProblem.from_env(env)


class TestCopies:
    @pytest.mark.parametrize(
        ("change", "what"),
        [
            ({"is_slippery": False}, "dynamics"),
            ({"success_rate": 0.9}, "dynamics"),
            ({"desc": ["FFFF", "SFFF", "FFFF", "FFFG"]}, "start distribution"),
            ({"max_episode_steps": 50}, "horizon"),
        ],
    )
    def test_that_differ(self, change: dict[str, Any], what: str) -> None:
        def lake(**arguments: Any) -> Any:
            return lambda: gym.make("FrozenLake-v1", **arguments)

        env = wrapped(gym.vector.SyncVectorEnv([lake(), lake(), lake(**change)]), horizon=100)
        with pytest.raises(UnknownProcess, match=f"{what} .* of sub-environment 2|{what} of sub-environment 2"):
            ExactProblem.from_env(env)

    def test_whose_costs_differ(self) -> None:
        def lake(cost: float) -> Any:
            return lambda: gym.make("SafeFrozenLake-v0", hole_cost=cost)

        costs = {"cost": Constraint(LinearCost("cost", limit=0.0), Quadratic(1.0))}
        for other, differs in ((50.0, False), (49.0, True)):
            vector = gym.vector.SyncVectorEnv([lake(50.0), lake(other)])
            problem, reason = exact_problem(constrain(vector, None, costs, episodes_per_batch=8))
            assert (problem is None) is differs
            assert differs is ("cost_tables of sub-environment 1" in str(reason))


def test_what_an_environment_does_beside_its_table() -> None:
    with pytest.raises(UnknownProcess, match="passengers"):
        TabularMDP.from_env(gym.make(newest("Taxi"), fickle_passenger=True), discount=0.9)


def newest(name: str) -> str:
    return max(spec for spec in gym.registry if spec.startswith(f"{name}-v"))


def test_nothing_published_needs_no_reason() -> None:
    env = wrapped(gym.make("CartPole-v1"), estimator=cmx.occupancy.GaussianMixture())
    assert exact_problem(env) == (None, None)
    with pytest.raises(InvalidMDP, match="no attribute P"):
        ExactProblem.from_env(env)


def test_dynamics_that_are_known_otherwise() -> None:
    """Given by hand, whatever is stepped: the entropy of one step is that of its four actions."""
    mdp = TabularMDP.from_env(FrozenLakeEnv(), discount=0.9, horizon=1)
    exact = ExactProblem(mdp, "normalized", Entropy(smoothing=0.0), {})
    assert exact.evaluate_uniform().objective == pytest.approx(math.log(4.0))
