"""A training that records has every transition that it paid for, once, with the iteration that paid."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from constrained_maxent import runs
from constrained_maxent.errors import InvalidDataset
from constrained_maxent.tracker import find_tracker

minari = pytest.importorskip("minari")


@pytest.fixture(autouse=True)
def _datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))


def settings(iterations: int) -> runs.TrainSettings:
    return runs.TrainSettings(iterations=iterations, record="lake/paid-v0")


def transitions(timesteps: int, episodes: list[Any]) -> int:
    """Of as many steps as agents count; the call that resets a copy whose episode ended early is none."""
    return timesteps - sum(bool(episode.terminations[-1]) and len(episode) < 25 for episode in episodes)


def test_every_step_is_there_once_also_of_a_run_that_goes_on(tmp_path: Path) -> None:
    folder = runs.RunFolder(tmp_path / "run")
    first = runs.train("FrozenLake-PGP-v0", settings(2), folder).agent.timesteps
    before = list(minari.load_dataset("lake/paid-v0"))
    assert sum(map(len, before)) == transitions(first, before)
    result = runs.resume(folder, iterations=3)
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


def test_a_new_run_does_not_record_into_anothers(tmp_path: Path) -> None:
    runs.train("FrozenLake-PGP-v0", settings(1), runs.RunFolder(tmp_path / "run"))
    with pytest.raises(InvalidDataset, match="another name"):
        runs.train("FrozenLake-PGP-v0", settings(1), runs.RunFolder(tmp_path / "other"))
    assert not (tmp_path / "other" / "checkpoint.pt").exists()
