"""``constrain`` builds what a user would build by hand."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from constrained_maxent import wrappers
from constrained_maxent.errors import DuplicateName, InvalidData, InvalidSetting, UnsupportedSpace
from constrained_maxent.functionals import OWN_REWARD, Entropy, KLDivergence, L2Distance, LinearCost, Reward
from constrained_maxent.occupancy import Counts
from constrained_maxent.penalties import Exact, Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.wrappers import constrain, find_tracker

REFERENCE = np.full((16, 4), 1 / 64)
CONSTRAINTS = {
    "cost": Constraint(LinearCost("cost", limit=0.25), Quadratic(2.0)),
    "expert": Constraint(KLDivergence(REFERENCE, limit=0.5), Exact(3.0)),
    "near": Constraint(L2Distance(REFERENCE, limit=0.75), Quadratic(4.0)),
}


def layers(env):
    names = []
    while isinstance(env, (gym.Wrapper, gym.vector.VectorWrapper)):
        names.append((type(env).__name__, type(env).__module__.startswith("constrained_maxent.wrappers.vector")))
        env = env.env
    return [layer for layer in names if hasattr(wrappers, layer[0])]


ORDER = ["PseudoReward", *["ConvexConstraint"] * 3, "Objective", "TrackOccupancy"]


@pytest.mark.parametrize("is_vector", [False, True])
def test_layers(is_vector):
    env = SyncVectorEnv([lambda: gym.make("FrozenLake-v1")] * 2) if is_vector else gym.make("FrozenLake-v1")
    stack = constrain(
        env,
        Entropy(over="state", smoothing=1e-3),
        CONSTRAINTS,
        estimator=Counts(memory=0.25),
        steps_per_batch=10,
        discount=0.9,
        horizon=50,
        scale="truncated",
        pairing="previous",
    )
    assert layers(stack) == [(name, is_vector) for name in ORDER]
    tracker = find_tracker(stack)
    assert tracker.problem.term_names == ("objective", "cost", "expert", "near")
    assert (tracker.problem.objective.over, tracker.problem.objective.smoothing) == ("state", 1e-3)
    assert {n: c.functional.limit for n, c in tracker.problem.constraints.items()} == {
        "cost": 0.25,
        "expert": 0.5,
        "near": 0.75,
    }
    assert [c.penalty for c in tracker.problem.constraints.values()] == [Quadratic(2.0), Exact(3.0), Quadratic(4.0)]
    assert tracker.estimator.memory == 0.25
    assert (tracker.weighting.discount, tracker.weighting.horizon, tracker.weighting.scale) == (0.9, 50, "truncated")
    assert tracker.pairing == "previous"


def test_the_reward_may_stay():
    env = constrain(gym.make("FrozenLake-v1"), episodes_per_batch=1, replace_reward=False)
    assert [name for name, _ in layers(env)] == ["Objective", "TrackOccupancy"]
    assert find_tracker(env).problem.objective.smoothing is None


def test_any_functional_is_an_objective():
    objective = 0.1 * Entropy() + Reward()
    tracker = find_tracker(constrain(gym.make("FrozenLake-v1"), objective, episodes_per_batch=1))
    assert [weight for weight, _ in tracker.problem.objective.parts] == [0.1, 1.0]
    assert tracker.sources == {"reward()": OWN_REWARD}


def test_what_the_wrappers_refuse():
    lake = gym.make("FrozenLake-v1")
    with pytest.raises(InvalidSetting, match="episodes_per_batch"):
        constrain(lake)
    with pytest.raises(InvalidSetting, match="pairing"):
        constrain(lake, episodes_per_batch=2, pairing="none")
    with pytest.raises(UnsupportedSpace):
        constrain(gym.make("CartPole-v1"), episodes_per_batch=2)
    wrong = {"expert": Constraint(L2Distance(np.ones((3, 4))), Quadratic(1.0))}
    with pytest.raises(InvalidData):
        constrain(lake, constraints=wrong, episodes_per_batch=2)
    for wrong, name in (
        ({"cost": LinearCost("cost")}, "'cost'"),
        ([Constraint(Entropy(), Quadratic(1.0))], "constraints"),
    ):
        with pytest.raises(InvalidSetting, match=name):
            constrain(lake, constraints=wrong, episodes_per_batch=2)
    for wrong in (L2Distance(REFERENCE), "entropy", 1.0):
        with pytest.raises(InvalidSetting, match="objective="):
            constrain(lake, wrong, episodes_per_batch=2)
    flat = {"flat": Constraint(Entropy(), Quadratic(1.0))}
    with pytest.raises(InvalidSetting, match="'flat'"):
        constrain(lake, constraints=flat, episodes_per_batch=2)
    with pytest.raises(InvalidSetting, match="estimator"):
        constrain(lake, estimator=3, episodes_per_batch=2)
    with pytest.raises(DuplicateName):
        wrappers.EntropyObjective(constrain(lake, episodes_per_batch=2))


# Gymnasium 1.4 has Taxi-v4 only, 1.2 has Taxi-v3 only.
TAXI = "Taxi-v4" if "Taxi-v4" in gym.registry else "Taxi-v3"


@pytest.mark.parametrize("env_id", ["FrozenLake-v1", TAXI, "CliffWalking-v1"])
def test_environments_of_gymnasium(env_id):
    costly = Constraint(LinearCost(lambda s, a, s_next: float(a == 0), limit=0.1), Quadratic(10.0))
    env = constrain(gym.make(env_id, max_episode_steps=20), constraints={"zero": costly}, steps_per_batch=60)
    env.reset(seed=0)
    env.action_space.seed(0)
    n_zero, info = 0.0, {}
    started, time = 0, 0
    weights = 0.99 ** np.arange(20)
    while "batch" not in info:
        action = env.action_space.sample()
        started += time == 0
        n_zero += weights[time] / weights.sum() * (action == 0)
        _, _, terminated, truncated, info = env.step(action)
        assert np.isfinite(info["pseudo_reward"])
        time += 1
        if terminated or truncated:
            early = time < 20
            env.reset()
            time = 0
    n_episodes = started if env_id == "FrozenLake-v1" else 3
    assert early == (env_id == "FrozenLake-v1")
    assert info["batch"]["constraints"]["zero"] == pytest.approx(n_zero / n_episodes - 0.1)
