"""Wrappers that declare: what they tell the tracker, what they refuse, and what they record of themselves."""

import inspect
import json

import gymnasium as gym
import numpy as np
import pytest

from constrained_maxent import wrappers
from constrained_maxent.errors import (
    DuplicateName,
    InvalidData,
    InvalidSetting,
    MissingTracker,
)
from constrained_maxent.functionals import Autograd, KLDivergence, L2Distance
from constrained_maxent.occupancy import Counts
from constrained_maxent.penalties import AugmentedLagrangian, Exact, Lagrangian, Penalty, Quadratic
from constrained_maxent.wrappers import (
    BooleanCosts,
    ConvexConstraint,
    CostConstraint,
    EntropyObjective,
    ImitationConstraint,
    PseudoReward,
    TrackOccupancy,
    find_tracker,
)

TABLE = np.full((16, 4), 1 / 64)
PACKAGE = Penalty.__module__


def tracked(**settings):
    return TrackOccupancy(gym.make("FrozenLake-v1"), **({"episodes_per_batch": 4} | settings))


def total(occupancy):
    return occupancy.sum()


# The first two need no tracker below them. One of each, with no argument at its default unless it says so.
EXAMPLES = {
    BooleanCosts: {"key": "safe", "cost": "violations"},
    TrackOccupancy: {
        "estimator": Counts(memory=0.25),
        "episodes_per_batch": 5,
        "steps_per_batch": None,
        "discount": 0.9,
        "horizon": 100,
        "scale": "truncated",
        "pairing": "split",
        # For densities; test_continuous_tracking.py uses them.
        "state": None,
        "policy_log_prob": None,
    },
    EntropyObjective: {"over": "state", "smoothing": 1e-3},
    CostConstraint: {"cost": "danger", "limit": 0.5, "penalty": Exact(2.0), "name": "safety"},
    ImitationConstraint: {
        "reference": TABLE.tolist(),
        "limit": 0.25,
        "penalty": Quadratic(3.0),
        "divergence": "l2",
        "name": "expert",
    },
    ConvexConstraint: {"functional": Autograd(total, limit=2.0), "penalty": Quadratic(3.0), "name": "sum"},
    PseudoReward: {},
}


class TestRecords:
    def test_every_wrapper_is_here(self):
        public = {value for value in vars(wrappers).values() if isinstance(value, type)}
        assert public == set(EXAMPLES)

    @pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
    def test_no_argument_is_forgotten(self, kind):
        env = gym.make("FrozenLake-v1") if kind is TrackOccupancy else tracked()
        made = kind(env, **EXAMPLES[kind])
        parameters = list(inspect.signature(kind.__init__).parameters)[2:]  # but self and env
        assert list(EXAMPLES[kind]) == parameters
        assert set(made._saved_kwargs) == set(parameters)
        spec = made.spec.additional_wrappers[-1]
        assert spec.name == kind.__name__
        for name, value in EXAMPLES[kind].items():
            if isinstance(value, Penalty):
                assert spec.kwargs[name] == value.to_config()
            elif isinstance(value, Counts):
                assert spec.kwargs[name] == {"kind": "Counts", "memory": 0.25, "smoothing": 0.0}
            elif not isinstance(value, Autograd):
                assert spec.kwargs[name] == value

    def test_a_whole_stack_comes_back_from_json(self):
        env = tracked(estimator=Counts(memory=0.25))
        env = EntropyObjective(env, over="state")
        env = CostConstraint(env, limit=0.5, penalty=Lagrangian(0.1, multiplier=2.0))
        env = ImitationConstraint(env, TABLE.tolist(), limit=0.25, penalty=AugmentedLagrangian(0.5))
        env = PseudoReward(env)
        text = env.spec.to_json()
        json.loads(text)
        again = gym.make(gym.envs.registration.EnvSpec.from_json(text))
        assert str(again) == str(env)
        tracker = find_tracker(again)
        assert tracker.estimator.memory == 0.25
        assert tracker.problem.objective.over == "state"
        assert tracker.problem.constraints["cost"].penalty == Lagrangian(0.1, multiplier=2.0)
        assert tracker.problem.constraints["cost"].functional.limit == 0.5
        assert tracker.problem.constraints["imitation"].penalty == AugmentedLagrangian(0.5)
        assert tracker.problem.constraints["imitation"].functional.value(TABLE) == pytest.approx(0.0)

    def test_a_penalty_of_the_users_own(self):
        class Cubic(Quadratic):
            pass

        # Neither its name nor where it says that it comes from makes it one of the package's.
        for own in (Cubic, type("Quadratic", (Quadratic,), {}), type("Own", (Quadratic,), {"__module__": PACKAGE})):
            env = CostConstraint(tracked(), limit=0.0, penalty=own(1.0))
            assert env.spec.additional_wrappers[-1].kwargs["penalty"] == own(1.0)


