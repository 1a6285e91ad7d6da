"""Rows are exact values of the engine's policies; finished studies are read, interrupted ones continued."""

import json
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest

from constrained_maxent.engine import TabularEngine
from constrained_maxent.errors import InvalidRun
from constrained_maxent.reproduction.grid import run
from constrained_maxent.reproduction.grid.run import ROWS, StudyFiles, frank_wolfe_mixtures, run_study
from constrained_maxent.reproduction.grid.studies import STUDIES, run_settings
from constrained_maxent.reproduction.grid.worlds import world_of
from constrained_maxent.reproduction.tables import read_table

SMALL = replace(STUDIES["fig1"], iterations=20, seeds=2)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("grid")
    return folder, run_study(SMALL, folder)


def test_rows_start_with_the_uniform_policy_and_end_with_the_last(finished):
    _, rows = finished
    assert len(rows) == 3 * 2 * 21  # settings, seeds, evaluations from iteration 0 to 20
    starts = rows.filter(iteration=0).select("entropy", "value").unique()
    # The uniform policy, as docs/results/pgp.md and cmaxent train report it: entropy 29.2.
    assert starts["entropy"].to_list() == pytest.approx([29.2], abs=0.1)
    assert rows["iteration"].unique().sort().to_list() == list(range(21))


def test_last_rows_are_those_of_the_engine(finished):
    _, rows = finished
    world = world_of("holes")
    settings = run_settings(SMALL.settings[2], "cost", world.functional, seed=1)
    result = TabularEngine(world.mdp, [settings], scale="truncated").run(20)
    (row,) = rows.filter(method="primal-dual", seed=1, iteration=20).rows(named=True)
    assert (row["entropy"], row["value"]) == pytest.approx(tuple(world.measure(result.policies)[0]))
    assert row["transitions"] == result.transitions[0]
    assert (row["dual_rate"], row["study"]) == (0.001, "fig1")


def test_files_give_the_rows_back(finished):
    folder, rows = finished
    files = StudyFiles(folder, "fig1")
    assert read_table(files.rows, ROWS).equals(rows)
    assert not files.checkpoint.exists()
    assert json.loads(files.about.read_text())["diverged"] == 0


def test_a_finished_study_is_not_run_again(finished, monkeypatch):
    folder, rows = finished
    monkeypatch.setattr(run, "TabularEngine", None)
    assert run_study(SMALL, folder).equals(rows)


def test_another_scale_or_study_does_not_pass_for_it(finished):
    folder, _ = finished
    with pytest.raises(InvalidRun, match="another --out"):
        run_study(STUDIES["fig1"].within("smoke"), folder)
    with pytest.raises(InvalidRun, match="another --out"):
        run_study(replace(SMALL, settings=SMALL.settings[:1]), folder)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interruption_or_a_crash_is_continued(finished, tmp_path, monkeypatch, error):
    _, rows = finished
    advanced = []

    class Chunked(TabularEngine):
        def run(self, iterations, *, callback=None, chunk_iterations=None):
            return super().run(iterations, callback=callback, chunk_iterations=5)

    def interrupt(at):
        advanced.append(at.iterations)
        if len(advanced) == 2:
            raise error

    monkeypatch.setattr(run, "TabularEngine", Chunked)
    with pytest.raises(error):
        run_study(SMALL, tmp_path, progress=interrupt)
    files = StudyFiles(tmp_path, "fig1")
    assert files.checkpoint.exists()
    assert not files.about.exists()
    assert run_study(SMALL, tmp_path, progress=interrupt).equals(rows)
    assert advanced == [5, 10, 15, 20]
    assert not files.checkpoint.exists()


