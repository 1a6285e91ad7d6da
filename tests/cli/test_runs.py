"""``cmaxent evaluate`` and ``video``: runs on batches of episodes and of steps, one and several, and films of them."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from constrained_maxent.runs.run_folder import RunFolder

GRID = "FrozenLake-PGP-v0"
CARTPOLE = "SafeCartpole-PGP-v0"
SHORT = ("--num-envs", 4, "--steps-per-batch", 200, "--env-kwargs", '{"time_limit": 0.5}', "--hidden-sizes", 8)
"""Staggered fragments of episodes of 50 steps (SafeCartpole) or 25 (PointMass)."""
FILMED = ("SafeCartpole-PGP-v0", "--num-envs", "2", "--steps-per-batch", "40", "--hidden-sizes", "8", "--out", "run")
BRIEF = ("--env-kwargs", '{"time_limit": 0.4}')


def words(text):
    """The text without the frames of tables."""
    return " ".join(re.sub("[│┃╭╮╰╯─━|]", " ", text).split())


def figures(folder):
    return json.loads(Path(folder, "evaluation.json").read_text())


class TestTheGrid:
    def test_beside_the_exact_values(self, train, cmaxent):
        train(GRID, "--out", "here")
        before = {file: file.read_bytes() for file in Path("here").iterdir()}
        code, out, _ = cmaxent("evaluate", "here", "--episodes", 40, "--seed", 3)
        assert code == 0
        assert f"{GRID}, iteration 4" in out
        assert "40 fresh episodes" in out
        exact = RunFolder("here").read_summary()["exact"]
        assert f"{exact['objective']:.4f}" in out
        assert f"{exact['constraints']['cost']:.4f}" in out
        assert "state entropy" not in out
        # A run that is named twice is one run: a mean over both would have a narrower interval.
        assert cmaxent("evaluate", "here", Path("here").absolute(), "--episodes", 40, "--seed", 3)[1].startswith(
            out.removesuffix("here/evaluation.json\n")
        )
        assert cmaxent("evaluate", "here", "--episodes", 40, "--seed", 4)[1] != out
        assert "100 fresh episodes" in cmaxent("evaluate", "here", "--seed", 4)[1]
        written = figures("here")
        assert (written["env_id"], written["iteration"], written["seed"]) == (GRID, 4, 4)
        assert written["exact"]["objective"] == exact["objective"]
        Path("here/evaluation.json").unlink()
        assert {file: file.read_bytes() for file in Path("here").iterdir()} == before


class TestTheCartpole:
    @pytest.fixture
    def run(self, train):
        def make(folder, *options):
            train(CARTPOLE, *SHORT, "--out", folder, *options, iterations=1)

        return make

    def test_trained_on_staggered_fragments(self, run, cmaxent):
        run("here")
        code, out, err = cmaxent("evaluate", "here")
        assert (code, err) == (0, "")
        text = words(out)
        assert "20 fresh episodes" in text
        # Every episode is whole, from the hanging pole on, which half a second cannot swing up.
        assert "episode length (steps) 50.0000" in text
        assert "pole up, share of steps 0.0000" in text
        assert f"{CARTPOLE}: the state entropy is that of a density per m·m/s·rad·rad/s." in text
        assert f"{CARTPOLE}: grid cells are counted in 1,000 steps." in text
        assert out.splitlines()[-1] == "here/evaluation.json"
        found = figures("here")["rollouts"]
        assert found["n_episodes"] == 20
        assert 0.0 < found["states"]["coverage"]["share"] <= 1000 / 9216
        assert found["states"]["entropy"]["low"] < found["states"]["entropy"]["high"]
        assert found["costs"]["cost"] == {
            "mean": {"mean": 0.0, "low": 0.0, "high": 0.0},
            "maximum": 0.0,
            "violated": {"mean": 0.0, "low": 0.0, "high": 0.0},
        }

    def test_of_the_environments_arguments_only_staggered_starts_are_left_out(self, run, cmaxent):
        run("here", "--env-kwargs", '{"time_limit": 0.5, "slider_limit": 0.001, "staggered_starts": true}')
        assert cmaxent("evaluate", "here", "--episodes", 5)[0] == 0
        found = figures("here")["rollouts"]
        assert found["length"] == {"mean": 50.0, "low": 50.0, "high": 50.0}
        # No cart stays within a millimetre.
        assert found["costs"]["cost"]["violated"]["mean"] == 1.0
        assert found["costs"]["cost"]["maximum"] > found["costs"]["cost"]["mean"]["mean"] > 0.0

    def test_several_runs(self, run, cmaxent):
        for seed in (0, 1):
            run(f"run{seed}", "--seed", seed)
        code, out, err = cmaxent("evaluate", "run0", "run1", "--episodes", 8)
        assert (code, err) == (0, "")
        assert "mean of 2 runs" in words(out)
        entropies = [figures(f"run{seed}")["rollouts"]["states"]["entropy"]["mean"] for seed in (0, 1)]
        # Of two runs drawn again, the interval spans both.
        mean, low, high = np.mean(entropies), min(entropies), max(entropies)
        row = f"{entropies[0]:.4f} {entropies[1]:.4f} {mean:.4f} [{low:.4f}, {high:.4f}]"
        assert f"state entropy (nats) {row}" in words(out)
        assert out.splitlines()[-2:] == ["run0/evaluation.json", "run1/evaluation.json"]


def test_runs_of_different_environments_have_no_mean(train, cmaxent):
    train(GRID, "--out", "grid")
    train("PointMass-PGP-v0", *SHORT, "--out", "mass", iterations=1)
    code, out, err = cmaxent("evaluate", "grid", "mass", "--episodes", 4)
    assert (code, err) == (0, "")
    assert "mean of" not in out
    assert "state entropy (nats)" in out
    assert figures("mass")["rollouts"]["costs"] == {}


def test_which_run(cmaxent):
    code, out, err = cmaxent("evaluate")
    assert code == 2
    assert "RUN" in out + err


@pytest.fixture
def cartpole(train):
    train(*FILMED, *BRIEF, iterations=1)


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
