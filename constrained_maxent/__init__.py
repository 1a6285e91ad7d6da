"""Constrained exploration: cover as much of an environment as possible without breaking its limits.

Importing the package registers its environments with Gymnasium.
"""

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
    testing,
    types,
    wrappers,
)

__version__ = "0.1.0"

__all__ = [
    "agents",
    "envs",
    "errors",
    "evaluation",
    "functionals",
    "occupancy",
    "oracle",
    "penalties",
    "problem",
    "references",
    "testing",
    "types",
    "wrappers",
]
