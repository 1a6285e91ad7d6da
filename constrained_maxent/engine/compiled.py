"""Numba's decorators, typed; a cache that notices changes in any of the compiled files; functions that users give."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeVar, cast
from weakref import WeakValueDictionary

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]  # what Numba itself is built on
from numba.core import caching
from numba.extending import intrinsic

from constrained_maxent.errors import InvalidSetting

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
    folder to enclose. Where nothing can be kept, each process compiles anew.
    """
    function = make(source_digest(Path(__file__).parent))
    compiled = numba.njit(**_OPTIONS)(function)
    # RuntimeError: no folder can be written to, as in containers and installations that are read-only.
    with suppress(RuntimeError, OSError):
        compiled._cache = _Cache(function)
    return cast(Function, compiled)


_FunctionCache: Any = caching.FunctionCache  # Numba has no types


class _Cache(_FunctionCache):  # type: ignore[misc]
    """Numba's cache without its errors: files may be damaged or another user's, and the disk may be full.

    What cannot be read is compiled, and what cannot be written is used all the same.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # whatever a parser trips over
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(Exception):
            super().save_overload(sig, data)


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


@dataclass(frozen=True, eq=False)
class UserFunction:
    """A function ``(float, float) -> float`` of a user's, as ``code``: what Numba compiled, and keeps while this lives.

    ``digest`` is that of all the function computes with, the same in every process.
    """

    digest: str
    code: Any


_user_functions: WeakValueDictionary[str, UserFunction] = WeakValueDictionary()


def compile_user_function(name: str, function: Callable[[float, float], float]) -> UserFunction:
    """The machine code of a Python function of two numbers; functions that compute the same share it.

    Raises:
        InvalidSetting: it is no function, or none that Numba can compile; ``name`` says which one.
    """
    plain = getattr(function, "py_func", function)  # what numba.njit has decorated is compiled anew
    if not isinstance(plain, FunctionType):
        raise InvalidSetting(f"{name}={function!r} must be a Python function of two numbers, (mass, entry).")
    digest = hashlib.sha256()
    for part in _ingredients(plain, set()):
        digest.update(part)
    found = _user_functions.get(digest.hexdigest())
    if found is None:
        try:
            code = numba.cfunc("float64(float64, float64)", error_model="numpy")(plain)
        except Exception as error:  # Numba wraps most of what can be wrong with a function, not all
            raise InvalidSetting(
                f"{name}= must be a function of two numbers, (mass, entry), that Numba can compile: {error}"
            ) from error
        found = _user_functions[digest.hexdigest()] = UserFunction(digest.hexdigest(), code)
    return found


def _ingredients(thing: object, seen: set[int]) -> Iterator[bytes]:
    """Everything that determines what a function computes, as Numba sees it: globals and enclosed values are constants.

    Nothing depends on where in memory it lies, unless the function uses objects that Numba cannot compile.
    """
    thing = getattr(thing, "py_func", thing)
    if isinstance(thing, FunctionType):
        if id(thing) in seen:  # it calls itself
            return
        seen.add(id(thing))
        yield from _ingredients(thing.__code__, seen)
        names = [name for name in thing.__code__.co_names if name in thing.__globals__]
        enclosed = [cell.cell_contents for cell in thing.__closure__ or ()]
        for part in (*names, *(thing.__globals__[name] for name in names), *enclosed, *(thing.__defaults__ or ())):
            yield from _ingredients(part, seen)
    elif isinstance(thing, CodeType):
        yield thing.co_code
        for part in (*thing.co_consts, *thing.co_names):
            yield from _ingredients(part, seen)
    elif isinstance(thing, np.ndarray):
        yield f"{thing.dtype}{thing.shape}".encode() + thing.tobytes()
    elif isinstance(thing, ModuleType):
        yield thing.__name__.encode()
    else:
        yield f"{type(thing).__name__} {thing!r};".encode()


def _call_through(typing_context: Any, address: Any, mass: Any, entry: Any) -> Any:
    number = numba.types.float64

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        double = ir.DoubleType()
        function = ir.FunctionType(double, [double, double])
        return builder.call(builder.inttoptr(arguments[0], function.as_pointer()), arguments[1:])

    return number(numba.types.int64, number, number), generate


call_through = cast(Callable[[int, float, float], float], intrinsic(_call_through))
"""In compiled code, what the function at an address gives: ``call_through(address, mass, entry)``.

So one machine code of the engine, and its cache, serve all functions that users give.
"""
