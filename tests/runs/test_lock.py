"""One process at a time has a folder, and one that is gone has none."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace

import pytest

from constrained_maxent.errors import FolderInUse, InvalidRun
from constrained_maxent.runs import lock as lock_module
from constrained_maxent.runs.lock import DEAD_AFTER, Lock, Owner

pytestmark = pytest.mark.fault


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.lock"


def leave(path, *, age=0.0, **changes):
    """A lock as another process left it."""
    path.write_text(json.dumps(asdict(replace(Owner.here(), token="theirs", **changes))))
    os.utime(path, (time.time() - age,) * 2)


@pytest.fixture(scope="module")
def ended():
    """The number of a process that is no more."""
    return int(subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True).stdout)


def test_it_is_there_meanwhile_and_nothing_else(path):
    with Lock(path):
        content = json.loads(path.read_text())
        assert (content["host"], content["process"]) == (socket.gethostname(), os.getpid())
        assert list(path.parent.iterdir()) == [path]
    assert not list(path.parent.iterdir())


def test_it_goes_after_an_error(path):
    with pytest.raises(ZeroDivisionError), Lock(path):
        raise ZeroDivisionError
    assert not list(path.parent.iterdir())


def test_the_second_hears_of_the_first(path):
    with Lock(path):
        before = path.read_bytes()
        with pytest.raises(FolderInUse, match=rf"in use: process {os.getpid()} on {socket.gethostname()}"), Lock(path):
            pass
        assert path.read_bytes() == before
    with Lock(path):
        pass


def test_here_the_process_decides(path, ended):
    leave(path, process=os.getppid(), started=lock_module._started(os.getppid()))
    with pytest.raises(InvalidRun, match=f"process {os.getppid()} on"), Lock(path):
        pass
    leave(path, process=ended)
    with Lock(path):
        assert json.loads(path.read_text())["process"] == os.getpid()
    # Its number was given to another process.
    leave(path, process=os.getppid(), started=1)
    with Lock(path):
        pass
    assert not path.exists()


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="nobody says when processes began")
def test_a_process_whose_end_nobody_asked_for(path):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    leave(path, process=process.pid, started=lock_module._started(process.pid))
    with pytest.raises(FolderInUse), Lock(path):
        pass
    process.kill()
    until = time.monotonic() + 20.0
    while lock_module._started(process.pid) != -1 and time.monotonic() < until:
        time.sleep(0.01)
    with Lock(path):
        pass
    process.communicate()


def test_elsewhere_the_time_decides(path, ended):
    elsewhere = {"machine": "another", "host": "far", "process": ended}
    leave(path, **elsewhere, age=DEAD_AFTER - 10)
    with pytest.raises(FolderInUse, match=r"on far .* renewed 2\d\d s ago"), Lock(path):
        pass
    leave(path, **elsewhere, age=DEAD_AFTER + 10)
    with Lock(path):
        pass


@pytest.mark.parametrize("text", ["", "[1]", '{"process": 1}', None])
def test_a_file_that_says_nothing(path, text):
    if text is None:
        leave(path, process="one")
    else:
        path.write_text(text)
    with pytest.raises(FolderInUse, match="somebody writes into it"), Lock(path):
        pass
    os.utime(path, (time.time() - DEAD_AFTER - 1,) * 2)
    with Lock(path):
        pass


def test_of_many_one_takes_a_dead_lock_over(path, ended):
    leave(path, process=ended)
    start, taken, refused = threading.Barrier(8), [], []

    def take():
        start.wait()
        try:
            with Lock(path):
                taken.append(1)
                until = time.monotonic() + 20.0
                while len(refused) < 7 and time.monotonic() < until:
                    time.sleep(0.01)
        except FolderInUse:
            refused.append(1)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(taken), len(refused)) == (1, 7)


def test_a_slow_one_leaves_the_lock_of_a_faster_one(path, ended, monkeypatch):
    leave(path, process=ended)
    gone, faster = Owner.is_gone, Lock(path)

    def slowly(owner):
        # Between its look at the dead lock and the takeover another process takes it.
        dead = gone(owner)
        if dead:
            monkeypatch.setattr(Owner, "is_gone", gone)
            faster.__enter__()
        return dead

    monkeypatch.setattr(Owner, "is_gone", slowly)
    with pytest.raises(FolderInUse), Lock(path):
        pass
    assert lock_module.owner_of(path) == faster._owner
    faster.__exit__()
    assert not list(path.parent.iterdir())


def test_whoever_lost_it_is_told_before_it_writes(path, monkeypatch):
    monkeypatch.setattr(lock_module, "RENEWED_EVERY", 0.0)
    with Lock(path) as lock:
        lock.check()
        leave(path, host="far", process=7)
        with pytest.raises(FolderInUse, match="process 7 on far took it over"):
            lock.check()
    assert path.exists(), "it is the other's"


def test_a_clock_that_is_set_back(path, monkeypatch):
    with Lock(path) as lock:
        leave(path)
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now - 3600.0)
        with pytest.raises(FolderInUse, match="took it over"):
            lock.check()


def test_it_is_renewed(path, monkeypatch):
    monkeypatch.setattr(lock_module, "RENEWED_EVERY", 0.01)
    with Lock(path) as lock:
        os.utime(path, (1.0, 1.0))
        with lock.renewed():
            for _ in range(500):
                if path.stat().st_mtime > 1.0:
                    break
                time.sleep(0.01)
        assert path.stat().st_mtime > 1.0


def test_without_links(path, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with Lock(path), pytest.raises(FolderInUse, match=f"process {os.getpid()}"), Lock(path):
        pass
    assert not list(path.parent.iterdir())
