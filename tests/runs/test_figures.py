"""The figures of a run folder: which are drawn, and what is said if they cannot be."""

import gymnasium as gym
import pytest
from matplotlib.image import imread

from constrained_maxent.agents import PGPSettings
from constrained_maxent.errors import InvalidRun
from constrained_maxent.experiments import figures
from constrained_maxent.runs.figures import draw_run
from constrained_maxent.runs.run_folder import RunFolder
from constrained_maxent.reporting import training_figure

TAXI = "Taxi-v3" if "Taxi-v3" in gym.registry else "Taxi-v4"  # Gymnasium 1.3 replaced version 3


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
    assert drawn["iterations"].tolist() == [2, 4, 6, 8, 10, 12]
    assert drawn["constraints"]["cost"].tolist() == (metrics["constraint_cost"] + 2.0).tolist()
    assert drawn["exact_iterations"].tolist() == [4, 8, 12]
    assert drawn["exact_constraints"]["cost"].tolist() == (metrics["exact_constraint_cost"][1::2] + 2.0).tolist()
    assert drawn["exact_objective"].tolist() == metrics["exact_objective"][1::2].tolist()


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
        assert figures.draw_run(folder)