def test_a_crash_in_the_evaluation_loses_no_training(finished, tmp_path, monkeypatch):
    _, rows = finished
    with monkeypatch.context() as patched:
        patched.setattr(run, "_evaluate", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run_study(SMALL, tmp_path)
    advanced = []
    assert run_study(SMALL, tmp_path, progress=advanced.append).equals(rows)
    assert not advanced, "nothing was left to train"


def test_a_kill_loses_what_came_after_the_last_checkpoint(finished, tmp_path):
    """The engine advances by 5 batches at a time here, each with its checkpoint; the process dies at the third."""
    _, rows = finished
    script = f"""
        import os, signal
        from dataclasses import replace
        from pathlib import Path
        from constrained_maxent.engine import TabularEngine
        from constrained_maxent.reproduction.grid import run
        from constrained_maxent.reproduction.grid.studies import STUDIES

        class Chunked(TabularEngine):
            def run(self, iterations, *, callback=None, chunk_iterations=None):
                return super().run(iterations, callback=callback, chunk_iterations=5)

        def die(at):
            if at.iterations == 15:
                os.kill(os.getpid(), signal.SIGKILL)

        run.TabularEngine, run.SECONDS_BETWEEN_CHECKPOINTS, run.CHECKPOINT_SHARE = Chunked, 0.0, float("inf")
        study = replace(STUDIES["fig1"], iterations=20, seeds=2)
        run.run_study(study, Path({str(tmp_path)!r}), progress=die)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False)
    assert done.returncode == -signal.SIGKILL
    with np.load(StudyFiles(tmp_path, "fig1").checkpoint) as state:
        assert set(state["counters"][:, 0].tolist()) == {10}
    assert run_study(SMALL, tmp_path).equals(rows)


def test_checkpoints_take_a_share_of_the_time(tmp_path, monkeypatch):
    """On a clock on which each of 20 chunks takes 1 s and writing takes 1/8 s.

    At most 2 % of the time is 6.25 s between two: 7 chunks.
    """
    clock, written = [0.0], []

    class Chunked(TabularEngine):
        def run(self, iterations, *, callback=None, chunk_iterations=None):
            return super().run(iterations, callback=callback, chunk_iterations=1)

    def chunk(at):
        clock[0] += 1.0

    def save(file, **state):
        clock[0] += 0.125
        written.append(int(state["counters"][0, 0]))

    monkeypatch.setattr(run, "TabularEngine", Chunked)
    monkeypatch.setattr(run.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(run.np, "savez", save)
    run_study(SMALL, tmp_path, progress=chunk)
    assert written == [3, 10, 17, 20]  # the first after more than 2 s, the last at the end


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "afile").write_text("mine")
    for folder in (tmp_path / "afile", tmp_path / "afile" / "below"):
        with pytest.raises(InvalidRun, match=r"afile is a file: give --out a folder"):
            run_study(SMALL, folder)
    assert (tmp_path / "afile").read_text() == "mine"


def test_a_damaged_checkpoint_is_named(tmp_path):
    StudyFiles(tmp_path, "fig1").checkpoint.write_bytes(b"not an archive")
    with pytest.raises(InvalidRun, match=r"fig1\.partial\.npz"):
        run_study(SMALL, tmp_path)


def test_a_checkpoint_of_other_runs_is_named(tmp_path):
    with StudyFiles(tmp_path, "fig1").checkpoint.open("wb") as file:
        np.savez(file, fingerprint="other", seconds=1.0)
    with pytest.raises(InvalidRun, match="cannot be continued"):
        run_study(SMALL, tmp_path)


@pytest.mark.parametrize(
    "change",
    [{"snapshots": 300}, {"draws_policies": True}, {"iterations": 21}, {"planned_iterations": 30}],
    ids=lambda change: next(iter(change)),
)
def test_a_checkpoint_of_another_design_is_named(tmp_path, monkeypatch, change):
    with monkeypatch.context() as patched:
        patched.setattr(run, "_evaluate", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run_study(SMALL, tmp_path)
    kept = StudyFiles(tmp_path, "fig1").checkpoint.read_bytes()
    with pytest.raises(InvalidRun, match="cannot be continued"):
        run_study(replace(SMALL, **change), tmp_path)
    assert StudyFiles(tmp_path, "fig1").checkpoint.read_bytes() == kept


def test_schedules_run_over_the_planned_iterations(tmp_path):
    """A run that ends before its plan is the beginning of one that does not."""
    short = replace(STUDIES["methods-short"], iterations=5, seeds=1, planned_iterations=10)
    whole = run_study(replace(short, iterations=10), tmp_path / "whole")
    columns = ["iteration", "entropy", "value"]
    assert run_study(short, tmp_path / "begun")[columns].equals(whole.filter(whole["iteration"] <= 5)[columns])


class TestMixtures:
    def test_each_is_a_run_of_so_many_iterations(self, tmp_path):
        mixtures = frank_wolfe_mixtures("holes", tmp_path / "frank-wolfe.csv", iterations=6)
        assert mixtures["iterations"].to_list() == [1, 3, 6]
        # No mixture exceeds 36.720 at zero cost by more than what the multiplier 0.19455 gives for the cost.
        assert (mixtures["entropy"] <= 36.721 + 0.195 * mixtures["value"]).all()

    def test_a_table_of_the_same_runs_is_read(self, tmp_path, monkeypatch):
        path = tmp_path / "frank-wolfe.csv"
        mixtures = frank_wolfe_mixtures("holes", path, iterations=2)
        before = path.read_bytes()
        assert frank_wolfe_mixtures("holes", path, iterations=3)["iterations"].to_list() == [1, 3]
        path.write_bytes(before)
        monkeypatch.setattr(run, "frank_wolfe", None)
        assert frank_wolfe_mixtures("holes", path, iterations=2).equals(mixtures)
        path.write_text("densities,policies\n")  # of another version
        with pytest.raises(InvalidRun, match=r"frank-wolfe\.csv"):
            frank_wolfe_mixtures("holes", path, iterations=2)
