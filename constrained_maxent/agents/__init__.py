"""Agents that maximise pseudo-rewards."""

from constrained_maxent.agents.frank_wolfe import FrankWolfeResult, frank_wolfe
from constrained_maxent.agents.mixture import MixturePolicy
from constrained_maxent.agents.pgp import PGP, IterationReport
from constrained_maxent.agents.settings import PGPSettings

__all__ = ["PGP", "FrankWolfeResult", "IterationReport", "MixturePolicy", "PGPSettings", "frank_wolfe"]
