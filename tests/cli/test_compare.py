"""``cmaxent compare``: short trainings of two methods over three seeds."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

from constrained_maxent.agents import PGPSettings
from constrained_maxent.cli import console
from constrained_maxent.runs import RunFolder, TrainSettings, train

GRID = "FrozenLake-PGP-v0"


def words(text):
    """The text without the frames of tables."""
    return " ".join(re.sub("[│┃╭╮╰╯─━|]", " ", text).split())


@pytest.fixture
def paths(monkeypatch):
    monkeypatch.setattr(console.console, "_width", 200)
    found = []
    for beta in (0.005, 1.0):
        for seed in range(3):
            found.append(Path(f"beta{beta}-seed{seed}"))
            agent = PGPSettings(learning_rate=0.05)
            settings = TrainSettings(preset="paper", beta=beta, seed=seed, iterations=4, log_every=1, agent=agent)
            train(GRID, settings, RunFolder(found[-1]))
    return found


def test_two_methods(paths, cmaxent):
    code, out, err = cmaxent("compare", *paths, "-o", "out")
    assert (code, err) == (0, "")
    exact = [json.loads((path / "summary.json").read_text())["exact"] for path in paths]
    objectives = [content["objective"] for content in exact]
    costs = [content["constraints"]["cost"] for content in exact]
    text = words(out)
    assert f"{GRID}: objective" in text
    for name, values in (("beta=0.005", objectives[:3]), ("beta=1.0", objectives[3:])):
        # Of three values nothing is cut off.
        assert f"{name} 3 {np.mean(values):.4f}" in text
    with Path("out/comparison.csv").open() as file:
        lines = {(line["quantity"], line["method"]): line for line in csv.DictReader(file)}
    difference = float(lines["objective", "beta=1.0"]["difference"])
    assert difference == pytest.approx(np.mean(objectives[3:]) - np.mean(objectives[:3]))
    assert lines["objective", "beta=1.0"]["paired"] == "True"
    assert float(lines["cost - limit", "beta=0.005"]["mean"]) == pytest.approx(np.mean(costs[:3]))
    better = [one < other for one in costs[3:] for other in costs[:3]]
    assert float(lines["cost - limit", "beta=1.0"]["improvement"]) == pytest.approx(np.mean(better))
    assert "Values: exact values of the last policies." in text
    assert "too narrow" in text
    assert out.splitlines()[-1] == "out/comparison.png"

    # At equal steps too they are at their ends, as all batches have 8 episodes of 25 steps.
    code, out, err = cmaxent("compare", *paths, "--at", "steps")
    assert (code, err) == (0, "")
    assert "exact values while training (metrics.csv), at equal steps (FrozenLake-PGP-v0: 800)" in words(out)
    assert f"beta=0.005 3 {np.mean(objectives[:3]):.4f}" in words(out)


def test_which_runs(cmaxent):
    code, _, err = cmaxent("compare")
    assert code == 2
    assert "Nothing to compare" in err
    code, _, err = cmaxent("compare", "nowhere")
    assert code == 2
    assert "nowhere is not a run folder" in err
