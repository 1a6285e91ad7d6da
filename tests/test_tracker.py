"""The tracker: an agent's contexts, the planned run, checkpoints; and the gradient that its reports are made for."""

import itertools
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from constrained_maxent.errors import (
    CheckpointMismatch,
    InvalidData,
    InvalidSetting,
    MissingTracker,
    NonFiniteValue,
    UnplannedRun,
)
from constrained_maxent.functionals import Entropy, LinearCost
from constrained_maxent.occupancy import Counts, Weighting
from constrained_maxent.penalties import AdaptiveLagrangian, Lagrangian, Quadratic, QuadraticContinuation
from constrained_maxent.problem import Constraint
from constrained_maxent.schedules import Geometric
from constrained_maxent.tracker import Tracker, find_tracker
from constrained_maxent.types import Batch
from constrained_maxent.wrappers import CostConstraint, EntropyObjective, TrackOccupancy, constrain


def make(*, n_states=2, penalty=None, pairing="previous", names=("cost",), memory=0.0, policy_log_prob=None):
    spaces = gym.spaces.Discrete(n_states), gym.spaces.Discrete(2)
    weighting = Weighting(0.5, 2, "truncated")
    tracker = Tracker(Counts(memory=memory).bind(*spaces), weighting, pairing=pairing, policy_log_prob=policy_log_prob)
    tracker.set_objective(Entropy(smoothing=0.1))
    for name in names:
        tracker.add_constraint(name, LinearCost("cost", limit=0.0), penalty or Lagrangian(0.5))
    return tracker


def batch(actions=(0, 1), cost=2.0):
    return Batch(
        observations=np.array([0, 1]),
        actions=np.array(actions),
        lengths=np.array([2]),
        weights=np.array([1.0, 0.5]),
        costs={"cost": np.array([cost, 0.0])},
    )


def close(tracker, batch):
    return tracker.close(batch, n_first=1, sub_environments=[0], started_ago=[1])


def constant(value):
    return lambda observations, actions: np.full(len(actions), value)


class TestActing:
    def test_puts_back_what_was_known(self):
        rows = np.zeros(3), np.zeros(3)
        for known in (None, constant(-1.0)):
            tracker = make(policy_log_prob=known)
            with tracker.acting(log_prob=constant(-2.0)):
                assert tracker.knows_log_prob
                assert tracker.log_probs(*rows).tolist() == [-2.0] * 3
            assert tracker.knows_log_prob is (known is not None)
            after = tracker.log_probs(*rows)
            assert after is None if known is None else after.tolist() == [-1.0] * 3

    def test_an_agent_that_says_nothing_leaves_what_is_known(self):
        tracker = make(policy_log_prob=constant(-1.0))
        with tracker.acting():
            assert tracker.log_probs(np.zeros(1), np.zeros(1)).tolist() == [-1.0]

    def test_one_at_a_time(self):
        tracker = make()
        with tracker.acting(log_prob=constant(-2.0)):
            with pytest.raises(InvalidSetting, match="acting"), tracker.acting(log_prob=constant(-3.0)):
                pass
            # The first one goes on.
            assert tracker.log_probs(np.zeros(1), np.zeros(1)).tolist() == [-2.0]
            with pytest.raises(InvalidSetting, match="acting"), tracker.acting():
                pass
        with tracker.acting(log_prob=constant(-4.0)):
            assert tracker.log_probs(np.zeros(1), np.zeros(1)).tolist() == [-4.0]

    def test_an_agent_that_fails_leaves_as_well(self):
        tracker = make()
        with pytest.raises(ZeroDivisionError), tracker.acting(log_prob=constant(-2.0)):
            raise ZeroDivisionError
        assert not tracker.knows_log_prob
        with tracker.acting():
            pass

    @pytest.mark.parametrize(
        ("wrong", "error"), [(constant(np.nan), NonFiniteValue), (lambda o, a: np.zeros((len(a), 1)), InvalidData)]
    )
    def test_says_what_is_wrong(self, wrong, error):
        tracker = make()
        with tracker.acting(log_prob=wrong), pytest.raises(error, match="log_prob"):
            tracker.log_probs(np.zeros(2), np.zeros(2))


