"""SteadyInfo: every info alike, as replay buffers and recorders of data sets want them."""

import gymnasium as gym
import numpy as np
import pytest

from constrained_maxent.errors import InvalidSetting, MissingTracker
from constrained_maxent.wrappers import SteadyInfo, constrain, find_tracker


@pytest.fixture
def env(scripted):
    """Two episodes of two steps a batch; the environment reports a text, and a wind on steps alone."""
    costs = [{"cost": 1, "wind": 3, "note": "a"}, {"cost": 2.5, "wind": 4, "note": "b"}]
    bare = scripted.Playback(scripted.episode([0, 1, 2], costs), scripted.episode([0, 1, 2], costs))
    stack = constrain(bare, episodes_per_batch=2, horizon=2, discount=1.0, scale="truncated", replace_reward=False)
    from constrained_maxent.wrappers import CostConstraint, PseudoReward

    return SteadyInfo(PseudoReward(CostConstraint(stack, limit=3.0)), keys=["wind"])


def test_every_info_is_alike(env, scripted):
    before = env.reset()[1]
    infos = [before, *scripted.run(env, [0, 0, 1, 1, 0], reset=False)]
    assert {tuple(info) for info in infos} == {tuple(before)}
    types = {key: {type(info[key]) for info in infos} for key in before}
    assert types == {key: {np.bool_ if key == "pseudo_reward_ready" else np.float64} for key in before}


def test_what_was_there_and_what_was_not(env, scripted):
    """A batch has two episodes of cost 1 + 2.5: R = 3.5 - 3."""
    before = env.reset()[1]
    infos = scripted.run(env, [0, 0, 1, 1], reset=False)
    assert np.isnan([before["cost"], before["wind"], before["batch_objective"]]).all()
    assert [info["cost"] for info in infos] == [1.0, 2.5, 1.0, 2.5]
    assert [info["wind"] for info in infos] == [3.0, 4.0, 3.0, 4.0]
    assert np.isnan([info["batch_constraints_cost"] for info in infos[:3]]).all()
    assert infos[3]["batch_constraints_cost"] == pytest.approx(0.5)
    assert infos[3]["batch_steps"] == 4
    report = find_tracker(env).last_report
    assert infos[3]["batch_objective"] == report.objective
    assert infos[3]["batch_multipliers_cost"] == report.multipliers["cost"]
    assert not {"note", "batch"} & infos[3].keys()


def test_arrays_keep_their_shape():
    """SafeCartpole reports the physical state after reset too."""
    env = SteadyInfo(gym.make("constrained_maxent:SafeCartpole-PGP-v0", time_limit=0.05))
    before, after = env.reset(seed=0)[1], env.step(env.action_space.sample())[-1]
    assert before["state"].shape == after["state"].shape == (4,)
    assert before.keys() == after.keys()


def test_where_it_does_not_belong():
    with pytest.raises(InvalidSetting, match="vector"):
        SteadyInfo(gym.make_vec("constrained_maxent:FrozenLake-PGP-v0", num_envs=2))
    with pytest.raises(MissingTracker):
        SteadyInfo(gym.make("FrozenLake-v1"))
