"""Costs from booleans, True where satisfied, in scalar and vector environments."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from constrained_maxent.errors import DuplicateName, InvalidData, MissingCost
from constrained_maxent.penalties import Quadratic
from constrained_maxent.wrappers import BooleanCosts, CostConstraint, TrackOccupancy, vector

MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP]
# Three steps: speed holds in the first and last; of the two joints, one breaks its range in the second and third.
REPORTS = [
    {"constraints": {"speed": True, "range": np.array([True, True])}},
    {"constraints": {"speed": False, "range": np.array([False, True])}},
    {"constraints": {"speed": True, "range": np.array([True, False])}},
]
COSTS = [(0.0, 0.0, 0.0), (1.0, 1.0, 2.0), (0.0, 1.0, 1.0)]


def reporting(scripted, reports=REPORTS):
    return scripted.Playback(scripted.episode([0, 1, 2, 3], reports))


def test_violations_cost_one_each(scripted):
    infos = scripted.run(BooleanCosts(reporting(scripted)), [0, 0, 0])
    assert [(i["cost_speed"], i["cost_range"], i["cost"]) for i in infos] == COSTS
    assert all(type(info[key]) is np.float64 for info in infos for key in ("cost_speed", "cost"))


def test_they_are_costs_to_the_constraints(scripted):
    env = TrackOccupancy(BooleanCosts(reporting(scripted)), episodes_per_batch=1, horizon=3, discount=1.0)
    env = CostConstraint(env, "cost_speed", limit=0.25, penalty=Quadratic(1.0), name="speed")
    env = CostConstraint(env, limit=0.0, penalty=Quadratic(1.0))
    report = scripted.run(env, [0, 0, 0])[-1]["batch"]
    # One of three steps breaks the speed, and there are three violations in three steps.
    assert report["constraints"] == pytest.approx({"speed": 1 / 3 - 0.25, "cost": 1.0})


@pytest.mark.parametrize("mode", MODES)
def test_in_vectors(scripted, mode):
    env = SyncVectorEnv([lambda: reporting(scripted)] * 2, autoreset_mode=mode)
    env = vector.TrackOccupancy(
        vector.BooleanCosts(env), episodes_per_batch=2, horizon=3, discount=1.0, scale="truncated"
    )
    env = vector.CostConstraint(env, "cost_range", limit=0.0, penalty=Quadratic(1.0), name="range")
    env = vector.CostConstraint(env, limit=0.0, penalty=Quadratic(1.0))
    reports, log = scripted.drive(env, mode, lambda *_: 0, n_batches=2)
    assert [report["constraints"] for report in reports] == [{"range": 2.0, "cost": 3.0}] * 2
    first = [step.infos for step in log[:2]]
    assert [infos["cost"].tolist() for infos in first] == [[0.0, 0.0], [2.0, 2.0]]
    assert [infos["_cost_speed"].tolist() for infos in first] == [[True, True]] * 2


def test_a_sub_environment_that_is_reset_has_no_cost(scripted):
    def short():
        return scripted.Playback(scripted.episode([0, 1], REPORTS[1:2]))

    env = vector.BooleanCosts(SyncVectorEnv([lambda: reporting(scripted), short]))
    env.reset()
    env.step(np.zeros(2, dtype=int))
    infos = env.step(np.zeros(2, dtype=int))[-1]
    assert infos["cost"].tolist() == [2.0, 0.0]
    for key in ("_cost", "_cost_speed", "_cost_range"):
        assert infos[key].tolist() == [True, False]


def test_other_names(scripted):
    reports = [{"safe": {"x": False}, "cost": 5.0}]
    env = BooleanCosts(scripted.Playback(scripted.episode([0, 1], reports)), key="safe", cost="violations")
    (info,) = scripted.run(env, [0])
    assert (info["cost"], info["violations"], info["violations_x"]) == (5.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("report", "error", "message"),
    [
        ({}, MissingCost, "'constraints'"),
        ({"constraints": True}, InvalidData, "'constraints'"),
        ({"constraints": {}}, InvalidData, "'constraints'"),
        ({"constraints": {"x": 0.5}}, InvalidData, "'x'"),
        ({"constraints": {"x": np.array([], dtype=bool)}}, InvalidData, "'x'"),
        ({"constraints": {"x": True}, "cost": 1.0}, DuplicateName, "cost="),
    ],
)
@pytest.mark.parametrize("is_vector", [False, True])
def test_refuses(scripted, report, error, message, is_vector):
    def make():
        return scripted.Playback(scripted.episode([0, 1], [report]))

    env = vector.BooleanCosts(SyncVectorEnv([make])) if is_vector else BooleanCosts(make())
    env.reset()
    with pytest.raises(error, match=message):
        env.step(np.zeros(1, dtype=int) if is_vector else 0)


@pytest.mark.parametrize("mode", [None, *MODES])
def test_what_the_environment_reports_is_left_as_it_was(mode):
    """An environment may hand out one dictionary over and over."""

    class Same(gym.Env):
        observation_space = action_space = gym.spaces.Discrete(2)
        report = {"constraints": {"x": False}}

        def reset(self, *, seed=None, options=None):
            return 0, {}

        def step(self, action):
            return 0, 0.0, action == 1, False, self.report

    env = BooleanCosts(Same()) if mode is None else vector.BooleanCosts(SyncVectorEnv([Same], autoreset_mode=mode))
    env.reset()
    for action in (0, 1):
        *_, info = env.step(action if mode is None else np.array([action]))
        reported = info.get("final_info", info)
        assert reported["cost"] == reported["cost_x"] == 1.0
    assert Same.report == {"constraints": {"x": False}}


def test_its_arguments_are_in_the_spec():
    env = BooleanCosts(gym.make("FrozenLake-v1"), key="safe", cost="violations")
    assert env.spec.additional_wrappers[-1].kwargs == {"key": "safe", "cost": "violations"}


class Observing(gym.Env):
    """The Real-World RL Suite's way: an array of truth values in the observation, and one buffer for all steps."""

    observation_space = gym.spaces.Dict(
        {"position": gym.spaces.Box(-1.0, 1.0, (1,)), "constraints": gym.spaces.Box(0, 1, (2,), dtype=np.bool_)}
    )
    action_space = gym.spaces.Discrete(2)

    def __init__(self, reports=((True, True), (False, True), (False, False))):
        self.buffer, self.reports = np.ones(2, dtype=np.bool_), reports

    def reset(self, *, seed=None, options=None):
        self.left = list(self.reports)
        return {"position": np.zeros(1), "constraints": self.buffer}, {}

    def step(self, action):
        self.buffer[:] = self.left.pop(0)
        return {"position": np.zeros(1), "constraints": self.buffer}, 0.0, False, not self.left, {}


