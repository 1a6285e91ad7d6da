"""Two followers learn what one tracker over the joined batch does, and little of it travels."""

import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from constrained_maxent.adapters.leader import Leader
from constrained_maxent.agents.rollouts import Collector
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals import Entropy, KLDivergence, LinearCost, MixtureDistance
from constrained_maxent.occupancy import AdamGaussianMixture, Counts, GaussianMixture, NearestNeighbors
from constrained_maxent.penalties import AugmentedLagrangian, QuadraticContinuation
from constrained_maxent.problem import Constraint
from constrained_maxent.records import Fragment
from constrained_maxent.tracker import find_tracker
from constrained_maxent.types import Batch, Measure
from constrained_maxent.wrappers import constrain

HORIZON, CALLS = 4, 50


class Ring(gym.Env):
    """Five places in a ring, left or right, by chance of nobody; place 3 costs 1. An episode lasts four steps."""

    observation_space, action_space = gym.spaces.Discrete(5), gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self.place, {}

    def step(self, action):
        cost = float(self.place == 3)
        self.place = (self.place + (1 if action else -1)) % 5
        return self.place, 0.0, False, False, {"cost": cost}


def stack(copies, *, pairing="previous", memory=0.5, **size):
    ring = lambda: gym.wrappers.TimeLimit(Ring(), HORIZON)  # noqa: E731
    env = SyncVectorEnv([ring] * copies, autoreset_mode=AutoresetMode.NEXT_STEP)
    penalty = AugmentedLagrangian(0.5, learning_rate=0.1)
    return constrain(
        env, Entropy(smoothing=1e-3), {"cost": Constraint(LinearCost("cost", limit=0.1), penalty)},
        estimator=Counts(memory=memory), pairing=pairing, discount=0.9, normalize_reward=True, **size,
    )  # fmt: skip


def pair(leader, **size):
    """Two stacks of two copies each that follow the leader."""
    followers = [stack(2, **size) for _ in range(2)]
    for number, env in enumerate(followers):
        find_tracker(env).follow(leader, number=number, followers=2)
        env.reset(seed=0)
    return followers


class TestTwoAreOne:
    @pytest.mark.parametrize("size", [{"episodes_per_batch": 8}, {"steps_per_batch": 24}])
    def test_lambda_multipliers_and_rewards(self, size):
        one, leader = stack(4, **size), Leader(find_tracker(stack(2, **size)))
        alone, joint = find_tracker(one), leader.tracker
        one.reset(seed=0)
        two = pair(leader, **size)
        rng = np.random.default_rng(0)
        for _ in range(CALLS):
            actions = rng.integers(2, size=4)
            rewards = one.step(actions)[1]
            apart = [env.step(actions[2 * i : 2 * i + 2]) for i, env in enumerate(two)]
            np.testing.assert_allclose(np.concatenate([step[1] for step in apart]), rewards, rtol=1e-12, atol=1e-12)
            assert not any("batch" in step[4] for step in apart)
            for env in two:
                find_tracker(env).catch_up()
        assert alone.iteration == joint.iteration >= 3
        np.testing.assert_allclose(joint.estimator.occupancy_, alone.estimator.occupancy_, rtol=1e-12)
        assert joint.last_report.constraints == pytest.approx(alone.last_report.constraints)
        assert joint.last_report.multipliers == pytest.approx(alone.last_report.multipliers)
        assert joint.last_report.objective == pytest.approx(alone.last_report.objective)
        assert joint.last_report.constraints_fresh == pytest.approx(alone.last_report.constraints_fresh)
        assert joint.reward_scale == pytest.approx(alone.reward_scale) != 1.0
        assert joint.violations["cost"].total == pytest.approx(alone.violations["cost"].total)
        assert joint.last_report.steps == alone.last_report.steps

    def test_a_batch_by_hand(self):
        """Left for two episodes, right for two: places 0, 4, 3, 2 and 0, 1, 2, 3, each with weight 0.9^t."""
        leader = Leader(find_tracker(stack(2, episodes_per_batch=4)))
        left, right = pair(leader, episodes_per_batch=4)
        for _ in range(HORIZON):
            left.step(np.zeros(2, dtype=int))
            right.step(np.ones(2, dtype=int))
        weights = 0.9 ** np.arange(4) / (0.9 ** np.arange(4)).sum() / 2  # half of the episodes each; normalized
        expected = np.zeros((5, 2))
        expected[[0, 4, 3, 2], 0], expected[[0, 1, 2, 3], 1] = weights, weights
        np.testing.assert_allclose(leader.tracker.estimator.occupancy_, expected)
        # The cost of place 3: at time 2 going left, at time 3 going right; the multiplier rises by 0.1 R.
        cost = weights[2] + weights[3]
        assert leader.tracker.last_report.constraints["cost"] == pytest.approx(cost - 0.1)
        assert leader.tracker.problem.constraints["cost"].penalty.multiplier == pytest.approx(0.1 * (cost - 0.1))
        find_tracker(left).catch_up()
        assert find_tracker(left).problem.constraints["cost"].penalty.multiplier == pytest.approx(0.1 * (cost - 0.1))


