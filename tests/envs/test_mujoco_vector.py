import importlib.util
import math
import pickle
from pathlib import Path

import gymnasium as gym
import mujoco
import numpy as np
import pytest
from dm_control import suite
from gymnasium.error import DependencyNotInstalled, ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from constrained_maxent.envs import (
    MujocoVectorEnv,
    PointMass,
    PointMassVector,
    SafeAnt,
    SafeAntVector,
    SafeCartpole,
    SafeCartpoleVector,
    SafeHalfCheetah,
    SafeHalfCheetahVector,
)
from constrained_maxent.errors import InvalidData, InvalidSetting, NonFiniteValue

CARTPOLE, POINT_MASS = (SafeCartpoleVector, SafeCartpole), (PointMassVector, PointMass)
ANT, HALF_CHEETAH = (SafeAntVector, SafeAnt), (SafeHalfCheetahVector, SafeHalfCheetah)
COSTS = {"cost": float, "cost_speed": float, "cost_tilt": float, "cost_height": float}
NO_REPORT = {"margin": float, "physics_error": bool, **COSTS}

# A puck on a rail, with nothing to slow it down: x' = x + dt·v', v' = v + dt·u/m.
PUCK = """
<mujoco>
  <option timestep="0.1" gravity="0 0 0"/>
  <worldbody><body><joint name="slide" type="slide" axis="1 0 0"/><geom size="0.1" mass="2"/></body></worldbody>
  <actuator><motor joint="slide" gear="1"/></actuator>
</mujoco>
"""


def puck(num_envs=2, **settings):
    functions = {
        "observation": puck_observation,
        "observation_space": gym.spaces.Box(-np.inf, np.inf, (1,), dtype=np.float64),
        "start": puck_start,
    }
    return MujocoVectorEnv(mujoco.MjModel.from_xml_string(PUCK), num_envs, **functions | settings)


def puck_observation(states):
    return states.qpos


def puck_start(generator):
    return np.zeros(1), np.ones(1)


def assert_same(ours, theirs):
    """Equal keys, types and masks; equal values, to 1e-10 where they are no integers."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        for key in theirs:
            assert_same(ours[key], theirs[key])
    elif theirs.dtype == object:
        assert ours.dtype == object
        for mine, other in zip(ours, theirs, strict=True):
            assert (mine is None) == (other is None)
            if other is not None:
                assert_same(mine, other)
    else:
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=1e-10)


def completed(infos, ours):
    """Gymnasium's infos, with what ours report when no copy took a step: zeros, and masks that are False."""
    for key in NO_REPORT.keys() & ours.keys() - infos.keys():
        n = len(ours["state"])
        infos |= {key: np.zeros(n, dtype=NO_REPORT[key]), f"_{key}": np.zeros(n, dtype=bool)}
    return infos


def compare(ours, theirs, n_steps, *, seed=0):
    """Step two vector environments by the same random actions and hold all they return against each other."""
    for mine, other in zip(ours.reset(seed=seed), theirs.reset(seed=seed), strict=True):
        assert_same(mine, other)
    generator = np.random.default_rng(0)
    n_ends = 0
    for step in range(n_steps):
        # Held for a while, random actions go far.
        if step % 10 == 0:
            actions = generator.uniform(-1.5, 1.5, size=ours.action_space.shape).astype(np.float32)
        *mine, infos = ours.step(actions)
        *other, expected = theirs.step(actions)
        for a, b in zip(mine, other, strict=True):
            assert_same(a, b)
        assert_same(infos, completed(expected, infos))
        ended = mine[2] | mine[3]
        n_ends += int(ended.sum())
        if ours.metadata["autoreset_mode"] is AutoresetMode.DISABLED and ended.any():
            results = [env.reset(options={"reset_mask": ended.copy()}) for env in (ours, theirs)]
            for a, b in zip(*results, strict=True):
                assert_same(a, b)
    return n_ends


