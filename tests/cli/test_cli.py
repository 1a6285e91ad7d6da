"""``cmaxent`` as a user meets it: help, exit codes, what is printed, what is in the folder, and Ctrl-C."""

import inspect
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import fields
from importlib.metadata import entry_points, version
from pathlib import Path

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec

from constrained_maxent import cli
from constrained_maxent.agents import PGPSettings
from constrained_maxent.cli.train import Train
from constrained_maxent.envs import SafeFrozenLakeVector
from constrained_maxent.runs.run_folder import RunFolder
from constrained_maxent.runs.settings import TrainSettings
from constrained_maxent.runs.training import load_config
from constrained_maxent.wrappers import constrain

TAXI = "Taxi-v3" if "Taxi-v3" in gym.registry else "Taxi-v4"  # Gymnasium 1.3 replaced version 3
GRID = "FrozenLake-PGP-v0"
COMMANDS = (
    "check",
    "train",
    "sweep",
    "evaluate",
    "compare",
    "collect",
    "plot",
    "video",
    "report",
    "certify",
    "solve",
    "plan",
    "reproduce",
    "reference",
)


def words(text):
    """The text without the frames of tables and panels."""
    return " ".join(re.sub("[│┃╭╮╰╯─━|]", " ", text).split())


class TestHelp:
    def test_commands(self, cmaxent):
        code, out, _ = cmaxent("--help")
        assert code == 0
        assert out.startswith(f"usage: cmaxent [-h] {{{','.join(COMMANDS)}}}")
        assert cmaxent("-h")[1] == out
        for name, summary in cli.COMMANDS.items():
            assert f" {name} {summary}" in words(out)

    @pytest.mark.parametrize("name", COMMANDS)
    def test_summaries_are_the_commands_own(self, name):
        assert tuple(cli.COMMANDS) == COMMANDS
        summary = inspect.getdoc(cli.command_class(name)).split("\n\n")[0]
        assert " ".join(summary.split()) == cli.COMMANDS[name]

    def test_every_setting_has_its_docstring(self, cmaxent):
        code, out, _ = cmaxent("train", "--help")
        assert code == 0
        options = set(re.findall(r"^\W*(--[a-z-]+)", out, flags=re.MULTILINE)) - {"--help", "---"}
        names = {field.name for kind in (Train, TrainSettings, PGPSettings) for field in fields(kind)}
        expected = {f"--{name.replace('_', '-')}" for name in names - {"agent", "env_id", "settings"}}
        assert options == expected
        # After an option's name and metavar comes what it means, and then its default, if it has one.
        text = words(out)
        for option in sorted(expected):
            described = text.split(f"{option} ")[1].split("(default")[0]
            assert len(described.split()) >= 3, option

    def test_options_come_in_groups_the_usual_ones_first(self, cmaxent):
        out = cmaxent("train", "--help")[1]
        # A title has a rule below it, or stands in the frame.
        parts = re.split(r"^[╭─ ]*((?:\w+ )+?(?:options|arguments)|options)\b", out, flags=re.MULTILINE)
        titles = parts[1::2]
        assert titles == [
            "positional arguments",
            "options",
            *("environment options", "batch and estimate options", "problem options", "agent options", "run options"),
        ]
        usual = re.findall(r"^\W*(--[a-z-]+)", parts[4], flags=re.MULTILINE)
        assert set(usual) - {"--help", "---"} == {
            *("--iterations", "--seed", "--num-envs", "--preset", "--beta", "--limit", "--learning-rate"),
            *("--seeds", "--out", "--resume", "--quiet"),
        }

    def test_reads_well(self, cmaxent):
        text = words(cmaxent("train", "--help")[1])
        assert "usage: cmaxent train [-h] [OPTIONS] ENV_ID Train PGP on an environment and write" in text
        assert "--beta FLOAT β of the quadratic penalty. --limit" in text
        assert "Usual: 0.01 for a table (the paper's); for networks 3e-4, and from batch 20 on" in text
        assert '"Usual": where the environment suggests nothing; each -PGP- id brings values of its own.' in text
        assert "--seed INT Seed of everything random. (default: 0)" in text
        assert "unset" not in text
        assert "--preset {default,paper,ppo} " in text
        assert "--out PATH " in text
        assert "--normalize-advantages {True,False} " in text
        assert "--overwrite Replace" in text
        assert "None" not in text
        assert "''" not in text
        assert "settings." not in text

    @pytest.mark.parametrize("command", ["evaluate", "plot"])
    def test_of_the_other_commands(self, cmaxent, command):
        code, out, _ = cmaxent(command, "--help")
        assert code == 0
        assert "Folder of a run." in out

    def test_no_command(self, cmaxent):
        code, out, err = cmaxent()
        assert (code, out) == (2, "")
        assert ", ".join(COMMANDS) in err

    def test_version(self, cmaxent):
        assert cmaxent("--version") == (0, f"cmaxent {version('constrained-maxent')}\n", "")

    def test_is_what_the_script_calls(self):
        (script,) = entry_points(group="console_scripts", name="cmaxent")
        assert script.load() is cli.main


