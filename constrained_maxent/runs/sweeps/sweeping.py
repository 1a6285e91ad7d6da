"""The sweep: a folder of run folders, of which every call does what is missing, and none does a run twice."""

from __future__ import annotations

import json
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from constrained_maxent.atomic import write_text
from constrained_maxent.errors import FolderInUse, InvalidRun
from constrained_maxent.runs.lock import Lock
from constrained_maxent.runs.run_folder import FAILURES, SWEEP, RunFolder, require_folder
from constrained_maxent.runs.sweeps.executors import Executor, ExecutorName, executor_named
from constrained_maxent.runs.sweeps.performing import Outcome, is_finished
from constrained_maxent.runs.sweeps.plan import PlannedRun, SweepPlan
from constrained_maxent.types import check_count

State = Literal["waiting", "running", "elsewhere", "finished", "failed", "interrupted"]

_SWEEP_LOCK = "sweep.lock"
_TICK = 1.0
"""Seconds between two looks at what goes on."""
_LOOK_ELSEWHERE = 5.0
"""Seconds between two looks at runs that other processes are at."""


@dataclass
class RunStatus:
    """How far a run of a sweep is.

    Attributes:
        run: which one.
        state: "elsewhere": another sweep is at it; "waiting" is also what a stopped sweep leaves.
        reason: why it failed, or who is at it.
    """

    run: PlannedRun
    state: State = "waiting"
    reason: str = ""


@dataclass(frozen=True)
class SweepResult:
    """What a sweep ended with.

    Attributes:
        path: its folder.
        statuses: of all its runs, in the plan's order.
        interrupted: whether it was told to stop.
        warnings: what was warned of in its runs, each once.
    """

    path: Path
    statuses: tuple[RunStatus, ...]
    interrupted: bool
    warnings: tuple[str, ...]

    def of_state(self, state: State) -> list[RunStatus]:
        """The runs that ended like this."""
        return [status for status in self.statuses if status.state == state]


def sweep(
    plan: SweepPlan,
    path: str | PathLike[str],
    *,
    executor: ExecutorName = "joblib",
    workers: int | None = None,
    address: str | None = None,
    progress: Callable[[Sequence[RunStatus]], None] = lambda statuses: None,
) -> SweepResult:
    """Do what is missing of a plan's runs, side by side, each in a run folder below ``path``.

    A run that fails, or whose process is killed, leaves the others whole: it is listed, with its reason, in
    ``failures/<name>.json``, and the next call goes on with it from its last checkpoint. Runs that another sweep is at
    are left to it, and waited for. A larger plan in the same folder adds its runs to those that are there.

    Args:
        plan: the runs.
        path: the folder; for several machines on storage that all of them share, at the same path.
        executor: "joblib", processes of this machine, or "ray", tasks of a Ray cluster.
        workers: most runs at a time; by default one for each processor, or what the cluster has room for.
        address: of a Ray cluster that is there; without it Ray is started on this machine, and stopped at the end.
        progress: called every second, and whenever a run begins or ends, with all runs.

    Returns:
        What became of every run. Ctrl-C, where Python raises KeyboardInterrupt, ends all of them at their last finished
        iteration, and the result says so.

    Raises:
        InvalidRun: the folder holds something else, or runs of other settings under the plan's names. All of them are
            named, and nothing is changed.
        InvalidSetting, DependencyNotInstalled: see :func:`executor_named`.
        OSError: the folder cannot be written.
    """
    folder = Path(path).absolute()
    if workers is not None:
        check_count("workers", workers)  # before there is a folder
    token, statuses = _begin(plan, folder)
    told: dict[str, None] = {}
    with executor_named(executor, folder, token, workers=workers, address=address) as doing:
        interrupted = _do(doing, folder, {status.run.name: status for status in statuses}, told, progress)
    return SweepResult(folder, tuple(statuses), interrupted, tuple(told))


def _begin(plan: SweepPlan, folder: Path) -> tuple[str, list[RunStatus]]:
    """The sweep's folder with its file, and which runs are finished already."""
    require_folder(folder)
    if RunFolder(folder).config_path.exists():
        raise InvalidRun(f"{folder} is the folder of a run: take another --out for the sweep.")
    statuses, wrong = [], []
    for run in plan.runs:
        try:
            if done := is_finished(run, RunFolder(folder / run.name)):
                _forget_failure(run, folder)
            statuses.append(RunStatus(run, "finished" if done else "waiting"))
        except InvalidRun as error:
            wrong.append(str(error))
    if wrong:
        raise InvalidRun("\n".join(wrong))
    folder.mkdir(parents=True, exist_ok=True)
    return _written(plan, folder), statuses