class TestAgainstGymnasiumsVectorOfScalarEnvironments:
    @pytest.mark.parametrize(("vector", "scalar"), [CARTPOLE, POINT_MASS])
    def test_equal_over_whole_episodes(self, vector, scalar):
        ours, theirs = vector(2), SyncVectorEnv([scalar] * 2)
        assert ours.observation_space == theirs.observation_space
        assert ours.action_space == theirs.action_space
        assert compare(ours, theirs, 1100) == 2

    @pytest.mark.parametrize("mode", AutoresetMode)
    @pytest.mark.parametrize(
        ("kind", "settings"),
        [
            (CARTPOLE, {"time_limit": 0.3, "slider_limit": 0.5}),
            (CARTPOLE, {"time_limit": 0.6, "frame_skip": 3, "rail": 0.6}),
            (POINT_MASS, {"time_limit": 0.4}),
            (HALF_CHEETAH, {"time_limit": 0.9, "tilt_limit": 0.1, "costs": ("tilt", "height")}),
            (ANT, {"time_limit": 1.0, "frame_skip": 3, "terminate_when_unhealthy": True}),
        ],
    )
    def test_equal_steps_in_every_autoreset_mode(self, mode, kind, settings):
        vector, scalar = kind
        theirs = SyncVectorEnv([lambda: scalar(**settings)] * 3, autoreset_mode=mode)
        assert compare(vector(3, autoreset_mode=mode, **settings), theirs, 90) >= 6

    @pytest.mark.parametrize("mode", AutoresetMode)
    def test_equal_when_episodes_end_at_different_times(self, mode):
        settings = {"time_limit": 0.1}
        ours = SafeCartpoleVector(3, autoreset_mode=mode, **settings)
        theirs = SyncVectorEnv([lambda: SafeCartpole(**settings)] * 3, autoreset_mode=mode)
        for env in (ours, theirs):
            env.reset(seed=0)
            for step in range(2):
                env.step(np.zeros((3, 1)))
                env.reset(seed=[7, None, 9], options={"reset_mask": np.array([False, True, step == 1])})
        assert_same(ours.step(np.ones((3, 1)))[0], theirs.step(np.ones((3, 1)))[0])
        n_ends = 0
        for _ in range(40):
            *mine, infos = ours.step(np.ones((3, 1)))
            *other, expected = theirs.step(np.ones((3, 1)))
            for a, b in zip(mine, other, strict=True):
                assert_same(a, b)
            assert_same(infos, completed(expected, infos))
            ended = mine[3]
            n_ends += int(ended.any() and not ended.all())
            if mode is AutoresetMode.DISABLED and ended.any():
                for a, b in zip(
                    ours.reset(options={"reset_mask": ended.copy()}),
                    theirs.reset(options={"reset_mask": ended.copy()}),
                    strict=True,
                ):
                    assert_same(a, b)
        assert n_ends >= 4

    def test_seeds(self):
        ours, theirs = PointMassVector(3), SyncVectorEnv([PointMass] * 3)
        for seed in (5, [3, 1, 2]):
            assert_same(ours.reset(seed=seed)[0], theirs.reset(seed=seed)[0])
            assert_same(ours.reset()[0], theirs.reset()[0])
            assert ours.np_random_seed == theirs.np_random_seed
        with pytest.raises(InvalidSetting, match="seed"):
            ours.reset(seed=[1, 2])


