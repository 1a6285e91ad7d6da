"""The figures of a run folder, the fresh episodes behind them, and films."""

import json
from itertools import pairwise

import gymnasium as gym
import imageio.v2 as imageio
import numpy as np
import pytest
from matplotlib.image import imread

from constrained_maxent import reporting
from constrained_maxent.agents import PGPSettings
from constrained_maxent.errors import InvalidRun, InvalidSetting
from constrained_maxent.occupancy import Gaussians, Mixture
from constrained_maxent.references import GaussianNetwork, Layer, Reference, shipped
from constrained_maxent.reporting import CartpoleScene, PointMassScene, training_figure
from constrained_maxent.runs.environments import make_environment
from constrained_maxent.runs.pictures import below_tracker, draw_run, record_video, roll_out, scene_of
from constrained_maxent.runs.run_folder import RunFolder
from constrained_maxent.runs.training import load_agent, load_config
from constrained_maxent.seeds import PICTURE, derived_reset_seed

TAXI = "Taxi-v3" if "Taxi-v3" in gym.registry else "Taxi-v4"  # Gymnasium 1.3 replaced version 3
SMALL = PGPSettings(hidden_sizes=(8,))
PLACES = np.random.default_rng(0).uniform(-0.2, 0.2, size=(5, 4)).astype(np.float32)
SHORT = '{"time_limit": 0.4, "slider_limit": 1.5}'


@pytest.fixture
def control(run):
    """A run on short episodes, and what was loaded from it."""

    def make(env_id="SafeCartpole-PGP-v0", env_kwargs=SHORT, **settings):
        sizes = {"iterations": 1, "num_envs": 2, "steps_per_batch": 80, "agent": SMALL}
        folder = run(name=env_id, env_id=env_id, env_kwargs=env_kwargs, **sizes, **settings).folder
        env_id, settings = load_config(folder)
        return folder, env_id, settings, load_agent(folder, make_environment(env_id, settings))

    return make


class TestRollOut:
    def test_equals_the_bare_environment(self, control):
        _, env_id, settings, agent = control()
        episodes = roll_out(env_id, settings, agent, n_episodes=3, seed=5)
        assert episodes.states.shape == (3, 41, 4)  # 0.4 s of 0.01 s, and the start
        assert episodes.actions.shape == (3, 40, 1)
        assert episodes.timestep == pytest.approx(0.01)

        bare = gym.make_vec("SafeCartpole-v0", num_envs=3, time_limit=0.4)
        rng = np.random.default_rng(5)
        observations, infos = bare.reset(seed=derived_reset_seed(bare, 5, 0, PICTURE))
        np.testing.assert_array_equal(episodes.states[:, 0], infos["state"])
        for t in range(40):
            actions = agent.policy.to_env(agent.policy.sample(observations, rng))
            np.testing.assert_array_equal(episodes.actions[:, t], actions)
            observations, _, _, truncated, infos = bare.step(actions)
            np.testing.assert_array_equal(episodes.states[:, t + 1], infos["state"])
        assert truncated.all()  # whole episodes, all from their start
        bare.close()

    def test_leaves_the_agent_as_it_is(self, control):
        _, env_id, settings, agent = control()
        before = agent._rng.bit_generator.state, agent._predict_rng.bit_generator.state
        first = roll_out(env_id, settings, agent, n_episodes=2, seed=1)
        again = roll_out(env_id, settings, agent, n_episodes=2, seed=1)
        np.testing.assert_array_equal(first.states, again.states)
        assert before == (agent._rng.bit_generator.state, agent._predict_rng.bit_generator.state)

    def test_as_many_as_last_so_long(self, control):
        _, env_id, settings, agent = control()
        assert len(roll_out(env_id, settings, agent, seconds=0.9, seed=1).states) == 3
        _, env_id, settings, agent = control("PointMass-PGP-v0", '{"time_limit": null, "frame_skip": 2}', discount=0.99)
        episodes = roll_out(env_id, settings, agent, seconds=0.9, seed=1)
        assert episodes.timestep == pytest.approx(0.04)
        assert episodes.states.shape == (1, 24, 4)  # without a time limit, one that is long enough

    def test_nothing_is_shown_of_what_follows_an_episode(self, control, monkeypatch):
        _, env_id, settings, agent = control()
        from constrained_maxent.envs import SafeCartpoleVector

        step = SafeCartpoleVector.step

        def breaking(self, actions):
            result = step(self, actions)
            if self._elapsed[0] == 7:
                result[3][0] = result[4]["physics_error"][0] = True
            return result

        monkeypatch.setattr(SafeCartpoleVector, "step", breaking)
        episodes = roll_out(env_id, settings, agent, n_episodes=2, seed=1)
        assert np.isfinite(episodes.states).all(axis=2).sum(axis=1).tolist() == [7, 41]
        assert np.isfinite(episodes.actions).all(axis=2).sum(axis=1).tolist() == [7, 40]

    def test_below_the_tracker(self, control):
        _, env_id, settings, agent = control()
        env = make_environment(env_id, settings)
        assert below_tracker(env, agent) is env.unwrapped
        with pytest.raises(InvalidRun, match="wrap observations below them"):
            below_tracker(make_environment("PointMass-PGP-v0", settings.from_json({})), agent)


