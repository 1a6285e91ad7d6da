import math
import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from constrained_maxent.envs import SafeFrozenLake, SafeFrozenLakeVector
from constrained_maxent.errors import InvalidSetting

LEFT, DOWN, RIGHT, UP = range(4)
# Small enough that random walks reach the goal (terminated), the horizon (truncated) and both at once.
POND = {"desc": ["SHF", "FFG"], "horizon": 4}


def assert_same(ours, theirs):
    """Equal values, types and nested infos."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        for key in theirs:
            assert_same(ours[key], theirs[key])
    else:
        assert ours.dtype == theirs.dtype
        assert ours.tolist() == theirs.tolist()


class TestAgainstGymnasiumsVectorOfScalarLakes:
    @pytest.mark.parametrize("mode", AutoresetMode)
    @pytest.mark.parametrize("settings", [POND, POND | {"horizon": None}])
    def test_equal_steps(self, mode, settings):
        n = 7
        ours = SafeFrozenLakeVector(n, autoreset_mode=mode, **settings)
        theirs = SyncVectorEnv([lambda: SafeFrozenLake(**settings)] * n, autoreset_mode=mode)
        assert ours.observation_space == theirs.observation_space
        assert ours.action_space == theirs.action_space
        for mine, other in zip(ours.reset(seed=0), theirs.reset(seed=0), strict=True):
            assert_same(mine, other)

        rng = np.random.default_rng(0)
        seen_ends = np.zeros(2, dtype=int)
        for _ in range(200):
            actions = rng.integers(4, size=n)
            *mine, infos = ours.step(actions)
            *other, expected_infos = theirs.step(actions)
            for a, b in zip(mine, other, strict=True):
                assert_same(a, b)
            if "cost" not in expected_infos:  # all copies were reset: Gymnasium has no info to show
                expected_infos |= {"cost": np.zeros(n), "_cost": np.zeros(n, dtype=bool)}
            assert_same(infos, expected_infos)
            ended = mine[2] | mine[3]
            seen_ends += [mine[2].sum(), mine[3].sum()]
            if mode is AutoresetMode.DISABLED and ended.any():
                for a, b in zip(
                    ours.reset(options={"reset_mask": ended}),
                    theirs.reset(options={"reset_mask": ended.copy()}),
                    strict=True,
                ):
                    assert_same(a, b)
        assert seen_ends[0] > 10
        assert (seen_ends[1] > 10) == (settings["horizon"] is not None)

    @pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
    def test_equal_masked_resets_in_mid_episode(self, mode):
        ours = SafeFrozenLakeVector(2, autoreset_mode=mode, **POND)
        theirs = SyncVectorEnv([lambda: SafeFrozenLake(**POND)] * 2, autoreset_mode=mode)
        for env in (ours, theirs):
            env.reset(seed=0)
        for step in range(12):
            if step % 3 == 2:
                for env in (ours, theirs):
                    env.reset(options={"reset_mask": np.array([True, False])})
            for a, b in zip(ours.step([DOWN, LEFT])[:4], theirs.step([DOWN, LEFT])[:4], strict=True):
                assert_same(a, b)


class TestInfos:
    def test_the_cost_of_the_state_that_was_left(self):
        env = SafeFrozenLakeVector(2)
        env.reset()
        path = [(RIGHT, DOWN), (RIGHT, DOWN), (DOWN, RIGHT), (DOWN, RIGHT), (RIGHT, RIGHT)]
        steps = [env.step(actions) for actions in path]
        assert steps[3][0].tolist() == [14, 14]
        assert [step[4]["cost"].tolist() for step in steps] == [[-0.001] * 2] * 4 + [[50.0] * 2]

    def test_next_step_reset_has_no_cost(self):
        env = SafeFrozenLakeVector(2, desc=["SHG"], horizon=3)
        env.reset()
        env.step([RIGHT, LEFT])
        *_, infos = env.step([RIGHT, LEFT])
        assert infos["cost"].tolist() == [50.0, -0.001]
        states, rewards, terminated, truncated, infos = env.step([RIGHT, LEFT])
        assert states.tolist() == [0, 0]
        assert rewards.tolist() == [0.0, 0.0]
        assert terminated.tolist() == [False, False]
        assert truncated.tolist() == [False, True]
        assert infos["cost"].tolist() == [0.0, -0.001]
        assert infos["_cost"].tolist() == [False, True]

    def test_same_step_reset_hands_the_last_cost_over_in_final_info(self):
        env = SafeFrozenLakeVector(2, desc=["SHG"], autoreset_mode="SameStep")
        env.reset()
        env.step([RIGHT, LEFT])
        states, rewards, terminated, _, infos = env.step([RIGHT, RIGHT])
        assert states.tolist() == [0, 1]
        assert rewards.tolist() == [1.0, 0.0]
        assert terminated.tolist() == [True, False]
        assert infos["final_obs"].tolist() == [2, None]
        assert infos["final_info"]["cost"].tolist() == [50.0, 0.0]
        assert infos["cost"].tolist() == [0.0, -0.001]
        assert infos["_cost"].tolist() == [False, True]

    def test_what_is_returned_belongs_to_the_caller(self):
        env = SafeFrozenLakeVector(3, desc=["SFFFF"], horizon=2, autoreset_mode="SameStep")
        observations, _ = env.reset()
        observations += 1
        *arrays, infos = env.step([RIGHT] * 3)
        for array in (*arrays, *infos.values()):
            array[:] = 1
        assert env.step([RIGHT] * 3)[4]["final_obs"].tolist() == [2, 2, 2]


class TestRandomness:
    def test_slippery_frequencies(self):
        # Each count is binomial(6000, 1/3), sigma 36.5; outside 4.5 sigma with probability 7e-6.
        env = SafeFrozenLakeVector(6000, desc=["FFF", "FSF", "FFF"], slippery=True)
        env.reset(seed=0)
        counts = np.bincount(env.step(np.full(6000, RIGHT))[0], minlength=9)
        assert counts[[1, 5, 7]].sum() == 6000
        assert np.abs(counts[[1, 5, 7]] - 2000).max() < 4.5 * math.sqrt(6000 * 2 / 9)

    def test_starts_are_uniform(self):
        # Binomial(4000, 1/2), sigma 31.6; outside 4.5 sigma with probability 7e-6.
        starts, _ = SafeFrozenLakeVector(4000, desc=["SFS"]).reset(seed=0)
        assert np.unique(starts).tolist() == [0, 2]
        assert abs(np.count_nonzero(starts == 0) - 2000) < 4.5 * math.sqrt(1000)

    def test_same_seed_same_walk(self):
        def states(seed):
            env = SafeFrozenLakeVector(16, slippery=True)
            return [env.reset(seed=seed)[0].tolist()] + [env.step([RIGHT] * 16)[0].tolist() for _ in range(30)]

        assert states(1) == states(1)
        assert states(1) != states(2)


class TestMisuse:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"num_envs": 0}, "at least 1"),
            ({"autoreset_mode": "Never"}, "NextStep, SameStep, Disabled"),
            ({"render_mode": "human"}, "ansi, rgb_array"),
            ({"horizon": 0}, "at least 1"),
            ({"desc": ["FG"]}, "desc="),
        ],
    )
    def test_bad_settings(self, settings, message):
        with pytest.raises(InvalidSetting, match=message):
            SafeFrozenLakeVector(**settings)

    @pytest.mark.parametrize("actions", [[0], [0, 4], [0, -1], [0.0, 1.0], 0, [[0, 1]], ["0", "1"]])
    def test_bad_actions_say_what_is_valid_and_change_nothing(self, actions):
        env = SafeFrozenLakeVector(2, horizon=1)
        env.reset()
        with pytest.raises(InvalidSetting, match="actions"):
            env.step(actions)
        assert env.step([RIGHT, DOWN])[0].tolist() == [1, 6]

    def test_unsigned_actions(self):
        env = SafeFrozenLakeVector(2)
        env.reset()
        assert env.step(np.array([RIGHT, DOWN], dtype=np.uint64))[0].tolist() == [1, 6]

    def test_step_and_render_before_reset(self):
        env = SafeFrozenLakeVector(2, render_mode="ansi")
        with pytest.raises(ResetNeeded):
            env.step([0, 0])
        with pytest.raises(ResetNeeded):
            env.render()
        with pytest.raises(ResetNeeded, match="reset"):
            env.reset(options={"reset_mask": np.array([True, False])})

    def test_a_finished_copy_is_not_stepped_when_autoreset_is_disabled(self):
        env = SafeFrozenLakeVector(3, desc=["SFG"], autoreset_mode="Disabled")
        env.reset()
        env.step([RIGHT, LEFT, RIGHT])
        env.step([RIGHT, LEFT, RIGHT])
        with pytest.raises(ResetNeeded, match=r"\[0, 2\]"):
            env.step([RIGHT, RIGHT, RIGHT])
        options = {"reset_mask": np.array([True, False, True])}
        env.reset(options=options)
        assert options["reset_mask"].tolist() == [True, False, True]
        assert env.step([LEFT, RIGHT, RIGHT])[0].tolist() == [0, 1, 1]

    @pytest.mark.parametrize("mask", [[True], np.array([False, False]), np.array([1, 0]), None])
    def test_bad_reset_masks(self, mask):
        env = SafeFrozenLakeVector(2)
        env.reset()
        with pytest.raises(InvalidSetting, match="reset_mask"):
            env.reset(options={"reset_mask": mask})


class TestRendering:
    def test_one_frame_for_each_copy(self):
        env = SafeFrozenLakeVector(2, desc=["SHF"], render_mode="rgb_array")
        env.reset()
        start = env.render()
        assert [frame.shape for frame in start] == [(64, 192, 3)] * 2
        assert np.array_equal(start[0], start[1])
        env.step([RIGHT, LEFT])
        right, left = env.render()
        assert (right != left).any()
        env.close()

    def test_text(self):
        env = SafeFrozenLakeVector(2, desc=["SHF"], horizon=1, render_mode="ansi")
        env.reset()
        env.step([RIGHT, LEFT])
        assert env.render() == ("  (Right)\nS\x1b[41mH\x1b[0mF\n", "  (Left)\n\x1b[41mS\x1b[0mHF\n")
        env.step([RIGHT, LEFT])
        assert env.render() == ("\n\x1b[41mS\x1b[0mHF\n",) * 2

    def test_without_render_mode_it_warns(self):
        env = SafeFrozenLakeVector(2)
        env.reset()
        with pytest.warns(UserWarning, match="render_mode"):
            assert env.render() is None


class TestGymnasium:
    def test_make_vec_and_its_spec(self):
        env = gym.make_vec("SafeFrozenLake-v0", num_envs=8, desc=["SHG"], horizon=3, autoreset_mode="SameStep")
        again = gym.make_vec(env.spec)
        for vector in (env, again):
            assert isinstance(vector, SafeFrozenLakeVector)
            assert vector.num_envs == 8
            assert vector.horizon == 3
            assert vector.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
            assert vector.cost_tables["cost"][1].tolist() == [50.0] * 4
        assert again.spec == env.spec
        assert gym.make_vec("SafeFrozenLake-v0").metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP

    def test_the_mode_of_one_is_not_the_mode_of_another(self):
        SafeFrozenLakeVector(autoreset_mode="Disabled")
        assert SafeFrozenLakeVector().metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP

    def test_gymnasiums_wrappers(self):
        env = RecordEpisodeStatistics(SafeFrozenLakeVector(2, desc=["SHG"], horizon=5))
        env.reset()
        env.step([RIGHT, LEFT])
        *_, infos = env.step([RIGHT, LEFT])
        assert infos["episode"]["l"].tolist() == [2, 0]
        assert infos["episode"]["r"].tolist() == [1.0, 0.0]

    def test_pickle_in_mid_episode(self):
        env = SafeFrozenLakeVector(4, slippery=True, horizon=5, render_mode="rgb_array")
        env.reset(seed=0)
        env.step([DOWN] * 4)
        env.render()
        twin = pickle.loads(pickle.dumps(env))
        for _ in range(12):
            for a, b in zip(twin.step([RIGHT] * 4), env.step([RIGHT] * 4), strict=True):
                assert_same(a, b)
        assert np.array_equal(twin.render(), env.render())
