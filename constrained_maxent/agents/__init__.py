"""Agents that maximize pseudo-rewards, and what an agent of one's own starts from.

Names are imported when they are first used: settings need no PyTorch, agents do.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from constrained_maxent.agents.pgp import PGP
    from constrained_maxent.agents.reports import IterationReport
    from constrained_maxent.agents.rollouts import Collector, Rollout
    from constrained_maxent.agents.settings import PGPSettings

_MODULES = {
    "PGP": "pgp",
    "Collector": "rollouts",
    "IterationReport": "reports",
    "PGPSettings": "settings",
    "Rollout": "rollouts",
}

__all__ = ["PGP", "Collector", "IterationReport", "PGPSettings", "Rollout"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
