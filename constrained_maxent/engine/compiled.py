"""Numba's decorators, typed, and a cache that notices changes in any of the compiled files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

# Division by 0 gives infinity, as NumPy's does: Python's check would cost time in the innermost loops.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def inner(function: Function) -> Function:
    """Compile a function that other compiled functions call."""
    return cast(Function, numba.njit(**_OPTIONS)(function))


def outermost(make: Callable[[str], Function]) -> Function:
    """Compile the function that ``make`` returns, and keep its machine code on disk.

    Numba renews a cached function when its own file changes, but not when a function that it calls does, in another
    file. What a function encloses is part of the cache's key as well: ``make`` gets a digest of all files of this
    folder to enclose.
    """
    function = make(source_digest(Path(__file__).parent))
    return cast(Function, numba.njit(cache=True, **_OPTIONS)(function))


def source_digest(folder: Path) -> str:
    """A digest of the Python files of a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@inner
def flushed(number: float) -> float:
    """0 instead of what has faded away: numbers below the normal range would slow arithmetic down a hundredfold."""
    return number if abs(number) > 1e-290 else 0.0
