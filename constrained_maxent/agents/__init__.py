"""Agents that maximise pseudo-rewards."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from constrained_maxent.agents.frank_wolfe import FrankWolfeResult, frank_wolfe
from constrained_maxent.agents.mixture import MixturePolicy
from constrained_maxent.agents.pgp import PGP
from constrained_maxent.agents.reports import IterationReport
from constrained_maxent.agents.sampled_frank_wolfe import FrankWolfe, FrankWolfeReport
from constrained_maxent.agents.settings import PGPSettings

if TYPE_CHECKING:
    from constrained_maxent.agents import tabular
else:

    def __getattr__(name):
        # The compiler that the batched engine needs takes a second to load: only who names it waits for it.
        if name == "tabular":
            return importlib.import_module("constrained_maxent.agents.tabular")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "PGP",
    "FrankWolfe",
    "FrankWolfeReport",
    "FrankWolfeResult",
    "IterationReport",
    "MixturePolicy",
    "PGPSettings",
    "frank_wolfe",
    "tabular",
]
