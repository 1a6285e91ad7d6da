"""``cmaxent video``: what it prints, and where the film is."""

import pytest

CARTPOLE = ("SafeCartpole-PGP-v0", "--num-envs", "2", "--steps-per-batch", "40", "--hidden-sizes", "8", "--out", "run")
SHORT = ("--env-kwargs", '{"time_limit": 0.4}')


@pytest.fixture
def cartpole(train):
    train(*CARTPOLE, *SHORT, iterations=1)


def test_says_when_matplotlib_draws(cartpole, cmaxent, tmp_path, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "disable")
    code, out, err = cmaxent("video", "run", "--seconds", "0.4", "--fps", "5", "--out", "new/film.mp4")
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert text.startswith("2 images, drawn by Matplotlib, as MuJoCo cannot draw here. MUJOCO_GL=disable leaves")
    assert text.endswith("new/film.mp4")
    assert (tmp_path / "new" / "film.mp4").stat().st_size > 1000


def test_wrong_options_are_named(cartpole, cmaxent):
    code, out, err = cmaxent("video", "run", "--out", "film.gif", "--seconds", "0.1")
    assert (code, out) == (2, "")
    assert "film.gif must end in .mp4" in " ".join(err.split())
    assert cmaxent("video", "nowhere")[0] == 2
