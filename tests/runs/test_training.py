"""Training runs: what the folder holds, and that stopping anywhere and going on changes nothing."""

import csv
import json
import platform
import signal
import time
from importlib.metadata import version

import gymnasium as gym
import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from constrained_maxent.agents import PGPSettings
from constrained_maxent.errors import (
    CheckpointMismatch,
    ConstrainedMaxentError,
    DamagedCheckpoint,
    FolderInUse,
    InvalidData,
    InvalidRun,
    InvalidSetting,
)
from constrained_maxent.evaluation import ExactProblem
from constrained_maxent.occupancy import Gaussians, Mixture
from constrained_maxent.references import Reference
from constrained_maxent.runs.interrupts import stop_on_request
from constrained_maxent.runs.recorder import Recorder
from constrained_maxent.runs.run_folder import RunFolder, default_folder
from constrained_maxent.runs.training import load_config, resume, train
from constrained_maxent.tracker import find_tracker

COLUMNS = [
    "iteration",
    "timesteps",
    "seconds",
    "objective",
    "penalty",
    "gradient_norm",
    "critic_loss",
    "constraint_cost",
    "objective_fresh",
    "constraint_cost_fresh",
    "multiplier_cost",
    "exact_objective",
    "exact_constraint_cost",
]


def equal(first, second):
    """Whether two checkpoints hold the same, to the last bit."""
    if isinstance(first, torch.Tensor):
        return first.dtype == second.dtype and torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(equal(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(equal, first, second))
    return first == second


def learnt(folder):
    """The metrics without how long they took, as they are written."""
    with folder.metrics_path.open() as file:
        return [{**row, "seconds": None} for row in csv.DictReader(file)]


def same_run(first, second):
    """Checkpoints and metrics of two folders are equal."""
    checkpoints = [torch.load(folder.checkpoint_path, weights_only=True) for folder in (first, second)]
    return equal(*checkpoints) and learnt(first) == learnt(second)


@pytest.fixture
def stop_at(monkeypatch):
    """Lets something happen after an iteration was recorded: Ctrl-C, or an error."""

    def arrange(iteration, happen):
        record = Recorder.record

        def and_then(self, agent, report):
            record(self, agent, report)
            if report.iteration == iteration:
                monkeypatch.undo()
                happen()

        monkeypatch.setattr(Recorder, "record", and_then)

    return arrange


def press_ctrl_c():
    signal.raise_signal(signal.SIGINT)


def fail():
    raise ZeroDivisionError


def die():
    """Nothing is saved any more, as after kill -9: another process took the folder over."""
    raise FolderInUse


class TestFolder:
    @pytest.fixture
    def result(self, run):
        return run()

    def test_config(self, result, short):
        config = json.loads(result.folder.config_path.read_text())
        assert config == {"env_id": "FrozenLake-PGP-v0", "settings": json.loads(json.dumps(short().to_json()))}
        assert load_config(result.folder) == ("FrozenLake-PGP-v0", short())

    def test_metrics(self, result):
        with result.folder.metrics_path.open() as file:
            header, *rows = csv.reader(file)
        assert header == COLUMNS
        table = [dict(zip(header, row, strict=True)) for row in rows]
        assert [int(row["iteration"]) for row in table] == list(range(1, 13))
        # The first seven are evaluated, and then every second one; there is no critic; all others are there always.
        evaluated = [int(row["iteration"]) for row in table if row["exact_objective"] != ""]
        assert evaluated == [1, 2, 3, 4, 5, 6, 7, 8, 10, 12]
        assert {row["critic_loss"] for row in table} == {""}
        assert all(row[name] for row in table for name in COLUMNS[:6] + COLUMNS[7:9])
        # 32 episodes of up to 25 steps an iteration, and at most 8 more that are under way when the last of them ends.
        assert 0 < int(table[0]["timesteps"]) <= 2 * 40 * 25 < int(table[-1]["timesteps"]) <= 12 * 40 * 25

    def test_summary(self, result):
        summary = result.folder.read_summary()
        assert summary == json.loads(json.dumps(result.summary))
        assert (summary["status"], summary["seed"], summary["iterations"]) == ("finished", 3, 12)
        assert not result.interrupted
        problem = ExactProblem.from_env(gym.make("FrozenLake-PGP-v0"))
        for name, policy in (("exact", result.agent.policy_table()), ("uniform_policy", np.full((36, 4), 0.25))):
            exact = problem.evaluate(policy)
            assert summary[name]["objective"] == pytest.approx(exact.objective)
            assert summary[name]["constraints"] == pytest.approx(dict(exact.constraints))
            assert summary[name]["mass"] == pytest.approx(exact.mass)
        last = result.folder.read_metrics()
        assert last["exact_objective"][-1] == summary["exact"]["objective"]
        assert last["objective"][-1] == summary["estimate"]["objective"]
        assert last["constraint_cost"][-1] == summary["estimate"]["constraints"]["cost"]
        assert last["timesteps"][-1] == summary["timesteps"] == result.agent.timesteps
        assert summary["versions"] == {
            "python": platform.python_version(),
            **{name: version(name) for name in ("constrained-maxent", "gymnasium", "numpy", "torch")},
        }
        assert summary["steps_per_second"] > 0
        assert 0.0 < last["seconds"][0] <= last["seconds"][-1] <= summary["seconds"] + 0.005  # which is rounded
        assert (np.diff(last["seconds"]) >= 0.0).all()

    def test_tensorboard(self, result):
        events = EventAccumulator(str(result.folder.path)).Reload()
        metrics = result.folder.read_metrics()
        assert set(events.Tags()["scalars"]) == set(COLUMNS) - {"iteration", "critic_loss"}
        for name in ("objective", "exact_objective"):
            known = ~np.isnan(metrics[name])
            scalars = events.Scalars(name)
            assert [event.step for event in scalars] == metrics["iteration"][known].tolist()
            np.testing.assert_allclose([event.value for event in scalars], metrics[name][known], rtol=1e-6)

    def test_nothing_else(self, result):
        names = sorted(file.name for file in result.folder.path.iterdir() if "tfevents" not in file.name)
        assert names == ["checkpoint.pt", "config.json", "metrics.csv", "summary.json"]


def test_networks_have_no_exact_evaluation(run):
    agent = PGPSettings(policy="mlp", baseline="critic", hidden_sizes=(8,), critic_steps=2)
    result = run(iterations=3, log_every=1, agent=agent)
    assert result.summary["exact"] is None
    assert result.summary["uniform_policy"]["objective"] > 0.0
    metrics = result.folder.read_metrics()
    assert np.isnan(metrics["exact_objective"]).all()
    assert np.isfinite(metrics["critic_loss"]).all()


def test_a_cost_that_is_not_known_exactly(run):
    result = run(env_id="FrozenLake-v1", iterations=2, cost="prob")
    assert result.summary["exact"] is result.summary["uniform_policy"] is None
    # Every step costs its probability 1/3; the steps of an infinite episode weigh 1 in all.
    assert 0.0 < result.summary["estimate"]["constraints"]["cost"] <= 1 / 3


@pytest.mark.filterwarnings("ignore:The run goes on past its planned end")
class TestGoingOn:
    @pytest.mark.parametrize(
        ("env_id", "settings"),
        [
            ("FrozenLake-PGP-v0", {}),
            ("FrozenLake-PGP-v0", {"pairing": "split", "memory": 0.5}),
            ("FrozenLake-PGP-v0", {"pairing": "previous", "num_envs": 3}),
            ("FrozenLake-v1", {"num_envs": 4, "cost": "prob"}),
            (
                "SafeFrozenLake-v0",
                {"agent": PGPSettings(policy="mlp", baseline="critic", hidden_sizes=(8,), critic_steps=2)},
            ),
        ],
    )
    @pytest.mark.parametrize(
        ("iteration", "happen"),
        [(7, press_ctrl_c), (7, die), (5, die)],  # between two checkpoints, and on one
    )
    def test_equals_a_run_that_was_not_stopped(self, run, stop_at, env_id, settings, iteration, happen):
        whole = run("whole", env_id, **settings)
        stop_at(iteration, happen)
        if happen is die:
            with pytest.raises(FolderInUse):
                run("stopped", env_id, **settings)
            folder = RunFolder(whole.folder.path.with_name("stopped"))
            assert not folder.summary_path.exists()
        else:
            stopped = run("stopped", env_id, **settings)
            folder = stopped.folder
            assert stopped.interrupted
            assert (stopped.summary["status"], stopped.summary["iterations"]) == ("interrupted", iteration)
        assert not same_run(whole.folder, folder)
        resumed = resume(folder)
        assert same_run(whole.folder, folder)
        assert resumed.summary["status"] == "finished"
        for name in ("iterations", "timesteps", "estimate", "exact"):
            assert resumed.summary[name] == whole.summary[name]

    def test_seconds_go_on_from_those_before(self, run):
        folder = run("short", iterations=7, log_every=4, preset="paper").folder  # rows 1 to 7
        folder.keep_metrics_until(4)
        *rows, last = folder.metrics_path.read_text().splitlines()
        entries = last.split(",")
        entries[COLUMNS.index("seconds")] = "1000.0"  # the fourth of seven iterations: the seventh came at 1750
        folder.metrics_path.write_text("\n".join([*rows, ",".join(entries), ""]))
        resume(folder, iterations=8)
        *_, before, after = folder.read_metrics()["seconds"]
        assert before == 1000.0
        assert 1750.0 < after < 1800.0

    def test_after_a_kill_in_the_middle_of_a_line(self, run, stop_at):
        whole = run("whole")
        stop_at(9, die)
        with pytest.raises(FolderInUse):
            run("killed")
        folder = RunFolder(whole.folder.path.with_name("killed"))
        with folder.metrics_path.open("a") as file:
            file.write("10,18")
        resume(folder)
        assert same_run(whole.folder, folder)

    def test_events_past_the_checkpoint_are_forgotten(self, run, stop_at):
        stop_at(9, fail)
        with pytest.raises(ZeroDivisionError):
            run()
        folder = RunFolder(run("other").folder.path.with_name("run"))
        time.sleep(1.1)  # files of events are read in the order of their names, which have the second in them
        resume(folder)
        events = EventAccumulator(str(folder.path)).Reload().Scalars("objective")
        assert [event.step for event in events] == folder.read_metrics()["iteration"].tolist() == list(range(1, 13))

    def test_to_more_iterations(self, run):
        folder = run("short", iterations=8, preset="paper").folder  # without schedules
        folder.evaluation_path.write_text("{}")  # of the policy after 8
        result = resume(folder, iterations=12)
        assert not folder.evaluation_path.exists()
        assert result.summary["status"] == "finished"
        assert load_config(folder)[1].iterations == result.agent.iteration == 12
        whole = run("whole", preset="paper").folder
        assert learnt(whole) == learnt(folder)
        assert whole.read_summary()["exact"] == folder.read_summary()["exact"]

    @pytest.mark.parametrize(("extend", "progress"), [(False, 1.0), (True, 0.5)])
    def test_the_plan_is_that_of_the_first_training_unless_it_is_extended(self, run, stop_at, extend, progress):
        folder = run(iterations=6).folder
        stop_at(8, press_ctrl_c)
        stopped = resume(folder, iterations=16, extend=extend)
        tracker = find_tracker(stopped.agent.env)
        assert (tracker.iteration, tracker.progress) == (8, progress)
        # β of the grid's penalty grows geometrically from 0.005 to 40.
        beta = tracker.problem.constraints["cost"].penalty.beta
        assert beta == pytest.approx(0.005 * (40.0 / 0.005) ** progress)
        # Resumed once more, the plan is still that.
        assert find_tracker(resume(folder).agent.env).progress == 1.0

    def test_a_finished_run(self, run):
        folder = run().folder
        before = {file: file.read_bytes() for file in folder.path.iterdir()}
        with pytest.raises(InvalidRun, match="has done 12 iterations already: give --iterations a larger number"):
            resume(folder)
        with pytest.raises(InvalidRun, match="has done 12 iterations already"):
            resume(folder, iterations=12)
        assert {file: file.read_bytes() for file in folder.path.iterdir()} == before

    def test_a_stale_summary_does_not_outlive_the_next_start(self, run, stop_at):
        folder = run().folder
        stop_at(14, fail)
        with pytest.raises(ZeroDivisionError):
            resume(folder, iterations=20)
        assert not folder.summary_path.exists()
        assert load_config(folder)[1].iterations == 20

    def test_batches_of_steps_go_on_too(self, run, stop_at):
        stop_at(3, press_ctrl_c)
        folder = run(steps_per_batch=100, num_envs=4).folder
        assert resume(folder).summary["status"] == "finished"
        assert folder.read_metrics()["iteration"].tolist() == list(range(1, 13))


@pytest.mark.filterwarnings("ignore:The run goes on past its planned end")
class TestNothingToGoOnFrom:
    def test_no_folder(self, tmp_path):
        with pytest.raises(InvalidRun, match=r"nowhere is not a run folder: config\.json is missing"):
            resume(RunFolder(tmp_path / "nowhere"))

    def test_before_the_first_checkpoint(self, run, stop_at, tmp_path, short):
        stop_at(3, die)
        with pytest.raises(FolderInUse):
            run()
        folder = RunFolder(tmp_path / "run")
        with pytest.raises(InvalidRun, match="has no checkpoint"):
            resume(folder)
        with pytest.raises(InvalidRun, match="cannot be continued"):
            run()
        train("FrozenLake-PGP-v0", short(), folder, overwrite=True)
        assert same_run(run("whole").folder, folder)

    @pytest.mark.parametrize(
        ("name", "content", "error", "message"),
        [
            ("config.json", b"{", InvalidRun, "config.json is not valid JSON"),
            (
                "config.json",
                b'{"env_id": "FrozenLake-PGP-v0"}',
                InvalidRun,
                "config.json must have env_id and settings",
            ),
            ("config.json", b'{"env_id": 3, "settings": {}}', InvalidRun, "config.json must have env_id and settings"),
            ("config.json", b'{"env_id": "Lake-v9", "settings": {}}', InvalidSetting, "no environment 'Lake-v9'"),
            (
                "config.json",
                b'{"env_id": "Taxi", "settings": {"x": 1}}',
                InvalidRun,
                "config.json has settings that do",
            ),
            ("metrics.csv", b"iteration\n1,2\n", InvalidRun, "metrics.csv is damaged"),
            ("metrics.csv", b"iteration,a\n1,2\n", InvalidRun, "metrics.csv has the columns"),
            ("checkpoint.pt", b"PK\x03\x04", DamagedCheckpoint, "checkpoint.pt cannot be read"),
        ],
    )
    def test_damage_changes_nothing(self, run, name, content, error, message):
        """The named error, every other file as it was, and with the right file the run can go on."""
        folder = run().folder
        damaged = folder.path / name
        sound = damaged.read_bytes()
        damaged.write_bytes(content)
        before = {file: file.read_bytes() for file in folder.path.iterdir()}
        with pytest.raises(error, match=message):
            resume(folder, iterations=15)
        assert {file: file.read_bytes() for file in folder.path.iterdir()} == before
        damaged.write_bytes(sound)
        assert resume(folder, iterations=15).agent.iteration == 15

    def test_a_checkpoint_of_another_environment(self, run):
        folder = run().folder
        run("other", "FrozenLake-v1").folder.checkpoint_path.replace(folder.checkpoint_path)
        with pytest.raises(CheckpointMismatch, match="FrozenLake-v1"):
            resume(folder, iterations=15)


class TestMistakes:
    @pytest.mark.parametrize(
        ("env_id", "settings"),
        [
            ("FrozenLake-PGP", {}),
            ("CartPole-v1", {"state": ("9",)}),
            ("FrozenLake-PGP-v0", {"beta": -1.0}),
            ("FrozenLake-PGP-v0", {"agent": PGPSettings(policy="mlp", projection_radius=1.0)}),
            ("Pendulum-v1", {"state": ("0:1", "2"), "agent": PGPSettings(policy="tabular")}),
        ],
    )
    @pytest.mark.parametrize("overwrite", [False, True])
    def test_leave_the_folder_alone(self, run, short, tmp_path, env_id, settings, overwrite):
        folder = run().folder if overwrite else RunFolder(tmp_path / "never")
        with pytest.raises(ConstrainedMaxentError):
            train(env_id, short(**settings), folder, overwrite=overwrite)
        if overwrite:
            assert folder.read_summary()["status"] == "finished"
        else:
            assert not folder.path.exists()

    @pytest.fixture
    def misfit(self, tmp_path, short):
        """Settings with a reference that only the first batch shows to be one of another state."""
        Reference(Mixture(Gaussians(np.ones(1), np.zeros((1, 3)), np.eye(3)[None]))).save(tmp_path / "cube.npz")
        kwargs = {"reference": str(tmp_path / "cube.npz"), "time_limit": 0.2}
        return short(
            limit=1.0,
            num_envs=2,
            steps_per_batch=20,
            env_kwargs=json.dumps(kwargs),
            agent=PGPSettings(hidden_sizes=(4,)),
        )

    def test_the_first_iteration_shows_one(self, misfit, tmp_path):
        folder = RunFolder(tmp_path / "misfit")
        for _ in range(2):  # the second try finds nothing in its way
            with pytest.raises(InvalidData, match="over 3 coordinates"):
                train("PointMass-PGP-v0", misfit, folder)
            assert not folder.path.exists()
        folder.path.mkdir()
        (folder.path / "notes.txt").write_text("mine")
        with pytest.raises(InvalidData, match="over 3 coordinates"):
            train("PointMass-PGP-v0", misfit, folder)
        assert [file.name for file in folder.path.iterdir()] == ["notes.txt"]

    def test_the_first_iteration_shows_one_of_a_run_that_would_replace_another(self, run, misfit):
        folder = run().folder
        before = {file: file.read_bytes() for file in folder.path.iterdir()}
        with pytest.raises(InvalidData, match="over 3 coordinates"):
            train("PointMass-PGP-v0", misfit, folder, overwrite=True)
        assert {file: file.read_bytes() for file in folder.path.iterdir()} == before

    def test_one_that_stops_the_first_iteration_after_a_resume(self, run, monkeypatch):
        folder = run().folder
        before = {file: file.read_bytes() for file in folder.path.iterdir()}
        monkeypatch.setattr("constrained_maxent.agents.PGP.learn", lambda *_, **__: fail())
        with pytest.raises(ZeroDivisionError):
            resume(folder, iterations=20)
        assert {file: file.read_bytes() for file in folder.path.iterdir()} == before

    def test_a_run_that_is_there(self, run, short):
        first = run()
        with pytest.raises(InvalidRun, match="holds a run already"):
            run(seed=4)
        assert first.folder.read_summary()["seed"] == 3
        train("FrozenLake-PGP-v0", short(seed=4), first.folder, overwrite=True)
        assert first.folder.read_summary()["seed"] == 4
        assert len(list(first.folder.path.glob("events.*"))) == 1


class TestStopOnRequest:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_first_asks_second_interrupts(self, number):
        with stop_on_request() as interrupts:
            assert not interrupts.asked
            signal.raise_signal(number)
            assert interrupts.asked
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_puts_the_old_handler_back(self, number):
        before = signal.getsignal(number)
        with stop_on_request():
            assert signal.getsignal(number) != before
        assert signal.getsignal(number) == before

    def test_a_second_ctrl_c_leaves_what_was_finished(self, run, stop_at, tmp_path):
        stop_at(7, lambda: (press_ctrl_c(), press_ctrl_c()))
        stopped = run()
        assert (stopped.interrupted, stopped.summary["iterations"]) == (True, 6)
        folder = RunFolder(tmp_path / "run")
        resume(folder)
        assert same_run(run("whole").folder, folder)


def test_default_folder():
    assert default_folder("module:Space/Lake-v0", 4).parts == ("runs", "module-Space-Lake-v0-seed4")
