"""Where the runs of a sweep are done: in processes of this machine, or by tasks of a Ray cluster."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, Protocol

import joblib
from gymnasium.error import DependencyNotInstalled
from joblib.externals.loky import ProcessPoolExecutor

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.runs.lock import owner_of
from constrained_maxent.runs.run_folder import LOCK
from constrained_maxent.runs.sweeps.performing import Outcome, perform
from constrained_maxent.runs.sweeps.plan import PlannedRun
from constrained_maxent.types import check_count

ExecutorName = Literal["joblib", "ray"]

_IDLE = 20.0
"""Seconds without work after which a process ends, where whoever started it is gone."""
_STOPPING = 60.0
"""Seconds that runs have to save their last iteration, once they are to stop."""


class Executor(Protocol):
    """Does runs of one sweep."""

    @property
    def has_room(self) -> bool:
        """Whether to submit more."""

    @property
    def running(self) -> tuple[PlannedRun, ...]:
        """What was submitted and is not done."""

    def submit(self, run: PlannedRun) -> None:
        """Do a run when there is room for it."""

    def wait(self, seconds: float) -> list[tuple[PlannedRun, Outcome]]:
        """What is done, as soon as something is, and after so many seconds at the latest."""

    def stop(self) -> list[tuple[PlannedRun, Outcome]]:
        """Let all runs save their last iteration and end; what became of them."""


@contextmanager
def executor_named(
    name: ExecutorName, sweep: Path, token: str, *, workers: int | None, address: str | None
) -> Iterator[Executor]:
    """An executor, closed at the end.

    Args:
        name: which.
        sweep: the folder of the sweep.
        token: of its file.
        workers: most runs at a time; by default one for each processor that this process may use, and on a cluster
            that is there as many as that has room for.
        address: of a Ray cluster that is there; ``None`` for one of this machine, of this sweep alone.

    Raises:
        InvalidSetting: no such executor, no whole number of workers, or an address without Ray.
        gymnasium.error.DependencyNotInstalled: without Ray.
    """
    if name not in ("joblib", "ray"):
        raise InvalidSetting(f"executor={name!r} must be one of joblib, ray.")
    if name == "joblib" and address is not None:
        raise InvalidSetting("address is that of a Ray cluster: give --executor ray, too.")
    n_workers = None if workers is None else check_count("workers", workers)
    if name == "joblib":
        processes = LocalProcesses(sweep, token, n_workers or joblib.cpu_count())
        with warnings.catch_warnings():
            # Between two runs joblib ends a process that has grown, and starts another.
            warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
            try:
                yield processes
            finally:
                processes.close()
    else:
        with _ray(address, n_workers) as ray:
            yield RayTasks(ray, sweep, token, n_workers)


class LocalProcesses:
    """Processes of joblib's, one pool of one process for each run at a time: who kills one of them hits one run.

    Args:
        sweep: the folder of the sweep.
        token: of its file.
        workers: most processes.
    """

    def __init__(self, sweep: Path, token: str, workers: int) -> None:
        self._sweep, self._token, self._workers = sweep, token, workers
        self._is_stopping = False
        self._idle: list[ProcessPoolExecutor] = []
        self._running: dict[Future[Outcome], tuple[ProcessPoolExecutor, PlannedRun]] = {}

    @property
    def has_room(self) -> bool:
        return len(self._running) < self._workers

    @property
    def running(self) -> tuple[PlannedRun, ...]:
        return tuple(run for _, run in self._running.values())

    def submit(self, run: PlannedRun) -> None:
        pool = self._idle.pop() if self._idle else self._new_pool()
        self._running[pool.submit(perform, run, self._sweep, self._token)] = pool, run

    def _new_pool(self) -> ProcessPoolExecutor:
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        # A process group of its own: Ctrl-C reaches the command alone, which tells its runs.
        pool = ProcessPoolExecutor(max_workers=1, timeout=_IDLE, initializer=os.setpgrp, env=one)
        pool.submit(_prepare)
        return pool

    def wait(self, seconds: float) -> list[tuple[PlannedRun, Outcome]]:
        if not self._running:
            time.sleep(seconds)
            return []
        done, _ = wait(self._running, timeout=seconds, return_when=FIRST_COMPLETED)
        found = []
        for future in done:
            pool, run = self._running.pop(future)
            try:
                found.append((run, future.result()))
                self._idle.append(pool)
            except BrokenExecutor as error:
                pool.shutdown(wait=False)
                ended = Outcome("interrupted") if self._is_stopping else Outcome("failed", _killed(str(error)))
                found.append((run, ended))
        return found

    def stop(self) -> list[tuple[PlannedRun, Outcome]]:
        self._is_stopping = True
        found, until = [], time.monotonic() + _STOPPING
        for future, (pool, run) in [*self._running.items()]:
            owner = owner_of(self._sweep / run.name / LOCK)
            if owner is not None and owner.is_near() and owner.process != os.getpid():
                with suppress(ProcessLookupError):
                    os.kill(owner.process, signal.SIGTERM)
            elif not future.done():  # nothing has begun that could be lost
                del self._running[future]
                pool.shutdown(wait=False, kill_workers=True)
                found.append((run, Outcome("interrupted")))
        while self._running and time.monotonic() < until:
            found += self.wait(1.0)
        return found

    def close(self) -> None:
        """End all processes."""
        for pool in [*self._idle, *(pool for pool, _ in self._running.values())]:
            pool.shutdown(wait=True, kill_workers=True)
        self._idle.clear()
        self._running.clear()


def _prepare() -> None:
    """Import what every training needs, before joblib first looks how large the process is: it ends what grows."""
    import torch.utils.tensorboard  # noqa: F401

    import constrained_maxent.runs.training  # noqa: F401


def _killed(error: str) -> str:
    """Why a process ended without a word."""
    signals = [name for name in signal.Signals.__members__ if f"{name}(" in error]
    how = f"by {signals[0]}" if signals else "from outside, or it crashed"
    memory = " Where nobody did, the system was short of memory: take fewer --workers." if "SIGKILL" in signals else ""
    return f"The process of this run was ended {how}.{memory}"


class RayTasks:
    """Tasks of a Ray cluster, one for each run; Ray says which machine does it when.

    Args:
        ray: the package, connected.
        sweep: the folder of the sweep, on storage that all machines share.
        token: of its file.
        workers: most tasks at a time; ``None`` for all of them, which Ray queues.
    """

    def __init__(self, ray: Any, sweep: Path, token: str, workers: int | None) -> None:
        self._ray, self._sweep, self._token, self._workers = ray, sweep, token, workers
        # A task that was killed is not begun again by Ray: it would not be listed, and the next call does it.
        self._perform = ray.remote(num_cpus=1, max_retries=0)(perform)
        self._running: dict[Any, PlannedRun] = {}

    @property
    def has_room(self) -> bool:
        return self._workers is None or len(self._running) < self._workers

    @property
    def running(self) -> tuple[PlannedRun, ...]:
        return tuple(self._running.values())

    def submit(self, run: PlannedRun) -> None:
        self._running[self._perform.remote(run, self._sweep, self._token)] = run

    def wait(self, seconds: float) -> list[tuple[PlannedRun, Outcome]]:
        if not self._running:
            time.sleep(seconds)
            return []
        tasks = list(self._running)
        done, _ = self._ray.wait(tasks, num_returns=1, timeout=seconds)
        if done:  # and all others that are
            done, _ = self._ray.wait(tasks, num_returns=len(tasks), timeout=0)
        return [(self._running.pop(task), self._outcome(task)) for task in done]

    def _outcome(self, task: Any) -> Outcome:
        try:
            outcome: Outcome = self._ray.get(task)
        except self._ray.exceptions.TaskCancelledError:
            return Outcome("interrupted")
        except self._ray.exceptions.RayError as error:  # killed, out of memory, or its machine is gone
            return Outcome("failed", f"{type(error).__name__}: {str(error).strip()}")
        return outcome

    def stop(self) -> list[tuple[PlannedRun, Outcome]]:
        for task in self._running:
            self._ray.cancel(task, force=False)  # those under way are told as by Ctrl-C
        found, until = [], time.monotonic() + _STOPPING
        while self._running and time.monotonic() < until:
            found += self.wait(1.0)
        return found


@contextmanager
def _ray(address: str | None, workers: int | None) -> Iterator[Any]:
    """Ray, connected to a cluster that is there, or to one that lives as long as this context."""
    try:
        import ray
    except ImportError as error:
        raise DependencyNotInstalled(
            f'--executor ray needs Ray ({error}): pip install "constrained-maxent[ray]".'
        ) from error
    if ray.is_initialized():  # whoever connected this process goes on with it
        if address is not None:
            raise InvalidSetting(
                f"address={address!r}: this process is connected to a Ray cluster already. Leave it out to go on with "
                "that one, or call ray.shutdown() first."
            )
        yield ray
        return
    here = {"num_cpus": workers or joblib.cpu_count(), "include_dashboard": False} if address is None else {}
    try:
        ray.init(address=address or "local", log_to_driver=False, logging_level="ERROR", **here)
    except (ConnectionError, ValueError) as error:  # ValueError: it is no address
        raise InvalidSetting(f"address={address!r}: there is no Ray cluster that can be reached ({error}).") from error
    try:
        yield ray
    finally:
        ray.shutdown()
