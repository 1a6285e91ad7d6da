"""A lock on a folder that several processes, on several machines, may want: a file that says who has it.

Whoever has it renews the file now and then. One whose process is gone is taken over, at once on its own machine, and
elsewhere once it has not been renewed for some minutes.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from constrained_maxent.atomic import is_alive, naming
from constrained_maxent.errors import FolderInUse

RENEWED_EVERY = 20.0
"""Seconds between renewals."""
DEAD_AFTER = 300.0
"""Seconds without a renewal after which another machine takes the lock over."""


@dataclass(frozen=True)
class Owner:
    """Who has a lock.

    Attributes:
        host: name of the machine.
        process: its number there.
        started: when the process began, in the machine's own ticks: numbers of processes are used again.
        machine: the machine's boot and, in containers, whose numbers of processes these are.
        token: of this one time that the lock was taken.
    """

    host: str
    process: int
    started: int
    machine: str
    token: str

    @classmethod
    def here(cls) -> Owner:
        """This process."""
        process = os.getpid()
        return cls(socket.gethostname(), process, _started(process) or 0, _machine(), uuid.uuid4().hex)

    def is_near(self) -> bool:
        """Whether it is a process of this machine."""
        return self.machine == _machine()

    def is_gone(self) -> bool:
        """Whether it is known, on the same machine, that the process has ended."""
        if not self.is_near():
            return False
        started = _started(self.process)
        return not is_alive(self.process) or (started is not None and started != self.started)


class Lock:
    """A file that only one process at a time has; a context manager.

    Args:
        path: of the file, in a folder that is there.

    Raises:
        FolderInUse: on entering, another process has it; in ``check``, another process took it over, because this one
            had not renewed it for long.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._owner: Owner | None = None
        self._verified = 0.0

    def __enter__(self) -> Self:
        own = Owner.here()
        with naming(self._path), _written(self._path, own) as written:
            while not _linked(written, self._path):
                try:
                    file, there = self._path.stat(), owner_of(self._path)
                except FileNotFoundError:  # given back meanwhile
                    continue
                # By the clock of the file system, which may be another than this machine's.
                age = written.stat().st_mtime - file.st_mtime
                if age <= DEAD_AFTER and (there is None or not there.is_gone()):
                    raise FolderInUse(_in_use(self._path, there, age))
                _remove(self._path, file)
        self._owner, self._verified = own, time.time()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            if self._owner is not None and owner_of(self._path) == self._owner:
                self._path.unlink()
        self._owner = None

    def check(self) -> None:
        """See now and then that the lock is still this process's, before anything is written under it."""
        if abs(time.time() - self._verified) < RENEWED_EVERY:  # clocks are set back, too
            return
        if (there := owner_of(self._path)) != self._owner:
            who = "somebody removed it" if there is None else f"process {there.process} on {there.host} took it over"
            raise FolderInUse(
                f"{self._path} is no longer this process's, which had not renewed it for long: {who}. Nothing more is "
                "written."
            )
        self._verified = time.time()

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Renew the lock in a thread meanwhile. Processes are best forked before."""
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(RENEWED_EVERY):
                with suppress(OSError):
                    if owner_of(self._path) == self._owner:
                        os.utime(self._path)

        thread = threading.Thread(target=renew, name="lock", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _remove(path: Path, dead: os.stat_result) -> None:
    """Remove a dead lock, unless it was renewed, or another process was faster and has put its own there."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        # One at a time looks and removes. Where the file system knows no such locks, they are quick about it.
        with suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            now = path.stat()
            if (now.st_ino, now.st_mtime_ns) == (dead.st_ino, dead.st_mtime_ns):
                path.unlink()
    finally:
        os.close(folder)


def _in_use(path: Path, there: Owner | None, age: float) -> str:
    who = "somebody" if there is None else f"process {there.process} on {there.host}"
    return (
        f"{path.parent} is in use: {who} writes into it, as its file {path.name} says, which was renewed "
        f"{max(age, 0.0):.0f} s ago. Wait for the end of it, or take another folder."
    )


@contextmanager
def _written(path: Path, owner: Owner) -> Iterator[Path]:
    """A file beside that says who the owner is."""
    beside = path.with_name(f".{path.name}.{owner.token}")
    try:
        with beside.open("w", encoding="utf-8") as file:
            json.dump(asdict(owner), file)
            file.flush()
            os.fsync(file.fileno())
        yield beside
    finally:
        beside.unlink(missing_ok=True)


def _linked(written: Path, path: Path) -> bool:
    """Give a file another name, if nobody has that; whole from the first moment on, also on network file systems."""
    try:
        os.link(written, path)
    except FileExistsError:
        # Of a call that was repeated over a network the second finds what the first has made.
        return written.stat().st_nlink == 2
    except OSError:  # file systems without links
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(written.read_text(encoding="utf-8"))
        except FileExistsError:
            return False
    return True


def owner_of(path: Path) -> Owner | None:
    """Who has the lock; ``None`` for a file that does not say it, or is not there."""
    try:
        owner = Owner(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError, FileNotFoundError):
        return None
    return owner if type(owner.process) is int else None


def _machine() -> str:
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    return socket.gethostname()


def _started(process: int) -> int | None:
    """When a process began, in ticks since the machine did; ``None`` where nobody says it.

    -1 for one that has ended, but stays in the list until its parent asks for it, as those of containers often do.
    """
    try:
        # The name, in brackets, may hold anything; the state is the first entry after it, and the time the 20th.
        entries = Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return -1 if entries[0] in ("Z", "X") else int(entries[19])
    except (OSError, ValueError, IndexError):
        return None
