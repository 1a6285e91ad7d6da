import copy
import math
import os
import pickle
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from dm_control import suite
from gymnasium.error import DependencyNotInstalled, ResetNeeded
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_of_sb3

from constrained_maxent.envs import SafeCartpole
from constrained_maxent.envs.mujoco_painter import MujocoPainter
from constrained_maxent.errors import InvalidData, InvalidSetting, NonFiniteValue

PUSH = np.ones(1, dtype=np.float32)
REST = np.zeros(1, dtype=np.float32)


def at(x=0.0, angle=math.pi, x_velocity=0.0, angular_velocity=0.0):
    return {"qpos": [x, angle], "qvel": [x_velocity, angular_velocity]}


def can_draw():
    painter = MujocoPainter(SafeCartpole().physics.model.ptr)
    try:
        painter._open()
    except DependencyNotInstalled:
        return False
    return True


needs_opengl = pytest.mark.skipif(not can_draw(), reason="no OpenGL")


class TestEpisode:
    def test_starts_hanging_in_the_middle(self):
        # dm_control: every coordinate is normal with standard deviation 0.01; beyond 5 sigma with probability 5e-5.
        env = SafeCartpole()
        env.reset(seed=0)
        starts = np.array([env.reset()[1]["state"] for _ in range(200)])
        offsets = starts - [0.0, 0.0, math.pi, 0.0]
        offsets[:, 2] = (offsets[:, 2] + math.pi) % (2 * math.pi) - math.pi
        assert np.abs(offsets).max() < 0.05
        assert offsets.std(axis=0) == pytest.approx(0.01, rel=0.25)

    def test_is_truncated_after_ten_seconds_and_never_terminated(self):
        env = SafeCartpole()
        env.reset(seed=0)
        flags = [env.step(PUSH)[2:4] for _ in range(1000)]
        assert flags == [(False, False)] * 999 + [(False, True)]
        with pytest.raises(ResetNeeded):
            env.step(PUSH)

    @pytest.mark.parametrize(
        ("settings", "horizon"),
        [({}, 1000), ({"frame_skip": 3}, 334), ({"time_limit": 0.07}, 7), ({"time_limit": None}, None)],
    )
    def test_horizon(self, settings, horizon):
        env = SafeCartpole(**settings)
        assert env.horizon == horizon
        env.reset(seed=0)
        if horizon is not None and horizon < 10:
            assert [env.step(REST)[3] for _ in range(horizon)] == [False] * (horizon - 1) + [True]

    def test_same_seed_same_episode(self):
        def states(seed):
            env = SafeCartpole()
            env.reset(seed=seed)
            return [env.step(PUSH)[4]["state"].tolist() for _ in range(20)]

        assert states(1) == states(1)
        assert states(1) != states(2)


class TestObservationAndState:
    def test_dm_controls_order(self):
        env = SafeCartpole()
        observation, info = env.reset(options=at(0.5, 2.0, -3.0, 4.0))
        expected = [0.5, math.cos(2.0), math.sin(2.0), -3.0, 4.0]
        assert observation == pytest.approx(expected, abs=1e-6)
        assert observation.dtype == np.float32
        assert observation in env.observation_space
        assert info["state"].tolist() == [0.5, -3.0, 2.0, 4.0]
        assert info["state"].dtype == np.float64

    def test_state_belongs_to_the_observation_of_a_step(self):
        env = SafeCartpole()
        env.reset(seed=0)
        for _ in range(30):
            observation, *_, info = env.step(PUSH)
            x, x_velocity, angle, angular_velocity = info["state"]
            expected = [x, math.cos(angle), math.sin(angle), x_velocity, angular_velocity]
            assert observation == pytest.approx(expected, abs=1e-6)

    @pytest.mark.parametrize(("angle", "periodic"), [(7.0, 7.0 - 2 * math.pi), (-math.pi, math.pi), (math.pi, math.pi)])
    def test_angle_is_wrapped(self, angle, periodic):
        assert SafeCartpole().reset(options=at(angle=angle))[1]["state"][2] == pytest.approx(periodic, abs=1e-12)

    def test_swinging_past_the_bottom_leaps_from_pi_to_minus_pi(self):
        env = SafeCartpole()
        env.reset(options=at(angle=math.pi - 0.001, angular_velocity=1.0))
        state = env.step(REST)[4]["state"]
        assert -math.pi < state[2] < -math.pi + 0.02

    def test_what_is_returned_belongs_to_the_caller(self):
        env = SafeCartpole()
        observation, info = env.reset(options=at(0.5))
        observation[:], info["state"][:] = 9.0, 9.0
        assert env.step(REST)[4]["margin"] == -1.5


