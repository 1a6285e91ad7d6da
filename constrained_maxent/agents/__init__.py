"""Agents that maximize pseudo-rewards, and what an agent of one's own starts from.

Names are imported when they are first used: settings need no PyTorch, agents do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from constrained_maxent.lazy import lazy

if TYPE_CHECKING:
    from constrained_maxent.agents.pgp import PGP
    from constrained_maxent.agents.reports import IterationReport
    from constrained_maxent.agents.rollouts import Collector, Rollout
    from constrained_maxent.agents.settings import PGPSettings

__getattr__, __dir__ = lazy(
    __name__, pgp=["PGP"], reports=["IterationReport"], rollouts=["Collector", "Rollout"], settings=["PGPSettings"]
)

__all__ = ["PGP", "Collector", "IterationReport", "PGPSettings", "Rollout"]
