import copy
import math
import pickle
from collections import defaultdict

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

import constrained_maxent.envs  # noqa: F401  (registers the ids)
from constrained_maxent.envs import SafeFrozenLake
from constrained_maxent.errors import InvalidSetting

LEFT, DOWN, RIGHT, UP = range(4)
HOLES = [14, 15, 20, 21]  # (2,2), (2,3), (3,2), (3,3) of six columns


@pytest.fixture(autouse=True)
def _no_display(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


def walk(env, actions):
    """States, rewards, costs, terminated and truncated flags of a walk."""
    steps = [env.step(action) for action in actions]
    states, rewards, terminated, truncated, infos = zip(*steps, strict=True)
    return list(states), list(rewards), [info["cost"] for info in infos], list(terminated), list(truncated)


def outcomes(env, state, action):
    """Toy-text's outcomes of an action, equal ones added up: {(next state, reward, terminated): probability}."""
    total = defaultdict(float)
    for probability, *outcome in env.P[state][action]:
        total[tuple(outcome)] += probability
    return dict(total)


class TestDynamics:
    def test_the_papers_map(self):
        env = SafeFrozenLake()
        assert env.desc.shape == (6, 6)
        assert np.flatnonzero(env.desc.ravel() == b"H").tolist() == HOLES
        assert np.flatnonzero(env.initial_state_distrib).tolist() == [0]
        assert env.desc[5, 5] == b"G"
        assert env.horizon == 25

    def test_a_hole_costs_on_the_step_after_entering_and_the_walk_goes_on(self):
        env = SafeFrozenLake()
        assert env.reset(seed=0) == (0, {})
        states, rewards, costs, terminated, truncated = walk(env, [RIGHT, RIGHT, DOWN, DOWN, RIGHT, RIGHT, UP])
        assert states == [1, 2, 8, 14, 15, 16, 10]
        assert costs == [-0.001, -0.001, -0.001, -0.001, 50.0, 50.0, -0.001]
        assert rewards == [0.0] * 7
        assert not any(terminated)
        assert not any(truncated)

    def test_the_goal_ends_the_episode_with_reward_1_and_a_cost(self):
        env = SafeFrozenLake()
        env.reset()
        states, rewards, costs, terminated, truncated = walk(env, [RIGHT] * 5 + [DOWN] * 5)
        assert states == [1, 2, 3, 4, 5, 11, 17, 23, 29, 35]
        assert rewards == [0.0] * 9 + [1.0]
        assert costs == [-0.001] * 10
        assert terminated == [False] * 9 + [True]
        assert not any(truncated)

    def test_edges_hold(self):
        env = SafeFrozenLake()
        env.reset()
        assert walk(env, [LEFT, UP, DOWN, LEFT])[0] == [0, 0, 6, 6]

    def test_types(self):
        env = SafeFrozenLake()
        env.reset()
        state, reward, terminated, truncated, info = env.step(np.int64(RIGHT))
        assert [type(x) for x in (state, reward, terminated, truncated, info["cost"])] == [
            int,
            float,
            bool,
            bool,
            np.float64,
        ]

    def test_horizon_truncates(self):
        env = SafeFrozenLake(horizon=3)
        env.reset()
        assert walk(env, [LEFT] * 3)[4] == [False, False, True]

    def test_default_horizon_is_25(self):
        env = SafeFrozenLake()
        env.reset()
        assert walk(env, [LEFT] * 25)[4] == [False] * 24 + [True]

    def test_no_horizon_never_truncates(self):
        env = SafeFrozenLake(horizon=None)
        env.reset()
        assert not any(walk(env, [LEFT] * 300)[4])

    def test_goal_on_the_last_step_is_both(self):
        env = SafeFrozenLake(desc=["SG"], horizon=1)
        env.reset()
        assert env.step(RIGHT) == (1, 1.0, True, True, {"cost": -0.001})

    def test_a_reset_starts_the_horizon_again(self):
        env = SafeFrozenLake(horizon=2)
        env.reset()
        env.step(LEFT)
        env.reset()
        assert walk(env, [LEFT] * 2)[4] == [False, True]

    def test_costs_can_be_set(self):
        env = SafeFrozenLake(desc=["SH"], hole_cost=2, base_cost=-1)
        env.reset()
        assert walk(env, [RIGHT, LEFT])[2] == [-1.0, 2.0]


class TestTables:
    @pytest.mark.parametrize("slippery", [False, True])
    def test_gymnasiums_transitions_where_there_is_no_hole(self, slippery):
        ours = SafeFrozenLake(desc=["SFF", "FSG"], slippery=slippery)
        theirs = FrozenLakeEnv(desc=["SFF", "FSG"], is_slippery=slippery)
        assert ours.P == theirs.P
        assert np.array_equal(ours.initial_state_distrib, theirs.initial_state_distrib)

    def test_holes_are_left_like_any_tile(self):
        env = SafeFrozenLake()
        assert outcomes(env, 13, RIGHT) == {(14, 0, False): 1.0}
        assert outcomes(env, 14, RIGHT) == {(15, 0, False): 1.0}
        assert outcomes(env, 21, DOWN) == {(27, 0, False): 1.0}

    @pytest.mark.parametrize(
        ("state", "action", "expected"),
        [
            (0, LEFT, {(0, 0, False): 2 / 3, (6, 0, False): 1 / 3}),
            (14, UP, {(8, 0, False): 1 / 3, (13, 0, False): 1 / 3, (15, 0, False): 1 / 3}),
            (34, RIGHT, {(35, 1, True): 1 / 3, (28, 0, False): 1 / 3, (34, 0, False): 1 / 3}),
        ],
    )
    def test_slippery_moves_go_three_ways(self, state, action, expected):
        assert outcomes(SafeFrozenLake(slippery=True), state, action) == pytest.approx(expected)

    def test_only_the_goal_absorbs(self):
        P = SafeFrozenLake(slippery=True).P
        absorbing = [s for s in P if all(outcome[1] == s for outcomes in P[s].values() for outcome in outcomes)]
        assert absorbing == [35]

    def test_cost_tables(self):
        costs = SafeFrozenLake().cost_tables["cost"]
        assert costs.shape == (36, 4)
        assert costs.dtype == np.float64
        assert (costs[HOLES] == 50.0).all()
        assert (np.delete(costs, HOLES, axis=0) == -0.001).all()

    @pytest.mark.parametrize("slippery", [False, True])
    def test_steps_follow_the_transitions(self, slippery):
        env = SafeFrozenLake(desc=["SFH", "HSG", "FFS"], slippery=slippery, horizon=None)
        env.action_space.seed(0)
        state, _ = env.reset(seed=0)
        for _ in range(1000):
            action = int(env.action_space.sample())
            possible = {(s, r, t) for _, s, r, t in env.P[state][action]}
            cost = env.cost_tables["cost"][state, action]
            state, reward, terminated, _, info = env.step(action)
            assert (state, reward, terminated) in possible
            assert info["cost"] == cost
            if terminated:
                state, _ = env.reset()

    def test_a_lake_without_goal_has_no_end(self):
        env = SafeFrozenLake(desc=["SF"], horizon=None)
        env.reset()
        assert not any(walk(env, [RIGHT] * 50)[3])


class TestRandomness:
    def test_slippery_frequencies(self):
        # Each count is binomial(6000, 1/3), sigma 36.5; outside 4.5 sigma with probability 7e-6.
        env = SafeFrozenLake(desc=["FFF", "FSF", "FFF"], slippery=True, horizon=1)
        env.reset(seed=0)
        counts = np.zeros(9, dtype=int)
        for _ in range(6000):
            counts[env.step(RIGHT)[0]] += 1
            env.reset()
        assert counts.sum() == counts[[1, 5, 7]].sum() == 6000
        assert np.abs(counts[[1, 5, 7]] - 2000).max() < 4.5 * math.sqrt(6000 * 2 / 9)

    def test_starts_are_uniform(self):
        # Binomial(4000, 1/2), sigma 31.6; outside 4.5 sigma with probability 7e-6.
        env = SafeFrozenLake(desc=["SFS"])
        env.reset(seed=0)
        starts = [env.reset()[0] for _ in range(4000)]
        assert set(starts) == {0, 2}
        assert abs(starts.count(0) - 2000) < 4.5 * math.sqrt(1000)

    def test_same_seed_same_walk(self):
        def states(seed):
            env = SafeFrozenLake(desc=["SFFS", "FFFF"], slippery=True)
            return [env.reset(seed=seed)[0], *walk(env, [RIGHT] * 20)[0]]

        assert states(1) == states(1)
        assert states(1) != states(2)


class TestMisuse:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"map_name": "5x5"}, "6x6, 4x4, 8x8"),
            ({"desc": ["SF", "F"]}, "desc="),
            ({"desc": ["S", "F"]}, "desc="),
            ({"desc": ["SX", "FG"]}, "desc="),
            ({"desc": ["FF", "FG"]}, "desc="),
            ({"desc": []}, "desc="),
            ({"desc": [""]}, "desc="),
            ({"desc": "SFG"}, "desc="),
            ({"desc": [1, 2]}, "desc="),
            ({"horizon": 0}, "at least 1"),
            ({"horizon": 2.5}, "whole number"),
            ({"horizon": math.inf}, "None"),
            ({"horizon": math.nan}, "whole number"),
            ({"horizon": "25"}, "whole number"),
            ({"hole_cost": math.inf}, "hole_cost"),
            ({"hole_cost": None}, "hole_cost"),
            ({"base_cost": math.nan}, "base_cost"),
            ({"render_mode": "svg"}, "human, ansi, rgb_array"),
        ],
    )
    def test_bad_settings(self, settings, message):
        with pytest.raises(InvalidSetting, match=message):
            SafeFrozenLake(**settings)

    @pytest.mark.parametrize("action", [-1, 4, 1.0, "1", None, [1]])
    def test_bad_actions_say_what_is_valid_and_change_nothing(self, action):
        env = SafeFrozenLake(horizon=1)
        env.reset()
        with pytest.raises(InvalidSetting, match="action="):
            env.step(action)
        assert env.step(RIGHT)[0] == 1

    def test_numpy_actions(self):
        env = SafeFrozenLake()
        env.reset()
        assert walk(env, [np.array(RIGHT), np.uint8(DOWN), np.int32(LEFT)])[0] == [1, 7, 6]

    def test_step_and_render_before_reset(self):
        env = SafeFrozenLake(render_mode="ansi")
        with pytest.raises(ResetNeeded):
            env.step(LEFT)
        with pytest.raises(ResetNeeded):
            env.render()

    @pytest.mark.parametrize(("desc", "horizon"), [(["SG"], None), (["SF"], 1)])
    def test_step_after_the_end(self, desc, horizon):
        env = SafeFrozenLake(desc=desc, horizon=horizon)
        env.reset()
        env.step(RIGHT)
        with pytest.raises(ResetNeeded):
            env.step(RIGHT)
        env.reset()
        env.step(RIGHT)


