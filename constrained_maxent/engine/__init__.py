"""The batched engine: many runs of PGP on a softmax table of a finite MDP, in compiled code."""

from constrained_maxent.engine.engine import EngineProgress, TabularEngine
from constrained_maxent.engine.settings import RunSettings
from constrained_maxent.engine.store import TabularResult

__all__ = ["EngineProgress", "RunSettings", "TabularEngine", "TabularResult"]
