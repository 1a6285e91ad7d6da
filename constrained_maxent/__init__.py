"""Constrained exploration: cover as much of an environment as possible without breaking its limits.

Importing the package registers its environments with Gymnasium.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from constrained_maxent import (
    agents,
    envs,
    errors,
    evaluation,
    functionals,
    occupancy,
    oracle,
    penalties,
    problem,
    references,
    schedules,
    testing,
    types,
    wrappers,
)

if TYPE_CHECKING:
    from constrained_maxent import experiments, reporting
else:

    def __getattr__(name):
        # Matplotlib and the studies take their time to load: only who names them waits for them.
        if name in ("experiments", "reporting"):
            return importlib.import_module(f"constrained_maxent.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__version__ = "0.1.0"

__all__ = [
    "agents",
    "envs",
    "errors",
    "evaluation",
    "experiments",
    "functionals",
    "occupancy",
    "oracle",
    "penalties",
    "problem",
    "references",
    "reporting",
    "schedules",
    "testing",
    "types",
    "wrappers",
]
