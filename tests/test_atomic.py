"""Files that are there whole or not at all."""

import errno
import os
import subprocess
import sys

import pytest

from constrained_maxent.atomic import check_writable, replacing


def test_takes_the_place_at_the_end(tmp_path):
    path = tmp_path / "result.csv"
    path.write_text("old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert (temporary.parent, temporary.suffix) == (tmp_path, ".csv")
        assert path.read_text() == "old"
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("result.csv", "new")]


def write_half(path):
    with replacing(path) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError


def test_a_failure_leaves_the_old_one_alone(tmp_path):
    path = tmp_path / "result.csv"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError):
        write_half(path)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("result.csv", "old")]


def test_nothing_written_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "result.csv"):
        pass
    assert not list(tmp_path.iterdir())


def test_whether_a_file_could_be_written(tmp_path):
    check_writable(tmp_path / "new" / "result.csv")
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "old.csv").write_text("old")
    check_writable(tmp_path / "old.csv")
    assert (tmp_path / "old.csv").read_text() == "old"
    for wrong in (tmp_path, tmp_path / "old.csv" / "result.csv"):
        with pytest.raises(OSError, match=r"Is a directory|File exists|Not a directory"):
            check_writable(wrong)


@pytest.mark.fault
def test_what_a_killed_process_left_is_removed(tmp_path):
    path = tmp_path / "result.csv"
    # A process that dies in the midst of it, without a chance to tidy up.
    code = (
        "import os; from constrained_maxent.atomic import replacing\n"
        f"with replacing({str(path)!r}) as temporary:\n    temporary.write_text('half'); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".result.")
    alive = tmp_path / left.name.replace(left.name.split(".")[-2], str(os.getppid()))
    others = [tmp_path / ".result.elsewhere.1.csv", tmp_path / ".result.csv", tmp_path / ".result.mine.csv", alive]
    for other in others:
        other.write_text("other's")
    with replacing(path) as temporary:
        temporary.write_text("new")
    assert {*tmp_path.iterdir()} == {path, *others}


def fill_the_disk(path):
    with replacing(path) as temporary:
        temporary.write_text("half")
        with open("/dev/full", "w") as full:  # raises what writing to a full disk does
            full.write("x" * 100_000)


@pytest.mark.fault
def test_a_full_disk_is_told_by_file(tmp_path):
    path = tmp_path / "result.csv"
    path.write_text("old")
    with pytest.raises(OSError, match=r"No space left on device: '.*result.csv'") as raised:
        fill_the_disk(path)
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(path))
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("result.csv", "old")]