class TestPhysicsErrors:
    @pytest.mark.parametrize("mode", AutoresetMode)
    @pytest.mark.parametrize(("vector", "scalar"), [CARTPOLE, POINT_MASS])
    # Bad before the step, accelerated beyond bounds in it, and bad only in a result.
    @pytest.mark.parametrize("velocity", [(0.0, 1e11), (0.0, 9e9), (1e9, 0.0)])
    def test_like_the_scalar_environment(self, mode, vector, scalar, velocity):
        qpos, qvel = np.full((3, 2), 0.2), np.array([[0.0, 0.0], velocity, [0.1, 0.1]])
        ours, theirs = vector(3, autoreset_mode=mode), SyncVectorEnv([scalar] * 3, autoreset_mode=mode)
        ours.reset(seed=0), theirs.reset(seed=0)
        ours.reset(options={"qpos": qpos, "qvel": qvel})
        for i, env in enumerate(theirs.envs):
            env.reset(options={"qpos": qpos[i], "qvel": qvel[i]})
        n_errors = 0
        for _ in range(5):
            *mine, infos = ours.step(np.ones(ours.action_space.shape))
            n_errors += infos["physics_error"].sum() + np.sum(infos.get("final_info", {}).get("physics_error", 0))
            *other, expected = theirs.step(np.ones(ours.action_space.shape))
            # Beyond 1e7, float32 does not resolve 1e-10.
            np.testing.assert_allclose(mine[0], other[0], rtol=1e-6, atol=1e-6)
            assert np.isfinite(mine[0]).all()
            for a, b in zip(mine[1:], other[1:], strict=True):
                assert_same(a, b)
            assert infos.keys() == expected.keys()
            for key in ("cost", "_cost", "physics_error", "_physics_error", "final_info"):
                if key in expected:
                    assert_same(infos[key], expected[key])
            ended = mine[2] | mine[3]
            if mode is AutoresetMode.DISABLED and ended.any():
                for env in (ours, theirs):
                    env.reset(options={"reset_mask": ended.copy()})
        assert n_errors == 1

    def test_the_flagged_step_has_no_result(self):
        env = SafeCartpoleVector(2, autoreset_mode="SameStep")
        qpos, qvel = np.array([[0.0, 1.0], [2.5, 1.0]]), np.array([[0.0, 0.0], [0.0, 1e11]])
        before, _ = env.reset(seed=0, options={"qpos": qpos, "qvel": qvel})
        _, rewards, terminated, truncated, infos = env.step(np.zeros((2, 1)))
        assert rewards[0] > 0.0
        assert rewards[1] == 0.0
        assert not terminated.any()
        assert truncated.tolist() == [False, True]
        assert infos["final_obs"][1].tolist() == before[1].tolist()
        assert infos["final_info"]["physics_error"].tolist() == [False, True]
        assert infos["final_info"]["cost"].tolist() == [0.0, 0.5]
        assert infos["physics_error"].tolist() == [False, False]
        assert infos["_physics_error"].tolist() == [True, False]

    def test_others_are_not_touched(self):
        starts = {"qpos": np.full((2, 2), 0.1), "qvel": np.array([[0.0, 1e11], [0.0, 0.0]])}
        alone = SafeCartpoleVector(1)
        alone.reset(seed=0, options={name: values[1:] for name, values in starts.items()})
        both = SafeCartpoleVector(2, threads=1)
        both.reset(seed=0, options=starts)
        for _ in range(10):
            assert_same(both.step(np.ones((2, 1)))[4]["state"][1:], alone.step(np.ones((1, 1)))[4]["state"])

    @pytest.mark.parametrize("value", [math.nan, -math.inf])
    def test_actions_that_are_no_numbers_change_nothing(self, value):
        env, twin = SafeCartpoleVector(2), SafeCartpoleVector(2)
        env.reset(seed=0), twin.reset(seed=0)
        with pytest.raises(NonFiniteValue, match="diverged"):
            env.step(np.array([[0.0], [value]]))
        assert_same(env.step(np.ones((2, 1)))[4], twin.step(np.ones((2, 1)))[4])


class TestStaggeredStarts:
    def test_first_episodes_end_one_after_the_other(self):
        env = SafeCartpoleVector(4, time_limit=0.08, staggered_starts=True)
        env.reset(seed=0)
        ends = np.array([env.step(np.zeros((4, 1)))[3] for _ in range(27)])
        # 8 steps an episode, 1 to reset: first ends after 8 − 0, 2, 4, 6 steps.
        expected = [[7, 16, 25], [5, 14, 23], [3, 12, 21], [1, 10, 19]]
        assert [np.flatnonzero(column).tolist() for column in ends.T] == expected

    def test_masked_resets_give_whole_episodes(self):
        env = SafeCartpoleVector(2, time_limit=0.04, staggered_starts=True, autoreset_mode="SameStep")
        env.reset(seed=0)
        env.reset(options={"reset_mask": np.array([False, True])})
        ends = [env.step(np.zeros((2, 1)))[3].tolist() for _ in range(4)]
        assert ends == [[False, False]] * 3 + [[True, True]]

    def test_need_a_time_limit(self):
        with pytest.raises(InvalidSetting, match="time_limit"):
            SafeCartpoleVector(2, staggered_starts=True, time_limit=None)