class TestTrain:
    def test_the_grid(self, train):
        out = train(GRID, "--preset", "paper", "--beta", 0.01, "--seed", 5, "--learning-rate", 0.5)
        assert f"{GRID}, 4 iterations, finished" in words(out)
        assert "uniform policy, exact" in words(out)
        # H and cost of the uniform policy at H = 25 and γ = 0.99; see the tests of the exact evaluation.
        assert "29.2098" in out
        assert "83.2939" in out
        folder = Path("runs") / f"{GRID}-seed5"
        names = [line for line in out.splitlines() if line.startswith("runs")]
        assert names == [str(folder / name) for name in ("summary.json", "training.png", "occupancy.png")]
        assert all(Path(name).is_file() for name in names)
        env_id, settings = load_config(RunFolder(folder))
        assert (env_id, settings.beta, settings.agent.learning_rate, settings.limit) == (GRID, 0.01, 0.5, None)

    @pytest.mark.filterwarnings("ignore::constrained_maxent.errors.PartialEpisodes")  # batches are small
    @pytest.mark.parametrize(
        ("env_id", "options", "exact"),
        [
            ("FrozenLake-v1", (), True),
            ("FrozenLake-v1", ("--cost", "prob", "--limit", 0.1), False),
            ("CliffWalking-v1", ("--env-kwargs", '{"max_episode_steps": 50}'), True),
            (TAXI, ("--num-envs", 2), True),
            ("SafeFrozenLake-v0", ("--env-kwargs", '{"map_name": "4x4"}', "--limit", 1.0), True),
            ("constrained_maxent:SafeFrozenLake-v0", ("--steps-per-batch", 100, "--pairing", "split"), True),
            ("SafeFrozenLake-v0", ("--policy", "mlp", "--hidden-sizes", 8, 8, "--baseline", "critic"), False),
            ("FrozenLake-v1", ("--normalize-advantages", "False", "--clip-range", "inf"), True),
        ],
    )
    def test_other_environments(self, train, cmaxent, env_id, options, exact):
        out = train(env_id, "--out", "here", *options, iterations=2)
        assert (RunFolder(Path("here")).read_summary()["exact"] is not None) == exact
        assert {"config.json", "metrics.csv", "checkpoint.pt", "summary.json", "training.png"} <= {
            file.name for file in Path("here").iterdir()
        }
        code, out, err = cmaxent("evaluate", "here", "--episodes", 10)
        assert (code, err) == (0, "")
        assert "entropy (nats)" in out
        assert (json.loads(Path("here/evaluation.json").read_text("utf-8"))["exact"] is not None) == exact

    @pytest.mark.parametrize(
        ("env_id", "told"),
        [
            ("FrozenLake-v1", True),
            ("SafeFrozenLake-v0", False),  # reports a cost
            (GRID, False),
            ("FreeLake-v0", False),  # its author wants no constraint
        ],
    )
    def test_training_without_a_constraint_is_told(self, train, env_id, told, monkeypatch):
        spec = EnvSpec(
            "FreeLake-v0",
            vector_entry_point=lambda num_envs: constrain(SafeFrozenLakeVector(num_envs), episodes_per_batch=8),
        )
        monkeypatch.setitem(gym.registry, "FreeLake-v0", spec)
        sentence = "No info['cost']: trained without a constraint; name the key with --cost."
        assert (sentence in words(train(env_id, iterations=1))) == told

    def test_progress_bar(self, cmaxent):
        code, out, _ = cmaxent("train", GRID, "--iterations", 3)
        assert code == 0
        assert "3/3" in out
        assert "entropy" in out.splitlines()[0]

    def test_a_run_is_not_overwritten_unless_asked(self, train, cmaxent):
        train(GRID, "--out", "here")
        code, _, err = cmaxent("train", GRID, "--out", "here", "--seed", 1)
        assert code == 2
        assert "here holds a run already" in err
        assert "--resume here" in err
        train(GRID, "--out", "here", "--seed", 1, "--overwrite")
        assert RunFolder("here").read_summary()["seed"] == 1


