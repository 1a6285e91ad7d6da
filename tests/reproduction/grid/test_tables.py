"""Tables come back as they were, from CSV and from Parquet, read by other libraries than the one that wrote them."""

import csv
import math
import sys
from dataclasses import dataclass

import pyarrow
import pyarrow.parquet
import pytest

from constrained_maxent.errors import InvalidRun
from constrained_maxent.reproduction.grid.tables import read_table, write_table


@dataclass(frozen=True)
class Line:
    name: "str"
    count: "int"
    share: "float"


LINES = [Line("β, 1", 3, 0.1), Line("", -1, math.inf), Line('"', 0, 2)]


def test_both_forms_hold_the_same(tmp_path):
    paths = write_table(tmp_path / "lines.csv", LINES)
    assert paths == [tmp_path / "lines.csv", tmp_path / "lines.parquet"]
    table = pyarrow.parquet.read_table(paths[1])
    assert table.schema.names == ["name", "count", "share"]
    assert table.schema.types == [pyarrow.string(), pyarrow.int64(), pyarrow.float64()]
    assert table.to_pydict() == {"name": ["β, 1", "", '"'], "count": [3, -1, 0], "share": [0.1, math.inf, 2.0]}
    with paths[0].open(newline="", encoding="utf-8") as file:
        assert next(iter(csv.DictReader(file))) == {"name": "β, 1", "count": "3", "share": "0.1"}
    assert read_table(paths[0], Line) == LINES
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lines.csv", "lines.parquet"]


def test_numbers_that_are_none_stay_so(tmp_path):
    path, beside = write_table(tmp_path / "lines.csv", [Line("a", 0, math.nan)])
    assert math.isnan(read_table(path, Line)[0].share)
    assert math.isnan(pyarrow.parquet.read_table(beside)["share"][0].as_py())


def test_csv_alone_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert write_table(tmp_path / "lines.csv", LINES) == [tmp_path / "lines.csv"]
    assert [path.name for path in tmp_path.iterdir()] == ["lines.csv"]


@pytest.mark.parametrize("text", ["", "name,count\n", "name,count,share\na,1\n", "name,count,share\na,one,1\n"])
def test_damaged_tables_are_named(tmp_path, text):
    (tmp_path / "lines.csv").write_text(text)
    with pytest.raises(InvalidRun, match=r"lines\.csv is missing or damaged"):
        read_table(tmp_path / "lines.csv", Line)
