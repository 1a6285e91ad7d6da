"""``cmaxent sweep``, and ``cmaxent train --seeds``: many runs, and a table of how far they are."""

from __future__ import annotations

import csv
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.live import Live
from rich.table import Table

from constrained_maxent import runs
from constrained_maxent.cli.console import console, figures_table, number, print_paths, print_table, say
from constrained_maxent.errors import InvalidRun
from constrained_maxent.runs.run_folder import FAILURES, RunFolder, estimates
from constrained_maxent.runs.sweeps.executors import ExecutorName
from constrained_maxent.runs.sweeps.sweeping import RunStatus
from constrained_maxent.startup import INTERRUPTED

_SHOWN = 100
"""Most lines of a table of finished runs; of more than that, only the others are shown."""
_TAIL = 65_536
"""Bytes at the end of metrics.csv that are looked at: some hundred rows, exact values among them."""
_SHARE = 0.05
"""Most of the time that looking into folders may take: on slow storage, and with many runs, it is done less often."""
_STATES = ("running", "elsewhere", "failed", "interrupted", "waiting", "finished")
"""In the order in which runs are shown while there is no room for all."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Do many runs side by side: lists or grids of settings, environments, agents and seeds, on one machine or on Ray.

    Each run is a run folder; what is finished is not done again.
    """

    config: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="CONFIG.toml")]
    """What to run: environment, agent, seeds, [settings], [grid], [[list]]; docs/sweeps.md says how."""
    out: Path | None = None
    """Folder of the sweep; for several machines on storage that all of them share. Default: runs/<name of the file>."""
    workers: int | None = None
    """Most runs at a time. Default: one for each processor; on a cluster that is there, what it has room for."""
    executor: ExecutorName = "joblib"
    """Processes of this machine, or tasks of a Ray cluster ([ray])."""
    address: str | None = None
    """Of a Ray cluster that is there, or "auto". Default: Ray is started on this machine, and stopped at the end."""
    compiled: bool = False
    """Finite problems of known dynamics by the compiled engine: other random numbers, and no checkpoints."""
    quiet: bool = False
    """No table while it runs."""

    def run(self, given: frozenset[str]) -> int:
        plan = runs.SweepPlan.read(self.config, compiled=self.compiled)
        how: dict[str, Any] = {"executor": self.executor, "workers": self.workers, "address": self.address}
        return run_sweep(plan, self.out or Path("runs") / self.config.stem, quiet=self.quiet, **how)


def run_sweep(plan: runs.SweepPlan, folder: Path, *, quiet: bool, **how: Any) -> int:
    """Do a sweep and print what became of it; the exit code."""
    watch = _Watch(folder, is_compiled=any(run.compiled for run in plan.runs))
    with Live(console=console, auto_refresh=False, transient=True) as live:

        def show(statuses: Sequence[RunStatus]) -> None:
            if not quiet:
                live.update(watch.live(statuses), refresh=True)

        result = runs.sweep(plan, folder, progress=show, **how)
    print_table(watch.table(_few(result.statuses), of=result.statuses))
    for status in result.statuses:
        if status.state in ("failed", "interrupted") and status.reason:
            say(f"{status.run.name}: {status.reason}")
    for warning in result.warnings:
        say(warning)
    n_failed = len(result.of_state("failed"))
    if n_failed:
        say(f"{n_failed} failed; {folder / FAILURES} says how. The same command tries them again, and nothing else.")
    say(f"Curves of all runs: tensorboard --logdir {folder}")
    print_paths(folder)
    if result.interrupted:
        say("Interrupted. The same command goes on from here.")
        return INTERRUPTED
    return 1 if n_failed else 0


def _few(statuses: Sequence[RunStatus]) -> list[RunStatus]:
    return [status for status in statuses if len(statuses) <= _SHOWN or status.state != "finished"]


class _Watch:
    """What the folders of a sweep say, as tables.

    Args:
        folder: of the sweep.
        is_compiled: whether the compiled engine does the runs.
    """

    def __init__(self, folder: Path, *, is_compiled: bool) -> None:
        self._folder, self._is_compiled = folder, is_compiled
        self._known: dict[str, Mapping[str, float]] = {}
        self._finished: set[str] = set()
        self._due = 0.0

    def live(self, statuses: Sequence[RunStatus]) -> Table:
        """As many runs as the terminal has lines for, those first that something happens to."""
        by_state = sorted(statuses, key=lambda status: _STATES.index(status.state))
        return self.table(by_state[: max(console.height - 8, 5)], of=statuses)

    def table(self, shown: Sequence[RunStatus], *, of: Sequence[RunStatus] = ()) -> Table:
        """These runs, and how many there are of each state."""
        self._look(shown)
        counts = Counter[str](status.state for status in of or shown)
        title = ", ".join(f"{counts[state]} {state}" for state in _STATES if counts[state])
        if self._is_compiled:
            title += "; by the compiled engine: other random numbers than PGP's, and no checkpoints"
        figures = [self._known.get(status.run.name, {}) for status in shown]
        names = list(dict.fromkeys(name for row in figures for name in row if name != "iteration"))
        table = figures_table(title or "all finished", "run", "state", "iteration", *map(_heading, names))
        for status, row in zip(shown, figures, strict=True):
            done = f"{row['iteration']:.0f}/{status.run.settings.iterations}" if "iteration" in row else ""
            table.add_row(status.run.name, status.state, done, *(number(row.get(name)) for name in names))
        return table

    def _look(self, shown: Sequence[RunStatus]) -> None:
        begun = time.monotonic()
        for status in shown:
            name = status.run.name
            is_new = status.state == "finished" and name not in self._finished
            if is_new or (begun >= self._due and status.state not in ("finished", "waiting")):
                self._known[name] = _figures(RunFolder(self._folder / name))
                if status.state == "finished":
                    self._finished.add(name)
        if begun >= self._due:
            now = time.monotonic()
            self._due = now + (now - begun) / _SHARE


def _heading(name: str) -> str:
    exact = ", exact" if name.startswith("exact_") else ""
    name = name.removeprefix("exact_")
    return (f"{name.removeprefix('constraint_')} - limit" if name.startswith("constraint_") else name) + exact


def _figures(folder: RunFolder) -> dict[str, float]:
    """Iteration, objective and constraints of the last row of a run's metrics, exact ones where there are some."""
    with suppress(OSError, ValueError, InvalidRun), folder.metrics_path.open("rb") as file:
        header = next(csv.reader([file.readline().decode()]))
        start = file.tell()
        file.seek(max(start, folder.metrics_path.stat().st_size - _TAIL))
        lines = [line for line in file.read().decode(errors="replace").splitlines(keepends=True) if line.endswith("\n")]
        rows = [row for row in csv.reader(lines) if len(row) == len(header)]
        at: dict[str, float] = {}
        for row in rows:  # exact values are not in every row
            at |= {name: float(entry) for name, entry in zip(header, row, strict=True) if entry}
        kept = {"iteration": at["iteration"]} if "iteration" in at else {}
        for name in estimates(header):
            exact = f"exact_{name}"
            if (value := at.get(exact, at.get(name))) is not None:
                kept[exact if exact in at else name] = value
        return kept
    return {}
