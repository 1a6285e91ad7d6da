"""One run of a sweep in this process: what is trained, what is left alone, and what is said of failures."""

import json
import shutil

import pytest

from constrained_maxent import runs
from constrained_maxent.runs import RunFolder, SweepPlan
from constrained_maxent.runs.lock import Lock
from constrained_maxent.runs.sweeps.performing import SWEEP, perform

TOKEN = "theirs"


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "sweep"
    folder.mkdir()
    (folder / SWEEP).write_text(json.dumps({"token": TOKEN, "runs": {}}))
    return folder


def contents(folder):
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir() if path.is_file()}


def test_the_numbers_are_those_of_a_training_alone(place, tmp_path, described, learnt):
    planned = SweepPlan.of(described()).runs[1]
    assert perform(planned, place, TOKEN).state == "finished"
    alone = runs.train(planned.env_id, planned.settings, RunFolder(tmp_path / "alone"))
    assert learnt(RunFolder(place / planned.name)) == learnt(alone.folder)
    assert json.loads((place / planned.name / "config.json").read_text()) == alone.folder.read_config()
    before = contents(place / planned.name)
    assert perform(planned, place, TOKEN).state == "finished"
    assert contents(place / planned.name) == before


def test_an_interrupted_run_goes_on(place, described, learnt):
    planned, whole = (SweepPlan.of(described(settings={"iterations": n})).runs[0] for n in (5, 5))
    assert perform(whole, place, TOKEN).state == "finished"
    folder = RunFolder(place / planned.name)
    finished = learnt(folder)
    shutil.rmtree(folder.path)
    short = SweepPlan.of(described(settings={"iterations": 2})).runs[0]
    runs.train(short.env_id, short.settings, folder)
    folder.summary_path.unlink()
    folder.write_json(folder.config_path, planned.config())
    assert perform(planned, place, TOKEN).state == "finished"
    assert folder.read_summary()["iterations"] == 5
    assert learnt(folder) == finished
    # Killed between its last checkpoint and its summary: there is nothing to go on with.
    folder.summary_path.unlink()
    assert perform(planned, place, TOKEN).state == "finished"
    assert learnt(folder) == finished


def test_what_another_process_is_at_is_left_to_it(place, described):
    planned = SweepPlan.of(described()).runs[0]
    (place / planned.name).mkdir()
    with Lock(place / planned.name / "run.lock"):
        outcome = perform(planned, place, TOKEN)
        assert outcome.state == "elsewhere"
        assert "in use" in outcome.reason
        assert [path.name for path in (place / planned.name).iterdir()] == ["run.lock"]


def test_a_run_of_other_settings_stays(place, described):
    there, asked = (SweepPlan.of(described(settings={"learning_rate": rate})).runs[0] for rate in (0.1, 0.2))
    perform(there, place, TOKEN)
    before = contents(place / there.name)
    outcome = perform(asked, place, TOKEN)
    assert outcome.state == "failed"
    assert "learning_rate is 0.1 there, and 0.2 is asked for" in outcome.reason
    assert contents(place / there.name) == before


def test_files_that_are_no_run_s_stay(place, described):
    planned = SweepPlan.of(described()).runs[0]
    (place / planned.name).mkdir()
    (place / planned.name / "metrics.csv").write_text("mine")
    assert "may be something else" in perform(planned, place, TOKEN).reason
    assert (place / planned.name / "metrics.csv").read_text() == "mine"


def test_storage_that_is_not_shared(place, described):
    planned = SweepPlan.of(described()).runs[0]
    (place / SWEEP).write_text(json.dumps({"token": "of another folder", "runs": {}}))
    assert "all machines share" in perform(planned, place, TOKEN).reason
    assert [path.name for path in place.iterdir()] == [SWEEP]


def test_an_environment_that_ends_the_program(place, described, monkeypatch):
    planned = SweepPlan.of(described()).runs[0]

    def leave(self, action):
        raise SystemExit(3)

    import tiny_module

    monkeypatch.setattr(tiny_module.Tiny, "step", leave)
    outcome = perform(planned, place, TOKEN)
    assert (outcome.state, outcome.reason.split("\n")[0]) == ("failed", "SystemExit: 3")
    assert "in leave" in outcome.traceback
