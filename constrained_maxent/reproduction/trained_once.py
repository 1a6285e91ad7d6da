"""A training of a study in a folder of its own: done once, and gone on with where it was interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from constrained_maxent.errors import InvalidRun
from constrained_maxent.runs import RunFolder, TrainSettings, load_config, resume, train
from constrained_maxent.runs.environments import completed


def trained_once(env_id: str, settings: TrainSettings, path: Path) -> tuple[RunFolder, dict[str, Any]]:
    """The folder of the finished run, and its summary.

    Raises:
        InvalidRun: the folder holds another run.
        KeyboardInterrupt: it was interrupted; what is done is kept.
    """
    folder = RunFolder(path)
    can_go_on = folder.checkpoint_path.exists() and folder.config_path.exists()
    if can_go_on and load_config(folder) != (env_id, completed(env_id, settings)):
        raise InvalidRun(f"{folder.path} holds a run of other settings: remove it, or take another --out.")
    if not folder.summary_path.exists():
        result = resume(folder) if can_go_on else train(env_id, settings, folder, overwrite=True)
        if result.interrupted:
            raise KeyboardInterrupt
    summary = folder.read_summary()
    if summary.get("status") != "finished" or summary.get("seed") != settings.seed:
        raise InvalidRun(f"{folder.path} holds another run, or one unfinished: remove it, or take another --out.")
    return folder, summary
