"""What surrounds the command line: streams that cannot write every letter, signals, packages that are missing."""

import io
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

import constrained_maxent
from constrained_maxent import cli, startup
from constrained_maxent.cli.console import terminating_as_interrupt
from constrained_maxent.cli.streams import speaking
from constrained_maxent.errors import InvalidSetting, RedundantObservation

pytestmark = pytest.mark.fault

GRID = "FrozenLake-PGP-v0"


class TestStreams:
    @pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
    def test_letters_that_cannot_be_written_are_spelled(self, monkeypatch, encoding):
        written = io.BytesIO()
        stream = io.TextIOWrapper(written, encoding=encoding, errors="strict")
        monkeypatch.setattr(sys, "stdout", stream)
        assert cli.main(["train", GRID, "--iterations", "2", "--quiet", "--out", "laké"]) == 0
        with pytest.raises(SystemExit):
            cli.main(["train", "--help"])
        stream.flush()
        text = written.getvalue().decode(encoding)
        assert ("(ε, ε)-optimal" if encoding == "utf-8" else "(epsilon, epsilon)-optimal") in text
        assert ("β of the" if encoding == "utf-8" else "beta of the") in text
        assert (r"lak\xe9" if encoding == "ascii" else "laké") in text
        assert stream.errors == "strict"

    def test_names_of_files_that_are_no_text(self):
        written = io.BytesIO()
        with speaking(stream := io.TextIOWrapper(written, encoding="utf-8")):
            print(os.fsdecode(b"run\xff"), file=stream, flush=True)
        assert written.getvalue() == b"run\\udcff\n"

    def test_nobody_reads_on(self):
        code = "from constrained_maxent.cli import main; import sys; sys.exit(main(['--help']))"
        reading, writing = os.pipe()
        os.close(reading)
        streams = {"stdout": writing, "stderr": subprocess.PIPE}
        done = subprocess.run([sys.executable, "-c", code], **streams, text=True, check=False)
        os.close(writing)
        assert done.stderr == ""


class TestSignals:
    """Another process, which a module sends a signal while it is being imported."""

    @pytest.fixture(autouse=True)
    def _without_nohup(self):
        """Under it this process, and those that it starts, would ignore the end of the terminal."""
        before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
        yield
        signal.signal(signal.SIGHUP, before)

    @pytest.mark.parametrize(
        ("number", "module"), [(signal.SIGINT, "tyro"), (signal.SIGTERM, "gymnasium"), (signal.SIGHUP, "tyro")]
    )
    def test_during_imports(self, tmp_path, module, number):
        code = f"import os, time\nos.kill(os.getpid(), {int(number)})\ntime.sleep(60)\n"
        (tmp_path / f"{module}.py").write_text(code)
        root = str(Path(constrained_maxent.__file__).parents[1])
        done = subprocess.run(
            [sys.executable, "-m", "constrained_maxent.cli", "train", GRID],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), root])},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stdout, done.stderr) == (130, "", "cmaxent: interrupted.\n")

    def test_the_end_of_the_terminal(self, cmaxent, monkeypatch):
        def hang_up(*_, **__):
            signal.raise_signal(signal.SIGHUP)

        monkeypatch.setattr("constrained_maxent.runs.train", hang_up)
        assert cmaxent("train", GRID) == (130, "", "cmaxent: interrupted.\n")
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL

    def test_one_that_a_callback_swallows_comes_again(self):
        class Leaving:
            def __del__(self):
                signal.raise_signal(signal.SIGTERM)

        def work():
            Leaving()  # nobody hears what is raised as it goes
            time.sleep(30.0)
            pytest.fail("it was lost")

        with pytest.raises(KeyboardInterrupt), terminating_as_interrupt():
            work()

    def test_nohup(self):
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with startup.handling(lambda *_: pytest.fail("nohup is to be left alone")):
            signal.raise_signal(signal.SIGHUP)
        signal.signal(signal.SIGHUP, before)


