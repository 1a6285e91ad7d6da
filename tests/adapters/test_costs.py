"""Costs of other people's environments, worked out by hand, alone and in vectors."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit

from constrained_maxent.adapters.costs import ConstraintValues, CostInStep, TerminationCost
from constrained_maxent.errors import DuplicateName, InvalidData, InvalidSetting, MissingCost, NonFiniteValue
from constrained_maxent.functionals import Entropy, LinearCost
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.wrappers import FloatInfo, TrackOccupancy, constrain

MODES = list(AutoresetMode)


class Replying(gym.Env[Any, Any]):
    """Two steps with these replies: what stands between the reward and the flags, and the infos."""

    observation_space = gym.spaces.Discrete(3)
    action_space = gym.spaces.Discrete(2)
    horizon = 2

    def __init__(self, *infos: dict[str, Any], between: tuple[Any, ...] = (), terminates: bool = False) -> None:
        self.infos, self.between, self.terminates = infos or ({}, {}), between, terminates
        self.time = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return 0, {}

    def step(self, action: Any) -> Any:
        info, between = self.infos[self.time], self.between[self.time : self.time + 1]
        self.time += 1
        over = self.time == 2
        return (self.time, 0.0, *between, over and self.terminates, over and not self.terminates, dict(info))


def reported(env: Any) -> list[dict[str, Any]]:
    env.reset(seed=0)
    return [env.step(0)[-1] for _ in range(2)]


def violation(make: Any, key: str, mode: AutoresetMode | None) -> float:
    """The mean cost of a step, in a batch of two whole episodes."""
    env: Any = make() if mode is None else SyncVectorEnv([lambda: FloatInfo(make())] * 2, autoreset_mode=mode)
    limits = {"c": Constraint(LinearCost(key, limit=0.0), Quadratic(beta=1.0))}
    env = constrain(env, Entropy(), limits, episodes_per_batch=2, discount=1.0)
    env.reset(seed=0)
    for _ in range(8):
        *_, terminated, truncated, info = env.step(0 if mode is None else np.zeros(2, dtype=np.int64))
        if "batch" in info:
            return float(info["batch"]["constraints"]["c"])
        if mode is None and (terminated or truncated):
            env.reset()
        elif mode is AutoresetMode.DISABLED and np.any(done := terminated | truncated):
            env.reset(options={"reset_mask": done})
    raise AssertionError("no batch")


SAFETY = ({"cost_hazards": 0.25, "cost_vases": 0.5, "cost_sum": 0.75}, {"cost_hazards": 0.0, "cost_sum": 0.0})


class TestCostInStep:
    def make(self, *costs: Any, infos: Any = SAFETY) -> Any:
        return CostInStep(Replying(*infos, between=costs))

    def test_six_values_become_five(self) -> None:
        env = TimeLimit(self.make(0.75, 0.0), 2)
        env.reset()
        assert [env.step(0)[1:4] for _ in range(2)] == [(0.0, False, False), (0.0, False, True)]
        assert [info["cost"] for info in reported(env)] == [0.75, 0.0]

    @pytest.mark.parametrize("mode", [None, *MODES])
    def test_in_a_stack(self, mode: Any) -> None:
        assert violation(lambda: self.make(0.75, 0), "cost", mode) == pytest.approx(0.375)
        assert violation(lambda: self.make(0.75, 0), "cost_hazards", mode) == pytest.approx(0.125)
        assert violation(lambda: self.make(0.75, 0), "cost_sum", mode) == pytest.approx(0.375)

    @pytest.mark.parametrize("cost", [True, np.bool_(True), np.float32(1.0), np.array([1.0])])
    def test_kinds_of_numbers(self, cost: Any) -> None:
        info = reported(self.make(cost, 0))[0]
        assert info["cost"] == 1.0
        assert type(info["cost"]) is np.float64

    def test_the_same_in_info(self) -> None:
        assert reported(self.make(0.5, 0.0, infos=({"cost": 0.5}, {})))[0]["cost"] == 0.5

    @pytest.mark.parametrize(
        ("cost", "infos", "error"),
        [
            (np.nan, SAFETY, NonFiniteValue),
            ("1.0", SAFETY, InvalidData),
            (np.zeros(2), SAFETY, InvalidData),
            (0.5, ({"cost": 0.25}, {}), DuplicateName),
        ],
    )
    def test_what_is_no_cost(self, cost: Any, infos: Any, error: Any) -> None:
        with pytest.raises(error):
            reported(self.make(cost, 0.0, infos=infos))

    def test_five_values(self) -> None:
        with pytest.raises(InvalidData, match="six values"):
            reported(CostInStep(Replying()))

    def test_a_stack_without_it_names_it(self) -> None:
        with pytest.raises(InvalidData, match=r"adapters\.costs\.CostInStep"):
            reported(TrackOccupancy(Replying(*SAFETY, between=(0.75, 0.0)), episodes_per_batch=1))


VALUES = ({"constraint_values": np.array([-0.5, 0.25, 2.0])}, {"constraint_values": np.array([-1.0, -0.1, 0.0])})


class TestConstraintValues:
    def test_what_exceeds_costs_as_much(self) -> None:
        keys = ("cost_0", "cost_1", "cost_2", "cost")
        infos = reported(ConstraintValues(Replying(*VALUES)))
        assert [[info[key] for key in keys] for info in infos] == [[0.0, 0.25, 2.0, 2.25], [0.0] * 4]

    @pytest.mark.parametrize("mode", [None, *MODES])
    def test_in_a_stack(self, mode: Any) -> None:
        assert violation(lambda: ConstraintValues(Replying(*VALUES)), "cost", mode) == pytest.approx(1.125)

    def test_names(self) -> None:
        named = {"g": {"tilt": 0.5, "speed": np.float32(-1.0)}}
        info = reported(ConstraintValues(Replying(named, named), key="g", cost="excess"))[0]
        assert (info["excess_tilt"], info["excess_speed"], info["excess"]) == (0.5, 0.0, 0.5)

    @pytest.mark.parametrize(
        ("info", "error"),
        [
            ({}, MissingCost),
            ({"constraint_values": []}, InvalidData),
            ({"constraint_values": [np.nan]}, NonFiniteValue),
            ({"constraint_values": ["a"]}, InvalidData),
            ({"constraint_values": [1.0], "cost": 1.0}, DuplicateName),
        ],
    )
    def test_what_is_refused(self, info: Any, error: Any) -> None:
        with pytest.raises(error):
            reported(ConstraintValues(Replying(info, info)))


class TestTerminationCost:
    @pytest.mark.parametrize(("terminates", "mean"), [(True, 0.5), (False, 0.0)])
    @pytest.mark.parametrize("mode", [None, *MODES])
    def test_one_where_the_environment_ends_the_episode(self, mode: Any, terminates: bool, mean: float) -> None:
        assert violation(lambda: TerminationCost(Replying(terminates=terminates)), "terminated", mode) == mean

    def test_a_key_that_is_taken(self) -> None:
        taken = {"terminated": False}
        with pytest.raises(DuplicateName):
            reported(TerminationCost(Replying(taken, taken)))


@pytest.mark.parametrize("mode", [None, *MODES])
@pytest.mark.parametrize("cost", [1, True, np.bool_(True), np.float32(1.0), np.array([1.0])])
def test_a_cost_of_any_type_in_info(cost: Any, mode: Any) -> None:
    """What OmniSafe and FSRL wrap: info["cost"], of 1 and then of 0.5, in copies that begin with whole numbers."""
    assert violation(lambda: Replying({"cost": cost}, {"cost": 0.5}), "cost", mode) == pytest.approx(0.75)


@pytest.mark.parametrize("wrapper", [CostInStep, ConstraintValues, TerminationCost])
def test_arguments_are_in_the_spec_and_vectors_are_refused(wrapper: Any) -> None:
    assert wrapper(gym.make("FrozenLake-v1")).spec.additional_wrappers[-1].name == wrapper.__name__
    with pytest.raises(InvalidSetting, match=wrapper.__name__):
        wrapper(gym.make_vec("FrozenLake-v1", 2, "sync"))
