"""The collector: trajectories line up with the actions taken, in scalar and vector environments."""

from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode

import constrained_maxent as cmx
from constrained_maxent.agents.policies import make_policy
from constrained_maxent.agents.rollouts import Collector
from constrained_maxent.errors import InvalidSetting, MissingTracker

HOLED = ["SFH", "FFG"]
HORIZON = 6


def collect(env, n=1, seed=0, restart_each=True):
    """``n`` rollouts of the uniform policy."""
    collector = Collector(env)
    policy = make_policy(collector.observation_space, collector.action_space, hidden_sizes=(4,))
    rng = np.random.default_rng(seed)
    rollouts = []
    for k in range(n):
        if k == 0 or restart_each:
            collector.restart(seed=seed + k)
        rollouts.append(collector.collect(policy, rng))
    return rollouts


class Watched(gym.Wrapper):
    """Notes what crosses the interface."""

    def __init__(self, env):
        super().__init__(env)
        self.steps, self.resets = [], 0

    def reset(self, **kwargs):
        self.observation, info = self.env.reset(**kwargs)
        self.resets += 1
        return self.observation, info

    def step(self, action):
        before = self.observation
        self.observation, reward, terminated, truncated, info = self.env.step(action)
        self.steps.append(SimpleNamespace(before=before, action=action, after=self.observation, terminated=terminated))
        return self.observation, reward, terminated, truncated, info


class WatchedVector(gym.vector.VectorWrapper):
    def __init__(self, env):
        super().__init__(env)
        self.steps, self.resets = [], 0

    def reset(self, **kwargs):
        self.observations, infos = self.env.reset(**kwargs)
        self.steps = []
        self.resets += 1
        return self.observations, infos

    def step(self, actions):
        before = self.observations
        self.observations, rewards, terminated, truncated, infos = self.env.step(actions)
        self.steps.append(SimpleNamespace(before=before, actions=np.array(actions), done=terminated | truncated))
        return self.observations, rewards, terminated, truncated, infos

    def episodes(self, mode):
        """(state, action) lists of the episodes, in the order in which they started; ties by sub-environment."""
        found, current, ignored = [], [None] * self.num_envs, np.zeros(self.num_envs, dtype=bool)
        for step in self.steps:
            for i in range(self.num_envs):
                if ignored[i]:
                    continue
                if current[i] is None:
                    current[i] = []
                    found.append(current[i])
                current[i].append((int(step.before[i]), int(step.actions[i])))
            for i in range(self.num_envs):
                if step.done[i]:
                    current[i] = None
            ignored = (step.done & ~ignored) if mode is AutoresetMode.NEXT_STEP else ignored
        return found


def pairs(rollout):
    """(state, action) lists by trajectory."""
    flat = list(zip(rollout.rows.tolist(), rollout.actions.tolist(), strict=True))
    ends = np.cumsum(rollout.lengths)
    return [flat[end - length : end] for end, length in zip(ends, rollout.lengths, strict=True)]


