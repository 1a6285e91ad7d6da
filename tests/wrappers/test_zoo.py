"""A zoo of misbehaving environments: each ends in the right number or in a named error, scalar and vector."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from constrained_maxent.errors import (
    ConstrainedMaxentError,
    DuplicateName,
    InvalidData,
    MissingCost,
    MissingState,
    NonFiniteValue,
)
from constrained_maxent.functionals import Entropy, LinearCost, Reward
from constrained_maxent.occupancy import GaussianMixture
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.wrappers import constrain, find_tracker

pytestmark = pytest.mark.fault

NAN, INF = math.nan, math.inf
LENGTH = 5
MEAN_COST = 2.0  # of the costs 0, 1, 2, 3, 4, each once an episode


class Clock(gym.Env[Any, Any]):
    """Episodes of ``LENGTH`` steps; step t costs t. ``spoil`` changes the reply to one step, if it is sick."""

    horizon = LENGTH

    def __init__(self, spoil: Callable[[list[Any]], Any] | None = None, *, is_box: bool = False, at: int = 2) -> None:
        self.observation_space = Box(-np.inf, np.inf, (2,)) if is_box else Discrete(LENGTH + 1)
        self.action_space = Discrete(2)
        self.spoil, self.at, self.is_sick = spoil, at, False
        self.time = 0

    def _observation(self) -> Any:
        if isinstance(self.observation_space, Box):
            return np.array([self.time, (-1.0) ** self.time], dtype=np.float32)
        return self.time

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        reply = [self._observation(), {"state": np.array([0.0, 1.0])}]
        return self._spoilt(reply, at=-1)

    def step(self, action: Any) -> Any:
        cost = float(self.time)
        self.time += 1
        info = {"cost": cost, "state": np.array([self.time, 1.0])}
        return self._spoilt([self._observation(), 0.0, False, self.time == LENGTH, info], at=self.time - 1)

    def _spoilt(self, reply: list[Any], *, at: int) -> Any:
        if self.spoil is not None and self.is_sick and self.at == at:
            changed = self.spoil(reply)
            return tuple(reply) if changed is None else None if changed == "nothing" else changed
        return tuple(reply)


def build(env: Any, *, cost: Any = "cost", is_box: bool = False, **tracking: Any) -> Any:
    """λ̂ at discount 1, so that R is the mean cost of a step times the mass."""
    estimator = {"estimator": GaussianMixture(n_components=1)} if is_box else {}
    settings = {"episodes_per_batch": 4, "discount": 1.0, **estimator, **tracking}
    limits = {"cost": Constraint(LinearCost(cost, limit=0.0), Quadratic(beta=1.0))}
    return constrain(env, Entropy(), limits, **settings)


def vectorized(makes: list[Callable[[], Any]], mode: AutoresetMode = AutoresetMode.SAME_STEP) -> Any:
    return SyncVectorEnv(makes, autoreset_mode=mode)


def batch_of(env: Any, n_steps: int = 60) -> dict[str, Any]:
    """Step until a batch is complete, and return its report."""
    tracker = find_tracker(env)
    begun, is_scalar = tracker.iteration, isinstance(env, gym.Env)
    env.reset(seed=0)
    for _ in range(n_steps):
        *_, terminated, truncated, info = env.step(0 if is_scalar else np.zeros(env.num_envs, dtype=np.int64))
        if tracker.iteration != begun:
            assert all(math.isfinite(r) for rewards in info["batch"]["pseudo_rewards"] for r in rewards)
            return dict(info["batch"])
        if is_scalar and (terminated or truncated):
            env.reset()
    raise AssertionError("no batch")


def set_entry(position: int, value: Any) -> Callable[[list[Any]], Any]:
    def spoil(reply: list[Any]) -> None:
        reply[position] = value

    return spoil


def info(**entries: Any) -> Callable[[list[Any]], Any]:
    def spoil(reply: list[Any]) -> None:
        reply[-1] = reply[-1] | entries

    return spoil


def without(key: str) -> Callable[[list[Any]], Any]:
    def spoil(reply: list[Any]) -> None:
        del reply[-1][key]

    return spoil


def raising(error: BaseException) -> Callable[[list[Any]], Any]:
    def spoil(reply: list[Any]) -> None:
        raise error

    return spoil


OBSERVATION, REWARD, TERMINATED, TRUNCATED = range(4)
ELSEWHERE = (ConstrainedMaxentError, DeprecationWarning, UserWarning)
"""In vectors some replies fail in Gymnasium's own code already, by other names than here."""