def _written(plan: SweepPlan, folder: Path) -> str:
    """Add the plan to the sweep's file; its token."""
    file = folder / SWEEP
    while True:
        try:
            with Lock(folder / _SWEEP_LOCK):
                there = _read(file)
                runs = there["runs"] | {run.name: run.config() for run in plan.runs}
                content = json.dumps({"token": there["token"], "runs": runs}, indent=1)
                if not file.exists() or file.read_text(encoding="utf-8") != content:
                    write_text(file, content)
                return str(there["token"])
        except FolderInUse:  # by another sweep that begins
            time.sleep(0.1)


def _read(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {"token": uuid.uuid4().hex, "runs": {}}
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return {"token": str(content["token"]), "runs": dict(content["runs"])}
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidRun(f"{file} is damaged ({error!r}), or no sweep's: remove it, or take another --out.") from error


def _do(
    doing: Executor,
    folder: Path,
    statuses: Mapping[str, RunStatus],
    told: dict[str, None],
    progress: Callable[[Sequence[RunStatus]], None],
) -> bool:
    """Do all runs; whether it was interrupted."""
    waiting = deque(status for status in statuses.values() if status.state == "waiting")
    elsewhere: list[RunStatus] = []
    looked = time.monotonic()
    try:
        while waiting or doing.running or elsewhere:
            while waiting and doing.has_room:
                status = waiting.popleft()
                status.state = "running"
                doing.submit(status.run)
            progress([*statuses.values()])
            for run, outcome in doing.wait(_TICK):
                status = statuses[run.name]
                _settle(status, outcome, folder, told)
                if status.state == "elsewhere":
                    elsewhere.append(status)
            if elsewhere and time.monotonic() - looked >= _LOOK_ELSEWHERE:
                free = [status for status in elsewhere if _is_free(status, folder)]
                elsewhere = [status for status in elsewhere if status.state == "elsewhere"]
                waiting.extend(status for status in free if status.state == "waiting")
                looked = time.monotonic()
    except KeyboardInterrupt:
        for run, outcome in doing.stop():
            _settle(statuses[run.name], outcome, folder, told)
        for status in statuses.values():
            if status.state == "running":
                status.state = "interrupted"
        progress([*statuses.values()])
        return True
    progress([*statuses.values()])
    return any(status.state == "interrupted" for status in statuses.values())


def _is_free(status: RunStatus, folder: Path) -> bool:
    """Whether nobody is at a run any more: then it is finished, or waits to be gone on with."""
    run_folder = RunFolder(folder / status.run.name)
    try:
        with run_folder.held():
            status.state = "finished" if is_finished(status.run, run_folder) else "waiting"
        if status.state == "finished":
            _forget_failure(status.run, folder)
    except FolderInUse as error:
        status.reason = str(error)
        return False
    except InvalidRun as error:
        _settle(status, Outcome("failed", str(error)), folder, {})
    return True


def _forget_failure(run: PlannedRun, folder: Path) -> None:
    """Of a run that has been finished since, by whomever."""
    with suppress(OSError):
        (folder / FAILURES / f"{run.name}.json").unlink(missing_ok=True)
        (folder / FAILURES).rmdir()  # where all have succeeded at last


def _settle(status: RunStatus, outcome: Outcome, folder: Path, told: dict[str, None]) -> None:
    """Take down what became of a run; a failure also in its file."""
    status.state, status.reason = outcome.state, outcome.reason
    told.update(dict.fromkeys(outcome.warnings))
    file = folder / FAILURES / f"{status.run.name}.json"
    try:
        if outcome.state == "finished":
            _forget_failure(status.run, folder)
        elif outcome.state == "failed":
            file.parent.mkdir(exist_ok=True)
            content = {"reason": outcome.reason, "traceback": outcome.traceback}
            write_text(file, json.dumps(content, indent=1))
    except OSError as error:  # a full disk: the result lists it all the same
        status.reason += f"\nThis could not be written: {error}"
