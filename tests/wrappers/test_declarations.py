"""Wrappers that declare: what they tell the tracker, what they refuse, and what they record of themselves."""

import inspect
import json

import gymnasium as gym
import numpy as np
import pytest

from constrained_maxent import wrappers
from constrained_maxent.agents import PGP
from constrained_maxent.errors import (
    DuplicateName,
    InvalidData,
    InvalidSetting,
    MissingTracker,
    UnsupportedSpace,
)
from constrained_maxent.functionals import OWN_REWARD, Autograd, Entropy, KLDivergence, L2Distance, LinearCost, Reward
from constrained_maxent.occupancy import Counts, GaussianMixture, Gaussians, Mixture, NearestNeighbors
from constrained_maxent.penalties import AugmentedLagrangian, Exact, Lagrangian, Penalty, Quadratic
from constrained_maxent.references import CallablePolicy, Reference, shipped
from constrained_maxent.wrappers import (
    BooleanCosts,
    ConvexConstraint,
    CostConstraint,
    EntropyObjective,
    FloatInfo,
    ImitationConstraint,
    Objective,
    PseudoReward,
    RandomEncoder,
    SteadyInfo,
    TrackOccupancy,
    find_tracker,
    vector,
)

TABLE = np.full((16, 4), 1 / 64)
PACKAGE = Penalty.__module__


def tracked(**settings):
    return TrackOccupancy(gym.make("FrozenLake-v1"), **({"episodes_per_batch": 4} | settings))


def total(occupancy):
    return occupancy.sum()


# The first three need no tracker below them. One of each, with no argument at its default unless it says so.
EXAMPLES = {
    FloatInfo: {},
    SteadyInfo: {"keys": ["wind"], "missing": 0.0},
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
        "cells": None,
        "policy_log_prob": None,
        "suggestions": {"learning_rate": 0.1},
    },
    Objective: {"functional": Entropy(over="state", smoothing=1e-3)},
    EntropyObjective: {"over": "state", "smoothing": 1e-3, "resolution": None},
    CostConstraint: {"cost": "danger", "limit": 0.5, "penalty": Exact(2.0), "name": "safety"},
    ImitationConstraint: {
        "reference": TABLE.tolist(),
        "limit": 0.25,
        "penalty": Quadratic(3.0),
        "divergence": "l2",
        "name": "expert",
    },
    ConvexConstraint: {
        "functional": Autograd(total, limit=2.0),
        "penalty": Quadratic(3.0),
        "limit": 1.0,
        "name": "sum",
    },
    PseudoReward: {"normalize": True},
}


class TestRecords:
    def test_every_wrapper_is_here(self):
        public = {value for value in vars(wrappers).values() if isinstance(value, type)} - {RandomEncoder}  # of states
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
            elif isinstance(value, Entropy):
                plain = {"kind": "Entropy", "limit": 0.0, "over": "state", "smoothing": 1e-3, "resolution": None}
                assert spec.kwargs[name] == plain
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
        assert tracker.problem.constraints["imitation"].functional(TABLE) == pytest.approx(0.0)

    def test_functionals_come_back_from_json(self):
        env = Objective(tracked(), Entropy(over="state", smoothing=1e-3))
        env = ConvexConstraint(env, LinearCost("cost"), limit=0.25, penalty=Exact(2.0), name="risk")
        env = ConvexConstraint(env, LinearCost("heat", limit=0.75), penalty=Exact(3.0), name="heat")
        again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
        assert str(again) == str(env)
        problem = find_tracker(again).problem
        assert (problem.objective.over, problem.objective.smoothing) == ("state", 1e-3)
        assert {name: c.functional.limit for name, c in problem.constraints.items()} == {"risk": 0.25, "heat": 0.75}
        assert [c.penalty for c in problem.constraints.values()] == [Exact(2.0), Exact(3.0)]
        assert find_tracker(again).sources == {"cost": "cost", "heat": "heat"}

    def test_any_objective_comes_back_from_the_spec(self):
        env = Objective(tracked(), 0.25 * Entropy() + Reward())
        again = gym.make(env.spec)
        assert str(again) == str(env)
        assert find_tracker(again).sources == {"reward()": OWN_REWARD}
        assert [weight for weight, _ in find_tracker(again).problem.objective.parts] == [0.25, 1.0]

    def test_a_penalty_of_the_users_own(self):
        class Cubic(Quadratic):
            pass

        # Neither its name nor where it says that it comes from makes it one of the package's.
        for own in (Cubic, type("Quadratic", (Quadratic,), {}), type("Own", (Quadratic,), {"__module__": PACKAGE})):
            env = CostConstraint(tracked(), limit=0.0, penalty=own(1.0))
            assert env.spec.additional_wrappers[-1].kwargs["penalty"] == own(1.0)


