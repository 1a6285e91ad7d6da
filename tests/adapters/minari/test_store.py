"""A data set is there as it was or as it is to be, whenever the process is killed."""

import gc
from pathlib import Path

import pytest

from constrained_maxent import runs
from constrained_maxent.runs.environments import make_copies

minari = pytest.importorskip("minari")
pytestmark = pytest.mark.usefixtures("datasets")


def actions(name: str) -> list[list[int]]:
    return [episode.actions.tolist() for episode in minari.load_dataset(name).iterate_episodes()]


@pytest.mark.parametrize("new_is_written", [False, True])
def test_a_kill_between_two_renames_loses_nothing(datasets: Path, *, new_is_written: bool) -> None:
    first = runs.collect("FrozenLake-PGP-v0", "lake/uniform-v0", steps=30, num_envs=2)
    before = actions("lake/uniform-v0")
    folder = datasets / "lake" / "uniform-v0"
    (folder / ".collecting").mkdir()
    if new_is_written:  # the data set that was to grow, with an episode more than the old one
        runs.collect("FrozenLake-PGP-v0", "lake/longer-v0", steps=first.steps + 1, num_envs=2)
        longer = actions("lake/longer-v0")
        (datasets / "lake" / "longer-v0" / "data").rename(folder / ".collecting" / "data")
    (folder / "data").rename(folder / ".collecting" / "old")
    runs.collect("FrozenLake-PGP-v0", "lake/uniform-v0", steps=first.steps + 1, num_envs=2)
    after = actions("lake/uniform-v0")
    assert after == longer if new_is_written else after[: len(before)] == before
    assert len(after) > len(before)


def test_copies_outlive_the_stack_that_they_were_made_in() -> None:
    """Gymnasium 1.2 closes a wrapper that nobody holds any more, and all below it."""
    copies = make_copies("SafeCartpole-PGP-v0", runs.TrainSettings(env_kwargs='{"time_limit": 0.2}'), 2)
    gc.collect()
    copies.reset(seed=[1, 2])
    assert not copies.step(copies.action_space.sample())[3].any()
    copies.close()