class TestInfos:
    def test_what_is_returned_belongs_to_the_caller(self):
        for mode in AutoresetMode:
            env, twin = (SafeCartpoleVector(2, time_limit=0.03, autoreset_mode=mode) for _ in range(2))
            env.reset(seed=0), twin.reset(seed=0)
            for _ in range(3):
                *arrays, infos = env.step(np.ones((2, 1)))
                *expected, expected_infos = twin.step(np.ones((2, 1)))
                for a, b in zip([*arrays, infos], [*expected, expected_infos], strict=True):
                    assert_same(a, b)
                nested = infos.get("final_info", {})
                for array in (*arrays, *infos.values(), *nested.values()):
                    if not isinstance(array, dict):
                        array[:] = 1

    def test_states_cannot_be_written(self):
        env = SafeCartpoleVector(2)
        env.reset(seed=0)
        with pytest.raises(ValueError, match="read-only"):
            env.states.qpos[:] = 0.0

    def test_results_do_not_depend_on_the_number_of_threads(self):
        one, two = SafeCartpoleVector(5, threads=1), SafeCartpoleVector(5, threads=2)
        assert (one.threads, two.threads) == (1, 2)
        one.reset(seed=0), two.reset(seed=0)
        for _ in range(50):
            assert (one.step(np.ones((5, 1)))[4]["state"] == two.step(np.ones((5, 1)))[4]["state"]).all()


class TestUsersModels:
    def test_motion_costs_and_rewards_by_hand(self):
        env = puck(
            cost=lambda states, controls: states.qpos[:, 0] + controls[:, 0],
            reward=lambda states, controls, next_states: 10 * states.qvel[:, 0] + next_states.time,
            frame_skip=2,
        )
        observations, infos = env.reset(seed=0)
        assert observations.tolist() == [[0.0], [0.0]]
        assert infos["state"].tolist() == [[0.0, 1.0]] * 2
        observations, rewards, *_, infos = env.step([[0.0], [2.0]])
        # v = 1 or, at 1 m/s², 1.1 and 1.2; x = 0.1 v + 0.1 v.
        assert observations == pytest.approx(np.array([[0.2], [0.23]]))
        assert infos["state"] == pytest.approx(np.array([[0.2, 1.0], [0.23, 1.2]]))
        assert infos["cost"].tolist() == [0.0, 2.0]
        assert rewards == pytest.approx([10.2, 10.2])
        *_, infos = env.step([[0.0], [0.0]])
        assert infos["cost"] == pytest.approx([0.2, 0.23])

    def test_defaults(self):
        env = puck()
        assert env.horizon is None
        assert env.single_action_space == gym.spaces.Box(-np.inf, np.inf, (1,), dtype=np.float32)
        env.reset(seed=0)
        _, rewards, terminated, truncated, infos = env.step([[0.0], [0.0]])
        assert rewards.tolist() == [0.0, 0.0]
        assert not (terminated | truncated).any()
        assert infos.keys() == {"state", "_state", "physics_error", "_physics_error"}

    def test_several_costs(self):
        env = puck(cost=lambda states, controls: {"cost": np.full(2, 3.0), "cost_left": np.ones(2)})
        env.reset(seed=0)
        assert env.step([[0.0], [0.0]])[4]["cost_left"].tolist() == [1.0, 1.0]

    def test_termination(self):
        env = puck(terminated=lambda states: states.qpos[:, 0] > 0.25, time_limit=0.3, autoreset_mode="SameStep")
        env.reset(seed=0, options={"qpos": np.zeros((2, 1)), "qvel": [[1.0], [0.5]]})
        flags = [[flag.tolist() for flag in env.step([[0.0], [0.0]])[2:4]] for _ in range(3)]
        assert flags[:2] == [[[False, False], [False, False]]] * 2
        assert flags[2] == [[True, False], [True, True]]

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"observation": lambda states: states.qpos[:, 0]}, r"shape \(2, 1\)"),
            ({"state": lambda states: states.qpos[:, 0]}, "dimensions"),
            ({"state": lambda states: {"place": states.qpos}}, "key 'state'"),
            ({"state": lambda states: {"state": states.qpos, "place": 1.0}}, r"place\(states\) must be of shape"),
            ({"start": lambda generator: (np.zeros(2), np.zeros(1))}, r"qpos must have shape \(1,\)"),
            ({"cost": lambda states, controls: controls}, r"cost must be of shape \(2,\)"),
            ({"cost": lambda states, controls: {"cost_left": np.zeros(2)}}, "key 'cost'"),
            ({"reward": lambda states, controls, next_states: 0.0}, r"reward must be of shape \(2,\)"),
        ],
    )
    def test_functions_of_the_wrong_shape(self, settings, message):
        env = puck(**settings)
        with pytest.raises(InvalidData, match=message):
            env.reset(seed=0), env.step([[0.0], [0.0]])

    def test_start_that_is_no_number(self):
        with pytest.raises(NonFiniteValue):
            puck(start=lambda generator: (np.array([math.nan]), np.zeros(1))).reset()

    def test_the_users_model_is_copied(self):
        model = mujoco.MjModel.from_xml_string(PUCK)
        env = MujocoVectorEnv(
            model, observation=puck_observation, observation_space=gym.spaces.Box(-1, 1, (1,)), start=puck_start
        )
        model.opt.timestep = 1.0
        assert env.model.opt.timestep == 0.1


