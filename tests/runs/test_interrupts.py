"""Interrupts and errors in the midst of an iteration: it ends soon, and what was finished is not lost."""

import csv
import errno
import signal
import threading
import time

import gymnasium as gym
import numpy as np
import pytest
import torch

from constrained_maxent.errors import FolderInUse, InvalidRun
from constrained_maxent.runs import interrupts as interrupts_module
from constrained_maxent.runs.interrupts import stop_on_request
from constrained_maxent.runs.recorder import Recorder
from constrained_maxent.runs.run_folder import RunFolder
from constrained_maxent.runs.training import resume, train

pytestmark = pytest.mark.fault


class Walk(gym.Env):
    """Five places in a row, ten random steps; something may happen at a step, counted over all copies."""

    observation_space, action_space = gym.spaces.Discrete(5), gym.spaces.Discrete(2)
    happen, at, n_steps, open_ones = None, None, 0, 0
    horizon = 10

    def __init__(self):
        Walk.open_ones += 1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = int(self.np_random.integers(5)), 0
        return self.place, {}

    def step(self, action):
        Walk.n_steps += 1
        if Walk.n_steps == Walk.at:
            Walk.happen()
        self.time += 1
        self.place = int(np.clip(self.place + (1 if action else -1) * self.np_random.integers(3), 0, 4))
        return self.place, 0.0, False, self.time >= 10, {"cost": float(self.place == 0)}

    def close(self):
        Walk.open_ones -= 1


@pytest.fixture
def walk(monkeypatch):
    """Settings of the environment for what happens at a step."""
    gym.register("Walk-v0", Walk)

    def arrange(at=None, happen=None):
        Walk.at, Walk.happen, Walk.n_steps, Walk.open_ones = at, happen, 0, 0

    arrange()
    monkeypatch.setattr(interrupts_module, "PATIENCE", 0.2)
    yield arrange
    del gym.registry["Walk-v0"]


def steps_of(iterations):
    """Steps of so many iterations of 8 episodes, after those of two copies by which the environment is looked at."""
    return 2 * 16 + 8 * 10 * iterations


def same_run(first, second):
    pair = [torch.load(folder.checkpoint_path, weights_only=True) for folder in (first, second)]
    texts = [repr(content) for content in pair]
    return texts[0] == texts[1] and learnt(first) == learnt(second)


def learnt(folder):
    """The metrics without how long they took, as they are written."""
    with folder.metrics_path.open() as file:
        return [{**row, "seconds": None} for row in csv.DictReader(file)]


@pytest.fixture
def whole(walk, run):
    return run("whole", "Walk-v0", num_envs=2).folder


def hang():
    """The step never ends, and Ctrl-C comes."""
    signal.raise_signal(signal.SIGINT)
    while True:
        time.sleep(0.01)


def fail():
    raise ZeroDivisionError("The environment divided by zero.")


def test_within_a_batch_that_never_ends(whole, walk, run):
    walk(steps_of(7) + 33, hang)
    begun = time.monotonic()
    stopped = run("stopped", "Walk-v0", num_envs=2)
    assert time.monotonic() - begun < 20.0
    assert stopped.interrupted
    assert (stopped.summary["status"], stopped.summary["iterations"]) == ("interrupted", 7)
    assert stopped.agent.iteration == 7
    assert Walk.open_ones == 0
    walk()
    resume(stopped.folder)
    assert same_run(whole, stopped.folder)


def test_within_the_first_batch_there_is_nothing_to_save(walk, run, tmp_path):
    walk(steps_of(0) + 5, hang)
    with pytest.raises(KeyboardInterrupt):
        run("stopped", "Walk-v0", num_envs=2)
    assert not (tmp_path / "stopped").exists()
    assert Walk.open_ones == 0


def test_a_batch_that_ends_soon_is_finished(walk, run):
    walk(steps_of(7) + 33, lambda: signal.raise_signal(signal.SIGTERM))
    assert run("stopped", "Walk-v0", num_envs=2).summary["iterations"] == 8


def test_an_error_of_the_environment(whole, walk, run, tmp_path):
    walk(steps_of(7) + 33, fail)
    with pytest.raises(ZeroDivisionError) as raised:
        run("failed", "Walk-v0", num_envs=2)
    folder = RunFolder(tmp_path / "failed")
    (note,) = raised.value.__notes__
    assert note.startswith("Iteration 7, the last one that was finished, is saved.")
    assert note.endswith(f"cmaxent train --resume {folder.path}")
    assert Walk.open_ones == 0
    walk()
    assert resume(folder).summary["status"] == "finished"
    assert same_run(whole, folder)