class TestRendering:
    def test_text_marks_the_agent_in_a_hole(self):
        env = SafeFrozenLake(desc=["SH"], render_mode="ansi")
        env.reset()
        assert env.render() == "\n\x1b[41mS\x1b[0mH\n"
        env.step(RIGHT)
        assert env.render() == "  (Right)\nS\x1b[41mH\x1b[0m\n"

    def test_the_agent_can_be_seen_in_a_hole(self):
        env = SafeFrozenLake(desc=["SHH"], render_mode="rgb_array")
        env.reset()
        start = env.render()
        assert start.shape == (64, 192, 3)
        assert start.dtype == np.uint8
        env.step(RIGHT)
        first_hole = env.render()
        env.step(RIGHT)
        second_hole = env.render()
        assert (first_hole[:, 64:128] != start[:, 64:128]).any()
        assert (second_hole[:, 128:] != start[:, 128:]).any()
        assert (second_hole[:, 64:128] == start[:, 64:128]).all()
        assert env.desc.tolist() == [[b"S", b"H", b"H"]]

    def test_human(self):
        env = SafeFrozenLake(desc=["SH"], render_mode="human")
        env.reset()
        env.step(RIGHT)
        assert env.render() is None
        env.close()

    def test_without_render_mode_it_warns(self):
        env = SafeFrozenLake()
        env.reset()
        with pytest.warns(UserWarning, match="render_mode"):
            assert env.render() is None


