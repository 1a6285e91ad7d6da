"""The vector twins take the same arguments and declare the same as the scalar wrappers."""

import inspect

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from constrained_maxent import wrappers
from constrained_maxent.envs import SafeFrozenLakeVector
from constrained_maxent.errors import DuplicateName, InvalidData, InvalidSetting, MissingTracker
from constrained_maxent.functionals import Entropy, L2Distance
from constrained_maxent.penalties import Quadratic
from constrained_maxent.wrappers import find_tracker, vector

# FloatInfo is for the copies in a vector, SteadyInfo for what records single environments; RandomEncoder is
# a function of observations.
SCALAR_ONLY = ("FloatInfo", "SteadyInfo", "RandomEncoder")
NAMES = [name for name in wrappers.__all__ if isinstance(getattr(wrappers, name), type) and name not in SCALAR_ONLY]
REFERENCE = np.full((36, 4), 1 / 144)
ARGUMENTS = {
    "Objective": {"functional": Entropy()},
    "EntropyObjective": {},
    "CostConstraint": {"limit": 0.5, "penalty": Quadratic(2.0)},
    "ImitationConstraint": {"reference": REFERENCE, "limit": 0.5, "penalty": Quadratic(2.0)},
    "ConvexConstraint": {"functional": L2Distance(REFERENCE), "penalty": Quadratic(2.0)},
    "PseudoReward": {},
}


def tracked():
    return vector.TrackOccupancy(SafeFrozenLakeVector(2), episodes_per_batch=2)


def test_every_wrapper_has_a_twin():
    assert sorted(NAMES) == sorted(vector.__all__)
    # These two need no tracker below them.
    assert sorted([*ARGUMENTS, "TrackOccupancy", "BooleanCosts"]) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_twins_take_the_same_arguments(name):
    def described(kind):
        parameters = inspect.signature(kind.__init__).parameters.values()
        return [(p.name, p.kind, p.default) for p in parameters if p.name not in ("self", "env")]

    assert described(getattr(vector, name)) == described(getattr(wrappers, name))


@pytest.mark.parametrize("name", ARGUMENTS)
def test_the_tracker_comes_first(name):
    with pytest.raises(MissingTracker):
        getattr(vector, name)(SafeFrozenLakeVector(2), **ARGUMENTS[name])


def test_trackers_of_sub_environments_are_not_the_vectors():
    env = SyncVectorEnv([lambda: wrappers.TrackOccupancy(gym.make("FrozenLake-v1"), episodes_per_batch=1)])
    with pytest.raises(MissingTracker):
        find_tracker(env)


@pytest.mark.parametrize("name", [name for name in ARGUMENTS if name != "PseudoReward"])
def test_declarations_come_before_the_first_reset(name):
    env = tracked()
    env.reset()
    with pytest.raises(InvalidSetting, match="reset"):
        getattr(vector, name)(env, **ARGUMENTS[name])


def test_a_whole_stack():
    env = tracked()
    for name in [name for name in ARGUMENTS if name != "EntropyObjective"]:
        arguments = ARGUMENTS[name]
        env = getattr(vector, name)(env, **arguments)
        assert env.tracker is find_tracker(env)
    assert env.tracker.problem.term_names == ("objective", "cost", "imitation", "convex")


def test_what_they_refuse():
    env = vector.CostConstraint(vector.EntropyObjective(tracked()), limit=0.0, penalty=Quadratic(1.0))
    with pytest.raises(DuplicateName):
        vector.EntropyObjective(env)
    with pytest.raises(DuplicateName):
        vector.CostConstraint(env, limit=0.0, penalty=Quadratic(1.0))
    with pytest.raises(InvalidSetting, match="name="):
        vector.CostConstraint(env, limit=0.0, penalty=Quadratic(1.0), name="ready")
    with pytest.raises(InvalidSetting, match="penalty="):
        vector.CostConstraint(env, limit=0.0, penalty=1.0, name="other")
    with pytest.raises(InvalidData):
        vector.ImitationConstraint(env, np.ones((4, 4)), limit=0.0, penalty=Quadratic(1.0))


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_the_rewards_are_replaced_and_kept(scripted, mode):
    episode = scripted.episode([0, 1, 1], [{"reward": 3.0}, {"reward": 4.0}])
    env = SyncVectorEnv([lambda: scripted.Playback(episode)] * 2, autoreset_mode=mode)
    env = vector.TrackOccupancy(
        env, episodes_per_batch=2, horizon=2, discount=1.0, scale="truncated", pairing="previous"
    )
    env = vector.PseudoReward(vector.EntropyObjective(env, smoothing=1.0))
    _, log = scripted.drive(env, mode, lambda *_: 0, n_batches=2)
    waits = [step for step in log if not step.infos["_original_reward"].all()]
    steps = [step for step in log if step.infos["_original_reward"].all()]
    assert [step.infos["original_reward"].tolist() for step in steps] == [[3.0, 3.0], [4.0, 4.0]] * 2
    # Each cell has mass 1: -log 2 - 1/2.
    assert [step.rewards.tolist() for step in steps[:2]] == [[0.0, 0.0]] * 2
    assert np.array([step.rewards for step in steps[2:]]) == pytest.approx(-np.log(2.0) - 0.5)
    assert len(waits) == (mode is AutoresetMode.NEXT_STEP)
    assert all(step.rewards.tolist() == [0.0, 0.0] for step in waits)