@pytest.mark.parametrize("error", [SystemExit(0), GeneratorExit()])
def test_an_environment_that_ends_the_program(walk, run, tmp_path, error):
    def end():
        raise error

    walk(steps_of(7) + 33, end)
    with pytest.raises(type(error)) as raised:
        run("ended", "Walk-v0", num_envs=2)
    assert "Iteration 7, the last one that was finished, is saved." in raised.value.__notes__[0]
    assert torch.load(tmp_path / "ended" / "checkpoint.pt", weights_only=True)["state"]["iteration"] == 7


def test_an_error_in_the_first_batch_of_a_resumed_run_changes_nothing(walk, run):
    folder = run("run", "Walk-v0", num_envs=2).folder
    before = {file: file.read_bytes() for file in folder.path.iterdir()}
    walk(steps_of(0) + 3, fail)
    with pytest.raises(ZeroDivisionError):
        resume(folder, iterations=20)
    assert {file: file.read_bytes() for file in folder.path.iterdir()} == before


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk(whole, walk, run, tmp_path, monkeypatch):
    # From the second checkpoint on; the first, of iteration 5, is there.
    walk(steps_of(7), lambda: monkeypatch.setattr("os.fsync", full))
    with pytest.raises(OSError, match=r"No space left on device: '.*checkpoint.pt'") as raised:
        run("full", "Walk-v0", num_envs=2)
    (note,) = raised.value.__notes__
    assert note.startswith("Later iterations could not be saved")
    folder = RunFolder(tmp_path / "full")
    assert "there is an earlier checkpoint. To go on, once the cause is removed: cmaxent train --resume" in note
    monkeypatch.undo()
    walk()
    resume(folder)
    assert same_run(whole, folder)


def test_a_full_disk_under_the_metrics(walk, run, tmp_path, monkeypatch):
    # The file of the metrics is replaced by one that is always full; a real disk shows the same.
    record = Recorder.record

    def on_a_full_disk(self, agent, report):
        if report.iteration == 8:
            self._file.close()
            self._file = open("/dev/full", "w")  # noqa: SIM115
            self._metrics.writer = csv.writer(self._file)
        record(self, agent, report)

    monkeypatch.setattr(Recorder, "record", on_a_full_disk)
    with pytest.raises(OSError, match=r"No space left on device: '.*metrics.csv'") as raised:
        run("full", "Walk-v0", num_envs=2)
    (note,) = raised.value.__notes__
    assert "there is an earlier checkpoint" in note
    assert torch.load(tmp_path / "full" / "checkpoint.pt", weights_only=True)["state"]["iteration"] == 5


def test_another_process_took_the_folder_over(walk, run, tmp_path, monkeypatch):
    monkeypatch.setattr("constrained_maxent.runs.lock.RENEWED_EVERY", 0.0)

    def take():
        (tmp_path / "run" / "run.lock").write_text("another's")

    walk(steps_of(7), take)
    with pytest.raises(FolderInUse, match="no longer this process's"):
        run("run", "Walk-v0", num_envs=2)
    assert torch.load(tmp_path / "run" / "checkpoint.pt", weights_only=True)["state"]["iteration"] == 5


def test_two_trainings_in_one_folder(walk, run, short, tmp_path):
    folder, refused = RunFolder(tmp_path / "run"), []

    def another():
        for start in (
            lambda: train("FrozenLake-PGP-v0", short(), folder, overwrite=True),
            lambda: train("FrozenLake-PGP-v0", short(), folder),
            lambda: resume(folder),
        ):
            with pytest.raises(InvalidRun) as raised:
                start()
            refused.append(str(raised.value))

    walk(steps_of(6), another)
    first = run("run", "Walk-v0", num_envs=2)
    assert len(refused) == 3
    assert all("is in use: process" in message for message in refused)
    assert first.summary["status"] == "finished"
    assert not (tmp_path / "run" / "run.lock").exists()


@pytest.mark.parametrize("minutes", [0.0, 1000.0])
def test_time_makes_checkpoints_too(walk, run, tmp_path, minutes):
    saved = []

    def look():
        path = tmp_path / "run" / "checkpoint.pt"
        saved.append(torch.load(path, weights_only=True)["state"]["iteration"] if path.exists() else None)

    walk(steps_of(4) + 1, look)
    run("run", "Walk-v0", num_envs=2, checkpoint_every=1000, checkpoint_minutes=minutes)
    assert saved == [4 if minutes == 0.0 else None]


def test_the_timer_spares_what_is_waited_for(monkeypatch):
    monkeypatch.setattr(interrupts_module, "PATIENCE", 0.05)
    with (
        stop_on_request() as interrupts,
        interrupts.within_iterations(),
        interrupts.within_iterations(is_iterating=False),
    ):
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.3)
    assert interrupts.asked


def test_no_timer_is_left(monkeypatch):
    before = threading.active_count()
    with stop_on_request():
        signal.raise_signal(signal.SIGINT)
    assert threading.active_count() == before
