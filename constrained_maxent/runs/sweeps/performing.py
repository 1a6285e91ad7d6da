"""One run of a sweep, in whichever process and on whichever machine: done once, and whatever happens, said in words."""

from __future__ import annotations

import json
import traceback
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from constrained_maxent.errors import FolderInUse, InvalidRun
from constrained_maxent.runs.lock import Lock
from constrained_maxent.runs.run_folder import OWN_AGENT, SWEEP, RunFolder
from constrained_maxent.runs.sweeps.plan import PlannedRun


@dataclass(frozen=True)
class Outcome:
    """What became of a run.

    Attributes:
        state: "elsewhere": another process is at it.
        reason: of a failure, in a sentence or two.
        traceback: of a failure in Python.
        warnings: what was warned of.
    """

    state: Literal["finished", "interrupted", "failed", "elsewhere"]
    reason: str = ""
    traceback: str = ""
    warnings: tuple[str, ...] = ()


def perform(run: PlannedRun, sweep: Path, token: str) -> Outcome:
    """Do what is missing of a run, in its folder within that of the sweep; nothing that it raises goes further.

    Args:
        run: which one.
        sweep: the folder, by a path that is the same for all workers.
        token: what the sweep's own file says, to see that it is the same folder here.
    """
    seen: list[warnings.WarningMessage] = []
    try:
        _require_shared(sweep, token)
        # Imported late: who only plans a sweep needs no PyTorch.
        from constrained_maxent.agents.pytorch import threads_for

        # Runs side by side: a thread pool in each would make them wait for each other.
        with warnings.catch_warnings(record=True) as seen, threads_for(0):
            state: Literal["finished", "interrupted"] = "interrupted" if _interrupted(run, sweep) else "finished"
        return Outcome(state, warnings=_told(seen))
    except FolderInUse as error:
        return Outcome("elsewhere", str(error))
    except KeyboardInterrupt:
        return Outcome("interrupted", warnings=_told(seen))
    except BaseException as error:  # environments may call sys.exit(), too
        notes = [str(note) for note in getattr(error, "__notes__", ())]
        reason = "\n".join([f"{type(error).__name__}: {error}", *notes])
        return Outcome("failed", reason, "".join(traceback.format_exception(error)), _told(seen))


def _interrupted(run: PlannedRun, sweep: Path) -> bool:
    """Do a run, unless it is done; whether it was interrupted."""
    folder = RunFolder(sweep / run.name)
    with folder.held() as lock:
        if is_finished(run, folder):  # another sweep was faster
            return False
        if run.compiled:
            from constrained_maxent.runs.sweeps.compiled import run_compiled_held

            run_compiled_held(run.config(), run.settings, folder, lock)
            return False
        if run.agent != OWN_AGENT:
            from constrained_maxent.runs.sweeps.third_party import train_third_party_held

            return train_third_party_held(run.config(), run.settings, run.arguments, folder, lock)
        return _train(run, folder, lock)


def _train(run: PlannedRun, folder: RunFolder, lock: Lock) -> bool:
    from constrained_maxent.runs.training import NothingLeft, resume_held, train_held

    if folder.config_path.exists() and folder.checkpoint_path.exists():
        # It was killed between its last checkpoint and its summary: then there is nothing to go on with.
        with suppress(NothingLeft):
            return resume_held(folder, lock).interrupted
    return train_held(run.env_id, run.settings, folder, lock, overwrite=True).interrupted


def is_finished(run: PlannedRun, folder: RunFolder) -> bool:
    """Whether a folder holds this run, finished.

    Raises:
        InvalidRun: it holds another one.
    """
    if not folder.config_path.exists():
        return False
    run.require_same(folder)
    return folder.summary_path.exists() and folder.read_summary().get("status") == "finished"


def _require_shared(sweep: Path, token: str) -> None:
    there = None
    with suppress(OSError, ValueError):
        there = json.loads((sweep / SWEEP).read_text(encoding="utf-8")).get("token")
    if there != token:
        raise InvalidRun(
            f"This worker does not see the sweep's own {SWEEP} at {sweep}: the folder must be on storage that all "
            "machines share, at the same path."
        )


def _told(seen: list[warnings.WarningMessage]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{warning.category.__name__}: {warning.message}" for warning in seen))