class TestFrozen:
    @pytest.mark.parametrize("pairing", ["previous", "same", "split"])
    def test_nothing_is_learnt(self, pairing):
        """By hand: R = 2, so that the multiplier is 0.5 · 2 = 1 from the second batch on, in and after it."""
        tracker = make(pairing=pairing)
        close(tracker, batch())
        state, generation = str(tracker.state_dict()), tracker.generation
        last_batch, last_report = tracker.last_batch, tracker.last_report
        with tracker.frozen():
            assert tracker.generation != generation
            before = tracker.generation
            for k in range(2):
                report = close(tracker, batch((1, 1), 3.0))
                # The λ̂ of before has mass 1 on (0, 0) and 0.5 on (1, 1), so that (0, 1) is empty.
                entropy = [-np.log(0.1), -np.log(0.6) - 0.5 / 0.6]
                assert report.pseudo_rewards[0] == pytest.approx([entropy[0] - 3.0, entropy[1]])
                assert report.objective == pytest.approx(-np.log(1.1) - 0.5 * np.log(0.6))
                assert report.constraints == {"cost": pytest.approx(2.0)}
                assert report.iteration == 1 + k
                assert tracker.last_report is report
        assert tracker.generation != before
        assert str(tracker.state_dict()) == state
        assert tracker.last_batch is last_batch
        assert tracker.last_report is last_report
        report = close(tracker, batch((1, 1), 1.0))
        assert (report.iteration, report.multipliers) == (1, {"cost": 1.0})

    def test_before_the_first_batch(self):
        tracker = make()
        with tracker.frozen():
            report = close(tracker, batch())
        assert (report.objective, report.ready, report.pseudo_rewards[0].tolist()) == (None, [False], [0.0, 0.0])
        assert (tracker.iteration, tracker.last_batch, tracker.live) == (0, None, None)

    def test_within_itself_and_after_an_exception(self):
        tracker = make()

        def fail():
            with tracker.frozen():
                with tracker.frozen():
                    close(tracker, batch())
                close(tracker, batch())
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert tracker.iteration == 0
        close(tracker, batch())
        assert (tracker.iteration, tracker.estimator.is_fitted) == (1, True)

    @pytest.mark.parametrize("kind", ["scalar", "vector"])
    def test_the_batch_under_way_is_forgotten(self, scripted, kind):
        def playback():
            return scripted.Playback(scripted.episode([0, 1, 2], [2.0, 4.0]))

        env = playback() if kind == "scalar" else SyncVectorEnv([playback] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
        env = constrain(env, Entropy(smoothing=0.1), episodes_per_batch=2, horizon=2)
        actions = 0 if kind == "scalar" else np.zeros(2, int)
        tracker = find_tracker(env)
        env.reset()
        env.step(actions)
        timesteps = tracker.timesteps
        with tracker.frozen():
            with pytest.raises(ResetNeeded):
                env.step(actions)
            env.reset()
            for _ in range(3):
                env.step(actions)
                if kind == "scalar" and tracker.timesteps % 2:
                    env.reset()
        assert (tracker.timesteps, tracker.iteration, tracker.estimator.is_fitted) == (timesteps, 0, False)
        with pytest.raises(ResetNeeded):
            env.step(actions)
        env.reset()
        infos = [env.step(actions)[-1], env.step(actions)[-1]]
        if kind == "scalar":
            env.reset()
            infos += [env.step(actions)[-1], env.step(actions)[-1]]
        assert ["batch" in info for info in infos] == [False] * (len(infos) - 1) + [True]
        assert (infos[-1]["batch"]["steps"], infos[-1]["batch"]["iteration"]) == (4, 0)


class TestLogProbOfPartOfABatch:
    """An agent that comes or goes within a batch is refused at once, and a new batch makes all well."""

    @pytest.mark.parametrize("known_first", [True, False])
    def test_scalar(self, scripted, known_first):
        env = constrain(scripted.Playback(scripted.episode([0, 1, 2])), episodes_per_batch=2, horizon=2)
        self.check(env, 0, known_first)

    @pytest.mark.parametrize("known_first", [True, False])
    def test_vector(self, scripted, known_first):
        env = SyncVectorEnv([lambda: scripted.Playback(scripted.episode([0, 1, 2]))] * 2)
        self.check(constrain(env, episodes_per_batch=4, horizon=2), np.zeros(2, int), known_first)

    def check(self, env, action, known_first):
        tracker = find_tracker(env)
        env.reset()
        for known in (known_first, not known_first):
            with tracker.acting(log_prob=constant(-1.0) if known else None):
                if known == known_first:
                    env.step(action)
                else:
                    with pytest.raises(InvalidData, match="log_prob"):
                        env.step(action)
        env.reset(options={"new_batch": True})
        env.step(action)


class TestPlan:
    def test_by_iterations(self):
        tracker = make()
        assert (tracker.is_planned, tracker.progress) == (False, 0.0)
        tracker.announce(iterations=4)
        seen = [tracker.progress]
        for _ in range(5):
            close(tracker, batch())
            seen.append(tracker.progress)
        assert seen == [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]
        assert tracker.is_planned

    def test_by_timesteps(self, scripted):
        """Calls times copies, as agents count their steps, those that only reset a copy included."""

        def playback(*path):
            return lambda: scripted.Playback(scripted.episode(path))

        env = SyncVectorEnv([playback(0, 1), playback(0, 1, 2)], autoreset_mode=AutoresetMode.NEXT_STEP)
        env = constrain(env, episodes_per_batch=2, horizon=2)
        tracker = find_tracker(env)
        tracker.announce(timesteps=8)
        env.reset()
        seen = []
        for _ in range(4):
            env.step(np.zeros(2, int))
            seen.append(tracker.progress)
        assert seen == [2 / 8, 4 / 8, 6 / 8, 8 / 8]

    @pytest.mark.parametrize("plan", [{"iterations": 4}, {"timesteps": 8}])
    def test_a_fit_stands_where_its_batch_began(self, plan):
        """Four batches of two steps: their fits see 0, 1/4, 2/4 and 3/4 of the run, however it is planned."""
        tracker, seen = make(), []
        fit = tracker.estimator.fit
        tracker.estimator.fit = lambda batch, *, progress: seen.append(progress) or fit(batch, progress=progress)
        tracker.announce(**plan)
        for _ in range(4):
            tracker.timesteps += 2
            close(tracker, batch())
        assert seen == [0.0, 0.25, 0.5, 0.75]

    def test_by_timesteps_in_a_scalar_stack(self, scripted):
        env = constrain(scripted.Playback(scripted.episode([0, 1, 2])), episodes_per_batch=1, horizon=2)
        find_tracker(env).announce(timesteps=3)
        scripted.run(env, [0, 0])
        assert find_tracker(env).progress == 2 / 3
        scripted.run(env, [0, 0])
        assert find_tracker(env).progress == 1.0

    def test_the_first_plan_holds(self):
        tracker = make()
        tracker.announce(iterations=2)
        tracker.announce(iterations=8)
        tracker.announce(timesteps=8)
        close(tracker, batch())
        assert tracker.progress == 1 / 2
        tracker.announce(iterations=8, replace_plan=True)
        assert tracker.progress == 1 / 8

    @pytest.mark.parametrize("name", ["iterations", "timesteps"])
    @pytest.mark.parametrize("bad", [0, -1, 1.5, "4", True])
    def test_counts_that_are_none(self, name, bad):
        tracker = make()
        with pytest.raises(InvalidSetting, match=name):
            tracker.announce(**{name: bad})
        assert not tracker.is_planned

    @pytest.mark.parametrize("both", [{}, {"iterations": 1, "timesteps": 1}])
    def test_one_of_the_two(self, both):
        with pytest.raises(InvalidSetting, match="iterations="):
            make().announce(**both)

    def test_schedules_follow_it(self):
        """β from 1 to 100 over two batches: 1, 10, 100; R = 2, so that multipliers are 2 · β · 2."""
        tracker = make(penalty=QuadraticContinuation(1.0, 100.0))
        tracker.announce(iterations=2)
        reports = [close(tracker, batch()) for _ in range(4)]
        assert [report.multipliers["cost"] for report in reports] == pytest.approx([4.0, 40.0, 400.0, 400.0])

    def test_the_memory_follows_it(self):
        """What is new weighs 1/2, and 1/4 where half the run is over; the first batch weighs 1."""
        tracker = make(memory=Geometric(0.5, 0.875))
        tracker.announce(iterations=2)
        masses = []
        for actions in ((0, 0), (1, 1), (1, 1)):
            close(tracker, batch(actions))
            masses.append(tracker.estimator.occupancy_[0, 0])
        assert masses == pytest.approx([1.0, 0.75, 0.75 * 0.875])

    @pytest.mark.parametrize(
        "scheduled", [{"penalty": QuadraticContinuation(1.0, 100.0)}, {"memory": Geometric(0.5, 0.875)}]
    )
    def test_without_it_schedules_are_warned_of_once(self, scheduled):
        tracker = make(**scheduled)
        with pytest.warns(UnplannedRun):
            close(tracker, batch())
        close(tracker, batch())  # where warnings are errors, there is no other
        assert tracker.progress == 0.0

    def test_no_warning_where_nothing_is_scheduled_or_planned(self):
        planned = make(penalty=QuadraticContinuation(1.0, 100.0), memory=Geometric(0.5, 0.875))
        planned.announce(iterations=5)
        frozen = make(penalty=QuadraticContinuation(1.0, 100.0))
        with warnings.catch_warnings(), frozen.frozen():
            warnings.simplefilter("error")
            for tracker in (planned, make(penalty=AdaptiveLagrangian(), memory=0.5), frozen):
                close(tracker, batch())

    def test_a_stack_warns(self, scripted):
        costly = {"cost": Constraint(LinearCost(limit=0.0), QuadraticContinuation(1.0, 2.0))}
        env = constrain(
            scripted.Playback(scripted.episode([0, 1], [1.0])),
            constraints=costly,
            estimator=Counts(memory=Geometric(0.5, 0.9)),
            episodes_per_batch=1,
            horizon=1,
        )
        with pytest.warns(UnplannedRun, match=r"QuadraticContinuation.*Counts") as caught:
            scripted.run(env, [0, 0])
        assert len(caught) == 1


class TestFindTracker:
    def test_copies_that_have_one_each(self, scripted):
        def copy():
            return constrain(scripted.Playback(scripted.episode([0, 1])), episodes_per_batch=1, horizon=1)

        env = SyncVectorEnv([copy, copy])
        with pytest.raises(MissingTracker, match="Every copy"):
            find_tracker(env)
        with pytest.raises(MissingTracker, match="Every copy"):
            find_tracker(gym.wrappers.vector.RecordEpisodeStatistics(env))

    def test_none_at_all(self, scripted):
        bare = scripted.Playback(scripted.episode([0, 1]))
        for env in (bare, gym.wrappers.TimeLimit(bare, 3), SyncVectorEnv([lambda: bare]), None):
            with pytest.raises(MissingTracker, match="TrackOccupancy"):
                find_tracker(env)


class TestReport:
    def test_is_what_info_has(self, scripted):
        env = constrain(scripted.Playback(scripted.episode([0, 1], [1.0])), episodes_per_batch=1, horizon=1)
        info = scripted.run(env, [0])[-1]
        report = find_tracker(env).last_report
        assert str(info["batch"]) == str(report.to_info())
        assert list(info["batch"]) == list(report.__dataclass_fields__)
        assert (report.iteration, report.episodes, report.steps) == (0, 1, 1)


@pytest.mark.fault
class TestFresh:
    """A batch by itself, beside an estimate that remembers."""

    def test_by_hand(self):
        """The cost of the state's first step is 2 at weight 1, then -1: λ̂ has half of each, the batch its own."""
        tracker = make(memory=0.5)
        close(tracker, batch(cost=2.0))
        report = close(tracker, batch(actions=(1, 1), cost=-1.0))
        assert report.constraints["cost"] == pytest.approx(0.5)
        assert report.constraints_fresh["cost"] == pytest.approx(-1.0)
        # Masses 1 and ½ in two cells, σ = 0.1.
        assert report.objective_fresh == pytest.approx(-np.log(1.1) - 0.5 * np.log(0.6))
        # Masses ½, ½ and ½ in three.
        assert report.objective == pytest.approx(-1.5 * np.log(0.6))

    def test_without_memory_it_is_the_same(self):
        tracker = make()
        report = close(tracker, batch(cost=2.0))
        assert (report.objective_fresh, report.constraints_fresh) == (report.objective, report.constraints)

    def test_fresh_episodes_are_scored_by_themselves(self):
        """Frozen, the estimate stays that of the training."""
        tracker = make()
        close(tracker, batch(cost=2.0))
        with tracker.frozen():
            report = close(tracker, batch(cost=-1.0))
        assert (report.constraints["cost"], report.constraints_fresh["cost"]) == (2.0, -1.0)
        assert tracker.violations["cost"].total == 2.0


class TestCheckpoints:
    @pytest.mark.parametrize("pairing", ["previous", "same", "split"])
    @pytest.mark.parametrize("memory", [0.0, 0.5])
    def test_round_trip(self, pairing, memory):
        one = make(pairing=pairing, memory=memory)
        close(one, batch())
        state = one.state_dict()
        # R = 2 after the first batch: the multiplier is 0.5 * 2.
        assert state["penalties"] == {"cost": {"multiplier": 1.0}}
        assert (state["terms"], state["iteration"]) == (["objective", "cost"], 1)
        two = make(pairing=pairing, memory=memory)
        two.load_state_dict(state)
        assert two.live_is_ready is (pairing == "previous")
        assert two.live.at_cell(0, {"cost": 2.0}) == one.live.at_cell(0, {"cost": 2.0})
        assert two.live.at_cell(0, {"cost": 2.0})["cost"] == pytest.approx(-2.0)
        first, second = (close(tracker, batch((1, 1), 1.0)) for tracker in (one, two))
        assert str(first) == str(second)
        assert two.iteration == 2

    def test_the_state_is_a_copy(self):
        tracker = make()
        close(tracker, batch())
        state = tracker.state_dict()
        close(tracker, batch((1, 1), 9.0))
        assert state["penalties"] == {"cost": {"multiplier": 1.0}}
        assert state["estimator"]["values"].tolist() == [1.0, 0.0, 0.0, 0.5]

    def test_before_the_first_batch(self):
        tracker = make()
        tracker.load_state_dict(make().state_dict())
        assert tracker.iteration == 0
        assert not tracker.live_is_ready
        assert close(tracker, batch()).ready == [False]

    @pytest.mark.parametrize(
        ("other", "message"),
        [
            ({"names": ("cost", "more")}, "more"),
            ({"names": ()}, "terms"),
            ({"n_states": 3}, "cells"),
            ({"penalty": Quadratic(1.0)}, "'cost'.*multiplier.*nothing"),
            ({"penalty": AdaptiveLagrangian()}, "'cost'.*multiplier.*price"),
            ({"penalty": Lagrangian(0.5, largest=0.25)}, "'cost'.*multiplier=1.0"),
        ],
    )
    def test_another_stack(self, other, message):
        one = make()
        close(one, batch())
        two = make(**other)
        two_state = str(two.state_dict())
        with pytest.raises(CheckpointMismatch, match=message):
            two.load_state_dict(one.state_dict())
        assert str(two.state_dict()) == two_state
        if "penalty" not in other or not isinstance(other["penalty"], Lagrangian):
            with pytest.raises(CheckpointMismatch):
                one.load_state_dict(two.state_dict())
        assert one.state_dict()["penalties"] == {"cost": {"multiplier": 1.0}}

    @pytest.mark.parametrize("pairing", ["previous", "same", "split"])
    def test_an_adaptive_price(self, pairing):
        """R = 2, the largest violation, costs 1 more after each batch: 2 after two; slope (2 + 1) / 2 of the next."""
        penalty = AdaptiveLagrangian()
        one, two = make(penalty=penalty, pairing=pairing), make(penalty=penalty, pairing=pairing)
        for _ in range(2):
            close(one, batch())
        assert one.state_dict()["penalties"] == {"cost": {"price": 2.0, "largest_violation": 2.0, "progress": 0.0}}
        two.load_state_dict(one.state_dict())
        assert two.problem.constraints["cost"].penalty == AdaptiveLagrangian(price=2.0, largest_violation=2.0)
        assert two.live.at_cell(0, {"cost": 2.0})["cost"] == pytest.approx(-1.5 * 2.0)
        first, second = (close(tracker, batch((1, 1), 1.0)) for tracker in (one, two))
        assert str(first) == str(second)
        assert first.multipliers["cost"] == pytest.approx((2.0 + 0.5) / 2.0)

    def test_the_plan_and_the_steps(self, scripted):
        def stack():
            costly = {"cost": Constraint(LinearCost(limit=0.0), QuadraticContinuation(1.0, 16.0))}
            playback = scripted.Playback(scripted.episode([0, 1, 2], [1.0, 1.0]))
            return constrain(playback, constraints=costly, episodes_per_batch=1, horizon=2, discount=1.0)

        one, two = stack(), stack()
        find_tracker(one).announce(timesteps=8)
        scripted.run(one, [0, 0])
        state = find_tracker(one).state_dict()
        assert (state["plan"], state["timesteps"], state["iteration"]) == ({"timesteps": 8}, 2, 1)
        find_tracker(two).load_state_dict(state)
        assert find_tracker(two).progress == 0.25
        # It goes on with the first plan: whatever else is announced afterwards changes nothing.
        find_tracker(two).announce(iterations=1)
        reports = [scripted.run(env, [0, 0])[-1]["batch"] for env in (one, two)]
        # R = 1 and β = 16^(1/4) = 2.
        assert reports[0]["multipliers"] == reports[1]["multipliers"] == {"cost": pytest.approx(4.0)}

    def test_without_a_plan(self):
        tracker = make()
        assert tracker.state_dict()["plan"] is None
        planned = make()
        planned.announce(iterations=3)
        planned.load_state_dict(tracker.state_dict())
        close(planned, batch())
        assert planned.progress == 1 / 3  # what the environment was made with holds

    def test_the_environment_starts_anew(self, scripted):
        env = constrain(scripted.Playback(scripted.episode([0, 1, 2])), episodes_per_batch=1, horizon=2)
        env.reset()
        env.step(0)
        find_tracker(env).load_state_dict(find_tracker(env).state_dict())
        with pytest.raises(ResetNeeded):
            env.step(0)
        assert scripted.run(env, [0, 0])[-1]["batch"]["steps"] == 2

    def test_fixed_penalties_have_no_state(self):
        tracker = make(penalty=Quadratic(1.0))
        close(tracker, batch())
        assert tracker.state_dict()["penalties"] == {}
        make(penalty=Quadratic(1.0)).load_state_dict(tracker.state_dict())

    def test_through_a_stack(self, scripted):
        def stack():
            env = scripted.Playback(scripted.episode([0, 1, 2], [2.0, 4.0]))
            env = TrackOccupancy(env, episodes_per_batch=1, horizon=2, discount=0.5, scale="truncated")
            env = EntropyObjective(env, smoothing=0.1)
            return CostConstraint(env, limit=0.0, penalty=Lagrangian(0.5))

        one, two = stack(), stack()
        scripted.run(one, [0, 1])
        two.reset()
        two.tracker.load_state_dict(one.tracker.state_dict())
        reports = [scripted.run(env, [1, 1])[-1]["batch"] for env in (one, two)]
        assert reports[0]["iteration"] == reports[1]["iteration"] == 1
        assert reports[0]["multipliers"] == reports[1]["multipliers"] == {"cost": pytest.approx(0.5 * 4.0)}


class TinyMDP:
    """Three states, two actions, H = 3; from 1 action 1 ends the episode, from 0 action 1 branches evenly."""

    HORIZON, GAMMA, SIGMA, LIMIT, BETA = 3, 0.75, 0.05, 0.2, 1.5
    COST = np.array([[0.0, 1.0], [2.0, -0.5], [0.5, 3.0]])
    # [(probability, next state or None for the end)]
    MOVES = {
        (0, 0): [(1.0, 2)],
        (0, 1): [(0.5, 1), (0.5, 2)],
        (1, 0): [(1.0, 0)],
        (1, 1): [(1.0, None)],
        (2, 0): [(1.0, 0)],
        (2, 1): [(1.0, 1)],
    }
    # Multiples of 1/4, so that every trajectory's probability is a multiple of 1/512.
    POLICY = np.array([[0.25, 0.75], [0.5, 0.5], [0.75, 0.25]])

    def __init__(self, scale):
        total = sum(self.GAMMA**t for t in range(self.HORIZON))
        self.scale, self.constant = scale, 1.0 if scale == "truncated" else 1.0 / total

    def trajectories(self):
        """All of them: (probability, [(s, a), ...], the final state)."""

        def extend(probability, steps, s):
            if s is None or len(steps) == self.HORIZON:
                yield probability, steps, s
                return
            for a in (0, 1):
                for share, successor in self.MOVES[s, a]:
                    yield from extend(probability * self.POLICY[s, a] * share, [*steps, (s, a)], successor)

        return list(extend(1.0, [], 0))

    def penalized(self, theta):
        """P(lambda(theta)) by propagating the state distribution."""
        policy = np.exp(theta) / np.exp(theta).sum(axis=1, keepdims=True)
        d, occupancy = np.array([1.0, 0.0, 0.0]), np.zeros((3, 2))
        for t in range(self.HORIZON):
            following = np.zeros(3)
            for s, a in itertools.product(range(3), range(2)):
                occupancy[s, a] += self.constant * self.GAMMA**t * d[s] * policy[s, a]
                for share, successor in self.MOVES[s, a]:
                    if successor is not None:
                        following[successor] += d[s] * policy[s, a] * share
            d = following
        violation = (occupancy * self.COST).sum() - self.LIMIT
        return (occupancy * np.log(occupancy + self.SIGMA)).sum() + self.BETA * max(violation, 0.0) ** 2


@pytest.mark.parametrize("scale", ["truncated", "normalized"])
@pytest.mark.parametrize("key", [False, True])
def test_reinforce_on_the_reports_is_the_gradient_of_the_penalized_problem(scripted, scale, key):
    """A batch of all trajectories, each as often as it is likely, has the exact estimate; so its gradient is exact."""
    mdp = TinyMDP(scale)
    episodes, actions = [], []
    for probability, steps, last in mdp.trajectories():
        count = probability * 512
        assert count == int(count)
        path = [s for s, _ in steps] + [0 if last is None else last]
        costs = [mdp.COST[s, a] for s, a in steps]
        end = "terminated" if last is None else "truncated"
        episodes += [scripted.episode(path, costs, end)] * int(count)
        actions += [a for _, a in steps] * int(count)
    assert len(episodes) == 512

    env = scripted.Playback(*episodes, n_states=3)
    env = TrackOccupancy(env, episodes_per_batch=512, discount=mdp.GAMMA, horizon=mdp.HORIZON, scale=scale)
    env = EntropyObjective(env, smoothing=mdp.SIGMA)
    env = CostConstraint(env, "cost" if key else mdp.COST, limit=mdp.LIMIT, penalty=Quadratic(mdp.BETA))
    report = scripted.run(env, actions)[-1]["batch"]
    theta = np.log(mdp.POLICY)
    assert report["penalty"] - report["objective"] == pytest.approx(mdp.penalized(theta))
    assert report["constraints"]["cost"] > 0.1  # the penalty bites

    gradient = np.zeros((3, 2))
    start = 0
    for episode, weights, rewards in zip(episodes, report["weights"], report["pseudo_rewards"], strict=True):
        to_go = np.cumsum((weights * rewards)[::-1])[::-1]
        for t, value in enumerate(to_go):
            s, a = episode["path"][t], actions[start + t]
            gradient[s] += (np.eye(2)[a] - mdp.POLICY[s]) * value / 512
        start += len(weights)

    step = 1e-5
    differences = np.zeros((3, 2))
    for cell in itertools.product(range(3), range(2)):
        e = np.zeros((3, 2))
        e[cell] = step
        differences[cell] = (mdp.penalized(theta + e) - mdp.penalized(theta - e)) / (2 * step)
    assert np.abs(differences).max() > 0.1
    assert gradient == pytest.approx(-differences, abs=1e-8)