class TestOrder:
    @pytest.mark.parametrize("kind", list(EXAMPLES)[4:], ids=lambda kind: kind.__name__)
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

    @pytest.mark.parametrize("kind", list(EXAMPLES)[4:-1], ids=lambda kind: kind.__name__)
    def test_declarations_come_before_the_first_reset(self, kind):
        env = tracked()
        env.reset()
        with pytest.raises(InvalidSetting, match="reset"):
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
        assert env.tracker.sources == {"cost": "cost"}

    @pytest.mark.parametrize("name", ["objective", "ready", "", "a b", "1st"])
    def test_names_that_cannot_be(self, name):
        env = tracked()
        with pytest.raises(InvalidSetting, match="name="):
            CostConstraint(env, limit=0.0, penalty=Quadratic(1.0), name=name)
        assert env.tracker.sources == {}

    def test_a_refused_function_is_not_asked(self):
        env = CostConstraint(tracked(), limit=0.0, penalty=Quadratic(1.0))
        with pytest.raises(DuplicateName):
            CostConstraint(env, lambda s, a, s_next: 0.0, limit=0.0, penalty=Quadratic(1.0))
        with pytest.raises(DuplicateName):
            Objective(EntropyObjective(env), Reward(lambda s, a, s_next: 0.0))
        assert env.tracker.sources == {"cost": "cost"}

    def test_a_function_and_a_key_of_the_same_name(self, scripted):
        env = scripted.Playback(scripted.episode([0, 1], [5.0]))
        env = TrackOccupancy(env, episodes_per_batch=1, horizon=1, discount=1.0)
        env = CostConstraint(env, lambda s, a, s_next: 7.0, limit=0.0, penalty=Quadratic(0.0), name="cost")
        env = CostConstraint(env, "cost", limit=0.0, penalty=Quadratic(0.0), name="key")
        report = scripted.run(env, [0])[0]["batch"]
        assert report["constraints"] == {"cost": 7.0, "key": 5.0}


class TestArguments:
    @pytest.mark.parametrize("penalty", [1.0, "Quadratic", Quadratic])
    def test_a_penalty_that_is_none(self, penalty):
        with pytest.raises(InvalidSetting, match="penalty="):
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

    @pytest.mark.parametrize(
        "functional",
        [
            LinearCost(TABLE),
            Reward(TABLE),
            KLDivergence(TABLE),
            L2Distance(TABLE),
            Autograd(lambda occupancy: occupancy.sum()),
            Entropy() - 0.1 * LinearCost(TABLE),
        ],
    )
    def test_tables_are_of_no_density(self, functional):
        env = TrackOccupancy(gym.make("Pendulum-v1"), GaussianMixture(), episodes_per_batch=2, discount=1.0)
        with pytest.raises(InvalidSetting, match="GaussianMixture estimates a density: take Counts"):
            Objective(env, functional)

    @pytest.mark.parametrize("functional", ["entropy", 1.0, None, Entropy, lambda occupancy: 0.0])
    def test_a_functional_that_is_none(self, functional):
        with pytest.raises(InvalidSetting, match="functional="):
            Objective(tracked(), functional)
        with pytest.raises(InvalidSetting, match="functional="):
            ConvexConstraint(tracked(), functional, penalty=Quadratic(1.0))

    def test_plain_data_make_a_functional(self):
        env = Objective(tracked(), {"kind": "Entropy", "over": "state"})
        assert env.tracker.problem.objective.over == "state"
        for wrong in ({"kind": "Surprise"}, {"kind": "Entropy", "of": "state"}, {}):
            with pytest.raises(InvalidSetting, match="functional"):
                Objective(tracked(), wrong)

    def test_curvatures_that_make_no_convex_problem(self):
        """Known ones are refused; what is not known is the user's to know; the negative of a convex one is concave."""
        for convex in (L2Distance(TABLE), KLDivergence(TABLE), -1.0 * Entropy()):
            with pytest.raises(InvalidSetting, match="objective="):
                Objective(tracked(), convex)
            assert Objective(tracked(), -1.0 * convex).tracker.problem.term_names == ("objective",)
        for concave in (Entropy(), -1.0 * KLDivergence(TABLE), Reward() + Entropy()):
            with pytest.raises(InvalidSetting, match="'near'"):
                ConvexConstraint(tracked(), concave, penalty=Quadratic(1.0), name="near")
        either = Autograd(total)
        env = ConvexConstraint(Objective(tracked(), either), either, penalty=Quadratic(1.0))
        env = ConvexConstraint(env, LinearCost(TABLE), penalty=Quadratic(1.0), name="affine")
        assert env.tracker.problem.term_names == ("objective", "convex", "affine")

    def test_a_limit_of_its_own_goes_before_the_functionals(self):
        near = L2Distance(TABLE, limit=0.5)
        env = ConvexConstraint(tracked(), near, penalty=Quadratic(1.0))
        env = ConvexConstraint(env, near, penalty=Quadratic(1.0), limit=0.0, name="other")
        constraints = env.tracker.problem.constraints.values()
        assert [constraint.functional.limit for constraint in constraints] == [0.5, 0.0]
        assert near.limit == 0.5
        with pytest.raises(InvalidSetting, match="limit="):
            ConvexConstraint(tracked(), near, penalty=Quadratic(1.0), limit=float("nan"))

    def test_an_unknown_divergence(self):
        with pytest.raises(InvalidSetting, match="divergence="):
            ImitationConstraint(tracked(), TABLE, limit=0.0, penalty=Quadratic(1.0), divergence="js")

    def test_an_unknown_entropy(self):
        with pytest.raises(InvalidSetting, match="over="):
            EntropyObjective(tracked(), over="action")


