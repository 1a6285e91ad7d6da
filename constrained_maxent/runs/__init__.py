"""Training runs as folders: what ``cmaxent train``, ``sweep``, ``evaluate``, ``compare``, ``report`` and others do.

>>> from pathlib import Path
>>> from tempfile import TemporaryDirectory
>>> import constrained_maxent as cmx
>>> with TemporaryDirectory() as place:
...     settings = cmx.runs.TrainSettings(iterations=2, agent=cmx.agents.PGPSettings(learning_rate=0.1))
...     result = cmx.runs.train("FrozenLake-PGP-v0", settings, cmx.runs.RunFolder(Path(place) / "run"))
...     sorted(file.name for file in result.folder.path.iterdir() if file.suffix in (".csv", ".json", ".pt"))
['checkpoint.pt', 'config.json', 'metrics.csv', 'summary.json']

Names are imported when they are first used: settings and folders need no PyTorch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from constrained_maxent.lazy import lazy

if TYPE_CHECKING:
    from constrained_maxent.runs.collecting import Collected, collect
    from constrained_maxent.runs.comparing import Comparison, compare, write_comparison
    from constrained_maxent.runs.datasets import evaluate_dataset
    from constrained_maxent.runs.environments import make_environment
    from constrained_maxent.runs.evaluation import RunEvaluation, contradiction, evaluate
    from constrained_maxent.runs.pictures import Recording, draw_run, record_video
    from constrained_maxent.runs.report import write_report
    from constrained_maxent.runs.run_folder import RunFolder
    from constrained_maxent.runs.settings import TrainSettings
    from constrained_maxent.runs.sweeps import SweepPlan, SweepResult, sweep
    from constrained_maxent.runs.training import Result, load_agent, load_config, resume, train

__getattr__, __dir__ = lazy(
    __name__,
    collecting=["Collected", "collect"],
    comparing=["Comparison", "compare", "write_comparison"],
    datasets=["evaluate_dataset"],
    environments=["make_environment"],
    evaluation=["RunEvaluation", "contradiction", "evaluate"],
    pictures=["Recording", "draw_run", "record_video"],
    report=["write_report"],
    run_folder=["RunFolder"],
    settings=["TrainSettings"],
    sweeps=["SweepPlan", "SweepResult", "sweep"],
    training=["Result", "load_agent", "load_config", "resume", "train"],
)

__all__ = [
    "Collected",
    "Comparison",
    "Recording",
    "Result",
    "RunEvaluation",
    "RunFolder",
    "SweepPlan",
    "SweepResult",
    "TrainSettings",
    "collect",
    "compare",
    "contradiction",
    "draw_run",
    "evaluate",
    "evaluate_dataset",
    "load_agent",
    "load_config",
    "make_environment",
    "record_video",
    "resume",
    "sweep",
    "train",
    "write_comparison",
    "write_report",
]
