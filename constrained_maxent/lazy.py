"""Public names of a package that are imported when they are first used, so that nobody waits for what is not needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any


def lazy(package: str, *modules: str, **names: Sequence[str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package.

    Args:
        package: its name.
        modules: modules of it that are public themselves.
        names: public names by the module of it that defines them.
    """
    module_of = {name: module for module, defined in names.items() for name in defined}

    def __getattr__(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{module_of[name]}"), name)

    return __getattr__, lambda: sorted({*vars(sys.modules[package]), *modules, *module_of})
