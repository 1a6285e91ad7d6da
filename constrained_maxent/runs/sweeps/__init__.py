"""Sweeps: many runs, side by side, in processes of one machine or on a Ray cluster, each in a run folder of its own.

Names are imported when they are first used: a plan needs no PyTorch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from constrained_maxent.lazy import lazy

if TYPE_CHECKING:
    from constrained_maxent.runs.sweeps.plan import PlannedRun, SweepPlan
    from constrained_maxent.runs.sweeps.sweeping import RunStatus, SweepResult, sweep

__getattr__, __dir__ = lazy(
    __name__,
    plan=["PlannedRun", "SweepPlan"],
    sweeping=["RunStatus", "SweepResult", "sweep"],
)

__all__ = ["PlannedRun", "RunStatus", "SweepPlan", "SweepResult", "sweep"]