OBSERVED = [(0.0, 0.0, 0.0), (1.0, 0.0, 1.0), (1.0, 1.0, 2.0)]


def test_an_array_in_the_observation():
    env = BooleanCosts(Observing())
    env.reset()
    infos = [env.step(0)[-1] for _ in range(3)]
    assert [(info["cost_0"], info["cost_1"], info["cost"]) for info in infos] == OBSERVED


def test_an_array_in_the_observation_of_copies():
    env = SyncVectorEnv([lambda: BooleanCosts(Observing())] * 2)
    env.reset()
    infos = [env.step(np.zeros(2, dtype=int))[-1] for _ in range(3)]
    assert [info["cost"].tolist() for info in infos] == [[total] * 2 for *_, total in OBSERVED]


@pytest.mark.parametrize("mode", [None, *MODES])
def test_an_array_in_info(scripted, mode):
    def make():
        return scripted.Playback(scripted.episode([0, 1], [{"constraints": np.array([True, False, False])}]))

    env = BooleanCosts(make()) if mode is None else vector.BooleanCosts(SyncVectorEnv([make] * 2, autoreset_mode=mode))
    env.reset()
    *_, info = env.step(0 if mode is None else np.zeros(2, dtype=int))
    info = info.get("final_info", info)
    assert [np.max(info[key]) for key in ("cost_0", "cost_1", "cost_2", "cost")] == [0.0, 1.0, 1.0, 2.0]