class TestScalar:
    def test_rows_and_actions_are_those_taken(self):
        env = Watched(gym.make("FrozenLake-PGP-v0", preset="paper", desc=HOLED, horizon=HORIZON, episodes_per_batch=20))
        (rollout,) = collect(env)
        assert [pair for trajectory in pairs(rollout) for pair in trajectory] == [
            (step.before, step.action) for step in env.steps
        ]
        assert rollout.n_steps == len(env.steps) == rollout.lengths.sum()
        assert len(set(rollout.lengths.tolist())) > 1
        assert rollout.times.tolist() == [t for n in rollout.lengths for t in range(n)]
        last = np.cumsum(rollout.lengths) - 1
        assert rollout.final_rows.tolist() == [env.steps[i].after for i in last]
        assert rollout.terminated.tolist() == [env.steps[i].terminated for i in last]

    def test_only_ready_trajectories(self):
        """Pairing split: the first half of the batch is not in the gradient."""
        env = Watched(
            gym.make(
                "FrozenLake-PGP-v0", preset="paper", desc=HOLED, horizon=HORIZON, episodes_per_batch=5, pairing="split"
            )
        )
        (rollout,) = collect(env)
        assert len(rollout.lengths) == 3
        taken = [(step.before, step.action) for step in env.steps][-rollout.lengths.sum() :]
        assert [pair for trajectory in pairs(rollout) for pair in trajectory] == taken

    def test_nothing_is_ready_in_the_first_batch_of_pairing_previous(self):
        first, second = collect(
            gym.make("FrozenLake-PGP-v0", preset="paper", desc=["SF"], pairing="previous", episodes_per_batch=2), n=2
        )
        assert (len(first.rows), len(first.lengths), first.n_steps) == (0, 0, 50)
        assert len(second.lengths) == 2

    @pytest.mark.parametrize(
        ("observations", "shape"),
        [(Discrete(3, start=2), ()), (Box(-1.0, 1.0, (2, 2), dtype=np.float32), (2, 2)), (Box(-1.0, 1.0, ()), ())],
    )
    @pytest.mark.parametrize(
        ("actions", "raw_shape"), [(Discrete(2, start=-1), ()), (Box(0.0, 1.0, (2,)), (2,)), (Box(0.0, 1.0, ()), (1,))]
    )
    def test_any_spaces(self, reporter, observations, shape, actions, raw_shape):
        """The environment asserts that each action is in its space."""
        env = reporter(observations, actions, reward=lambda s, a: 1.0)
        (rollout,) = collect(env)
        assert rollout.rows.shape == (6, *shape)
        assert rollout.actions.shape == (6, *raw_shape)
        np.testing.assert_array_equal(rollout.rows, [s for s, _, _ in env.last])
        assert rollout.weights.tolist() == [1.0, 0.5, 0.25] * 2

    def test_terminated_or_truncated(self, reporter):
        for end in ("terminated", "truncated"):
            env = reporter(Discrete(3), Discrete(2), reward=lambda s, a: 1.0, end=end)
            (rollout,) = collect(env)
            assert rollout.terminated.tolist() == [end == "terminated"] * 2
            assert rollout.final_rows.tolist() == [env.last[2][2], env.last[5][2]]


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
class TestVector:
    def make(self, mode, **settings):
        settings = {"episodes_per_batch": 7, "slippery": True, "desc": HOLED} | settings
        return WatchedVector(
            gym.make_vec(
                "FrozenLake-PGP-v0", preset="paper", num_envs=3, horizon=HORIZON, autoreset_mode=mode.value, **settings
            )
        )

    @pytest.mark.parametrize("seed", range(5))
    def test_the_first_episodes_by_start(self, mode, seed):
        env = self.make(mode)
        (rollout,) = collect(env, seed=seed)
        assert pairs(rollout) == env.episodes(mode)[:7]
        assert rollout.n_steps == 3 * len(env.steps)

    @pytest.mark.parametrize("seed", range(3))
    def test_split(self, mode, seed):
        env = self.make(mode, pairing="split")
        (rollout,) = collect(env, seed=seed)
        assert pairs(rollout) == env.episodes(mode)[3:7]

    def test_final_rows_come_before_the_reset(self, mode):
        """An episode of the deterministic lake ends where its last action leads."""
        env = self.make(mode, slippery=False)
        P = env.unwrapped.P
        (rollout,) = collect(env)
        for trajectory, final, terminated in zip(
            pairs(rollout), rollout.final_rows.tolist(), rollout.terminated.tolist(), strict=True
        ):
            [(_, successor, _, ends)] = P[trajectory[-1][0]][trajectory[-1][1]]
            assert (final, terminated) == (successor, ends)

    @pytest.mark.filterwarnings("ignore::constrained_maxent.errors.PartialEpisodes")  # small on purpose
    def test_fragments_go_on(self, mode):
        """With batches of steps, no episode is cut short by a batch's end: put together, fragments are episodes."""
        env = self.make(mode, episodes_per_batch=None, steps_per_batch=10)
        rollouts = collect(env, n=8, restart_each=False)
        assert env.resets == 1
        assert sum(rollout.n_steps for rollout in rollouts) == 3 * len(env.steps)
        weights = 0.99 ** np.arange(HORIZON)
        for rollout in rollouts:
            begin = 0
            for length in rollout.lengths:
                # The weights know at which time of its episode a fragment begins.
                fragment = rollout.weights[begin : begin + length]
                start = round(np.log(fragment[0]) / np.log(0.99))
                np.testing.assert_allclose(fragment, weights[start : start + length], rtol=1e-12)
                begin += length
        in_fragments = sorted(pair for rollout in rollouts for trajectory in pairs(rollout) for pair in trajectory)
        in_episodes = sorted(pair for episode in env.episodes(mode) for pair in episode)
        assert in_fragments == in_episodes

    @pytest.mark.filterwarnings("ignore::constrained_maxent.errors.PartialEpisodes")  # small on purpose
    def test_fragments_stand_for_their_share_of_an_episode(self, mode):
        # In a row without a goal every episode lasts the whole horizon: n steps are n / horizon episodes.
        env = self.make(mode, episodes_per_batch=None, steps_per_batch=9, desc=["SFF"])
        for rollout in collect(env, n=5, restart_each=False):
            assert rollout.n_episodes == pytest.approx(len(rollout.rewards) / HORIZON)

    @pytest.mark.filterwarnings("ignore::constrained_maxent.errors.PartialEpisodes")  # small on purpose
    def test_final_row_of_a_fragment_is_the_latest_observation(self, mode):
        env = self.make(mode, episodes_per_batch=None, steps_per_batch=9, slippery=False)
        P = env.unwrapped.P
        for rollout in collect(env, n=5, restart_each=False):
            for trajectory, final in zip(pairs(rollout), rollout.final_rows.tolist(), strict=True):
                [(_, successor, _, _)] = P[trajectory[-1][0]][trajectory[-1][1]]
                assert final == successor


class TestRefused:
    def test_unwrapped(self):
        for env in (gym.make("SafeFrozenLake-v0"), gym.make_vec("SafeFrozenLake-v0", num_envs=2)):
            with pytest.raises(MissingTracker):
                Collector(env)

    def test_disabled_autoreset(self):
        env = gym.make_vec("FrozenLake-PGP-v0", preset="paper", num_envs=2, autoreset_mode="Disabled")
        with pytest.raises(InvalidSetting, match="autoreset_mode"):
            Collector(env)

    def test_an_estimate_for_each_sub_environment(self):
        env = gym.make_vec(
            "FrozenLake-PGP-v0", preset="paper", num_envs=2, vectorization_mode="sync", episodes_per_batch=1
        )
        with pytest.raises(MissingTracker):
            Collector(env)
        env.close()

    def test_a_sync_vector_environment_wrapped_as_a_whole(self):
        env = cmx.wrappers.constrain(
            gym.make_vec("SafeFrozenLake-v0", num_envs=2, vectorization_mode="sync"), episodes_per_batch=4
        )
        (rollout,) = collect(env)
        assert len(rollout.lengths) == 4
        env.close()
