"""The engine without an environment: checkpoints; and the gradient that its reports are made for."""

import itertools

import gymnasium as gym
import numpy as np
import pytest

from constrained_maxent.errors import CheckpointMismatch
from constrained_maxent.functionals import Entropy, LinearCost
from constrained_maxent.occupancy import Counts, Weighting
from constrained_maxent.penalties import AdaptiveQuadratic, Lagrangian, Quadratic
from constrained_maxent.tracker import Tracker
from constrained_maxent.types import Batch
from constrained_maxent.wrappers import CostConstraint, EntropyObjective, TrackOccupancy


def make(*, n_states=2, penalty=None, pairing="previous", names=("cost",), memory=0.0):
    spaces = gym.spaces.Discrete(n_states), gym.spaces.Discrete(2)
    weighting = Weighting(0.5, 2, "truncated")
    tracker = Tracker(Counts(memory=memory).bind(*spaces), weighting, pairing=pairing)
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


class TestRefit:
    def test_an_agent_holds_the_rewards_fixed(self):
        """It is asked in place of the estimator, for every batch; what it leaves as it is stays live."""
        tracker = make(penalty=Quadratic(0.5))
        tracker.close(batch(), n_first=1)
        before, seen = tracker.live.at_cell(0, {"cost": 2.0}), []
        tracker.refit = seen.append
        other = batch((1, 1), 1.0)
        tracker.close(other, n_first=1)
        assert seen == [other]
        assert tracker.live.at_cell(0, {"cost": 2.0}) == before
        tracker.refit = None
        tracker.close(other, n_first=1)
        assert tracker.live.at_cell(0, {"cost": 2.0}) != before

    def test_a_twin_goes_its_own_way(self):
        """By hand: the multiplier is 0.5 R = 1 after the first batch, and 1 + 0.5 · 2 after the second."""
        tracker = make()
        tracker.close(batch(), n_first=1)
        tracker.policy_log_prob = tracker.refit = lambda *arguments: None
        twin = tracker.twin()
        assert (twin.refit, twin.policy_log_prob, twin.last_batch) == (None, None, None)
        rewards = twin.rewards_of(batch((1, 1)))
        np.testing.assert_array_equal(rewards, tracker.rewards_of(batch((1, 1))))
        tracker.refit = tracker.policy_log_prob = None
        tracker.close(batch((1, 1)), n_first=1)
        np.testing.assert_array_equal(twin.rewards_of(batch((1, 1))), rewards)
        assert (tracker.rewards_of(batch((1, 1))) != rewards).any()
        assert tracker.state_dict()["penalties"] == {"cost": {"multiplier": 2.0}}
        assert twin.state_dict()["penalties"] == {"cost": {"multiplier": 1.0}}


class TestCheckpoints:
    @pytest.mark.parametrize("pairing", ["previous", "same", "split"])
    @pytest.mark.parametrize("memory", [0.0, 0.5])
    def test_round_trip(self, pairing, memory):
        one = make(pairing=pairing, memory=memory)
        one.close(batch(), n_first=1)
        state = one.state_dict()
        # R = 2 after the first batch: the multiplier is 0.5 * 2.
        assert state["penalties"] == {"cost": {"multiplier": 1.0}}
        assert (state["terms"], state["iteration"]) == (["objective", "cost"], 1)
        two = make(pairing=pairing, memory=memory)
        two.load_state_dict(state)
        assert two.live_is_ready is (pairing == "previous")
        assert two.live.at_cell(0, {"cost": 2.0}) == one.live.at_cell(0, {"cost": 2.0})
        assert two.live.at_cell(0, {"cost": 2.0})["cost"] == pytest.approx(-2.0)
        first, second = (tracker.close(batch((1, 1), 1.0), n_first=1) for tracker in (one, two))
        assert str(first) == str(second)
        assert two.iteration == 2

    def test_the_state_is_a_copy(self):
        tracker = make()
        tracker.close(batch(), n_first=1)
        state = tracker.state_dict()
        tracker.close(batch((1, 1), 9.0), n_first=1)
        assert state["penalties"] == {"cost": {"multiplier": 1.0}}
        assert state["estimator"]["values"].tolist() == [1.0, 0.0, 0.0, 0.5]

    def test_before_the_first_batch(self):
        tracker = make()
        tracker.load_state_dict(make().state_dict())
        assert tracker.iteration == 0
        assert not tracker.live_is_ready
        assert tracker.close(batch(), n_first=1)["ready"] == [False]

    @pytest.mark.parametrize(
        ("other", "message"),
        [
            ({"names": ("cost", "more")}, "more"),
            ({"names": ()}, "terms"),
            ({"n_states": 3}, "cells"),
            ({"penalty": Quadratic(1.0)}, "changes its multiplier, this environment's its nothing: .* same penalty"),
            (
                {"penalty": AdaptiveQuadratic(0.1)},
                "penalty of 'cost' changes its multiplier, this environment's its beta",
            ),
            ({"penalty": Lagrangian(0.5, largest=0.25)}, "does not fit this environment's: multiplier=1.0"),
        ],
    )
    def test_another_stack(self, other, message):
        one = make()
        one.close(batch(), n_first=1)
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
    def test_an_adaptive_beta(self, pairing):
        """R = 2 exceeds 0.5 in two batches: beta = 3 * 2 * 2; the slope 2 beta R of the next batch says so."""
        penalty = AdaptiveQuadratic(0.5, beta=3.0, growth=2.0)
        one, two = make(penalty=penalty, pairing=pairing), make(penalty=penalty, pairing=pairing)
        for _ in range(2):
            one.close(batch(), n_first=1)
        assert one.state_dict()["penalties"] == {"cost": {"beta": 12.0}}
        two.load_state_dict(one.state_dict())
        assert two.problem.constraints["cost"].penalty == AdaptiveQuadratic(0.5, beta=12.0, growth=2.0)
        assert two.live.at_cell(0, {"cost": 2.0})["cost"] == pytest.approx(-2.0 * 12.0 * 2.0 * 2.0)
        first, second = (tracker.close(batch((1, 1), 1.0), n_first=1) for tracker in (one, two))
        assert str(first) == str(second)
        assert first["multipliers"]["cost"] == pytest.approx(2.0 * 12.0 * 1.0)

    def test_fixed_penalties_have_no_state(self):
        tracker = make(penalty=Quadratic(1.0))
        tracker.close(batch(), n_first=1)
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