class TestOrder:
    @pytest.mark.parametrize("kind", list(EXAMPLES)[2:], ids=lambda kind: kind.__name__)
    def test_the_tracker_comes_first(self, kind):
        with pytest.raises(MissingTracker, match="TrackOccupancy"):
            kind(gym.make("FrozenLake-v1"), **EXAMPLES[kind])

    def test_a_tracker_above_does_not_count(self):
        with pytest.raises(MissingTracker):
            find_tracker(tracked().env)

    def test_other_wrappers_may_stand_between(self):
        env = gym.wrappers.TimeLimit(tracked(), 10)
        assert EntropyObjective(env).tracker is find_tracker(env) is env.env.tracker

    def test_the_nearest_tracker(self):
        inner = tracked()
        outer = TrackOccupancy(inner, episodes_per_batch=2)
        assert find_tracker(EntropyObjective(outer)) is outer.tracker
        assert inner.tracker.problem.objective is None

    @pytest.mark.parametrize("kind", list(EXAMPLES)[2:-1], ids=lambda kind: kind.__name__)
    def test_declarations_come_before_the_first_reset(self, kind):
        env = tracked()
        env.reset()
        with pytest.raises(InvalidSetting, match="before the first reset"):
            kind(env, **EXAMPLES[kind])
        assert env.tracker.problem.term_names == ()


class TestNames:
    def test_one_objective(self):
        with pytest.raises(DuplicateName, match="objective"):
            EntropyObjective(EntropyObjective(tracked()))

    def test_a_name_used_twice(self):
        env = CostConstraint(tracked(), limit=0.0, penalty=Quadratic(1.0))
        with pytest.raises(DuplicateName, match="'cost'"):
            CostConstraint(env, lambda s, a, s_next: 0.0, limit=0.0, penalty=Quadratic(1.0))
        # What was refused leaves nothing behind.
        assert env.tracker.problem.term_names == ("cost",)
        assert env.tracker.cost_sources == {"cost": "cost"}

    @pytest.mark.parametrize("name", ["objective", "ready", "", "a b", "1st"])
    def test_names_that_cannot_be(self, name):
        env = tracked()
        with pytest.raises(InvalidSetting, match="identifier"):
            CostConstraint(env, limit=0.0, penalty=Quadratic(1.0), name=name)
        assert env.tracker.cost_sources == {}

    def test_a_function_and_a_key_of_the_same_name(self, scripted):
        env = scripted.Playback(scripted.episode([0, 1], [5.0]))
        env = TrackOccupancy(env, episodes_per_batch=1, horizon=1, discount=1.0)
        env = CostConstraint(env, lambda s, a, s_next: 7.0, limit=0.0, penalty=Quadratic(0.0), name="cost")
        env = CostConstraint(env, "cost", limit=0.0, penalty=Quadratic(0.0), name="key")
        report = scripted.run(env, [0])[0]["batch"]
        assert report["constraints"] == {"cost": 7.0, "key": 5.0}


class TestArguments:
    @pytest.mark.parametrize("penalty", [1.0, None, "Quadratic", Quadratic])
    def test_a_penalty_that_is_none(self, penalty):
        with pytest.raises(InvalidSetting, match=r"must be a Penalty"):
            CostConstraint(tracked(), limit=0.0, penalty=penalty)

    def test_plain_data_make_a_penalty(self):
        env = CostConstraint(tracked(), limit=0.0, penalty={"kind": "Exact", "beta": 2.0})
        assert env.tracker.problem.constraints["cost"].penalty == Exact(2.0)

    @pytest.mark.parametrize("limit", [float("nan"), float("inf")])
    def test_limits_are_finite(self, limit):
        with pytest.raises(InvalidSetting, match="limit"):
            CostConstraint(tracked(), limit=limit, penalty=Quadratic(1.0))

    @pytest.mark.parametrize("divergence", ["kl", "l2"])
    def test_a_reference_of_another_size(self, divergence):
        for shape in ((4, 16), (16, 3), (64,)):
            with pytest.raises(InvalidData):
                ImitationConstraint(tracked(), np.ones(shape), limit=0.0, penalty=Quadratic(1.0), divergence=divergence)

    def test_a_cost_table_of_another_size(self):
        with pytest.raises(InvalidData, match="16 states"):
            CostConstraint(tracked(), np.ones((15, 4)), limit=0.0, penalty=Quadratic(1.0))

    def test_a_functional_of_another_size(self):
        with pytest.raises(InvalidData, match="16 states"):
            ConvexConstraint(tracked(), L2Distance(np.ones((2, 2))), penalty=Quadratic(1.0))

    def test_an_unknown_divergence(self):
        with pytest.raises(InvalidSetting, match="kl, l2"):
            ImitationConstraint(tracked(), TABLE, limit=0.0, penalty=Quadratic(1.0), divergence="js")

    def test_an_unknown_entropy(self):
        with pytest.raises(InvalidSetting, match="state-action, state"):
            EntropyObjective(tracked(), over="action")