class TestValues:
    """One step from state 0 by action 1: all mass, 1, is on one cell."""

    def env(self, scripted, costs=None):
        env = scripted.Playback(scripted.episode([0, 1], costs), n_states=2)
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

    def test_a_sum_has_the_wrappers_limit(self, scripted):
        # 1 step at cost 3: F = 3 + 2 · 1 of the table; R = 5 - 4; slope 2 R = 2 on 3 + 2.
        env = self.env(scripted, [3.0])
        both = LinearCost("cost") + LinearCost([[0.0, 2.0], [0.0, 0.0]])
        env = ConvexConstraint(env, both, penalty=Quadratic(1.0), limit=4.0, name="sum")
        report = scripted.run(env, [1])[0]["batch"]
        assert report["constraints"] == pytest.approx({"sum": 1.0})
        assert report["pseudo_rewards"][0][0] == pytest.approx(-10.0)

    @pytest.mark.parametrize(
        ("reward", "expected"),
        [(Reward(), 7.0), (Reward("coins"), 11.0), (Reward(lambda s, a, s_next: 10.0 * s + a + 0.5 * s_next), 1.5)],
    )
    def test_an_objective_that_earns(self, scripted, reward, expected):
        """By hand: λ(0, 1) = 1, so F = -0.5 log(1 + σ) + r, and its derivative -0.5 (log(1 + σ) + 1 / (1 + σ)) + r."""
        env = self.env(scripted, [{"reward": 7.0, "coins": 11.0}])
        env = Objective(env, 0.5 * Entropy(smoothing=0.25) + reward)
        report = scripted.run(env, [1])[0]["batch"]
        assert report["objective"] == pytest.approx(-0.5 * np.log(1.25) + expected)
        assert report["pseudo_rewards"][0][0] == pytest.approx(-0.5 * (np.log(1.25) + 0.8) + expected)
        live = scripted.run(env, [0])[0]
        # A cell never seen: -0.5 log σ, and what this step earned.
        earned = {7.0: 7.0, 11.0: 11.0, 1.5: 0.5}[expected]
        assert live["pseudo_reward_objective"] == pytest.approx(-0.5 * np.log(0.25) + earned)

    def test_the_own_reward_is_that_below_the_wrappers(self, scripted):
        env = PseudoReward(Objective(self.env(scripted, [{"reward": 7.0}]), Reward()))
        scripted.run(env, [1])
        assert env.tracker.last_batch.costs["reward()"].tolist() == [7.0]
        env.reset()
        _, reward, *_, info = env.step(1)
        assert (reward, info["original_reward"]) == (7.0, 7.0)

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
        with pytest.raises(InvalidSetting, match="smoothing"):
            EntropyObjective(tracked(), smoothing=0.0)

    def test_a_divergence_needs_it(self):
        with pytest.raises(InvalidSetting, match="smoothing"):
            ConvexConstraint(tracked(), KLDivergence(TABLE, smoothing=0.0), penalty=Quadratic(1.0))


STATES = Mixture(Gaussians(np.ones(1), np.zeros((1, 4)), np.eye(4)[None]))


def gentle(rows, actions):
    """A density of actions, to see that it is asked with those of the environment."""
    return -np.abs(actions).sum(axis=1)


REFERENCE = Reference(STATES, CallablePolicy(gentle))


