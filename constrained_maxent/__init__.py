"""Constrained exploration: cover as much of an environment as possible without breaking its limits.

Importing the package registers its environments with Gymnasium. Its parts are imported when they are first named, so
that who only makes an environment waits neither for PyTorch nor for the convex solver.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import constrained_maxent.envs  # noqa: F401  # registers the ids

if TYPE_CHECKING:
    from constrained_maxent import (
        adapters,
        agents,
        engine,
        envs,
        errors,
        evaluation,
        functionals,
        occupancy,
        oracle,
        penalties,
        problem,
        references,
        reporting,
        runs,
        schedules,
        spaces,
        tasks,
        testing,
        tracker,
        types,
        wrappers,
    )
else:

    def __getattr__(name):
        if name in __all__:
            return importlib.import_module(f"constrained_maxent.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__version__ = "0.1.0"

__all__ = [
    "adapters",
    "agents",
    "engine",
    "envs",
    "errors",
    "evaluation",
    "functionals",
    "occupancy",
    "oracle",
    "penalties",
    "problem",
    "references",
    "reporting",
    "runs",
    "schedules",
    "spaces",
    "tasks",
    "testing",
    "tracker",
    "types",
    "wrappers",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