class TestGymnasium:
    @pytest.mark.parametrize("settings", [{}, {"slippery": True}, {"map_name": "4x4"}])
    def test_check_env(self, settings):
        check_env(gym.make("SafeFrozenLake-v0", **settings).unwrapped)

    def test_check_env_of_stable_baselines3(self):
        checker = pytest.importorskip("stable_baselines3.common.env_checker")
        checker.check_env(SafeFrozenLake())

    def test_spec_round_trip(self):
        env = gym.make("SafeFrozenLake-v0", desc=["SHS"], horizon=3, hole_cost=2.0)
        again = gym.make(env.spec)
        assert again.unwrapped.desc.tolist() == [[b"S", b"H", b"S"]]
        assert again.unwrapped.horizon == 3
        assert again.unwrapped.cost_tables["cost"][1, 0] == 2.0
        assert again.spec == env.spec

    @pytest.mark.parametrize("clone", [lambda env: pickle.loads(pickle.dumps(env)), copy.deepcopy])
    def test_copies_go_on_where_the_original_stood(self, clone):
        env = SafeFrozenLake(slippery=True, horizon=6, render_mode="rgb_array")
        env.reset(seed=3)
        walk(env, [DOWN, RIGHT, DOWN])
        frame = env.render()
        twin = clone(env)
        assert np.array_equal(twin.render(), frame)
        assert np.array_equal(env.render(), frame)
        assert walk(twin, [RIGHT, DOWN, RIGHT]) == walk(env, [RIGHT, DOWN, RIGHT])
        assert twin.reset() == env.reset()

    def test_reset_leaves_the_options_alone(self):
        options = {"anything": 1}
        SafeFrozenLake().reset(options=options)
        assert options == {"anything": 1}
