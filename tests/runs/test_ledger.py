"""A training that records has every transition that it paid for, once, with the iteration that paid."""

import contextlib
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from constrained_maxent import runs
from constrained_maxent.adapters import minari as minari_adapter
from constrained_maxent.agents.settings import PGPSettings
from constrained_maxent.errors import FolderInUse, InvalidDataset, InvalidRun
from constrained_maxent.runs import ledger
from constrained_maxent.tracker import find_tracker

minari = pytest.importorskip("minari")
pytestmark = pytest.mark.usefixtures("datasets")


def settings(iterations: int, **more: Any) -> runs.TrainSettings:
    return runs.TrainSettings(iterations=iterations, record="lake/paid-v0", **more)


def transitions(timesteps: int, episodes: list[Any]) -> int:
    """Of as many steps as agents count; the call that resets a copy whose episode ended early is none."""
    return timesteps - sum(bool(episode.terminations[-1]) and len(episode) < 25 for episode in episodes)


def test_every_step_is_there_once_also_of_a_run_that_goes_on(tmp_path: Path) -> None:
    folder = runs.RunFolder(tmp_path / "run")
    first = runs.train("FrozenLake-PGP-v0", settings(2), folder).agent.timesteps
    before = list(minari.load_dataset("lake/paid-v0"))
    assert sum(map(len, before)) == transitions(first, before)
    result = runs.resume(folder, iterations=3, extend=True)
    data = minari.load_dataset("lake/paid-v0")
    episodes = list(data)
    assert data.total_steps == sum(map(len, episodes)) == transitions(result.agent.timesteps, episodes)
    paid_by = np.concatenate([episode.infos["iteration"] for episode in episodes])
    assert set(paid_by) == {1, 2, 3}
    assert np.count_nonzero(paid_by <= 2) == sum(map(len, before))
    for old, new in zip(before, episodes, strict=False):  # what was there has stayed as it was
        np.testing.assert_array_equal(old.actions, new.actions)
    # Nothing but the whole episodes of its batch is in the last report: their mean cost, weighed by 0.99ᵗ.
    batch = [episode for episode in episodes if episode.infos["iteration"][0] == 3][:16]
    by_hand = np.mean([episode.infos["cost"] @ 0.99 ** np.arange(len(episode)) for episode in batch])
    tracker = find_tracker(result.agent.env)
    assert tracker.last_batch.n_episodes == 16
    assert by_hand == pytest.approx(float((tracker.last_batch.weights * tracker.last_batch.costs["cost"]).sum()) / 16)
    about = data.storage.metadata["constrained_maxent"]
    assert about["iterations"] == 3
    assert about["problem"]["constraints"]
    assert about["versions"]["minari"]
    # Called from Python, too: it is the training that made the data.
    assert about["command"] == "cmaxent train FrozenLake-PGP-v0 --iterations 3 --record lake/paid-v0"