class TestExample:
    @pytest.fixture
    def example(self):
        path = Path(__file__).resolve().parents[2] / "examples" / "pendulum_swingup.py"
        spec = importlib.util.spec_from_file_location("pendulum_swingup", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def test_equals_dm_control(self, example):
        theirs = suite.load("pendulum", "swingup", task_kwargs={"random": 0})
        first = theirs.reset()
        env = example.make(2)
        data = theirs.physics.data
        observations, _ = env.reset(options={"qpos": np.tile(data.qpos, (2, 1)), "qvel": np.zeros((2, 1))})
        generator = np.random.default_rng(0)
        expected = first
        for step in range(1000):
            assert observations[1] == pytest.approx(np.concatenate([*expected.observation.values()]), abs=1e-6)
            action = np.sign(observations[:, 2:]) * generator.uniform(size=(2, 1))
            action[0] = action[1]
            observations, rewards, _, truncated, infos = env.step(action)
            expected = theirs.step(action[1])
            assert rewards[1] == expected.reward
            assert infos["state"][1] == pytest.approx([*data.qpos, *data.qvel], abs=1e-10)
            assert truncated[1] == (step == 999)

    def test_runs(self, example, monkeypatch, capsys):
        monkeypatch.setattr("sys.argv", ["pendulum_swingup.py", "--num-envs", "8", "--steps", "300"])
        example.main()
        lines = capsys.readouterr().out.splitlines()
        assert [line.split("  ")[0] for line in lines] == ["random torques", "push the way it goes"]


class TestMisuse:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"num_envs": 0}, "num_envs=0"),
            ({"threads": 0}, "threads=0"),
            ({"frame_skip": 1.5}, "frame_skip=1.5"),
            ({"time_limit": 0.0}, "at least one step"),
            ({"autoreset_mode": "Never"}, "NextStep, SameStep, Disabled"),
            ({"render_mode": "human"}, "rgb_array"),
            ({"slider_limit": -1.0}, "positive length"),
        ],
    )
    def test_bad_settings(self, settings, message):
        with pytest.raises(InvalidSetting, match=message):
            SafeCartpoleVector(**settings)

    @pytest.mark.parametrize("actions", [[0.0, 0.0], [[0.0]], "left", [[0.0], [0.0, 1.0]], None])
    def test_bad_actions(self, actions):
        env = SafeCartpoleVector(2)
        env.reset(seed=0)
        with pytest.raises(InvalidSetting, match="Actions"):
            env.step(actions)

    def test_step_and_render_before_reset(self):
        env = SafeCartpoleVector(2, render_mode="rgb_array")
        with pytest.raises(ResetNeeded):
            env.step([[0.0], [0.0]])
        with pytest.raises(ResetNeeded):
            env.render()
        with pytest.raises(ResetNeeded, match="reset"):
            env.reset(options={"reset_mask": np.array([True, False])})

    def test_a_finished_copy_is_not_stepped_when_autoreset_is_disabled(self):
        env = SafeCartpoleVector(3, time_limit=0.03, staggered_starts=True, autoreset_mode="Disabled")
        env.reset(seed=0)
        env.step(np.zeros((3, 1)))
        with pytest.raises(ResetNeeded, match=r"\[2\]"):
            env.step(np.zeros((3, 1)))

    @pytest.mark.parametrize("mask", [[True], np.array([False, False]), np.array([1, 0]), None])
    def test_bad_reset_masks(self, mask):
        env = SafeCartpoleVector(2)
        env.reset(seed=0)
        with pytest.raises(InvalidSetting, match="reset_mask"):
            env.reset(options={"reset_mask": mask})

    def test_bad_first_states(self):
        env = SafeCartpoleVector(2)
        with pytest.raises(InvalidSetting, match="both"):
            env.reset(options={"qpos": np.zeros((2, 2))})
        with pytest.raises(InvalidData, match=r"\(2, 2\)"):
            env.reset(options={"qpos": np.zeros(2), "qvel": np.zeros((2, 2))})
        with pytest.raises(NonFiniteValue):
            env.reset(options={"qpos": np.full((2, 2), np.nan), "qvel": np.zeros((2, 2))})