class TestMistakes:
    """Exit code 2, a sentence on stderr that says what would be right, no traceback and no folder."""

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((), "Which environment? cmaxent train ENV_ID"),
            (("FrozenLake-PGP-v1",), "no environment 'FrozenLake-PGP-v1'. Did you mean FrozenLake-PGP-v0"),
            ((GRID, "--iterations", 0), "iterations=0 must be a whole number of at least 1"),
            ((GRID, "--seed", -1), "seed=-1 must be a whole number of at least 0"),
            ((GRID, "--beta", -1), "beta=-1.0"),
            ((GRID, "--discount", 1.5), "discount=1.5"),
            ((GRID, "--learning-rate", 0), "learning_rate=0.0 must be a finite number above 0"),
            ((GRID, "--num-envs", 9, "--episodes-per-batch", 8), "episodes_per_batch=8 is less than the 9"),
            ((GRID, "--cost", "cost"), "leave out --cost"),
            ((GRID, "--penalty", "Lagrangian"), "is not JSON"),
            ((GRID, "--penalty", '{"kind": "PrimalDual"}'), "choose from Quadratic, QuadraticContinuation"),
            ((GRID, "--penalty", '{"kind": ["Exact"]}'), "Unknown penalty ['Exact']"),
            ((GRID, "--penalty", '{"kind": "Exact", "b": 1}'), "Exact does not take these arguments"),
            ((GRID, "--penalty", '{"kind": "Exact", "beta": 1}', "--beta", 1), "give it or penalty, not both"),
            (("FrozenLake-v1", "--penalty", '{"kind": "Exact", "beta": 1}'), "reports no info['cost']"),
            ((GRID, "--env-kwargs", "{horizon: 5}"), "is not JSON"),
            ((GRID, "--env-kwargs", "5"), "must be a JSON object"),
            ((GRID, "--env-kwargs", '{"horizn": 5}'), "'horizn'"),
            ((GRID, "--env-kwargs", '{"horizon": 0}'), "horizon=0 must be"),
            (("FrozenLake-v1", "--env-kwargs", '{"map_name": "9x9"}'), "cannot be made with"),
            (("FrozenLake-v1", "--cost", "danger"), "reports no info['danger'] (it reports: prob)"),
            (("FrozenLake-v1", "--limit", 1), "reports no info['cost'] (it reports: prob)"),
            (("FrozenLake-v1", "--preset", "paper"), "preset belongs to -PGP- environments"),
            ((GRID, "--policy", "mlp", "--projection-radius", 1), "projection_radius is for tabular policies"),
            ((GRID, "--resume", "here"), f"leave out {GRID}"),
            ((GRID, "--extend"), "--resume"),
            ((GRID, "--objective", "constrained_maxent:functionals.Entropy"), "leave out --objective"),
            (
                ("FrozenLake-v1", "--objective", "functionals.Entropy"),
                "objective='functionals.Entropy'",
            ),
            (("FrozenLake-v1", "--constraint", "nowhere_at_all:Own"), "'nowhere_at_all' cannot be imported"),
            (("FrozenLake-v1", "--constraint", "math:tau"), "is a float"),
        ],
    )
    def test_in_settings(self, cmaxent, arguments, message):
        code, out, err = cmaxent("train", *arguments)
        assert (code, out) == (2, "")
        assert err.startswith("cmaxent: ")
        assert message in words(err)
        assert list(Path().iterdir()) == []

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("--num-env", 5), "Perhaps you meant: --num-envs INT"),
            (("--iterations", "many"), "Error parsing --iterations"),
            (("--beta", "unset"), "Error parsing --beta"),
            (("--preset", "papers"), "invalid choice 'papers' for argument '--preset'"),
            (("--pairing", "None"), "invalid choice 'None' for argument '--pairing'"),
            (("twice",), "Unrecognized options: twice"),
        ],
    )
    def test_in_options(self, cmaxent, arguments, message):
        code, out, err = cmaxent("train", GRID, *arguments)
        assert code == 2
        assert message in words(out + err)
        assert list(Path().iterdir()) == []

    def test_in_the_command(self, cmaxent):
        code, out, err = cmaxent("trian")
        assert (code, out) == (2, "")
        assert "'trian'. Did you mean train?" in err

    @pytest.mark.parametrize(("place", "message"), [("file", "file is a file"), ("file/run", "file is a file")])
    def test_a_folder_that_cannot_be_made(self, cmaxent, place, message):
        Path("file").write_text("mine")
        code, _, err = cmaxent("train", GRID, "--out", place)
        assert code == 2
        assert message in err
        assert Path("file").read_text() == "mine"

    @pytest.mark.parametrize("command", [("evaluate",), ("plot",), ("train", "--resume")])
    def test_folders_without_a_run(self, cmaxent, command):
        Path("empty").mkdir()
        for folder in ("empty", "nowhere"):
            code, _, err = cmaxent(*command, folder)
            assert (code, err) == (2, f"cmaxent: {folder} is not a run folder: config.json is missing.\n")
        assert list(Path().iterdir()) == [Path("empty")]

    @pytest.mark.parametrize("name", ["config.json", "checkpoint.pt"])
    @pytest.mark.parametrize("command", [("evaluate",), ("plot",), ("train", "--iterations", "9", "--resume")])
    def test_damaged_folders(self, train, cmaxent, command, name):
        train(GRID, "--out", "here")
        path = Path("here") / name
        path.write_bytes(path.read_bytes()[:50])
        code, _, err = cmaxent(*command, "here")
        assert code == 2
        assert err.startswith(f"cmaxent: here/{name} ")

    def test_damaged_metrics(self, train, cmaxent):
        train(GRID, "--out", "here")
        Path("here/metrics.csv").write_text("iteration,objective\n1\n")
        for command in (("plot",), ("train", "--iterations", "9", "--resume")):
            code, _, err = cmaxent(*command, "here")
            assert code == 2
            assert "here/metrics.csv is damaged" in err
        assert cmaxent("evaluate", "here")[0] == 0

    def test_no_episodes(self, train, cmaxent):
        train(GRID, "--out", "here")
        for option in (("--episodes", 0), ("--seed", -1)):
            code, _, err = cmaxent("evaluate", "here", *option)
            assert code == 2
            assert "at least" in err