class TestFigures:
    def test_cartpole(self, control):
        folder, *_, agent = control()
        written = draw_run(folder)
        assert [path.name for path in written] == ["training.png", "strip.png", "motion.png"]
        assert all(imread(path).std() > 0.02 for path in written)
        scene = scene_of(agent.env)
        assert isinstance(scene, CartpoleScene)
        assert scene.slider_limit == 1.5

    def test_point_mass(self, control):
        folder, *_, agent = control("PointMass-PGP-v0", '{"time_limit": 0.8}')
        written = draw_run(folder)
        assert [path.name for path in written] == ["training.png", "visits.png", "actions.png"]
        assert all(imread(path).std() > 0.02 for path in written)
        assert isinstance(scene_of(agent.env), PointMassScene)

    @pytest.fixture
    def drawn(self, control, monkeypatch):
        """What the figures of the point mass are given."""

        def draw(**settings):
            folder, *_, agent = control("PointMass-PGP-v0", **settings)
            given = {}
            for name in ("visit_maps_figure", "action_arrows_figure"):
                figure = getattr(reporting, name)

                def spy(scene, policies, name=name, figure=figure, **options):
                    given[name] = policies, options.get("reference")
                    return figure(scene, policies, **options)

                monkeypatch.setattr(reporting, name, spy)
            draw_run(folder)
            (visits, _), (actions, advice) = given["visit_maps_figure"], given["action_arrows_figure"]
            assert list(visits)[-1:] == list(actions) == [f"iteration {agent.iteration}"]
            return visits.get("reference"), advice

        return draw

    @staticmethod
    def expert_of(reference):
        """States of 30 episodes, and what the expert would do at some places."""
        env, rng = gym.make_vec("PointMass-v0", num_envs=30, time_limit=0.2), np.random.default_rng(3)
        observations, infos = env.reset(seed=derived_reset_seed(env, 3, 0, PICTURE))
        states = [infos["state"]]
        for _ in range(10):
            observations, *_, infos = env.step(reference.act(observations, rng))
            states.append(infos["state"])
        return np.stack(states, axis=1), reference.act(PLACES, rng, deterministic=True)

    def test_the_point_mass_beside_the_expert_of_the_package(self, drawn):
        visits, advice = drawn(env_kwargs='{"time_limit": 0.2}')
        states, actions = self.expert_of(shipped("PointMass-v0"))
        np.testing.assert_array_equal(visits, states)
        np.testing.assert_array_equal(advice(PLACES), actions)

    def test_the_point_mass_beside_what_it_imitates(self, drawn, tmp_path):
        zero, head = np.zeros((4, 2), dtype=np.float32), np.array([0.5, -0.5], dtype=np.float32)
        policy = GaussianNetwork(
            trunk=(),
            mean=(Layer(zero, head),),
            log_std=(Layer(zero, head),),
            low=-np.ones(2),
            high=np.ones(2),
            log_std_bounds=(-20.0, 2.0),
        )
        mine = Reference(shipped("PointMass-v0").states, policy)
        mine.save(tmp_path / "mine.npz")
        kwargs = {"time_limit": 0.2, "reference": str(tmp_path / "mine.npz")}
        visits, advice = drawn(env_kwargs=json.dumps(kwargs), limit=9.0)
        np.testing.assert_array_equal(visits, self.expert_of(mine)[0])
        np.testing.assert_allclose(advice(PLACES), np.tanh([[0.5, -0.5]] * len(PLACES)), rtol=1e-6)

    def test_a_reference_without_a_policy_shows_its_density(self, drawn, tmp_path):
        normal = Gaussians(np.ones(1), np.full((1, 4), 0.1), 1e-4 * np.eye(4)[None])
        Reference(Mixture(normal)).save(tmp_path / "states.npz")
        kwargs = {"time_limit": 0.2, "reference": str(tmp_path / "states.npz")}
        visits, advice = drawn(env_kwargs=json.dumps(kwargs), limit=9.0)
        assert (visits.shape, advice) == ((30, 11, 4), None)
        np.testing.assert_allclose(visits.mean(axis=(0, 1)), 0.1, atol=4.0 * 0.01 / np.sqrt(330))


