"""Films: read back from the file, and what draws them with and without OpenGL."""

import builtins

import imageio.v2 as imageio
import numpy as np
import pytest
from gymnasium.error import DependencyNotInstalled
from matplotlib.colors import Normalize

from constrained_maxent.errors import InvalidData, InvalidSetting
from constrained_maxent.reporting.scenes import ON_LIGHT
from constrained_maxent.reporting.video import MatplotlibFrames, MujocoFrames, film, open_frames, write_video

NORM = Normalize(-2.0, 2.0)


def plain(level, height=32, width=48):
    return np.full((height, width, 3), level, dtype=np.uint8)


# imageio's reader leaves the pipes of ffmpeg to the garbage collector; its writer closes them.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
class TestFile:
    def test_frames_size_and_content_come_back(self, tmp_path):
        path = tmp_path / "new" / "film.mp4"
        assert write_video(path, (plain(level) for level in (0, 100, 200)), fps=10) == 3
        with imageio.get_reader(path) as reader:
            frames = list(reader.iter_data())
            assert reader.get_meta_data()["fps"] == 10
        assert [frame.shape for frame in frames] == [(32, 48, 3)] * 3
        assert [frame.mean() for frame in frames] == pytest.approx([0, 100, 200], abs=4)
        assert [entry.name for entry in path.parent.iterdir()] == ["film.mp4"]

    def test_odd_sides_get_an_edge(self, tmp_path):
        write_video(tmp_path / "film.mp4", [plain(50, 31, 47)], fps=5)
        (frame,) = imageio.mimread(tmp_path / "film.mp4")
        assert frame.shape == (32, 48, 3)

    def test_an_old_film_survives_what_fails(self, tmp_path):
        path = tmp_path / "film.mp4"
        path.write_text("old")

        def failing():
            yield plain(0)
            raise RuntimeError("in the middle")

        with pytest.raises(RuntimeError, match="in the middle"):
            write_video(path, failing(), fps=5)
        for images in ([], [plain(0)[..., 0]], [plain(0).astype(float)]):
            with pytest.raises(InvalidData):
                write_video(path, images, fps=5)
        assert path.read_text() == "old"
        assert len(list(tmp_path.iterdir())) == 1

    def test_other_kinds(self, tmp_path):
        with pytest.raises(InvalidSetting, match=r"\.mp4"):
            write_video(tmp_path / "film.gif", [plain(0)], fps=5)

    def test_without_ffmpeg(self, tmp_path, monkeypatch):
        original = builtins.__import__

        def without(name, *arguments, **named):
            if name == "imageio_ffmpeg":
                raise ImportError("no ffmpeg")
            return original(name, *arguments, **named)

        monkeypatch.setattr(builtins, "__import__", without)
        with pytest.raises(DependencyNotInstalled, match=r'pip install "imageio\[ffmpeg\]"'):
            write_video(tmp_path / "film.mp4", [plain(0)], fps=5)


class Recorder:
    """Notes what it is to draw."""

    def __init__(self):
        self.drawn = []

    def image(self, states, time):
        self.drawn.append((states[:, 0].tolist(), time))
        return plain(0)


class TestFilm:
    def test_true_speed_and_one_path_for_each_episode(self):
        recorder = Recorder()
        episodes = [np.arange(4.0)[:, None], np.arange(10.0, 13.0)[:, None]]
        images = list(film(recorder, episodes, timestep=0.5, seconds=99.0, fps=1))
        assert len(images) == 4  # 7 states are 3.5 s
        assert recorder.drawn == [([0.0], 0.0), ([0.0, 1.0, 2.0], 1.0), ([10.0], 0.0), ([10.0, 11.0, 12.0], 1.0)]

    def test_a_long_path_is_thinned_and_ends_at_the_point(self):
        recorder = Recorder()
        list(film(recorder, [np.arange(1000.0)[:, None]], timestep=0.01, seconds=10.0, fps=25))
        assert len(recorder.drawn) == 250
        last, time = recorder.drawn[-1]
        assert len(last) <= 301
        assert (last[0], last[-1], time) == (0.0, 996.0, pytest.approx(9.96))
        before = recorder.drawn[-2][0]
        assert before[:-1] == last[: len(before) - 1]  # what is drawn stands still

    @pytest.mark.parametrize(("seconds", "fps"), [(0.0, 25), (np.inf, 25), (0.01, 25), (1.0, 0), (1.0, 2.5)])
    def test_nonsense(self, seconds, fps):
        with pytest.raises(InvalidSetting, match=r"seconds=|fps="):
            list(film(Recorder(), [np.zeros((2, 1))], timestep=0.5, seconds=seconds, fps=fps))


class TestPainters:
    STATES = np.array([[0.0, 0.0, -0.5, 0.0], [0.0, 0.0, 0.0, 2.0], [0.0, 0.0, 0.5, 2.0]])

    def test_without_opengl_matplotlib_draws_the_same_scene(self, cartpole, monkeypatch):
        monkeypatch.setenv("MUJOCO_GL", "disable")
        frames, reason = open_frames(cartpole, NORM)
        assert isinstance(frames, MatplotlibFrames)
        assert "libegl1" in reason
        image = frames.image(self.STATES, 0.02)
        assert (image.shape, image.dtype) == ((480, 864, 3), np.uint8)
        start = frames.image(self.STATES[:1], 0.0)
        # The path alone is of the color of 2 rad/s.
        color = np.array(ON_LIGHT(1.0)[:3]) * 255

        def of_that_color(picture):
            return int((np.abs(picture - color).max(axis=2) < 40).sum())

        assert of_that_color(image) > 20 > of_that_color(start) + 15
        frames.close()

    def test_with_opengl_mujoco_draws(self, cartpole):
        frames, reason = open_frames(cartpole, NORM)
        if reason is not None:
            pytest.skip(reason)
        assert isinstance(frames, MujocoFrames)
        try:
            image, start = frames.image(self.STATES, 0.02), frames.image(self.STATES[-1:], 0.0)
        finally:
            frames.close()
        assert image.shape == (480, 864, 3)
        changed = np.argwhere(np.abs(image.astype(int) - start).max(axis=2) > 60)
        # Between the tips at ±sin 0.5 = ±0.48 m, 0.48 / 1.657 · 240 = 69 pixels beside the middle, and above the cart.
        assert len(changed) > 5
        assert changed[:, 1].min() >= 432 - 79
        assert changed[:, 1].max() <= 432 + 79
        assert changed[changed[:, 0] < 240].size