class TestAFollower:
    def test_keeps_its_rewards_until_it_catches_up(self):
        leader = Leader(find_tracker(stack(2, episodes_per_batch=4)))
        left, right = pair(leader, episodes_per_batch=4)
        for _ in range(HORIZON):
            left.step(np.zeros(2, dtype=int))
        assert leader.tracker.iteration == 0  # half a batch
        for _ in range(HORIZON):
            right.step(np.ones(2, dtype=int))
        assert leader.tracker.iteration == 1
        tracker = find_tracker(left)
        assert (tracker.iteration, tracker.live) == (0, None)
        tracker.catch_up()
        assert tracker.iteration == 1
        assert tracker.live_is_ready

    def test_that_is_gone_or_late_is_not_waited_for(self):
        leader = Leader(find_tracker(stack(2, episodes_per_batch=4)))
        left, right = pair(leader, episodes_per_batch=4)
        for _ in range(2 * (HORIZON + 1)):
            left.step(np.zeros(2, dtype=int))  # its two shares make a batch
        assert (leader.tracker.iteration, leader.lag) == (1, 0)
        for _ in range(2 * (HORIZON + 1)):
            right.step(np.ones(2, dtype=int))  # has not caught up with the λ̂ of that batch
        assert (leader.tracker.iteration, leader.lag) == (2, 1)

    def test_that_starts_anew_has_what_the_others_have(self):
        leader = Leader(find_tracker(stack(2, episodes_per_batch=4)))
        left, right = pair(leader, episodes_per_batch=4)
        for _ in range(HORIZON):
            left.step(np.zeros(2, dtype=int))
            right.step(np.ones(2, dtype=int))
        anew = stack(2, episodes_per_batch=4)
        find_tracker(anew).follow(leader, number=1, followers=2)
        tracker = find_tracker(anew)
        assert (tracker.iteration, tracker.timesteps) == (1, 4 * HORIZON)
        np.testing.assert_array_equal(tracker.estimator.occupancy_, leader.tracker.estimator.occupancy_)

    def test_has_the_progress_of_all(self):
        tracker = find_tracker(stack(2, episodes_per_batch=4))
        tracker.announce(timesteps=32)
        leader = Leader(tracker)
        left, right = pair(leader, episodes_per_batch=4)
        for _ in range(HORIZON):
            left.step(np.zeros(2, dtype=int))
            right.step(np.ones(2, dtype=int))
        right.step(np.ones(2, dtype=int))
        for env in (left, right):
            find_tracker(env).catch_up()
        assert [find_tracker(env).progress for env in (left, right)] == [16 / 32, 16 / 32]
        with pytest.raises(InvalidSetting, match="follows another"):
            find_tracker(left).announce(iterations=3)

    def test_hands_nothing_in_while_frozen(self):
        leader = Leader(find_tracker(stack(2, episodes_per_batch=4)))
        left, _ = pair(leader, episodes_per_batch=4)
        tracker = find_tracker(left)
        with tracker.frozen():
            left.reset(seed=1)
            infos = [left.step(np.zeros(2, dtype=int))[4] for _ in range(HORIZON)]
            tracker.catch_up()
        assert infos[-1]["batch"]["episodes"] == 2
        assert (leader.tracker.timesteps, leader.tracker.iteration, tracker.timesteps) == (0, 0, 0)

    def test_is_no_environment_to_learn_on(self):
        leader = Leader(find_tracker(stack(2, episodes_per_batch=4)))
        left, _ = pair(leader, episodes_per_batch=4)
        with pytest.raises(InvalidSetting, match="follows another"):
            Collector(left).collect(None, np.random.default_rng(0))

    def test_has_no_state_of_its_own(self):
        leader = Leader(find_tracker(stack(2, episodes_per_batch=4)))
        tracker = find_tracker(pair(leader, episodes_per_batch=4)[0])
        with pytest.raises(InvalidSetting, match="follows another"):
            tracker.state_dict()
        with pytest.raises(InvalidSetting, match="follows another"):
            tracker.load_state_dict(leader.state_dict())

    @pytest.mark.parametrize("pairing", ["same", "split"])
    def test_needs_rewards_that_are_live(self, pairing):
        leader = Leader(find_tracker(stack(2, episodes_per_batch=4)))
        with pytest.raises(InvalidSetting, match="pairing='previous'"):
            find_tracker(stack(2, episodes_per_batch=4, pairing=pairing)).follow(leader)


