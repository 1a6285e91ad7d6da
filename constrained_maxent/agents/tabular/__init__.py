"""The batched engine: many runs of PGP on a softmax table of a finite MDP, in compiled code."""

from constrained_maxent.agents.tabular.engine import EngineProgress, TabularEngine
from constrained_maxent.agents.tabular.result import TabularResult
from constrained_maxent.agents.tabular.settings import RunSettings
from constrained_maxent.schedules import Geometric

__all__ = ["EngineProgress", "Geometric", "RunSettings", "TabularEngine", "TabularResult"]