class TestCost:
    @pytest.mark.parametrize(
        ("x", "limit", "cost", "margin"), [(1.9, 1.5, 0.4, 0.4), (-1.75, 1.5, 0.25, 0.25), (1.0, 1.5, 0.0, -0.5)]
    )
    def test_by_hand(self, x, limit, cost, margin):
        env = SafeCartpole(slider_limit=limit)
        env.reset(options=at(x))
        info = env.step(PUSH)[4]
        assert info["cost"] == pytest.approx(cost, abs=1e-12)
        assert info["margin"] == pytest.approx(margin, abs=1e-12)
        assert type(info["cost"]) is type(info["margin"]) is np.float64

    def test_of_the_state_in_which_the_action_was_taken(self):
        env = SafeCartpole(slider_limit=0.5)
        states, costs = [env.reset(seed=0)[1]["state"]], []
        for _ in range(200):
            info = env.step(PUSH)[4]
            states.append(info["state"])
            costs.append(info["cost"])
        expected = [max(abs(state[0]) - 0.5, 0.0) for state in states[:-1]]
        assert costs == pytest.approx(expected, abs=1e-15)
        assert costs[0] == 0.0
        assert max(costs) > 1.0

    @pytest.mark.parametrize(("rail", "reached"), [(1.8, 1.97), (1.0, 1.17)])
    def test_the_rail_stops_the_cart_softly(self, rail, reached):
        # Full push from the middle, measured with dm_control's model and, for 1.0 m, from as far before the stop.
        env = SafeCartpole(rail=rail)
        env.reset(options=at(rail - 1.8))
        positions = [env.step(PUSH)[4]["state"][0] for _ in range(150)]
        assert max(positions) == pytest.approx(reached, abs=0.01)


class TestAgainstDmControl:
    def test_same_steps_and_rewards(self):
        # dm_control starts its solver from the step before; the difference stays below the solver's tolerance.
        theirs = suite.load("cartpole", "swingup", task_kwargs={"random": 0})
        theirs.reset()
        physics = theirs.physics
        env = SafeCartpole()
        env.reset(options={"qpos": physics.data.qpos, "qvel": physics.data.qvel})
        generator = np.random.default_rng(0)
        for _ in range(100):
            action = generator.uniform(-1.0, 1.0, size=1).astype(np.float32)
            expected = theirs.step(action)
            observation, reward, *_ = env.step(action)
            assert observation == pytest.approx(
                np.concatenate([expected.observation["position"], expected.observation["velocity"]]), abs=1e-6
            )
            assert reward == pytest.approx(expected.reward, abs=1e-7)

    def test_frame_skip_holds_the_action(self):
        once, thrice = SafeCartpole(), SafeCartpole(frame_skip=3)
        once.reset(seed=0), thrice.reset(seed=0)
        for _ in range(20):
            for _ in range(3):
                expected = once.step(PUSH)[4]["state"]
            assert thrice.step(PUSH)[4]["state"] == pytest.approx(expected, abs=1e-9)


class TestPhysicsErrors:
    def test_unstable_steps_truncate_the_episode_in_the_state_before(self):
        env = SafeCartpole()
        observation, info = env.reset(options=at(2.25, 1.0, angular_velocity=1e11))
        after, reward, terminated, truncated, report = env.step(PUSH)
        assert (reward, terminated, truncated) == (0.0, False, True)
        assert report["physics_error"] is True
        assert report["cost"] == 0.25
        assert after.tolist() == observation.tolist()
        assert report["state"].tolist() == info["state"].tolist()
        with pytest.raises(ResetNeeded):
            env.step(PUSH)
        env.reset(seed=0)
        assert env.step(PUSH)[4]["physics_error"] is False

    @pytest.mark.parametrize("action", [[math.nan], [math.inf]])
    def test_actions_that_are_no_numbers_change_nothing(self, action):
        env = SafeCartpole()
        env.reset(options=at())
        with pytest.raises(NonFiniteValue, match="diverged"):
            env.step(np.array(action, dtype=np.float32))
        assert env.step(REST)[4]["state"][0] == pytest.approx(0.0, abs=1e-9)


class TestMisuse:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"slider_limit": 0.0}, "positive length"),
            ({"rail": math.inf}, "positive length"),
            ({"time_limit": 0.001}, "at least one step"),
            ({"frame_skip": 0}, "at least 1"),
            ({"render_mode": "ansi"}, "human, rgb_array"),
            ({"width": 0}, "at least 1"),
        ],
    )
    def test_bad_settings(self, settings, message):
        with pytest.raises(InvalidSetting, match=message):
            SafeCartpole(**settings)

    @pytest.mark.parametrize("action", [0.5, [0.1, 0.2], "left", None])
    def test_bad_actions(self, action):
        env = SafeCartpole()
        env.reset(seed=0)
        with pytest.raises(InvalidSetting, match="Actions"):
            env.step(action)

    def test_bad_first_states(self):
        env = SafeCartpole()
        with pytest.raises(InvalidSetting, match="both"):
            env.reset(options={"qpos": [0.0, 0.0]})
        with pytest.raises(InvalidData, match="qpos"):
            env.reset(options={"qpos": [0.0], "qvel": [0.0, 0.0]})
        with pytest.raises(NonFiniteValue):
            env.reset(options={"qpos": [0.0, math.nan], "qvel": [0.0, 0.0]})

    def test_step_and_render_before_reset(self):
        env = SafeCartpole(render_mode="rgb_array")
        with pytest.raises(ResetNeeded):
            env.step(PUSH)
        with pytest.raises(ResetNeeded):
            env.render()