def test_a_leader_goes_on_from_its_state():
    leader = Leader(find_tracker(stack(2, episodes_per_batch=4)))
    for env, action in zip(pair(leader, episodes_per_batch=4), (0, 1), strict=True):
        for _ in range(HORIZON):
            env.step(np.full(2, action))
    restored = Leader(find_tracker(stack(2, episodes_per_batch=4)))
    left, _ = pair(restored, episodes_per_batch=4)
    restored.load_state_dict(pickle.loads(pickle.dumps(leader.state_dict())))
    tracker = find_tracker(left)
    tracker.catch_up()
    assert tracker.iteration == 1
    np.testing.assert_array_equal(tracker.estimator.occupancy_, leader.tracker.estimator.occupancy_)


class Samplewise(Entropy):
    """A functional of one's own whose derivative looks at samples of λ."""

    sees_samples = True

    def derivative(self, measure, points):
        return points.density - float(np.sum(measure.weights * measure.points.density))


class TestWhatTravels:
    @staticmethod
    def trackers(estimator, functional):
        """A leader that has learnt from 400 steps, twice,, and a follower that has caught up."""
        space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        trackers = []
        for _ in range(2):
            env = constrain(
                gym.wrappers.TimeLimit(Still(space), 10), functional,
                {"near": Constraint(near(estimator), QuadraticContinuation(1.0, 2.0))},
                estimator=estimator, steps_per_batch=400, discount=1.0, pairing="previous",
            )  # fmt: skip
            trackers.append(find_tracker(env))
        trackers[0].announce(iterations=4)
        leader, rng = Leader(trackers[0]), np.random.default_rng(0)
        rows = rng.normal(size=(400, 2)) * [0.2, 0.4]
        batch = Batch(observations=rows, actions=rng.normal(size=(400, 1)), lengths=np.full(40, 10), episodes=40.0)
        for _ in range(2):
            leader.tracker.close(batch, n_first=0, sub_environments=[0] * 40, started_ago=[0] * 40)
            leader.version += 1
        trackers[1].follow(leader)
        return leader.tracker, trackers[1]

    @pytest.mark.parametrize(
        ("estimator", "functional"),
        [
            (GaussianMixture(n_components=2, buffer_size=700), Entropy(smoothing=1e-6)),
            (GaussianMixture(n_components=2, memory=0.5), Samplewise(smoothing=1e-6)),
            (AdamGaussianMixture(n_components=2, buffer_size=700), 2.0 * Entropy(smoothing=1e-6)),
            (NearestNeighbors(), Entropy(smoothing=1e-6)),
        ],
    )
    def test_rewards_of_a_density_are_the_leaders(self, estimator, functional):
        leader, follower = self.trackers(estimator, functional)
        places = np.random.default_rng(1).normal(size=(50, 2))
        places[-1] = 1e6  # beyond all samples
        actions = np.zeros((50, 1))
        parts = [tracker.live.at(tracker.points(places, actions, {}, None, None)) for tracker in (leader, follower)]
        assert parts[0].keys() == parts[1].keys() == {"objective", "near"}
        for name, part in parts[0].items():
            np.testing.assert_allclose(parts[1][name], part, rtol=1e-9)

    def test_little_travels_where_nobody_asks_for_samples(self):
        sizes = {
            kind: len(pickle.dumps(self.trackers(GaussianMixture(n_components=2), kind())[0].live_state()))
            for kind in (Entropy, Samplewise)
        }
        assert sizes[Entropy] < 5_000  # of 400 samples 58 remain
        assert sizes[Samplewise] > 400 * 8 * 4

    @pytest.mark.parametrize("sees_places", [True, False])
    def test_observations_travel_where_somebody_looks_at_them(self, sees_places):
        rows, states = np.full((3, 7), 5), np.arange(6.0).reshape(3, 2)
        batch = Batch(observations=rows, actions=np.array([0, 300, -2]), lengths=np.array([3]), states=states)
        share = Fragment.of(
            batch, sees_places=sees_places, sub_environments=[0], started_ago=[2], version=0, follower=0
        )
        assert (len(share), share.n_steps) == (1, 3)
        np.testing.assert_array_equal(share.column("observations"), rows if sees_places else states)
        np.testing.assert_array_equal(share.column("states"), states)
        assert (share.columns["actions"].dtype, share.column("actions").dtype) == (np.int16, np.int64)
        np.testing.assert_array_equal(share.column("actions"), [0, 300, -2])


class Still(gym.Env):
    def __init__(self, space):
        self.observation_space, self.action_space = space, gym.spaces.Box(-1.0, 1.0, (1,), np.float32)


def near(estimator):
    """The distance to a mixture: its derivative asks for the formula of λ̂, where there is one; else a divergence."""
    if isinstance(estimator, NearestNeighbors):
        return KLDivergence(lambda points: np.ones(len(points.states)), limit=0.1, over="state")
    reference = GaussianMixture(n_components=1).bind(gym.spaces.Box(-1.0, 1.0, (2,)), gym.spaces.Discrete(1))
    rng = np.random.default_rng(3)
    batch = Batch(observations=rng.normal(size=(100, 2)), actions=np.zeros(100, dtype=int), lengths=np.array([100]))
    measure: Measure = reference.fit(batch).measure()
    return MixtureDistance(measure.states, limit=0.1)
