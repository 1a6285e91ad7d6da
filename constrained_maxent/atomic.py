"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path


@contextmanager
def replacing(path: str | PathLike[str]) -> Iterator[Path]:
    """A file beside ``path``, of the same ending, to be written; it takes the place of ``path`` at the end.

    Readers, and a machine that loses power, see the old file or the new one. If writing fails, the old one stays as it
    was, and nothing else is left.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.stem}.{os.getpid()}{target.suffix}")
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