class TestEnvironments:
    """What comes out of an environment while a command runs."""

    @pytest.fixture
    def raising(self, cmaxent, monkeypatch):
        def train(error):
            def stop(*_, **__):
                error.add_note("Iteration 7 is saved.")
                raise error

            monkeypatch.setattr("constrained_maxent.runs.train", stop)
            return cmaxent("train", GRID)

        return train

    def test_a_pipe_of_its_own_is_not_the_output(self, raising):
        code, _, err = raising(BrokenPipeError(32, "Broken pipe"))
        assert (code, err) == (2, "cmaxent: [Errno 32] Broken pipe\nIteration 7 is saved.\n")

    def test_it_ends_the_program(self, raising):
        code, _, err = raising(SystemExit(0))
        assert code == 2
        assert err.endswith("ended the program: SystemExit(0).\nIteration 7 is saved.\n")

    def test_the_progress_bar_may_find_nobody_who_reads(self, cmaxent, monkeypatch):
        # So Rich ends the program where its output is a pipe that is closed.
        def stop(*_, **__):
            try:
                raise BrokenPipeError(32, "Broken pipe")
            except BrokenPipeError:
                raise SystemExit(1)  # noqa: B904

        monkeypatch.setattr("constrained_maxent.runs.train", stop)
        monkeypatch.setattr("constrained_maxent.cli._nobody_reads", lambda: True)
        monkeypatch.setattr(os, "dup2", lambda *_: None)
        monkeypatch.setattr(sys.stdout, "fileno", lambda: 1, raising=False)
        assert cmaxent("train", GRID)[::2] == (1, "")

    def test_warnings_come_without_lines_of_code(self, cmaxent, monkeypatch, capsys):
        def warn(*_, **__):
            with warnings.catch_warnings():
                warnings.simplefilter("always")
                warnings.warn("Give --state to choose.", RedundantObservation, stacklevel=1)
                warnings.warn("another's", UserWarning, stacklevel=1)
            raise InvalidSetting("no more")

        monkeypatch.setattr("constrained_maxent.runs.train", warn)
        with monkeypatch.context() as patched:
            patched.setattr(warnings, "_showwarnmsg_impl", lambda m: sys.stderr.write(warnings._formatwarnmsg(m)))
            err = cmaxent("train", GRID)[2]
        assert err.startswith("cmaxent: RedundantObservation: Give --state to choose.\n")
        assert "test_surroundings.py" in err
        assert "UserWarning: another's" in err


class TestMissingPackages:
    @pytest.fixture
    def without(self, monkeypatch):
        """As if a package were not installed."""

        def remove(package):
            for name in [name for name in sys.modules if name.partition(".")[0] == package]:
                monkeypatch.delitem(sys.modules, name)
            monkeypatch.setitem(sys.modules, package, None)

        return remove

    def test_the_convex_solver(self, cmaxent, without, monkeypatch):
        for name in [name for name in sys.modules if name.startswith("constrained_maxent.oracle")]:
            monkeypatch.delitem(sys.modules, name)
        without("cvxpy")
        code, _, err = cmaxent("solve", "SafeFrozenLake-v0")
        assert code == 2
        assert err.startswith("cmaxent: cvxpy is needed, and cannot be imported")
        assert 'pip install "constrained-maxent"' in err

    def test_no_figures_but_the_training(self, cmaxent, without, monkeypatch):
        for name in [name for name in sys.modules if name.startswith("constrained_maxent.reporting")]:
            monkeypatch.delitem(sys.modules, name)
        without("matplotlib")
        code, out, err = cmaxent("train", GRID, "--iterations", 2, "--quiet", "--out", "here")
        assert (code, err) == (0, "")
        assert "entropy" in out
        assert "No figures: " in out
        assert Path("here/summary.json").exists()

    def test_tensorboard_is_missed_before_anything_is_replaced(self, cmaxent, train, without, monkeypatch):
        train(GRID, "--out", "here")
        before = {path: path.read_bytes() for path in Path("here").iterdir()}
        for name in [name for name in sys.modules if name.startswith("torch.utils.tensorboard")]:
            monkeypatch.delitem(sys.modules, name)
        without("tensorboard")
        code, _, err = cmaxent("train", GRID, "--iterations", 2, "--quiet", "--out", "here", "--overwrite")
        assert code == 2
        assert "tensorboard is needed" in err
        assert {path: path.read_bytes() for path in Path("here").iterdir()} == before

    def test_of_extras_and_of_others(self):
        extra = cli.missing(ImportError("No module named 'polars'", name="polars"))
        assert 'pip install "constrained-maxent[studies]"' in extra
        assert 'run `pip install "constrained-maxent"`' in cli.missing(ImportError("No module", name="sklearn.cluster"))
        assert cli.missing(ImportError("libGL.so.1: no such file", name=None)).endswith(": install it.")
        assert "pygame is needed" in cli.missing(ImportError("No module named 'pygame'", name="pygame"))


@pytest.mark.parametrize("arguments", [("train", GRID, "--out", ""), ("train", GRID, "--out="), ("plot", "")])
def test_empty_arguments(cmaxent, arguments):
    before = list(Path().iterdir())
    code, out, err = cmaxent(*arguments)
    assert (code, out) == (2, "")
    assert "'' is empty: give a value, or leave it out." in err
    assert list(Path().iterdir()) == before


def test_how_to_go_on_after_an_error(cmaxent, monkeypatch):
    def stop(*_, **__):
        error = OSError(28, "No space left on device", "here/checkpoint.pt")
        error.add_note("To go on: cmaxent train --resume here")
        raise error

    monkeypatch.setattr("constrained_maxent.runs.train", stop)
    assert cmaxent("train", GRID) == (
        2,
        "",
        "cmaxent: [Errno 28] No space left on device: 'here/checkpoint.pt'\nTo go on: cmaxent train --resume here\n",
    )


@pytest.mark.parametrize("device", ["meta", "cuda:99", "nonsense", "cpu:x", "mps"])
def test_devices_that_cannot_be_used(cmaxent, device):
    code, _, err = cmaxent("train", GRID, "--device", device, "--out", "here")
    assert code == 2
    assert err.startswith(f"cmaxent: device='{device}' cannot be used here (")
    assert "take 'cpu'" in err
    assert not Path("here").exists()
