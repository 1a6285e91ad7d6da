"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
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
    was, and nothing else is left.
    """
    target = Path(path)
    temporary = _beside(target)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.stem}.{os.getpid()}{target.suffix}")