class TestPlot:
    def test_draws_again(self, train, cmaxent):
        train(GRID, "--out", "here")
        for name in ("training.png", "occupancy.png"):
            Path("here", name).unlink()
        assert cmaxent("plot", "here") == (0, "here/training.png\nhere/occupancy.png\n", "")
        assert Path("here/occupancy.png").is_file()


class TestResume:
    def test_to_more_iterations(self, train, cmaxent):
        train(GRID, "--out", "here")
        code, out, err = cmaxent("train", "--resume", "here", "--iterations", 6, "--quiet", "--extend")
        assert (code, err) == (0, "")
        assert "6 iterations, finished" in out
        assert RunFolder("here").read_metrics()["iteration"].tolist() == [1, 2, 3, 4, 5, 6]

    def test_a_finished_run(self, train, cmaxent):
        train(GRID, "--out", "here")
        code, _, err = cmaxent("train", "--resume", "here")
        assert code == 2
        assert "here has done 4 iterations already: give --iterations a larger number" in err

    def test_to_the_default_number_if_that_is_given(self, train, cmaxent, monkeypatch):
        """Also a number that equals the default counts as given."""
        asked = []
        monkeypatch.setattr(
            "constrained_maxent.runs.resume",
            lambda folder, **options: asked.append(options["iterations"]) or 1 / 0,
        )
        train(GRID, "--out", "here")
        for given in (
            (),
            ("--iterations", 15_000),
            ("--iterations=15000",),
        ):
            with pytest.raises(ZeroDivisionError):
                cmaxent("train", "--resume", "here", *given)
        assert asked == [None, 15_000, 15_000]

    @pytest.mark.parametrize("option", [("--seed", 0), ("--seed=7",), ("--learning_rate", 0.5), ("--out", "there")])
    def test_settings_are_those_of_the_run(self, train, cmaxent, option):
        train(GRID, "--out", "here")
        code, _, err = cmaxent("train", "--resume", "here", "--iterations", 6, *option)
        assert code == 2
        assert f"leave out {str(option[0]).split('=')[0].replace('_', '-')}." in err


