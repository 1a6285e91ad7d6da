"""Agents that maximise pseudo-rewards."""

from constrained_maxent.agents.frank_wolfe import FrankWolfeResult, frank_wolfe
from constrained_maxent.agents.mixture import MixturePolicy
from constrained_maxent.agents.pgp import PGP
from constrained_maxent.agents.reports import IterationReport
from constrained_maxent.agents.sampled_frank_wolfe import FrankWolfe, FrankWolfeReport
from constrained_maxent.agents.settings import PGPSettings

__all__ = [
    "PGP",
    "FrankWolfe",
    "FrankWolfeReport",
    "FrankWolfeResult",
    "IterationReport",
    "MixturePolicy",
    "PGPSettings",
    "frank_wolfe",
]