def test_what_was_under_way_at_the_last_checkpoint_of_a_killed_run_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of 20 steps, of episodes that take more: each checkpoint is in the middle of some."""
    stepped, step = [], minari_adapter.Recording.step

    def counted(self: Any, actions: Any) -> Any:
        stepped.append(int(self._active.sum()))
        return step(self, actions)

    monkeypatch.setattr(minari_adapter.Recording, "step", counted)
    settings = runs.TrainSettings(
        iterations=3, num_envs=2, steps_per_batch=20, record="pole/paid-v0", checkpoint_every=1, cost="terminated"
    )
    folder = runs.RunFolder(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(ledger.Ledger, "publish", lambda self, until: None)  # as if it was killed after the last one
        runs.train("CartPole-v1", settings, folder)
    with pytest.raises(InvalidDataset, match="no data set"):
        runs.evaluate_dataset("pole/paid-v0")
    with monkeypatch.context() as patch:
        patch.setattr(ledger.Ledger, "publish", lambda self, until: None)
        runs.resume(folder, iterations=5)
    with pytest.raises(InvalidRun, match="5 iterations already, and its data set 'pole/paid-v0' is made now"):
        runs.resume(folder)
    episodes = list(minari.load_dataset("pole/paid-v0"))
    paid_by = np.concatenate([episode.infos["iteration"] for episode in episodes])
    assert len(paid_by) == sum(stepped)
    assert np.bincount(paid_by)[1:].sum() == sum(stepped)
    assert set(paid_by) == {1, 2, 3, 4, 5}
    assert all(episode.terminations[-1] or episode.truncations[-1] for episode in episodes)


def test_a_kill_between_two_files_neither_loses_steps_nor_has_them_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def episode(first: int, n: int) -> minari_adapter.Episode:
        columns = {"observations": np.arange(first, first + n + 1.0), "rewards": np.arange(first, first + float(n))}
        return minari_adapter.Episode(None, columns)

    def steps(store: minari_adapter.Store) -> list[float]:
        store.end_under_way(10)
        numbers = sorted(store.lengths())
        return sorted(np.concatenate([found.columns["rewards"] for found in store.episodes(numbers)]).tolist())

    for killed_at in (1, 2):
        store = minari_adapter.Store(f"some/of{killed_at}-v0", {})
        store.begin()
        store.write({0: episode(0, 3)}, [episode(10, 2), episode(20, 1)])
        write, written = store._write, []

        def failing(*given: Any, at: int = killed_at, write: Any = write, written: Any = written) -> None:
            if len(written) == at:
                raise KeyboardInterrupt
            written.append(given)
            write(*given)

        monkeypatch.setattr(store, "_write", failing)
        with contextlib.suppress(KeyboardInterrupt):  # one of the two has ended, the other has gone on
            store.write({1: episode(10, 4)}, [episode(20, 3)])
        before, after = [0, 1, 2, 10, 11, 20], [0, 1, 2, 10, 11, 12, 13, 20, 21, 22]
        assert steps(minari_adapter.Store(f"some/of{killed_at}-v0", {})) == (before if killed_at == 1 else after)


def test_a_new_run_does_not_record_into_anothers(tmp_path: Path) -> None:
    runs.train("FrozenLake-PGP-v0", settings(1), runs.RunFolder(tmp_path / "run"))
    with pytest.raises(InvalidDataset, match="another name"):
        runs.train("FrozenLake-PGP-v0", settings(1), runs.RunFolder(tmp_path / "other"))
    assert not (tmp_path / "other" / "checkpoint.pt").exists()


def killed(folder: runs.RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training of an iteration that was killed before it made its data set."""
    with monkeypatch.context() as patch:
        patch.setattr(ledger.Ledger, "publish", lambda self, until: None)
        runs.train("FrozenLake-PGP-v0", settings(1), folder)


def test_another_training_does_not_take_what_was_killed(
    tmp_path: Path, datasets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, other = runs.RunFolder(tmp_path / "run"), runs.RunFolder(tmp_path / "other")
    killed(folder, monkeypatch)
    with pytest.raises(InvalidDataset, match=r"beta is None and not 7\.0"):
        runs.train("FrozenLake-PGP-v0", settings(1, beta=7.0), other)
    with pytest.raises(InvalidDataset, match="learning_rate"):
        runs.train("FrozenLake-PGP-v0", settings(1, agent=PGPSettings(learning_rate=0.5)), other)
    with pytest.raises(InvalidDataset, match="the beginning of a data set"):
        runs.train("FrozenLake-PGP-v0", settings(1), other)
    assert not other.path.exists()
    steps = runs.resume(folder, iterations=2, extend=True).agent.timesteps
    episodes = list(minari.load_dataset("lake/paid-v0"))
    assert sum(map(len, episodes)) == transitions(steps, episodes)


def test_the_same_training_begun_again_replaces_what_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = runs.RunFolder(tmp_path / "run")
    killed(folder, monkeypatch)
    steps = runs.train("FrozenLake-PGP-v0", settings(1), folder, overwrite=True).agent.timesteps
    episodes = list(minari.load_dataset("lake/paid-v0"))
    assert sum(map(len, episodes)) == transitions(steps, episodes)


def test_one_training_at_a_time_records_into_a_data_set(tmp_path: Path, datasets: Path) -> None:
    with ledger.held(minari_adapter.Store("lake/paid-v0", {})), pytest.raises(FolderInUse, match="paid-v0"):
        runs.train("FrozenLake-PGP-v0", settings(1), runs.RunFolder(tmp_path / "run"))
    assert not (datasets / "lake" / "paid-v0").exists()  # nor does who wrote nothing leave anything


def test_what_was_recorded_before_has_to_be_there(
    tmp_path: Path, datasets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = runs.RunFolder(tmp_path / "run")
    runs.train("FrozenLake-PGP-v0", settings(1), folder)
    copy = runs.RunFolder(shutil.copytree(folder.path, tmp_path / "copy"))
    made, moved = datasets / "lake" / "paid-v0", tmp_path / "moved"
    made.rename(moved)
    with pytest.raises(InvalidDataset, match=r"goes on from iteration 1, .* until iteration 0"):
        runs.resume(folder, iterations=2, extend=True)
    moved.rename(made)
    runs.resume(folder, iterations=2, extend=True)
    with pytest.raises(InvalidDataset, match=r"goes on from iteration 1, .* until iteration 2"):
        runs.resume(copy, iterations=2, extend=True)
    episodes = list(minari.load_dataset("lake/paid-v0"))
    assert set(np.concatenate([episode.infos["iteration"] for episode in episodes])) == {1, 2}