class TestProcess:
    """The real thing: another process, stopped from outside."""

    @pytest.fixture
    def start(self):
        processes = []

        def run(*arguments):
            process = subprocess.Popen(
                [sys.executable, "-m", "constrained_maxent.cli", "train", GRID, "--out", "here", *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
            processes.append(process)
            return process

        yield run
        for process in processes:
            process.kill()
            process.communicate()

    def wait(self, process, condition):
        for _ in range(1200):
            if condition():
                return
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        raise AssertionError("nothing happened for a minute")

    def test_ctrl_c(self, start, cmaxent):
        process = start("--iterations", "1000000", "--log-every", "1", "--checkpoint-every", "20")
        self.wait(process, Path("here/checkpoint.pt").exists)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert err == ""
        assert "Interrupted. To go on: cmaxent train --resume here" in out
        assert Path("here/training.png").is_file()
        folder = RunFolder("here")
        summary = folder.read_summary()
        assert summary["status"] == "interrupted"
        assert summary["iterations"] == folder.read_metrics()["iteration"][-1] >= 20
        code, out, _ = cmaxent("train", "--resume", "here", "--iterations", summary["iterations"] + 2, "--quiet")
        assert code == 0
        assert folder.read_summary()["status"] == "finished"
        iterations = folder.read_metrics()["iteration"].tolist()
        assert iterations == list(range(1, summary["iterations"] + 3))

    def test_kill(self, start, cmaxent):
        process = start("--iterations", "1000000", "--log-every", "1", "--checkpoint-every", "20", "--quiet")
        self.wait(process, Path("here/checkpoint.pt").exists)
        process.kill()
        process.communicate(timeout=60)
        folder = RunFolder("here")
        assert not folder.summary_path.exists()
        assert cmaxent("plot", "here")[0] == 0
        code, out, _ = cmaxent("evaluate", "here", "--episodes", 8)
        assert code == 0
        done = int(out.split("iteration ")[1].split()[0])
        code, out, _ = cmaxent("train", "--resume", "here", "--iterations", done + 2, "--quiet")
        assert code == 0
        assert folder.read_summary()["status"] == "finished"
        assert folder.read_metrics()["iteration"].tolist() == list(range(1, done + 3))


def test_ctrl_c_elsewhere(cmaxent, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("constrained_maxent.runs.draw_run", interrupt)
    assert cmaxent("plot", "here") == (130, "", "cmaxent: interrupted.\n")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["train", "--help"]])
def test_help_waits_for_nothing_that_it_does_not_need(arguments):
    code = (
        "import sys\nfrom constrained_maxent.cli import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit:\n    pass\n"
        "late = {'torch', 'cvxpy', 'sklearn', 'matplotlib', 'tensorboard', 'numba', 'mujoco', 'stable_baselines3'}\n"
        "print('loaded:', *(late & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded:"
