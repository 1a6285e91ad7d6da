"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path


def check_writable(path: str | PathLike[str]) -> None:
    """Make the folder of a file, and try whether the file could be written, before long work for its content.

    Raises:
        OSError: it could not.
    """
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(target)
    try:
        temporary.touch()
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing(path: str | PathLike[str]) -> Iterator[Path]:
    """A file beside ``path``, of the same ending, to be written; it takes the place of ``path`` at the end.

    Readers, and a machine that loses power, see the old file or the new one. If writing fails, the old one stays as it
    was, and nothing else is left. What a process left that was killed meanwhile is removed.

    Raises:
        OSError: the file cannot be written; it is named, also where the disk is full.
    """
    target = Path(path)
    remove_leftovers(target)
    temporary = _beside(target)
    try:
        with naming(target):
            yield temporary
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | PathLike[str], text: str) -> None:
    """Write text in UTF-8 as :func:`replacing` does, with its errors."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def naming(path: str | PathLike[str]) -> Iterator[None]:
    """Gives an ``OSError`` that names no file, such as that of a full disk, the name of this one."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def remove_leftovers(path: str | PathLike[str], *, of_any_process: bool = False) -> None:
    """Remove what processes of this machine left beside a file, as they were killed while they wrote it.

    Args:
        path: the file.
        of_any_process: also what others left, of whom it is known that none is writing.
    """
    target = Path(path)
    with suppress(OSError):  # another process is faster, or the folder is not there: nothing is to be done then
        for file in target.parent.iterdir():
            if (place := _place_of(file.name, target)) is None:
                continue
            host, number = place
            if of_any_process or (host == _host() and not is_alive(number)):
                file.unlink(missing_ok=True)


def is_alive(process: int) -> bool:
    """Whether a process of this machine is there."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):  # another user's; or no number of a process
        return True
    return True


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.stem}.{_host()}.{os.getpid()}{target.suffix}")


def _place_of(name: str, target: Path) -> tuple[str, int] | None:
    """Host and process that a file of this name, beside the target, was made by; ``None`` for other names."""
    start, end = f".{target.stem}.", target.suffix
    if not (name.startswith(start) and name.endswith(end)):
        return None
    host, _, number = name[len(start) : len(name) - len(end)].rpartition(".")
    return (host, int(number)) if number.isascii() and number.isdecimal() else None


def _host() -> str:
    return socket.gethostname().replace("/", "-")[:64]
