"""Tables of the studies on disk: CSV to read, and Parquet beside it, which keeps the types of the columns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from constrained_maxent.atomic import replacing
from constrained_maxent.errors import InvalidRun


def write_table(path: Path, table: pl.DataFrame) -> list[Path]:
    """Write a table as ``path``, a CSV file, and beside it as ``.parquet``, each whole or not at all; the two files."""
    beside = path.with_suffix(".parquet")
    with replacing(path) as temporary:
        table.write_csv(temporary)
    with replacing(beside) as temporary:
        table.write_parquet(temporary)
    return [path, beside]


def read_table(path: Path, schema: Mapping[str, type[pl.DataType]]) -> pl.DataFrame:
    """The CSV file that ``write_table`` wrote from a table without empty entries and with these columns.

    Raises:
        InvalidRun: the file is missing or damaged, or has other columns.
    """
    try:
        table = pl.read_csv(path, schema=dict(schema))
        if empty := [name for name, count in table.null_count().row(0, named=True).items() if count]:
            raise ValueError(f"empty entries in {', '.join(empty)}")
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidRun(f"{path} is missing or damaged ({reason}): remove it with its .json to compute it.") from error
    return table
