"""Agents that maximise pseudo-rewards."""

from constrained_maxent.agents.pgp import PGP, IterationReport
from constrained_maxent.agents.settings import PGPSettings

__all__ = ["PGP", "IterationReport", "PGPSettings"]
