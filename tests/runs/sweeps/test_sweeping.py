"""Sweeps in processes: what is killed or goes wrong leaves the others whole, and nothing is done twice."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import constrained_maxent
from constrained_maxent.errors import InvalidRun, InvalidSetting
from constrained_maxent.runs import RunFolder, SweepPlan, sweep
from constrained_maxent.runs.lock import owner_of
from constrained_maxent.runs.sweeps import sweeping
from constrained_maxent.runs.sweeps.executors import executor_named
from constrained_maxent.runs.sweeps.performing import Outcome

pytestmark = pytest.mark.fault


def contents(folder):
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}


def until(holds):
    end = time.monotonic() + 120.0
    while not holds():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.02)


def test_what_goes_wrong_in_one_run_leaves_the_others_whole(tmp_path, described):
    faults = ["killed", "nan", "no", "disk"]
    plan = SweepPlan.of(described(seeds=1, grid={"env_kwargs": [{"fault": fault} for fault in faults]}))
    seen = []
    result = sweep(plan, tmp_path / "sweep", workers=1, progress=lambda at: seen.append([s.state for s in at]))
    killed, nan, whole, disk = result.statuses
    assert [status.state for status in result.statuses] == ["failed", "failed", "finished", "failed"]
    assert "ended by SIGKILL" in killed.reason
    assert nan.reason.startswith("NonFiniteValue: ")
    assert "cmaxent train --resume" in nan.reason
    assert "No space left on device" in disk.reason
    failures = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "sweep" / "failures").iterdir()}
    assert {name: failure["reason"] for name, failure in failures.items()} == {
        status.run.name: status.reason for status in (killed, nan, disk)
    }
    assert "Traceback" in failures[nan.run.name]["traceback"]
    # The second iteration is the last before the fault.
    for status, iterations in ((killed, 2), (nan, 2), (whole, 5)):
        folder = RunFolder(tmp_path / "sweep" / status.run.name)
        assert folder.read_metrics()["iteration"].tolist() == list(range(1, iterations + 1))
        assert folder.checkpoint_path.exists()
    assert seen[0][0] == "running"
    assert json.loads((tmp_path / "sweep" / "sweep.json").read_text())["runs"] == {
        run.name: run.config() for run in plan.runs
    }


SCRIPT = """
import json, sys
from constrained_maxent.runs import SweepPlan, sweep
sweep(SweepPlan.of(json.loads(sys.argv[1])), sys.argv[2], workers=1)
"""


def test_the_driver_is_killed_and_the_next_call_does_what_is_missing(tmp_path, described, modules, sweeps_here):
    """Its worker ends the run that it is at; the next call, which meets it there, waits for it."""
    content = described(seeds=2, settings={"env_kwargs": {"fault": "slow"}})
    folder, (first, second) = tmp_path / "sweep", SweepPlan.of(content).runs
    places = os.pathsep.join([str(modules), str(Path(constrained_maxent.__file__).parents[1])])
    command = [sys.executable, "-c", SCRIPT, json.dumps(content), str(folder)]
    driver = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": places}, stderr=subprocess.DEVNULL)
    until((folder / second.name / "metrics.csv").exists)
    worker = owner_of(folder / second.name / "run.lock").process
    driver.kill()
    driver.wait()
    done = contents(folder / first.name)
    result = sweep(SweepPlan.of(content), folder)
    assert [status.state for status in result.statuses] == ["finished", "finished"]
    assert contents(folder / first.name) == done
    assert sweeps_here == [second.name]  # which found that somebody else is at it
    assert RunFolder(folder / second.name).read_metrics()["iteration"].tolist() == [1, 2, 3, 4, 5]
    with suppress(ProcessLookupError):  # it would wait for more work for a while
        os.kill(worker, signal.SIGKILL)


def test_only_what_is_missing_is_done(tmp_path, described, sweeps_here):
    few, more = (SweepPlan.of(described(seeds=n)) for n in (2, 3))
    sweep(few, tmp_path)
    before = contents(tmp_path / "seed=0")
    result = sweep(more, tmp_path)
    assert [status.state for status in result.statuses] == ["finished"] * 3
    assert sweeps_here == ["seed=0", "seed=1", "seed=2"]
    assert contents(tmp_path / "seed=0") == before
    assert set(json.loads((tmp_path / "sweep.json").read_text())["runs"]) == {"seed=0", "seed=1", "seed=2"}


def test_a_failure_that_is_mended_is_listed_no_more(tmp_path, described, sweeps_here, monkeypatch):
    plan = SweepPlan.of(described(seeds=1))
    with monkeypatch.context() as patch:
        import tiny_module

        patch.setattr(tiny_module.Tiny, "step", lambda self, action: 1 / 0)
        assert sweep(plan, tmp_path).statuses[0].reason.startswith("ZeroDivisionError")
    assert (tmp_path / "failures" / "seed=0.json").exists()
    assert not (tmp_path / "seed=0").exists()
    assert sweep(plan, tmp_path).statuses[0].state == "finished"
    assert not (tmp_path / "failures").exists()
    # Also where somebody else has mended it.
    (tmp_path / "failures").mkdir()
    (tmp_path / "failures" / "seed=0.json").write_text("{}")
    assert sweep(plan, tmp_path).statuses[0].state == "finished"
    assert not (tmp_path / "failures").exists()


def test_wrong_numbers_of_workers_leave_no_folder(tmp_path, described):
    with pytest.raises(InvalidSetting, match="workers=0"):
        sweep(SweepPlan.of(described()), tmp_path / "new", workers=0)
    assert not (tmp_path / "new").exists()


def test_failures_are_told_where_they_cannot_be_written(tmp_path, described, sweeps_here, monkeypatch):
    def full(path, text):
        raise OSError(28, "No space left on device", str(path))

    plan = SweepPlan.of(described(seeds=1, settings={"env_kwargs": {"fault": "nan"}}))
    sweep(plan, tmp_path)
    monkeypatch.setattr(sweeping, "write_text", full)
    reason = sweep(plan, tmp_path).statuses[0].reason
    assert reason.startswith("NonFiniteValue")
    assert "could not be written: [Errno 28]" in reason


def test_runs_of_other_settings_are_named_before_anything_begins(tmp_path, described, sweeps_here):
    sweep(SweepPlan.of(described()), tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(InvalidRun, match="seed=0 holds a run of other settings") as raised:
        sweep(SweepPlan.of(described(seeds=3, settings={"learning_rate": 0.5})), tmp_path)
    assert "seed=1 holds" in str(raised.value)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert sweeps_here == ["seed=0", "seed=1"]


HOLDER = """
import sys
from pathlib import Path
from constrained_maxent.runs.lock import Lock
with Lock(Path(sys.argv[1])):
    print("there", flush=True)
    input()
