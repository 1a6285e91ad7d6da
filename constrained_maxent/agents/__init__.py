"""Agents that maximise pseudo-rewards, and what an agent of one's own starts from."""

from constrained_maxent.agents.pgp import PGP
from constrained_maxent.agents.reports import IterationReport
from constrained_maxent.agents.rollouts import Collector, Rollout
from constrained_maxent.agents.settings import PGPSettings

__all__ = ["PGP", "Collector", "IterationReport", "PGPSettings", "Rollout"]
