"""Runs held against each other over seeds: read, grouped by method, measured from one source, and written as tables.

Names are imported when they are first used: a run needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from constrained_maxent.lazy import lazy

if TYPE_CHECKING:
    from constrained_maxent.runs.comparing.comparison import Comparison, LearningCurve, Row, compare
    from constrained_maxent.runs.comparing.files import write_comparison

__getattr__, __dir__ = lazy(
    __name__,
    comparison=["Comparison", "LearningCurve", "Row", "compare"],
    files=["write_comparison"],
)

__all__ = ["Comparison", "LearningCurve", "Row", "compare", "write_comparison"]
