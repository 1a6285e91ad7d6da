"""Tables come back as they were; damaged ones are named."""

import csv
import math

import polars as pl
import pytest

from constrained_maxent.errors import InvalidRun
from constrained_maxent.reproduction.tables import read_table, write_table

SCHEMA = {"name": pl.String, "count": pl.Int64, "share": pl.Float64}
LINES = pl.DataFrame(
    {"name": ["β, 1", "", '"'], "count": [3, -1, 0], "share": [0.1 + 0.2, math.inf, 1e-300]}, schema=SCHEMA
)


def test_both_files_hold_the_same(tmp_path):
    path, beside = write_table(tmp_path / "lines.csv", LINES)
    with path.open(newline="", encoding="utf-8") as file:
        assert next(iter(csv.DictReader(file))) == {"name": "β, 1", "count": "3", "share": "0.30000000000000004"}
    assert read_table(path, SCHEMA).equals(LINES)
    assert pl.read_parquet(beside).equals(LINES)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["lines.csv", "lines.parquet"]


def test_numbers_that_are_none_stay_so(tmp_path):
    path, _ = write_table(tmp_path / "lines.csv", pl.DataFrame([["a", 0, math.nan]], schema=SCHEMA, orient="row"))
    assert math.isnan(read_table(path, SCHEMA)["share"][0])


@pytest.mark.parametrize(
    "text",
    [None, "", "name,count\n", "name,count,part\na,1,1\n", "name,count,share\na,1\n", "name,count,share\na,one,1\n"],
)
def test_damaged_tables_are_named(tmp_path, text):
    if text is not None:
        (tmp_path / "lines.csv").write_text(text)
    with pytest.raises(InvalidRun, match=r"lines\.csv"):
        read_table(tmp_path / "lines.csv", SCHEMA)