class TestGymnasium:
    @pytest.mark.filterwarnings("ignore:.*A Box observation space m.*imum value is.*infinity")
    def test_contract(self):
        env = gym.make("SafeCartpole-v0")
        assert isinstance(env.unwrapped, SafeCartpole)
        check_env(env.unwrapped, skip_render_check=True)
        check_env_of_sb3(env, skip_render_check=True)

    def test_spec_round_trip(self):
        env = gym.make("SafeCartpole-v0", slider_limit=1.5, rail=1.2, time_limit=1.0)
        again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json())).unwrapped
        assert again.slider_limit == 1.5
        assert again.horizon == 100
        assert again.physics.named.model.jnt_range["slider"].tolist() == [-1.2, 1.2]

    @pytest.mark.parametrize("clone", [lambda env: pickle.loads(pickle.dumps(env)), copy.deepcopy])
    def test_pickle_in_mid_episode(self, clone):
        env = SafeCartpole(time_limit=0.5, rail=1.0)
        env.reset(seed=0)
        for _ in range(30):
            env.step(PUSH)
        twin = clone(env)
        for _ in range(2):
            for _ in range(20):
                ours, theirs = env.step(PUSH), twin.step(PUSH)
                assert ours[0].tolist() == theirs[0].tolist()
                assert ours[1:4] == theirs[1:4]
                assert ours[4]["state"].tolist() == theirs[4]["state"].tolist()
            assert ours[3]
            assert env.reset()[0].tolist() == twin.reset()[0].tolist()
            env.reset(options=at()), twin.reset(options=at())
            for _ in range(30):
                env.step(REST), twin.step(REST)


class TestWithoutWhatIsOptional:
    CODE = """
import sys
import gymnasium as gym
import constrained_maxent
assert not {{"mujoco", "dm_control", "shimmy"}} & set(sys.modules)
sys.modules[{missing!r}] = None
for make in (gym.make, gym.make_vec):
    try:
        make("SafeCartpole-v0")
    except gym.error.DependencyNotInstalled as error:
        assert "pip install" in str(error), error
    else:
        raise AssertionError
gym.make("SafeFrozenLake-v0")
"""

    @pytest.mark.parametrize("missing", ["mujoco", "dm_control"])
    def test_says_what_to_install(self, missing):
        code = self.CODE.format(missing=missing)
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == 0, result.stderr

    @pytest.mark.parametrize("backend", ["foo", "osmesa"])
    def test_names_the_setting_that_its_libraries_do_not_like(self, backend):
        """A backend that is unknown, or whose library is missing, ends the import of MuJoCo itself."""
        code = "import gymnasium as gym\nimport constrained_maxent\ngym.make('SafeCartpole-v0')"
        environment = {**os.environ, "MUJOCO_GL": backend}
        result = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, env=environment
        )
        if backend == "osmesa" and result.returncode == 0:
            pytest.skip("OSMesa is installed")
        last = result.stderr.splitlines()[-1]
        assert last.startswith("gymnasium.error.DependencyNotInstalled"), result.stderr
        assert f"MUJOCO_GL={backend}" in last
        assert "unset MUJOCO_GL" in last


class TestRendering:
    @needs_opengl
    def test_image(self):
        env = SafeCartpole(render_mode="rgb_array", width=200, height=150)
        env.reset(options=at())
        image = env.render()
        assert image.shape == (150, 200, 3)
        assert image.dtype == np.uint8
        assert image.std() > 5.0
        env.reset(options=at(angle=0.0))
        assert (env.render() != image).any()
        twin = pickle.loads(pickle.dumps(env))
        assert np.array_equal(twin.render(), env.render())
        env.close()
        assert np.array_equal(twin.render(), env.render())
        env.close(), twin.close()

    @needs_opengl
    def test_the_rail_is_drawn_at_its_length(self):
        images = []
        for rail in (1.8, 0.5):
            env = SafeCartpole(rail=rail, render_mode="rgb_array")
            env.reset(options=at())
            images.append(env.render())
            env.close()
        assert (images[0] != images[1]).any()

    def test_without_opengl_it_says_what_to_install(self, monkeypatch):
        monkeypatch.setenv("MUJOCO_GL", "off")
        env = SafeCartpole(render_mode="rgb_array")
        env.reset(seed=0)
        with pytest.raises(DependencyNotInstalled, match="libegl1"):
            env.render()

    def test_without_a_display_there_is_no_window(self, monkeypatch):
        monkeypatch.delenv("DISPLAY", raising=False)
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
        monkeypatch.setattr(sys, "platform", "linux")
        with pytest.raises(DependencyNotInstalled, match="display"):
            SafeCartpole(render_mode="human").reset(seed=0)

    def test_without_render_mode_it_warns(self):
        env = SafeCartpole()
        env.reset(seed=0)
        with pytest.warns(UserWarning, match="render_mode"):
            assert env.render() is None