def frames_of(path):
    return imageio.mimread(path, memtest=False)


# imageio's reader leaves the pipes of ffmpeg to the garbage collector; its writer closes them.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
class TestFilm:
    def test_without_opengl(self, control, monkeypatch):
        monkeypatch.setenv("MUJOCO_GL", "disable")
        folder, *_ = control()
        film = record_video(folder, seconds=0.8, fps=5, seed=2)
        assert (film.path, film.n_frames, film.painter) == (folder.path / "video.mp4", 4, "Matplotlib")
        assert "MUJOCO_GL=disable" in film.reason
        assert [frame.shape for frame in frames_of(film.path)] == [(480, 864, 3)] * 4

    def test_with_opengl(self, control, tmp_path):
        folder, *_ = control("PointMass-PGP-v0", '{"time_limit": 0.8}')
        film = record_video(folder, seconds=0.4, fps=5, path=tmp_path / "other.mp4")
        if film.reason is not None:
            pytest.skip(film.reason)
        assert (film.painter, film.n_frames) == ("MuJoCo", 2)
        assert [frame.shape for frame in frames_of(tmp_path / "other.mp4")] == [(480, 480, 3)] * 2

    def test_others_draw_themselves(self, run):
        folder = run(iterations=2).folder
        film = record_video(folder, seconds=1.0, fps=8)
        assert (film.n_frames, film.painter, film.reason) == (8, "environment", None)
        frames = frames_of(film.path)
        # Four steps a second: each is shown twice.
        assert len(frames) == 8
        assert frames[0].shape[0] == frames[0].shape[1] > 200
        changes = [np.abs(a.astype(int) - b).mean() for a, b in pairwise(frames)]
        assert max(changes[0::2]) < 1.0

    def test_without_images(self, run, monkeypatch):
        folder = run(iterations=2).folder
        from constrained_maxent.envs import SafeFrozenLakeVector

        monkeypatch.setattr(SafeFrozenLakeVector, "metadata", {"render_modes": ["ansi"]})
        with pytest.raises(InvalidRun, match="cannot be filmed: it has no render mode 'rgb_array'"):
            record_video(folder)
        assert not folder.video_path.exists()

    @pytest.mark.parametrize("options", [{"seconds": -1.0}, {"fps": 0}, {"seed": -1}])
    def test_nonsense(self, run, options):
        folder = run(iterations=2).folder
        with pytest.raises(InvalidSetting, match=next(iter(options))):
            record_video(folder, **options)

    def test_a_new_run_in_the_folder_removes_the_film(self, run):
        folder = run(iterations=2).folder
        folder.video_path.write_text("old")
        folder.clear()
        assert not folder.video_path.exists()


