"""Refuses what cannot fit into memory before it is asked for, with the number."""

from __future__ import annotations

from pathlib import Path

from constrained_maxent.errors import InsufficientMemory

_GIB = 2**30


def require_memory(n_bytes: int, what: str, remedy: str) -> None:
    """Raise ``InsufficientMemory`` if so many bytes are more than this process can still have, as far as is known."""
    available = available_memory()
    if available is not None and n_bytes > available:
        raise InsufficientMemory(
            f"{what} needs {n_bytes / _GIB:.3g} GiB of memory, {available / _GIB:.3g} GiB are left: {remedy}."
        )


def available_memory() -> int | None:
    """Bytes that the system, and the container that the process is in, have left; ``None`` where they do not say."""
    known = [left for left in (_of_system(), _of_container()) if left is not None]
    return min(known, default=None)


def _of_system() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _of_container() -> int | None:
    root = Path("/sys/fs/cgroup")
    try:
        return int((root / "memory.max").read_text()) - int((root / "memory.current").read_text())
    except (OSError, ValueError):  # no such files, or "max"
        return None
