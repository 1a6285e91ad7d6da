"""The folder of one training run: what it holds, and how it is written so that nothing is ever half there."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from constrained_maxent.atomic import remove_leftovers, write_text
from constrained_maxent.errors import InvalidRun
from constrained_maxent.runs.lock import Lock
from constrained_maxent.types import FloatArray

RESULTS = ("config.json", "metrics.csv", "checkpoint.pt", "summary.json", "evaluation.json")
FIGURES = ("training.png", "occupancy.png", "strip.png", "motion.png", "visits.png", "actions.png")
MODEL = "model.zip"
VIDEO = "video.mp4"
WARNINGS = "warnings.json"
REPORT = "report.html"
EVENTS = "events.out.tfevents.*"
LOCK = "run.lock"
OWN_AGENT = "pgp"
"""The agent of a run whose ``config.json`` names none."""
SWEEP, FAILURES = "sweep.json", "failures"
"""In the folder of a sweep: its file, and the folder of what failed, a file for each run."""


def estimates(columns: Iterable[str]) -> list[str]:
    """Of the columns of ``metrics.csv`` the objective and the constraints as λ̂ has them, memory included."""
    return [
        name
        for name in columns
        if name == "objective" or (name.startswith("constraint_") and not name.endswith("_fresh"))
    ]


def require_folder(path: Path) -> None:
    """Raises InvalidRun if no folder can be there, as it is a file, or lies in one."""
    for part in (path, *path.parents):
        if part.exists() and not part.is_dir():
            raise InvalidRun(f"{part} is a file: give --out a folder.")


class RunFolder:
    """Paths and files of a run.

    ``config.json`` holds the settings, ``metrics.csv`` and ``events.out.tfevents.*`` (TensorBoard) the curves,
    ``checkpoint.pt`` the agent (``model.zip`` that of a third party), ``summary.json`` the result,
    ``evaluation.json`` fresh rollouts of the last policy; ``warnings.json`` what was warned until the checkpoint, if
    anything was; figures are ``*.png``, the film is ``video.mp4``, the report ``report.html``. While a training writes,
    ``run.lock`` says which process it is.

    Raises:
        InvalidRun: the path is empty, which would be the current folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not os.fspath(path):
            raise InvalidRun("The path of a run folder is empty: name a folder; the current one is '.'.")
        self.path = Path(path)
        self.config_path, self.metrics_path, self.checkpoint_path = (self.path / name for name in RESULTS[:3])
        self.summary_path, self.evaluation_path = (self.path / name for name in RESULTS[3:])
        self.training_figure_path, self.occupancy_figure_path = (self.path / name for name in FIGURES[:2])
        self.strip_path, self.motion_path, self.visits_path, self.actions_path = (self.path / n for n in FIGURES[2:])
        self.model_path, self.video_path, self.warnings_path = (self.path / name for name in (MODEL, VIDEO, WARNINGS))

    @contextmanager
    def held(self) -> Iterator[Lock]:
        """The folder, made if need be, for this process alone, and without what a killed one left half written.

        At the end what was made here is removed where it is empty.

        Raises:
            FolderInUse: another process writes into it.
            InvalidRun: it cannot be there.
        """
        require_folder(self.path)
        made = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            with Lock(self.path / LOCK) as lock:
                for path in (*(self.path / name for name in RESULTS[:4]), self.model_path):
                    remove_leftovers(path, of_any_process=True)  # none but the lock's owner writes these
                for name in (*FIGURES, self.evaluation_path.name):
                    remove_leftovers(self.path / name)
                yield lock
        finally:
            with suppress(OSError):  # one holds something: a run had begun
                for folder in made:
                    folder.rmdir()

    def create(self, *, overwrite: bool = False) -> None:
        """Make the folder, or see that it can be taken. A run that is in it stays until ``clear``.

        Raises:
            InvalidRun: it holds a run already and ``overwrite`` is not set, or it is something else: files that have
                the names of a run's, but belong to none of this package, are never replaced.
        """
        require_folder(self.path)
        occupied = [name for name in RESULTS if (self.path / name).exists()]
        if (found := [path.name for path in self._files()]) and not self._is_run():
            raise InvalidRun(
                f"{self.path} holds {', '.join(found)}, and no {self.config_path.name} of a run: a new run would "
                "replace what may be something else. Take another --out, or remove these files yourself."
            )
        if occupied and not overwrite:
            can_go_on = self.checkpoint_path.exists() and self.config_path.exists()
            raise InvalidRun(
                f"{self.path} holds a run already ({', '.join(occupied)}): "
                + (f"continue it with --resume {self.path}, " if can_go_on else "it cannot be continued; ")
                + "take another --out, or replace it with --overwrite."
            )
        self.path.mkdir(parents=True, exist_ok=True)

    def clear(self) -> None:
        """Remove the files of a run, and no others."""
        for file in self._files():
            file.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        """The files that a run may have written; the one that says whose they are is the last."""
        patterns = (*RESULTS[1:], WARNINGS, *FIGURES, MODEL, VIDEO, REPORT, EVENTS, RESULTS[0])
        return [file for pattern in patterns for file in sorted(self.path.glob(pattern))]

    def _is_run(self) -> bool:
        with suppress(InvalidRun):
            return bool(self.read_config())
        return False

    def read_config(self) -> dict[str, Any]:
        """What is trained: ``env_id``, ``settings`` and more. Raises InvalidRun if these are not there."""
        config = self._read_json(self.config_path)
        known = isinstance(config.get("env_id"), str) and isinstance(config.get("settings"), dict)
        if not known or not isinstance(config.get("agent", ""), str):
            raise InvalidRun(f"{self.config_path} must have env_id and settings.")
        return config

    def read_summary(self) -> dict[str, Any]:
        """The result of the run. Raises InvalidRun if there is none."""
        return self._read_json(self.summary_path)

    def read_evaluation(self) -> dict[str, Any]:
        """What ``cmaxent evaluate`` found. Raises InvalidRun if there is nothing."""
        return self._read_json(self.evaluation_path)

    def read_warnings(self) -> list[dict[str, Any]]:
        """What was warned until the checkpoint, see :class:`~constrained_maxent.runs.warned.KeptWarnings`.

        Raises InvalidRun if the file is damaged.
        """
        if not self.warnings_path.exists():
            return []
        entries = self._read_json(self.warnings_path).get("warnings")
        expected = {"category", "message", "iteration"}
        if not isinstance(entries, list) or any(not isinstance(e, dict) or e.keys() != expected for e in entries):
            raise InvalidRun(f"{self.warnings_path} is damaged: it must list warnings. Remove it to go on without.")
        return entries

    def _read_json(self, path: Path) -> dict[str, Any]:
        if not path.exists():
            raise InvalidRun(f"{self.path} is not a run folder: {path.name} is missing.")
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:  # no JSON, or not even text
            raise InvalidRun(f"{path} is not valid JSON: {error}.") from error
        if not isinstance(content, dict):
            raise InvalidRun(f"{path} must hold a JSON object.")
        return content

    def write_json(self, path: Path, content: Mapping[str, Any]) -> None:
        """Write atomically: readers see the old file or the new one."""
        write_text(path, json.dumps(content, indent=2) + "\n")

    def read_metrics(self) -> dict[str, FloatArray]:
        """The columns of ``metrics.csv``; empty entries are NaN. Raises InvalidRun if there are none."""
        if not self.metrics_path.exists():
            raise InvalidRun(f"{self.path} is not a run folder: {self.metrics_path.name} is missing.")
        header, *rows = list(csv.reader(self._metrics_lines())) or [[]]
        if not header or any(len(row) != len(header) for row in rows):
            raise InvalidRun(f"{self.metrics_path} is damaged: its rows and its header differ in length.")
        try:
            entries = [[float(entry) if entry else np.nan for entry in row] for row in rows]
        except ValueError as error:
            raise InvalidRun(f"{self.metrics_path} is damaged: an entry is not a number: {error}.") from error
        table = np.array(entries, dtype=np.float64).reshape(len(rows), len(header))
        return {name: table[:, i] for i, name in enumerate(header)}

    def require_metrics(self, columns: Sequence[str]) -> None:
        """Raise ``InvalidRun`` where there are metrics that are damaged, or have other columns than these."""
        if self.metrics_path.exists() and list(metrics := self.read_metrics()) != list(columns):
            raise InvalidRun(f"{self.metrics_path} has the columns {', '.join(metrics)}, not {', '.join(columns)}.")

    def keep_metrics_until(self, iteration: int) -> None:
        """Drop rows past a checkpoint's iteration: a resumed run writes them again.

        Raises:
            InvalidRun: the file is damaged. It stays as it is.
        """
        if not self.metrics_path.exists():
            return
        metrics = self.read_metrics()
        header, *rows = self._metrics_lines()
        kept = [row for row, number in zip(rows, metrics["iteration"], strict=True) if number <= iteration]
        write_text(self.metrics_path, "".join([header, *kept]))

    def _metrics_lines(self) -> list[str]:
        """Lines of ``metrics.csv``, without one at the end that was cut off when the run was killed."""
        try:
            text = self.metrics_path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise InvalidRun(f"{self.metrics_path} is damaged: it is not text.") from error
        return [line for line in text.splitlines(keepends=True) if line.endswith("\n")]


def default_folder(env_id: str, seed: int) -> Path:
    """Where a run goes if nothing is said."""
    return Path("runs") / f"{file_name(env_id)}-seed{seed}"


def file_name(env_id: str) -> str:
    """An id as part of a file's name."""
    return env_id.replace("/", "-").replace(":", "-")