class TestGymnasium:
    def test_make_vec_and_its_spec(self):
        settings = {"slider_limit": 1.5, "rail": 1.2, "staggered_starts": True, "autoreset_mode": "SameStep"}
        env = gym.make_vec("SafeCartpole-v0", num_envs=8, **settings)
        again = gym.make_vec(env.spec)
        for vector in (env, again):
            assert isinstance(vector, SafeCartpoleVector)
            assert vector.num_envs == 8
            assert vector.horizon == 1000
            assert vector.slider_limit == 1.5
            assert vector.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
        assert again.spec == env.spec
        assert gym.make_vec("PointMass-v0").metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
        assert gym.make_vec("PointMass-v0", num_envs=2, vectorization_mode="sync").num_envs == 2

    def test_gymnasiums_wrappers(self):
        env = RecordEpisodeStatistics(SafeCartpoleVector(2, time_limit=0.02))
        env.reset(seed=0)
        env.step(np.zeros((2, 1)))
        assert env.step(np.zeros((2, 1)))[4]["episode"]["l"].tolist() == [2, 2]

    def test_pickle_in_mid_episode(self):
        env = SafeCartpoleVector(3, time_limit=0.1, staggered_starts=True, rail=1.0)
        env.reset(seed=0)
        for _ in range(5):
            env.step(np.ones((3, 1)))
        twin = pickle.loads(pickle.dumps(env))
        for _ in range(20):
            for a, b in zip(twin.step(np.ones((3, 1))), env.step(np.ones((3, 1))), strict=True):
                assert_same(a, b)

    def test_closing_what_was_never_made(self):
        SafeCartpoleVector.__new__(SafeCartpoleVector).close()


class TestRendering:
    def test_one_frame_for_each_copy(self):
        env = SafeCartpoleVector(2, render_mode="rgb_array", width=120, height=80)
        qpos = np.array([[0.0, 0.0], [0.0, math.pi]])
        env.reset(options={"qpos": qpos, "qvel": np.zeros((2, 2))})
        try:
            up, down = env.render()
        except DependencyNotInstalled:
            pytest.skip("no OpenGL")
        assert up.shape == down.shape == (80, 120, 3)
        assert (up != down).any()
        scalar = SafeCartpole(render_mode="rgb_array", width=120, height=80)
        scalar.reset(options={"qpos": qpos[1], "qvel": [0.0, 0.0]})
        assert np.array_equal(scalar.render(), down)
        env.close(), scalar.close()

    def test_without_render_mode_it_warns(self):
        env = SafeCartpoleVector(2)
        env.reset(seed=0)
        with pytest.warns(UserWarning, match="render_mode"):
            assert env.render() is None
