"""Many trainings of a study, side by side, none of them twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from joblib import Parallel, delayed

from constrained_maxent.agents.pytorch import threads_for
from constrained_maxent.atomic import write_text
from constrained_maxent.errors import InvalidRun, InvalidSetting

R = TypeVar("R")
T = TypeVar("T")


def side_by_side(
    task: Callable[..., T],
    jobs: Mapping[str, tuple[Any, ...]],
    *,
    workers: int,
    progress: Callable[[str], None],
) -> list[T]:
    """What the task returns for the arguments of each job, in their order.

    Args:
        jobs: arguments by name.
        workers: jobs at a time, each in a process of its own, and on one thread: a pool in each would make them wait
            for each other.
        progress: called with the name of every job that is done.

    Raises:
        InvalidSetting: no jobs, or fewer than one worker.
    """
    if not jobs or workers < 1:
        raise InvalidSetting(f"{len(jobs)} runs and workers={workers} must be at least 1.")
    done = Parallel(n_jobs=workers, return_as="generator")(delayed(_on_one_thread)(task, *job) for job in jobs.values())
    found = []
    for name, result in zip(jobs, done, strict=True):
        found.append(result)
        progress(name)
    return found


def _on_one_thread(task: Callable[..., T], *arguments: Any) -> T:
    with threads_for(0):
        return task(*arguments)


def measured_once(
    runs: Sequence[R],
    measure: Callable[[R], dict[str, Any]],
    folder: Path,
    *,
    name: Callable[[R], str],
    workers: int = 1,
    progress: Callable[[str], None] = lambda label: None,
) -> list[dict[str, Any]]:
    """What is measured of each run, in their order; what is in the folder already is not done again.

    Args:
        runs: dataclasses, the settings.
        measure: trains and measures one; the result is plain data.
        folder: of the results, one file for each run.
        name: of a run; its file is called after it.
        workers: runs at a time, each in a process of its own.
        progress: called with the name of every run that is done.

    Raises:
        InvalidSetting: no runs, or fewer than one worker.
        InvalidRun: a file in the folder is of other settings.
    """
    jobs = {name(run): (run, measure, folder / f"{plain_name(name(run))}.json") for run in runs}
    return side_by_side(_once, jobs, workers=workers, progress=progress)


def plain_name(name: str) -> str:
    """A name without what file systems do not like."""
    return "".join(letter if letter.isalnum() or letter == "." else "-" for letter in name)


def _once(run: Any, measure: Callable[[Any], dict[str, Any]], path: Path) -> dict[str, Any]:
    settings = json.loads(json.dumps(asdict(run)))
    if path.exists():
        found = json.loads(path.read_text())
        if found["settings"] != settings:
            raise InvalidRun(f"{path} holds a run of other settings: remove it, or take another --out.")
    else:
        found = {"settings": settings, "measured": measure(run)}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(found))
    measured: dict[str, Any] = found["measured"]
    return measured
