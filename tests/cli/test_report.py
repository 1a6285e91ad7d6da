"""``cmaxent report``, and that the command a report prints repeats the run."""

import json
import math
import shlex
from pathlib import Path

import pytest

from constrained_maxent.agents import PGPSettings
from constrained_maxent.runs import RunFolder, TrainSettings, load_config, train
from constrained_maxent.runs.provenance import train_command

GRID = "FrozenLake-PGP-v0"

RUNS = {
    "the preset's own": (GRID, TrainSettings(iterations=1), f"cmaxent train {GRID} --iterations 1"),
    "numbers below 0, lists and JSON": (
        GRID,
        TrainSettings(
            iterations=1,
            seed=7,
            num_envs=4,
            episodes_per_batch=4,
            preset="paper",
            limit=-1e-05,
            penalty='{"kind": "Lagrangian", "learning_rate": 0.001}',
            agent=PGPSettings(policy="mlp", hidden_sizes=(8, 4), clip_range=math.inf, normalize_advantages=False),
            log_every=1,
        ),
        None,
    ),
    "a chosen state": (
        "Pendulum-v1",
        TrainSettings(iterations=1, num_envs=2, episodes_per_batch=2, state=("0:1", "2")),
        "cmaxent train Pendulum-v1 --iterations 1 --num-envs 2 --episodes-per-batch 2 --state 0:1 2",
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_command_repeats_the_run(name, cmaxent):
    env_id, settings, expected = RUNS[name]
    folder = train(env_id, settings, RunFolder("first")).folder
    command = train_command(*load_config(folder))
    assert expected in (None, command)
    program, *arguments = shlex.split(command)
    assert program == "cmaxent"
    code, _, err = cmaxent(*arguments, "--quiet", "--out", "second")
    assert (code, err) == (0, "")
    assert Path("second/config.json").read_text() == Path("first/config.json").read_text()


def test_report(train, cmaxent, monkeypatch):
    from constrained_maxent.runs.report import looks

    monkeypatch.setattr(looks, "FILM_SECONDS", 0.2)
    train(GRID, "--out", "here")
    Path("here/sweep.json").write_text("{}")
    code, _, err = cmaxent("report", "here")  # a sweep without runs
    assert code == 2
    assert "holds no run yet" in err
    Path("here/sweep.json").unlink()
    code, out, err = cmaxent("report", "here", "-o", "page.html")
    assert (code, out, err) == (0, "page.html\n", "")
    assert f"<h1>{GRID.replace('-', '-<wbr>')}</h1>" in Path("page.html").read_text()
    assert json.loads(Path("here/evaluation.json").read_text())["iteration"] == 4


@pytest.mark.parametrize(("arguments", "words"), [(("nowhere",), "no run folder and no sweep"), ((), "RUN|SWEEP")])
def test_refused(arguments, words, cmaxent):
    code, out, err = cmaxent("report", *arguments)
    assert code == 2
    assert words in out + err