@pytest.mark.parametrize("env_id", ["FrozenLake-PGP-v0", "SafeFrozenLake-v0", "FrozenLake-v1"])
def test_lakes_have_a_map(run, env_id):
    folder = run(env_id=env_id).folder
    written = draw_run(folder)
    assert written == [folder.path / "training.png", folder.path / "occupancy.png"]
    for path in written:
        image = imread(path)
        assert min(image.shape[:2]) > 200
        assert image.std() > 0.05


@pytest.mark.parametrize("env_id", [TAXI, "CliffWalking-v1"])
def test_others_have_curves_only(run, env_id):
    folder = run(env_id=env_id, env_kwargs='{"max_episode_steps": 40}', iterations=2).folder
    assert draw_run(folder) == [folder.path / "training.png"]
    assert not (folder.path / "occupancy.png").exists()


def test_networks_have_curves_only(run):
    folder = run(iterations=2, agent=PGPSettings(policy="mlp", hidden_sizes=(8,))).folder
    assert [path.name for path in draw_run(folder)] == ["training.png"]


def test_drawing_again_replaces(run):
    folder = run().folder
    (folder.path / "training.png").write_text("old")
    draw_run(folder)
    assert imread(folder.path / "training.png").ndim == 3


def test_curves_show_values_not_violations(run, monkeypatch):
    drawn = {}

    def spy(*arguments, **named):
        drawn.update(named, iterations=arguments[0], objective=arguments[1], constraints=arguments[2])
        return training_figure(*arguments, **named)

    monkeypatch.setattr("constrained_maxent.reporting.training_figure", spy)
    folder = run(limit=2.0).folder
    draw_run(folder)
    metrics = folder.read_metrics()
    assert drawn["limits"] == {"cost": 2.0}
    assert drawn["iterations"].tolist() == list(range(1, 13))
    assert drawn["constraints"]["cost"].tolist() == (metrics["constraint_cost"] + 2.0).tolist()
    assert drawn["exact_iterations"].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 10, 12]
    measured = np.array([0, 1, 2, 3, 4, 5, 6, 7, 9, 11])
    assert drawn["exact_constraints"]["cost"].tolist() == (metrics["exact_constraint_cost"][measured] + 2.0).tolist()
    assert drawn["exact_objective"].tolist() == metrics["exact_objective"][measured].tolist()
    # FrozenLake-PGP-v0 is on the truncated scale: its costs are sums over an episode.
    assert (drawn["label"], drawn["units"]) == ("entropy [nats]", {"cost": "per episode"})


def test_before_the_first_row(run):
    folder = run().folder
    header = folder.metrics_path.read_text().splitlines()[0]
    folder.metrics_path.write_text(header + "\n")
    assert len(draw_run(folder)) == 2


class TestWhatCannotBeDrawn:
    def test_an_empty_folder(self, tmp_path):
        with pytest.raises(InvalidRun, match=r"is not a run folder: config\.json is missing"):
            draw_run(RunFolder(tmp_path))

    @pytest.mark.parametrize("name", ["config.json", "metrics.csv"])
    def test_a_file_is_missing(self, run, name):
        folder = run().folder
        (folder.path / name).unlink()
        with pytest.raises(InvalidRun, match=f"{name} is missing"):
            draw_run(folder)

    def test_no_checkpoint(self, run):
        folder = run().folder
        folder.checkpoint_path.unlink()
        with pytest.raises(InvalidRun, match="has no checkpoint"):
            draw_run(folder)

    @pytest.mark.parametrize("column", ["iteration", "objective", "exact_objective", "constraint_cost"])
    def test_a_column_is_missing(self, run, column):
        folder = run().folder
        text = folder.metrics_path.read_text()
        folder.metrics_path.write_text(text.replace(f",{column},", ",other,").replace(f"{column},", "other,", 1))
        with pytest.raises(InvalidRun, match=rf"metrics\.csv is damaged: it has no column '{column}'"):
            draw_run(folder)
        folder.metrics_path.write_text(text)
        assert draw_run(folder)