def imitating(kind, reference=REFERENCE, divergence="kl", estimator=None, **settings):
    kit = vector if kind == "vector" else None
    env = gym.make_vec("PointMass-v0", num_envs=4, time_limit=0.5) if kit else gym.make("PointMass-v0", time_limit=0.5)
    track, entropy, imitate = (
        (kit.TrackOccupancy, kit.EntropyObjective, kit.ImitationConstraint)
        if kit
        else (TrackOccupancy, EntropyObjective, ImitationConstraint)
    )
    env = track(env, estimator or GaussianMixture(n_components=2), steps_per_batch=100, discount=1.0, state="state")
    return imitate(entropy(env), reference, limit=1.0, penalty=Quadratic(2.0), divergence=divergence, **settings)


@pytest.mark.parametrize("kind", ["scalar", "vector"])
class TestImitationOfDensities:
    def test_kl_is_the_mean_of_log_ratios(self, kind):
        env = imitating(kind)
        PGP(env, seed=0, hidden_sizes=(8,)).learn(iterations=2)
        tracker = find_tracker(env)
        batch = tracker.last_batch
        mixture = tracker.estimator.mixture_
        ratio = mixture.log_density(batch.states) + batch.log_probs
        ratio -= STATES.log_prob(batch.states) + gentle(None, batch.actions)
        evaluation = tracker.problem.evaluate(tracker.estimator.measure())
        assert evaluation.constraints["imitation"] == pytest.approx(ratio.mean() - 1.0, rel=1e-6)
        # Its part of the pseudo-reward is -2β[R]₊ (log ratio + 1).
        parts = tracker.live.at(tracker.estimator.points_of(batch))
        violation = max(evaluation.constraints["imitation"], 0.0)
        assert violation > 0.0
        np.testing.assert_allclose(parts["imitation"], -4.0 * violation * (ratio + 1.0), rtol=1e-6)

    def test_without_log_probabilities_states_are_compared(self, kind):
        env = imitating(kind)
        env.reset(seed=0)
        env.action_space.seed(0)
        report = None
        while report is None:
            *_, terminated, truncated, info = env.step(env.action_space.sample())
            report = info.get("batch")
            if kind == "scalar" and (terminated or truncated):
                report = report or env.reset()[1].get("batch")
        tracker = find_tracker(env)
        states = tracker.last_batch.states
        expected = np.mean(tracker.estimator.mixture_.log_density(states) - STATES.log_prob(states))
        assert report["constraints"]["imitation"] == pytest.approx(expected - 1.0, rel=1e-6)

    def test_l2_is_that_of_the_mixtures(self, kind):
        env = imitating(kind, divergence="l2", name="near")
        agent = PGP(env, seed=0, hidden_sizes=(8,)).learn(iterations=2)
        tracker = find_tracker(env)
        expected = np.sqrt(Mixture(tracker.estimator.mixture_).squared_distance(STATES))
        evaluation = tracker.problem.evaluate(tracker.estimator.measure())
        assert evaluation.constraints["near"] == pytest.approx(expected - 1.0)
        assert agent.iteration == 2

    def test_a_reference_by_its_entry_point(self, kind):
        config = {"entry_point": "constrained_maxent.references:shipped", "kwargs": {"env_id": "PointMass-v0"}}
        functional = find_tracker(imitating(kind, reference=config)).problem.constraints["imitation"].functional
        assert functional.reference is shipped("PointMass-v0")
        for wrong in ({}, {"entry_point": "numpy"}, {"entry_point": "nowhere:x"}, {"entry_point": "numpy:nothing"}):
            with pytest.raises(InvalidSetting, match="entry_point"):
                imitating(kind, reference=wrong)

    def test_angles_are_those_of_the_estimator(self, kind):
        turning = Reference(Mixture(STATES.gaussians, periodic=(1, 0)))
        for divergence in ("kl", "l2"):
            for reference, ours in ((REFERENCE, (0,)), (turning, ()), (turning, (0,))):
                with pytest.raises(InvalidData, match="periodic="):
                    imitating(kind, reference, divergence, GaussianMixture(n_components=2, periodic=ours))
            imitating(kind, turning, divergence, GaussianMixture(n_components=2, periodic=(0, 1)))
        with pytest.raises(InvalidData, match=r"periodic=\[2\]"):
            imitating(kind, estimator=NearestNeighbors(periodic=(2,)))

    def test_refuses(self, kind):
        with pytest.raises(InvalidSetting, match="mixture"):
            imitating(kind, reference=lambda points: points.density, divergence="l2")
        env = imitating(kind, divergence="l2", estimator=NearestNeighbors())
        with pytest.raises(UnsupportedSpace, match="GaussianMixture"):
            PGP(env, seed=0, hidden_sizes=(8,)).learn(iterations=1)
        small = Reference(Mixture(Gaussians(np.ones(1), np.zeros((1, 3)), np.eye(3)[None])))
        with pytest.raises(InvalidData, match="over 3 coordinates"):
            PGP(imitating(kind, reference=small), seed=0, hidden_sizes=(8,)).learn(iterations=1)