REPLIES: dict[str, tuple[Callable[[list[Any]], Any], Any]] = {
    "six values": (lambda reply: (*reply, 0), InvalidData),
    "four values of the old Gym": (lambda reply: tuple(reply[:3] + reply[4:]), InvalidData),
    "nothing": (lambda reply: "nothing", InvalidData),
    "info is None": (set_entry(4, None), InvalidData),
    "info is a list": (set_entry(4, [{}]), InvalidData),
    "info has a batch": (info(batch=3), DuplicateName),
    "reward is None": (set_entry(REWARD, None), InvalidData),
    "reward of two": (set_entry(REWARD, np.ones(2)), InvalidData),
    "reward is NaN": (set_entry(REWARD, NAN), NonFiniteValue),
    "reward is infinite": (set_entry(REWARD, np.float32(-INF)), NonFiniteValue),
    "reward beyond all floats": (set_entry(REWARD, 10**400), NonFiniteValue),
    "truncated of two": (set_entry(TRUNCATED, np.zeros(2, dtype=bool)), InvalidData),
    "observation above its space": (set_entry(OBSERVATION, 7), InvalidData),
    "observation below its space": (set_entry(OBSERVATION, -1), InvalidData),
    "observation is None": (set_entry(OBSERVATION, None), InvalidData),
    "observation of two": (set_entry(OBSERVATION, np.zeros(2)), InvalidData),
    "no cost": (without("cost"), MissingCost),
    "cost is None": (info(cost=None), InvalidData),
    "cost is a string": (info(cost="3"), InvalidData),
    "cost is bytes": (info(cost=b"3"), InvalidData),
    "cost is complex": (info(cost=1 + 0j), InvalidData),
    "cost is NumPy's complex": (info(cost=np.complex128(1 + 2j)), InvalidData),
    "cost is NaN": (info(cost=NAN), NonFiniteValue),
    "cost is infinite": (info(cost=np.float64(INF)), NonFiniteValue),
    "cost of two": (info(cost=np.ones(2)), InvalidData),
    "cost of none": (info(cost=np.ones(0)), InvalidData),
    "cost of 1e300": (info(cost=1e300), InvalidData),
    "cost of 10**400": (info(cost=10**400), NonFiniteValue),
    "cost is a list": (info(cost=[1.0, 2.0]), InvalidData),
    "cost is a buffer": (info(cost=bytearray(b"3")), InvalidData),
    "cost is masked": (info(cost=np.ma.masked), (InvalidData, NonFiniteValue)),
    "cost is a time": (info(cost=np.timedelta64(3, "s")), InvalidData),
    "reward is masked": (set_entry(REWARD, np.ma.masked), (InvalidData, NonFiniteValue)),
    "cost is a dictionary": (info(cost={"a": 1.0}), InvalidData),
    "the environment fails": (raising(ZeroDivisionError()), ZeroDivisionError),
    "an interrupt": (raising(KeyboardInterrupt()), KeyboardInterrupt),
}

FLAGS: dict[str, Any] = {"None": None, "a string": "False", "a float": 0.5, "a list": [False, False], "two": 2}


def assert_well_again(env: Any, clocks: list[Clock]) -> None:
    """Nothing of the sick episode is in the batch that a reset begins."""
    for clock in clocks:
        clock.is_sick = False
    report = batch_of(env)
    assert report["constraints"]["cost"] == pytest.approx(MEAN_COST)
    assert report["episode_count"] == 4
    assert find_tracker(env).estimator.mass_ == pytest.approx(1.0)


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_of_a_step(name: str) -> None:
    spoil, error = REPLIES[name]
    clock = Clock(spoil)
    env = build(clock)
    for n_before in (0, 1):  # before the first fit, and after it
        if n_before:
            batch_of(env)
        clock.is_sick = True
        with pytest.raises(error):
            batch_of(env)
        with pytest.raises(gym.error.ResetNeeded):
            env.step(0)
        assert_well_again(env, [clock])


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_of_a_step_of_one_copy_of_two(name: str, mode: AutoresetMode) -> None:
    spoil, error = REPLIES[name]
    clocks = [Clock(spoil), Clock()]
    env = build(vectorized([lambda: clocks[0], lambda: clocks[1]], mode))
    clocks[0].is_sick = True
    with pytest.raises(ELSEWHERE if isinstance(error, tuple) else (error, *ELSEWHERE)):
        batch_of(env)
    with pytest.raises(gym.error.ResetNeeded):
        env.step(np.zeros(2, dtype=np.int64))
    assert_well_again(env, clocks)


