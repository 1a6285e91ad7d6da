"""The machine code on disk is renewed when any of the compiled files changes."""

from constrained_maxent.engine.compiled import source_digest


def test_the_digest_follows_every_file(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "b.py").write_text("y = 2\n")
    before = source_digest(tmp_path)
    assert source_digest(tmp_path) == before
    (tmp_path / "b.py").write_text("y = 3\n")
    assert source_digest(tmp_path) != before