class TestValues:
    """One step from state 0 by action 1: all mass, 1, is on one cell."""

    def env(self, scripted):
        env = scripted.Playback(scripted.episode([0, 1]), n_states=2)
        return TrackOccupancy(env, episodes_per_batch=1, horizon=1, discount=1.0)

    def test_kl(self, scripted):
        # KL = log(1 / 0.5) up to the smoothing; its derivative log(1 / 0.5) + 1. Slope 2 * 0.5 * KL.
        reference = [[0.25, 0.5], [0.25, 0.0]]
        env = ImitationConstraint(self.env(scripted), reference, limit=0.0, penalty=Quadratic(0.5))
        report = scripted.run(env, [1])[0]["batch"]
        assert report["constraints"]["imitation"] == pytest.approx(np.log(2), rel=1e-4)
        assert report["pseudo_rewards"][0][0] == pytest.approx(-np.log(2) * (np.log(2) + 1), rel=1e-4)

    def test_l2(self, scripted):
        # The distance of (1, 0) to (0.4, 0.8) is 1; its derivative there 0.6. Slope 1.
        reference = [[0.8, 0.4], [0.0, 0.0]]
        env = ImitationConstraint(self.env(scripted), reference, limit=0.5, penalty=Quadratic(1.0), divergence="l2")
        report = scripted.run(env, [1])[0]["batch"]
        assert report["constraints"]["imitation"] == pytest.approx(0.5)
        assert report["pseudo_rewards"][0][0] == pytest.approx(-0.6)

    def test_any_function(self, scripted):
        # F = sum of squares = 1, derivative 2, R = 0.75, slope 1.5.
        square = Autograd(lambda occupancy: (occupancy**2).sum(), limit=0.25)
        env = ConvexConstraint(self.env(scripted), square, penalty=Quadratic(1.0), name="square")
        report = scripted.run(env, [1])[0]["batch"]
        assert report["constraints"] == pytest.approx({"square": 0.75})
        assert report["pseudo_rewards"][0][0] == pytest.approx(-3.0)

    def test_the_reward_is_replaced_and_kept(self, scripted):
        playback = scripted.Playback(
            scripted.episode([0, 1, 1, 1], [{"reward": 3.0}, {"reward": 4.0}, {"reward": 5.0}])
        )
        env = TrackOccupancy(playback, steps_per_batch=2, horizon=3, discount=1.0, pairing="previous")
        env = PseudoReward(EntropyObjective(env, smoothing=0.5))
        env.reset()
        rewards, infos = zip(*[(step[1], step[4]) for step in (env.step(0) for _ in range(3))], strict=True)
        assert [info["original_reward"] for info in infos] == [3.0, 4.0, 5.0]
        # Two of three steps: 2/3 of an episode; each visited cell has (1/3) / (2/3) = 1/2.
        assert rewards == pytest.approx((0.0, 0.0, -np.log(1.0) - 0.5))
        assert [info["pseudo_reward"] for info in infos] == list(rewards)


class TestSmoothing:
    """Without smoothing a cell never seen has an infinite pseudo-reward, and info promises a finite one."""

    def test_an_entropy_needs_it(self):
        with pytest.raises(InvalidSetting, match="smoothing above 0"):
            EntropyObjective(tracked(), smoothing=0.0)

    def test_a_divergence_needs_it(self):
        with pytest.raises(InvalidSetting, match="smoothing above 0"):
            ConvexConstraint(tracked(), KLDivergence(TABLE, smoothing=0.0), penalty=Quadratic(1.0))
