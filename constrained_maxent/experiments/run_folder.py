"""The folder of one training run: what it holds, and how it is written so that nothing is ever half there."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from constrained_maxent.errors import InvalidRun
from constrained_maxent.types import FloatArray

OURS = ("config.json", "metrics.csv", "checkpoint.pt", "summary.json")


class RunFolder:
    """Paths and files of a run.

    ``config.json`` holds the settings, ``metrics.csv`` and ``events.out.tfevents.*`` (TensorBoard) the curves,
    ``checkpoint.pt`` the agent, ``summary.json`` the result; figures are ``*.png``.

    Args:
        path: the folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.config_path = self.path / "config.json"
        self.metrics_path = self.path / "metrics.csv"
        self.checkpoint_path = self.path / "checkpoint.pt"
        self.summary_path = self.path / "summary.json"

    def create(self, *, overwrite: bool = False) -> None:
        """Make the folder.

        Raises:
            InvalidRun: it holds a run already and ``overwrite`` is not set, or it is something else.
        """
        if self.path.exists() and not self.path.is_dir():
            raise InvalidRun(f"{self.path} is a file: give --out a folder.")
        occupied = [name for name in OURS if (self.path / name).exists()]
        if occupied and not overwrite:
            raise InvalidRun(
                f"{self.path} holds a run already ({', '.join(occupied)}): continue it with --resume {self.path}, "
                "take another --out, or replace it with --overwrite."
            )
        self.path.mkdir(parents=True, exist_ok=True)
        for name in occupied:
            (self.path / name).unlink()
        for events in self.path.glob("events.out.tfevents.*"):
            events.unlink()

    def read_config(self) -> dict[str, Any]:
        """The settings of the run. Raises InvalidRun if there are none."""
        return self._read_json(self.config_path)

    def read_summary(self) -> dict[str, Any]:
        """The result of the run. Raises InvalidRun if there is none."""
        return self._read_json(self.summary_path)

    def _read_json(self, path: Path) -> dict[str, Any]:
        if not path.exists():
            raise InvalidRun(f"{self.path} is no run folder: {path.name} is missing.")
        try:
            content = json.loads(path.read_text())
        except json.JSONDecodeError as error:
            raise InvalidRun(f"{path} is not valid JSON: {error}.") from error
        if not isinstance(content, dict):
            raise InvalidRun(f"{path} must hold a JSON object.")
        return content

    def write_json(self, path: Path, content: Mapping[str, Any]) -> None:
        """Write atomically: readers see the old file or the new one."""
        temporary = path.with_suffix(".partial")
        temporary.write_text(json.dumps(content, indent=2) + "\n")
        os.replace(temporary, path)

    def read_metrics(self) -> dict[str, FloatArray]:
        """The columns of ``metrics.csv``; empty entries are NaN. Raises InvalidRun if there are none."""
        if not self.metrics_path.exists():
            raise InvalidRun(f"{self.path} is no run folder: {self.metrics_path.name} is missing.")
        with self.metrics_path.open(newline="") as file:
            reader = csv.reader(file)
            header = next(reader, [])
            try:
                rows = [[float(entry) if entry else np.nan for entry in row] for row in reader]
            except ValueError as error:
                raise InvalidRun(f"{self.metrics_path} holds an entry that is not a number: {error}.") from error
        if not header or any(len(row) != len(header) for row in rows):
            raise InvalidRun(f"{self.metrics_path} is damaged: its rows and its header differ in length.")
        table = np.array(rows, dtype=np.float64).reshape(len(rows), len(header))
        return {name: table[:, i] for i, name in enumerate(header)}

    def keep_metrics_until(self, iteration: int) -> None:
        """Drop rows past a checkpoint's iteration: a resumed run writes them again."""
        if not self.metrics_path.exists():
            return
        lines = self.metrics_path.read_text().splitlines(keepends=True)
        kept = lines[:1] + [
            line for line in lines[1:] if line.endswith("\n") and int(line.split(",", 1)[0]) <= iteration
        ]
        temporary = self.metrics_path.with_suffix(".partial")
        temporary.write_text("".join(kept))
        os.replace(temporary, self.metrics_path)


class MetricsWriter:
    """Appends rows to ``metrics.csv``; the columns are those of the first row.

    Args:
        path: the file; rows are added to what it holds.
        columns: names, the first being ``iteration``.
    """

    def __init__(self, path: Path, columns: tuple[str, ...]) -> None:
        is_new = not path.exists() or path.stat().st_size == 0
        self._columns = columns
        self._file: TextIO = path.open("a", newline="")
        self._writer = csv.writer(self._file, lineterminator="\n")
        if is_new:
            self._writer.writerow(columns)

    def write(self, row: Mapping[str, float | int | None]) -> None:
        """One row; missing entries stay empty."""
        self._writer.writerow(["" if row.get(name) is None else row[name] for name in self._columns])

    def flush(self) -> None:
        """Put what was written on disk, before the checkpoint that counts on it."""
        self._file.flush()

    def close(self) -> None:
        """Flush and close the file."""
        self._file.close()