"""


def test_a_run_that_ends_while_another_sweep_was_at_it_is_left_to_the_next(tmp_path, described, sweeps_here):
    """Another process has the lock of one run, and dies."""
    plan = SweepPlan.of(described())
    (tmp_path / "seed=0").mkdir()
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "seed=0" / "run.lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()

        def watch(statuses):
            if statuses[0].state == "elsewhere" and statuses[1].state == "finished":
                other.kill()

        result = sweep(plan, tmp_path, progress=watch)
    assert [status.state for status in result.statuses] == ["finished", "finished"]
    assert sweeps_here == ["seed=0", "seed=1", "seed=0"]


def test_an_interrupt_keeps_what_is_done(tmp_path, described, sweeps_here):
    pressed = []

    def once(statuses):
        if not pressed:
            pressed.append(True)
            raise KeyboardInterrupt

    result = sweep(SweepPlan.of(described()), tmp_path, progress=once)
    assert result.interrupted
    assert [status.state for status in result.statuses] == ["finished", "finished"]


class TestRefused:
    def test_folders_that_are_something_else(self, tmp_path, described, run):
        plan = SweepPlan.of(described())
        (tmp_path / "file").write_text("")
        with pytest.raises(InvalidRun, match="is a file"):
            sweep(plan, tmp_path / "file")
        run("one")
        with pytest.raises(InvalidRun, match="is the folder of a run"):
            sweep(plan, tmp_path / "one")
        (tmp_path / "sweep.json").write_text("{}")
        with pytest.raises(InvalidRun, match=r"sweep.json is damaged"):
            sweep(plan, tmp_path)

    def test_executors(self, tmp_path):
        for how, words in (
            ({"name": "dask"}, "executor='dask'"),
            ({"name": "joblib", "address": "auto"}, "give --executor ray"),
            ({"name": "joblib", "workers": 0}, "workers=0"),
        ):
            with (
                pytest.raises(InvalidSetting, match=words),
                executor_named(how.pop("name"), tmp_path, "", **{"workers": None, "address": None} | how),
            ):
                pass


def test_processes_are_told_to_stop(tmp_path, described):
    """SIGTERM to the process that trains; its run is saved at its last iteration."""
    (run,) = SweepPlan.of(described(seeds=1, settings={"env_kwargs": {"fault": "slow"}, "iterations": 1000})).runs
    token, _ = sweeping._begin(SweepPlan((run,)), tmp_path)
    with executor_named("joblib", tmp_path, token, workers=1, address=None) as processes:
        processes.submit(run)
        assert not processes.has_room
        until((tmp_path / run.name / "metrics.csv").exists)
        assert processes.stop() == [(run, Outcome("interrupted"))]
    assert RunFolder(tmp_path / run.name).read_summary()["status"] == "interrupted"
    assert signal.getsignal(signal.SIGTERM) is not None
