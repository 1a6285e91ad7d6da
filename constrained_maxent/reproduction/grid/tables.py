"""Tidy tables on disk: dataclasses of one kind as CSV, and as Parquet where pyarrow is installed."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any, TypeVar

from constrained_maxent.atomic import replacing
from constrained_maxent.errors import InvalidRun

WITHOUT_PARQUET = 'Tables are CSV alone: Parquet beside them takes pip install "constrained-maxent[parquet]".'

_TYPES: dict[str, type] = {"str": str, "int": int, "float": float}
"""Of fields, by name: annotations are not evaluated."""

R = TypeVar("R")


def write_table(path: Path, rows: Iterable[Any]) -> list[Path]:
    """Write the table, and the same beside it as ``.parquet`` if pyarrow is there.

    Args:
        path: of the CSV file.
        rows: dataclasses of one kind, at least one; their fields are ``str``, ``int`` or ``float``.

    Returns:
        The files.
    """
    rows = list(rows)
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(rows[0])])
        writer.writerows(astuple(row) for row in rows)
    if not can_write_parquet():
        return [path]
    beside = path.with_suffix(".parquet")
    with replacing(beside) as temporary:
        _write_parquet(temporary, rows)
    return [path, beside]


def read_table(path: Path, kind: type[R]) -> list[R]:
    """The rows of a CSV file that ``write_table`` wrote.

    Raises:
        InvalidRun: the file is missing or damaged, or has other columns.
    """
    columns = {field.name: _TYPES[str(field.type)] for field in fields(kind)}  # type: ignore[arg-type]
    try:
        with path.open(newline="", encoding="utf-8") as file:
            header, *lines = list(csv.reader(file))
        if header != list(columns):
            raise ValueError(f"columns {header}")
        return [kind(*(of(text) for of, text in zip(columns.values(), line, strict=True))) for line in lines]
    except (OSError, ValueError) as error:
        raise InvalidRun(f"{path} is missing or damaged ({error}): remove it with its .json to compute it.") from error


def can_write_parquet() -> bool:
    """Whether pyarrow is there, and usable."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        return False
    return True


def _write_parquet(path: Path, rows: list[Any]) -> None:
    import pyarrow
    import pyarrow.parquet

    types = {"str": pyarrow.string(), "int": pyarrow.int64(), "float": pyarrow.float64()}
    columns = {
        # A field of type float may hold a whole number.
        field.name: pyarrow.array(
            [_TYPES[str(field.type)](getattr(row, field.name)) for row in rows], type=types[str(field.type)]
        )
        for field in fields(rows[0])
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
