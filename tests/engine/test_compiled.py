"""The machine code on disk is renewed when any of the compiled files changes, and nobody needs it."""

import importlib.util

import numba
import pytest

from constrained_maxent.engine.compiled import outermost, source_digest


@pytest.fixture
def doubling(tmp_path, monkeypatch):
    """What makes a function in a file of its own, whose cache is in the folder beside it."""
    source = tmp_path / "code" / "doubling.py"
    source.parent.mkdir()
    source.write_text("def make(digest):\n    def double(x):\n        return 2 * x\n    return double\n")
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("sys.dont_write_bytecode", True)  # the file changes, and its time stamp is of whole seconds
    spec = importlib.util.spec_from_file_location("doubling", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.make


def test_the_digest_follows_every_file(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "b.py").write_text("y = 2\n")
    before = source_digest(tmp_path)
    assert source_digest(tmp_path) == before
    (tmp_path / "b.py").write_text("y = 3\n")
    assert source_digest(tmp_path) != before


def test_machine_code_is_kept(doubling, tmp_path):
    outermost(doubling)(3)
    again = outermost(doubling)
    assert again(4) == 8
    assert sum(again.stats.cache_hits.values()) == 1
    assert list((tmp_path / "code" / "__pycache__").glob("*.nbi"))


@pytest.mark.fault
def test_without_a_place_for_it_machine_code_is_not_kept(doubling, tmp_path):
    # Not even root can make folders in what are files.
    (tmp_path / "code" / "__pycache__").write_text("")
    (tmp_path / "home").write_text("")
    with pytest.raises(RuntimeError, match="no locator available"):
        numba.njit(cache=True)(doubling(""))
    assert outermost(doubling)(3) == 6


@pytest.mark.fault
def test_a_place_that_is_lost_later_changes_nothing(doubling, tmp_path):
    function = outermost(doubling)
    place = tmp_path / "code" / "__pycache__"
    place.rmdir()
    place.write_text("")
    assert function(3) == 6


@pytest.mark.fault
@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
def test_damaged_machine_code_is_made_anew(doubling, tmp_path, ending):
    outermost(doubling)(3)
    (file,) = (tmp_path / "code" / "__pycache__").glob(f"*{ending}")
    file.write_bytes(file.read_bytes()[:20])
    assert outermost(doubling)(4) == 8
    again = outermost(doubling)
    assert again(5) == 10
    assert sum(again.stats.cache_hits.values()) == 1
