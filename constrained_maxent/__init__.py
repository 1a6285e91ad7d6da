"""Constrained exploration: cover as much of an environment as possible without breaking its limits.

Importing the package registers its environments with Gymnasium. Its parts are imported when they are first named, so
that who only makes an environment waits neither for PyTorch nor for the convex solver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from constrained_maxent import startup

startup.begin()  # first of all: what follows takes a second

import constrained_maxent.envs  # noqa: E402, F401  # registers the ids
from constrained_maxent.lazy import lazy  # noqa: E402

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
        seeds,
        spaces,
        tasks,
        testing,
        tracker,
        types,
        wrappers,
    )

__version__ = "0.2.0"

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
    "seeds",
    "spaces",
    "tasks",
    "testing",
    "tracker",
    "types",
    "wrappers",
]

if not TYPE_CHECKING:  # else every wrong name would pass for a right one
    __getattr__, __dir__ = lazy(__name__, *__all__)