@pytest.mark.parametrize("position", [TERMINATED, TRUNCATED])
@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_that_is_none(name: str, position: int) -> None:
    clock = Clock(set_entry(position, FLAGS[name]))
    env = build(clock)
    clock.is_sick = True
    with pytest.raises(InvalidData, match="True or False"):
        batch_of(env)
    assert_well_again(env, [clock])


@pytest.mark.parametrize("value", [np.False_, np.array(False), np.array([False]), 0, np.int8(0)], ids=repr)
def test_a_flag_that_is_one(value: Any) -> None:
    clock = Clock(set_entry(TERMINATED, value))
    clock.is_sick = True
    assert batch_of(build(clock))["constraints"]["cost"] == pytest.approx(MEAN_COST)


LEGAL = [True, np.True_, 1, np.int64(1), np.uint8(1), np.float32(1), np.array(1.0), np.array([1]), np.array([[1.0]])]
LEGAL += [Fraction(1), Decimal(1)]


@pytest.mark.parametrize("value", LEGAL, ids=repr)
def test_a_cost_of_another_type(value: Any) -> None:
    clock = Clock(info(cost=value), at=1)  # where it is 1.0
    clock.is_sick = True
    assert batch_of(build(clock))["constraints"]["cost"] == pytest.approx(MEAN_COST)


@pytest.mark.parametrize("value", [Fraction(1), Decimal(1), np.array(1.0), np.float32(1)], ids=repr)
def test_a_cost_of_another_type_in_all_copies(value: Any) -> None:
    clocks = [Clock(info(cost=value), at=1) for _ in range(2)]
    for clock in clocks:
        clock.is_sick = True
    env = build(vectorized([lambda: clocks[0], lambda: clocks[1]]))
    assert batch_of(env)["constraints"]["cost"] == pytest.approx(MEAN_COST)


BOXES: dict[str, tuple[Any, type[BaseException]]] = {
    "too short": (np.zeros(1), InvalidData),
    "too long": (np.zeros(3), InvalidData),
    "a number": (0.0, InvalidData),
    "None": (None, InvalidData),
    "strings": (["1", "2"], InvalidData),
    "complex": (np.zeros(2, dtype=complex), InvalidData),
    "objects": (np.array([None, 1.0]), InvalidData),
    "a dictionary": ({"a": 1.0}, InvalidData),
    "ragged": ([[1.0], [1.0, 2.0]], InvalidData),
    "NaN": (np.array([0.0, NAN]), NonFiniteValue),
    "infinite": (np.array([-INF, 0.0]), NonFiniteValue),
    "1e200": (np.array([1e200, 0.0]), InvalidData),
    "masked": (np.ma.array([0.0, 1.0], mask=[False, True]), InvalidData),
}


@pytest.mark.parametrize("at", [-1, 0, 3])
@pytest.mark.parametrize("name", BOXES)
def test_an_observation_of_a_box(name: str, at: int) -> None:
    value, error = BOXES[name]
    clock = Clock(set_entry(OBSERVATION, value), is_box=True, at=at)
    env = build(clock, is_box=True)
    clock.is_sick = True
    with pytest.raises(error):
        batch_of(env)
    assert_well_again(env, [clock])


@pytest.mark.parametrize("name", ["NaN", "infinite", "too long"])
def test_an_observation_of_a_box_in_a_vector(name: str) -> None:
    value, error = BOXES[name]
    clocks = [Clock(set_entry(OBSERVATION, value), is_box=True), Clock(is_box=True)]
    env = build(vectorized([lambda: clocks[0], lambda: clocks[1]]), is_box=True)
    clocks[0].is_sick = True
    with pytest.raises((error, *ELSEWHERE)):
        batch_of(env)
    assert_well_again(env, clocks)


@pytest.mark.parametrize("value", [[1.0, -1.0], np.array([1, -1]), (1, -1), np.array([[1.0, -1.0]])], ids=repr)
def test_an_observation_in_another_form(value: Any) -> None:
    clock = Clock(set_entry(OBSERVATION, value), is_box=True, at=0)
    clock.is_sick = True
    env = build(clock, is_box=True)
    assert batch_of(env)["constraints"]["cost"] == pytest.approx(MEAN_COST)
    assert find_tracker(env).last_batch.observations[1].tolist() == [1.0, -1.0]


