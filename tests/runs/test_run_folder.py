"""The run folder: when it may be written, that nothing is half there, and what is said about damaged files."""

import json

import numpy as np
import pytest

from constrained_maxent.errors import InvalidRun
from constrained_maxent.runs.run_folder import RunFolder

COLUMNS = ("iteration", "objective", "exact")
CONFIG = '{"env_id": "Lake-v0", "settings": {}}'
ROWS = "iteration,objective,exact\n10,1.5,\n20,1.75,2.5\n30,,\n"


@pytest.fixture
def folder(tmp_path):
    made = RunFolder(tmp_path / "run")
    made.create()
    return made


def occupy(folder, *names):
    for name in names:
        (folder.path / name).write_text(CONFIG if name == "config.json" else "old")


class TestHeld:
    pytestmark = pytest.mark.fault

    def test_what_is_made_in_vain_is_removed(self, tmp_path):
        folder = RunFolder(tmp_path / "new")
        with folder.held():
            assert folder.path.is_dir()
        assert not folder.path.exists()
        with folder.held():
            occupy(folder, "config.json")
        assert [file.name for file in folder.path.iterdir()] == ["config.json"]

    def test_one_process_has_it(self, folder):
        with folder.held(), pytest.raises(InvalidRun, match="is in use: process"), folder.held():
            pass

    def test_what_a_killed_process_left_half_written_is_removed(self, folder):
        left = [".checkpoint.123.pt", ".checkpoint.elsewhere.123.pt", ".metrics.elsewhere.1.csv", ".config.a.b.7.json"]
        kept = [".checkpoint.pt", ".checkpoint.mine.pt", "checkpoint.pt", ".training.elsewhere.1.png"]
        occupy(folder, "config.json", *left, *kept)
        with folder.held():
            assert {file.name for file in folder.path.iterdir()} == {"config.json", "run.lock", *kept}


class TestCreate:
    def test_makes_parents(self, tmp_path):
        RunFolder(tmp_path / "a" / "b").create()
        assert (tmp_path / "a" / "b").is_dir()

    def test_an_empty_folder_is_taken(self, folder):
        folder.create()

    def test_what_is_not_ours_stays(self, folder):
        occupy(folder, "notes.txt", "config.json")
        folder.create(overwrite=True)
        folder.clear()
        assert [file.name for file in folder.path.iterdir()] == ["notes.txt"]

    @pytest.mark.parametrize("name", ["metrics.csv", "checkpoint.pt", "summary.json", "evaluation.json"])
    def test_a_run_is_not_overwritten(self, folder, name):
        occupy(folder, "config.json", name, "training.png")
        with pytest.raises(InvalidRun, match=f"run holds a run already .config.json, {name}.*--overwrite"):
            folder.create()
        assert (folder.path / name).read_text() == "old"

    @pytest.mark.fault
    @pytest.mark.parametrize("overwrite", [False, True])
    @pytest.mark.parametrize(
        "name",
        [
            "config.json",
            "metrics.csv",
            "checkpoint.pt",
            "summary.json",
            "training.png",
            "video.mp4",
            "events.out.tfevents.1",
        ],
    )
    def test_what_only_looks_like_a_run_is_never_replaced(self, folder, name, overwrite):
        (folder.path / name).write_text('{"env_id": "the user\'s own"}')
        with pytest.raises(InvalidRun, match=rf"run holds {name}, and no config.json of a run"):
            folder.create(overwrite=overwrite)
        assert (folder.path / name).exists()

    @pytest.mark.fault
    def test_an_empty_path_is_not_the_current_folder(self):
        with pytest.raises(InvalidRun, match="path of a run folder is empty"):
            RunFolder("")
        assert RunFolder(".").path.is_dir()

    def test_resume_is_offered_only_where_it_can_work(self, folder):
        occupy(folder, "config.json", "metrics.csv")
        with pytest.raises(InvalidRun) as raised:
            folder.create()
        assert "--resume" not in str(raised.value)
        occupy(folder, "checkpoint.pt")
        with pytest.raises(InvalidRun, match=f"continue it with --resume {folder.path}"):
            folder.create()

    def test_the_old_run_stays_until_it_is_cleared(self, folder):
        occupy(folder, "config.json", "metrics.csv", "checkpoint.pt")
        folder.create(overwrite=True)
        assert (folder.path / "checkpoint.pt").read_text() == "old"

    def test_clearing_removes_everything_of_the_old_run(self, folder):
        occupy(folder, "config.json", "metrics.csv", "checkpoint.pt", "summary.json", "training.png", "occupancy.png")
        occupy(folder, "evaluation.json")
        occupy(folder, "events.out.tfevents.1.host", "events.out.tfevents.2.host")
        folder.clear()
        assert list(folder.path.iterdir()) == []

    def test_a_file_is_no_folder(self, tmp_path):
        (tmp_path / "run").write_text("mine")
        with pytest.raises(InvalidRun, match="run is a file"):
            RunFolder(tmp_path / "run").create(overwrite=True)
        assert (tmp_path / "run").read_text() == "mine"


