"""Warnings of a training: kept once each, still shown, and there after a kill and a resume."""

import json
import warnings

import gymnasium as gym
import pytest

from constrained_maxent.errors import HorizonMismatch, InvalidRun
from constrained_maxent.runs import RunFolder, TrainSettings, resume, train
from constrained_maxent.runs.warned import kept_warnings


def kept_of(*given, known=()):
    """What is kept of warnings, each an iteration and a text."""
    with kept_warnings(known) as kept:
        for iteration, text in given:
            kept.iteration = iteration
            warnings.warn(text, HorizonMismatch, stacklevel=1)
    return kept.entries


def entry(text, iteration):
    return {"category": "HorizonMismatch", "message": text, "iteration": iteration}


class TestKept:
    def test_once_each_and_shown_as_before(self):
        with pytest.warns(HorizonMismatch) as shown:
            kept = kept_of((None, "first"), (2, "second"), (5, "first"))
        assert [str(warning.message) for warning in shown] == ["first", "second", "first"]
        assert kept == [entry("first", None), entry("second", 2)]

    def test_what_is_known_is_not_added(self):
        with pytest.warns(HorizonMismatch):
            assert kept_of((3, "known"), known=[entry("known", 1)]) == [entry("known", 1)]

    @pytest.mark.filterwarnings("ignore::constrained_maxent.errors.HorizonMismatch")
    def test_what_a_filter_leaves_out_is_not_kept(self):
        assert kept_of((1, "silent")) == []

    def test_a_second_training_is_warned_of_the_same(self):
        """Python shows a warning of one line once; whoever trains twice has two reports."""
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("default")
            assert [kept_of((1, "again")) for _ in range(2)] == [[entry("again", 1)]] * 2

    def test_the_hook_is_put_back(self):
        before = warnings.showwarning
        with kept_warnings():
            assert warnings.showwarning is not before
        assert warnings.showwarning is before


class Talkative(gym.Wrapper):
    """Warns in its constructor, and once more in its 30th step."""

    def __init__(self, env):
        super().__init__(env)
        self.steps = 0
        warnings.warn("it begins", UserWarning, stacklevel=1)

    def step(self, action):
        self.steps += 1
        if self.steps == 30:
            warnings.warn("step 30", UserWarning, stacklevel=1)
        return super().step(action)


@pytest.fixture
def talkative():
    gym.register("Talkative-v0", lambda: Talkative(gym.make("FrozenLake-v1", max_episode_steps=10, is_slippery=False)))
    yield "Talkative-v0"
    del gym.registry["Talkative-v0"]


# Every episode of a policy that is nearly uniform ends in a hole or at the limit of 10 steps.
SETTINGS = TrainSettings(iterations=6, num_envs=1, episodes_per_batch=5, cost=None, checkpoint_every=4)


def test_of_a_training_and_of_one_that_goes_on(talkative, tmp_path):
    folder = RunFolder(tmp_path / "run")
    with pytest.warns(UserWarning, match="it begins|step 30"):
        train(talkative, SETTINGS, folder)
    first, second = kept = folder.read_summary()["warnings"]
    assert (first["category"], first["message"], first["iteration"]) == ("UserWarning", "it begins", None)
    assert second["message"] == "step 30"
    # 5 episodes of at most 10 steps, so that step 30 is in no batch before the first and in none after the sixth.
    assert 0 <= second["iteration"] < 6
    assert folder.read_warnings() == kept
    folder.summary_path.unlink()  # as a kill leaves it
    with pytest.warns(UserWarning, match="it begins|step 30"):
        resume(folder, iterations=7)
    assert folder.read_summary()["warnings"] == kept
    with pytest.warns(UserWarning, match="it begins|step 30"):
        train(talkative, SETTINGS, folder, overwrite=True)
    assert folder.read_summary()["warnings"] == kept


def test_without_any_there_is_no_file(run):
    folder = run().folder
    assert folder.read_summary()["warnings"] == []
    assert not folder.warnings_path.exists()
    assert folder.read_warnings() == []


def test_damaged(run):
    folder = run(iterations=2).folder
    before = folder.checkpoint_path.read_bytes()
    folder.warnings_path.write_text(json.dumps({"warnings": ["words"]}))
    with pytest.raises(InvalidRun, match=r"warnings\.json is damaged"):
        resume(folder, iterations=4)
    assert folder.checkpoint_path.read_bytes() == before
