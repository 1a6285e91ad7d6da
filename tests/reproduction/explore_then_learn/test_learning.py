"""What goes to d3rlpy and what comes back, and the study around it with policies that do nothing."""

import sys
import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from constrained_maxent.errors import InvalidRun
from constrained_maxent.reproduction.explore_then_learn import data, models, offline, study
from constrained_maxent.reproduction.explore_then_learn.data import (
    KINDS,
    Episodes,
    Gathering,
    dataset,
    datasets_in,
    read,
)
from constrained_maxent.reproduction.explore_then_learn.figures import draw
from constrained_maxent.reproduction.explore_then_learn.learning import relabelled
from constrained_maxent.reproduction.explore_then_learn.study import run_study, summarize, summary_table
from constrained_maxent.reproduction.explore_then_learn.tasks import WORLDS
from constrained_maxent.runs import TrainSettings, collect

COPY = """
import shutil, sys, zipfile
for name in zipfile.ZipFile(sys.argv[2]).namelist():
    shutil.copy(__file__ + ".pt", sys.argv[3] + "/" + name.removesuffix(".npy") + ".pt")
"""
"""In the place of d3rlpy: each task gets the same policy."""


class Nothing(torch.nn.Module):
    def forward(self, observations):
        return 0.0 * observations[:, :1]


def test_rewards_are_of_the_states_that_steps_led_to():
    rows = np.arange(3.0)[:, None], np.array([[5.0], [7.0]])
    episodes = Episodes(None, (4, 2), rows, (np.zeros((2, 1)), np.zeros((1, 1))), (np.zeros(2), np.zeros(1)))
    assert relabelled(episodes, lambda observations: observations[:, 0] ** 2).tolist() == [1.0, 4.0, 49.0]


def test_a_file_becomes_transitions(tmp_path):
    """In the order asked for; the last step leads to the last observation, and only a termination ends values."""
    path = tmp_path / "data.hdf5"
    with h5py.File(path, "w") as file:
        for number, (first, ends) in enumerate([(0.0, False), (10.0, True), (20.0, False)]):
            group = file.create_group(f"episode_{number}")
            group["observations"] = first + np.arange(3.0)[:, None]
            group["actions"] = first + np.array([[0.5], [1.5]])
            group["terminations"] = np.array([False, ends])
            group["truncations"] = np.array([False, not ends])
    found = offline.transitions(path, [1, 0])
    assert {name: column[:, 0].tolist() for name, column in found.items()} == {
        "observations": [10.0, 11.0, 0.0, 1.0],
        "next_observations": [11.0, 12.0, 1.0, 2.0],
        "actions": [10.5, 11.5, 0.5, 1.5],
        "terminals": [0.0, 1.0, 0.0, 0.0],
    }
    assert all(column.dtype == np.float32 for column in found.values())


@pytest.fixture(scope="module")
def stepped(tmp_path_factory):
    """Six episodes of 20 uniform actions."""
    with datasets_in(tmp_path_factory.mktemp("data")):
        settings = TrainSettings(env_kwargs='{"slider_limit": 1.5, "time_limit": 0.2}')
        collect("SafeCartpole-v0", dataset("training, limit"), steps=120, settings=settings)
        yield read(dataset("training, limit"))


def test_episodes_are_drawn_until_they_have_as_many_steps(stepped, monkeypatch):
    monkeypatch.setattr(data, "read", lambda name: stepped)
    some, others = (data.chosen(gathering(seed, steps=45), "training, limit") for seed in (0, 1))
    assert len(some.numbers) == len(others.numbers) == 3
    assert some.numbers != others.numbers
    assert set(some.numbers) <= set(range(6))
    for number, rows, actions in zip(some.numbers, some.observations, some.actions, strict=True):
        np.testing.assert_array_equal(rows, stepped.observations[number])
        np.testing.assert_array_equal(actions, stepped.actions[number])
    assert len(data.chosen(gathering(0, steps=120), "uniform actions").numbers) == 6


def test_violations_are_counted_by_steps():
    episodes = Episodes(None, (0, 1), (), (), (np.array([0.0, 0.3]), np.array([0.1, 0.0, 0.0, 0.0])))
    assert episodes.violations() == {"steps": 6, "share": pytest.approx(2 / 6), "cost": pytest.approx(0.4 / 6)}


def test_a_study_of_policies_that_do_nothing(stepped, tmp_path, monkeypatch):
    script = tmp_path / "nothing.py"
    script.write_text(COPY)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.trace(Nothing(), torch.zeros(1, 5)).save(f"{script}.pt")
    monkeypatch.setattr(offline, "__file__", str(script))
    monkeypatch.setattr(study, "require_d3rlpy", lambda python: None)
    paid = {"share": 0.2, "cost": 0.01, "steps": 120}
    trainings = {"exploration, no limit": paid, "exploration, limit": paid}
    gathered = {"collecting": dict.fromkeys(KINDS, paid), "training": trainings}
    monkeypatch.setattr(study, "gather", lambda run, folder: gathered)
    monkeypatch.setattr(study, "load", lambda run, kind, folder: stepped)
    monkeypatch.setattr(models, "STEPS", 2)
    monkeypatch.setitem(WORLDS["cartpole"].arguments, "time_limit", 0.2)
    how = {"python": Path(sys.executable), "seeds": 1, "steps": 120, "gradient_steps": 1}
    rows = run_study("cartpole", tmp_path / "out", **how)
    assert rows["data"].to_list() == list(KINDS)
    # The pole hangs, and the cart stands in the middle.
    np.testing.assert_allclose(rows["stay at 1 m, return"], 1e-4, rtol=0.2)
    np.testing.assert_allclose(rows["swing up, return"], 0.0, atol=1e-3)
    assert (rows["stay at 1 m, share of steps that cost"] == 0.0).all()
    assert rows["training before, mean cost"].to_list() == [None, 0.01, 0.01, None]
    summaries = summarize(rows)
    assert summary_table(summaries).height == sum(map(len, summaries.values()))
    assert draw(tmp_path / "figure.png", WORLDS["cartpole"], summaries).stat().st_size > 10_000
    monkeypatch.setattr(study, "measured_return", None)
    assert run_study("cartpole", tmp_path / "out", **how).equals(rows)  # all is there
    with pytest.raises(InvalidRun, match="other settings"):
        run_study("cartpole", tmp_path / "out", **(how | {"gradient_steps": 2}))


def gathering(seed, *, steps):
    return Gathering(world="cartpole", seed=seed, steps=steps, iterations=None)