class TestJson:
    def test_round_trip(self, folder):
        content = {"env_id": "A-v0", "settings": {"a": [1, 2.5, None], "b": {"c": "γ"}}}
        folder.write_json(folder.config_path, content)
        assert folder.read_config() == content
        folder.write_json(folder.summary_path, {"status": "finished"})
        assert folder.read_summary() == {"status": "finished"}

    def test_a_failed_write_leaves_the_old_file(self, folder, monkeypatch):
        old = {"env_id": "A-v0", "settings": {"a": 1}}
        folder.write_json(folder.config_path, old)
        with pytest.raises(TypeError):
            folder.write_json(folder.config_path, {"a": object()})
        monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            folder.write_json(folder.config_path, {"a": 2})
        assert folder.read_config() == old
        assert json.loads(folder.config_path.read_text()) == old

    @pytest.mark.parametrize("content", [{}, {"env_id": "A-v0"}, {"env_id": 3, "settings": {}}, {"settings": {}}])
    def test_a_config_that_is_no_runs(self, folder, content):
        folder.write_json(folder.config_path, content)
        with pytest.raises(InvalidRun, match=r"config\.json must have env_id and settings"):
            folder.read_config()

    @pytest.mark.parametrize("name", ["config", "summary"])
    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "is not valid JSON"),
            (b'{"env_id": "Froz', "is not valid JSON"),
            (b"\xff\xfe\x00", "is not valid JSON"),
            (b"[1, 2]", "must hold a JSON object"),
        ],
    )
    def test_damaged(self, folder, name, content, reason):
        (folder.path / f"{name}.json").write_bytes(content)
        with pytest.raises(InvalidRun, match=rf"{name}\.json {reason}"):
            getattr(folder, f"read_{name}")()

    @pytest.mark.parametrize("name", ["config", "summary"])
    def test_missing(self, folder, name):
        with pytest.raises(InvalidRun, match=rf"run is not a run folder: {name}\.json is missing"):
            getattr(folder, f"read_{name}")()


class TestMetrics:
    def test_columns(self, folder):
        folder.metrics_path.write_text(ROWS)
        metrics = folder.read_metrics()
        assert list(metrics) == ["iteration", "objective", "exact"]
        np.testing.assert_array_equal(metrics["iteration"], [10, 20, 30])
        np.testing.assert_array_equal(metrics["objective"], [1.5, 1.75, np.nan])
        np.testing.assert_array_equal(metrics["exact"], [np.nan, 2.5, np.nan])

    def test_no_rows_yet(self, folder):
        folder.metrics_path.write_text("iteration,objective\n")
        assert {name: column.tolist() for name, column in folder.read_metrics().items()} == {
            "iteration": [],
            "objective": [],
        }

    def test_a_last_line_that_was_cut_off_is_no_damage(self, folder):
        folder.metrics_path.write_text(ROWS + "40,1.")
        assert folder.read_metrics()["iteration"].tolist() == [10, 20, 30]

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "its rows and its header differ"),
            (b"iteration,objective\n1,2,3\n", "its rows and its header differ"),
            (b"iteration,objective\n1\n", "its rows and its header differ"),
            (b"iteration,objective\n1,high\n", "an entry is not a number.*high"),
            (b"iteration,objective\n\xff\xfe,1\n", "it is not text"),
        ],
    )
    def test_damaged(self, folder, content, reason):
        folder.metrics_path.write_bytes(content)
        with pytest.raises(InvalidRun, match=rf"metrics\.csv is damaged: {reason}"):
            folder.read_metrics()
        with pytest.raises(InvalidRun, match=r"metrics\.csv is damaged"):
            folder.keep_metrics_until(10)
        assert folder.metrics_path.read_bytes() == content

    def test_missing(self, folder):
        with pytest.raises(InvalidRun, match=r"metrics\.csv is missing"):
            folder.read_metrics()

    @pytest.mark.parametrize(("iteration", "n_rows"), [(0, 0), (9, 0), (10, 1), (29, 2), (30, 3), (99, 3)])
    def test_keep_until(self, folder, iteration, n_rows):
        folder.metrics_path.write_text(ROWS + "40,1.")
        folder.keep_metrics_until(iteration)
        assert folder.metrics_path.read_text() == "".join(ROWS.splitlines(keepends=True)[: 1 + n_rows])

    def test_keep_until_without_a_file(self, folder):
        folder.keep_metrics_until(10)
        assert not folder.metrics_path.exists()

    def test_keep_until_with_other_columns(self, folder):
        folder.metrics_path.write_text(ROWS)
        with pytest.raises(InvalidRun, match="has the columns iteration, objective, exact, not iteration, penalty"):
            folder.require_metrics(["iteration", "penalty"])
        assert folder.metrics_path.read_text() == ROWS