STATES: dict[str, tuple[Callable[[list[Any]], Any], type[BaseException]]] = {
    "missing": (without("state"), MissingState),
    "None": (info(state=None), InvalidData),
    "strings": (info(state=["1", "2"]), InvalidData),
    "complex": (info(state=np.zeros(2, dtype=complex)), InvalidData),
    "ragged": (info(state=[[1.0], [1.0, 2.0]]), InvalidData),
    "longer than before": (info(state=np.zeros(3)), InvalidData),
    "NaN": (info(state=np.array([NAN, 0.0])), NonFiniteValue),
    "1e200": (info(state=np.array([1e200, 0.0])), InvalidData),
    "masked": (info(state=np.ma.array([0.0, 1.0], mask=[False, True])), InvalidData),
    "empty": (info(state=np.zeros(0)), InvalidData),
}


@pytest.mark.parametrize("name", STATES)
def test_a_state(name: str) -> None:
    spoil, error = STATES[name]
    clock = Clock(spoil)
    env = build(clock, is_box=True, state="state")
    clock.is_sick = True
    with pytest.raises(error):
        batch_of(env)
    assert_well_again(env, [clock])


@pytest.mark.parametrize("name", [name for name in STATES if name != "masked"])  # Gymnasium leaves the mask out
def test_a_state_of_one_copy_of_two(name: str) -> None:
    spoil, error = STATES[name]
    clocks = [Clock(spoil), Clock()]
    env = build(vectorized([lambda: clocks[0], lambda: clocks[1]]), is_box=True, state="state")
    clocks[0].is_sick = True
    with pytest.raises((error, *ELSEWHERE)):
        batch_of(env)
    assert_well_again(env, clocks)


@pytest.mark.parametrize("kind", ["scalar", "vector"])
@pytest.mark.parametrize("bad", [NAN, INF, 1e200])
def test_an_action_is_refused_at_once(kind: str, bad: float) -> None:
    """And not at the batch's end, with all of its steps."""

    class Reacher(Clock):
        def __init__(self) -> None:
            super().__init__(is_box=True)
            self.action_space = Box(-1.0, 1.0, (2,))

    env = build(Reacher() if kind == "scalar" else vectorized([Reacher]), is_box=True)
    action = np.zeros((2,) if kind == "scalar" else (1, 2))
    env.reset()
    env.step(action)
    action[..., 1] = bad
    with pytest.raises((NonFiniteValue, InvalidData), match="he action"):
        env.step(action)


@pytest.mark.parametrize(
    "actions", [np.zeros(1, dtype=int), np.zeros(3, dtype=int), 0], ids=["one", "three", "a number"]
)
def test_actions_for_another_number_of_copies(actions: Any) -> None:
    env = build(vectorized([Clock, Clock]))
    env.reset()
    with pytest.raises(InvalidData, match=r"actions for 2 sub-environments"):
        env.step(actions)


RESETS: dict[str, Callable[[list[Any]], Any]] = {
    "the observation alone": lambda reply: reply[0],
    "three values": lambda reply: (*reply, 0),
    "info is None": set_entry(1, None),
    "info has a batch": info(batch={}),
    "an observation outside": set_entry(0, 99),
}


@pytest.mark.parametrize("name", RESETS)
def test_a_reply_of_a_reset(name: str) -> None:
    clock = Clock(RESETS[name], at=-1)
    env = build(clock)
    batch_of(env)
    clock.is_sick = True
    with pytest.raises((InvalidData, DuplicateName)):
        batch_of(env)
    with pytest.raises(gym.error.ResetNeeded):
        env.step(0)
    assert_well_again(env, [clock])


@pytest.mark.parametrize("seed", [2**64, 2**70, 10**40])
def test_seeds_beyond_64_bits(seed: int) -> None:
    env = build(Clock())
    env.reset(seed=seed)
    assert env.unwrapped.np_random_seed == seed
    build(vectorized([Clock, Clock])).reset(seed=seed)


def test_rewards_as_an_objective() -> None:
    """Arrays of one entry are a reward; what is too large to be squared is refused."""
    clock = Clock(set_entry(REWARD, np.array([5.0])))
    clock.is_sick = True
    env = constrain(clock, Reward(), episodes_per_batch=2, discount=1.0)
    assert batch_of(env)["objective"] == pytest.approx(5.0 / LENGTH)
    clock.spoil = set_entry(REWARD, 1e200)
    with pytest.raises(InvalidData, match="1e\\+200"):
        batch_of(env)
