"""Command lines run in this process, in a folder of their own."""

import pytest

from constrained_maxent import cli
from constrained_maxent.runs import summary


@pytest.fixture(autouse=True)
def _somewhere_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture(autouse=True)
def _without_certificates(request):
    """A convex program takes a second or two, longer than the training; the tests of certificates solve it."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.module.__name__.endswith(("test_problems", "test_surroundings")):
            patch.setattr(summary, "QUICK_VARIABLES", 0)
        yield


@pytest.fixture
def cmaxent(capsys):
    """Runs a command line: its exit code and what it printed."""

    def run(*arguments):
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def train(cmaxent):
    """A short training that must succeed."""

    def run(env_id, *options, iterations=4):
        code, out, err = cmaxent("train", env_id, "--iterations", iterations, "--log-every", 1, "--quiet", *options)
        assert (code, err) == (0, "")
        return out

    return run
