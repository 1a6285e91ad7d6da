"""Episodes of fragments, against renewal theory: the mass of λ̂ is the mean sum of weights of one episode."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from constrained_maxent.occupancy.episode_count import EpisodeCount
from constrained_maxent.types import Batch, FloatArray


def batches(
    draw: Callable[[], int], steps_per_copy: int, copies: int, n_batches: int, discount: float
) -> Iterator[Batch]:
    """Batches of so many steps of each copy, whose episodes have the lengths drawn; the weights are γᵗ."""
    ages, ends = [0] * copies, [draw() for _ in range(copies)]
    for _ in range(n_batches):
        starts, lengths, ended = [], [], []
        for i in range(copies):
            left = steps_per_copy
            while left:
                taken = min(left, ends[i] - ages[i])
                starts.append(ages[i])
                lengths.append(taken)
                ages[i] += taken
                left -= taken
                ended.append(ages[i] == ends[i])
                if ended[-1]:
                    ages[i], ends[i] = 0, draw()
        times = np.concatenate([start + np.arange(n) for start, n in zip(starts, lengths, strict=True)])
        yield Batch(
            observations=times,
            actions=times,
            weights=discount**times,
            lengths=np.array(lengths),
            starts=np.array(starts),
            terminated=np.array(ended),
        )


def masses(
    lengths: tuple[int, ...], steps: int, copies: int, n_batches: int, *, discount: float, horizon: int | None
) -> FloatArray:
    """Σ w / E of each batch."""
    rng, count, found = np.random.default_rng(0), EpisodeCount(horizon), []
    for batch in batches(lambda: int(rng.choice(lengths)), steps // copies, copies, n_batches, discount):
        found.append(batch.weights.sum() / count.of(batch.starts, batch.lengths, batch.terminated))
        count.add(batch)
    return np.array(found)


@pytest.mark.fault
@pytest.mark.parametrize("horizon", [40, None])
@pytest.mark.parametrize("discount", [1.0, 0.95])
@pytest.mark.parametrize(("steps", "copies", "n_batches"), [(8, 1, 5000), (32, 1, 2000), (64, 4, 1000), (2048, 8, 60)])
def test_short_and_long_episodes(steps: int, copies: int, n_batches: int, discount: float, horizon: int | None) -> None:
    """Of 2 or 40 steps, each as often: E Σ γᵗ = ((1 - γ²) + (1 - γ⁴⁰)) / (2 (1 - γ)), which is 21 at γ = 1."""
    expected = 21.0 if discount == 1.0 else (2.0 - discount**2 - discount**40) / (2.0 * (1.0 - discount))
    found = masses((2, 40), steps, copies, n_batches, discount=discount, horizon=horizon)
    # The first batches know of few episodes; later ones are noisy and, on average, right.
    assert found[n_batches // 10 :].mean() == pytest.approx(expected, rel=0.04)


@pytest.mark.parametrize("length", [2, 7, 40])
@pytest.mark.parametrize("horizon", [40, None])
def test_equal_lengths_leave_no_noise(length: int, horizon: int | None) -> None:
    found = masses((length,), 32, 1, 300, discount=1.0, horizon=horizon)
    # Without a horizon 64 beginnings or more are counted in whole batches.
    assert found[100:] == pytest.approx(length, rel=1e-9 if length == horizon else 1.0 / 32)


@pytest.mark.fault
def test_a_batch_of_many_episodes_counts_its_own() -> None:
    count = EpisodeCount(40)
    rng = np.random.default_rng(0)
    for batch in batches(lambda: int(rng.choice((2, 40))), 4000, 1, 5, 1.0):
        begun = np.count_nonzero(batch.starts == 0)
        assert count.of(batch.starts, batch.lengths, batch.terminated) == begun > 64
        count.add(batch)


def test_goes_on_where_it_stood() -> None:
    rng = np.random.default_rng(0)
    *seen, last = batches(lambda: int(rng.choice((2, 40))), 32, 1, 40, 1.0)
    count, other = EpisodeCount(40), EpisodeCount(40)
    for batch in seen:
        count.add(batch)
    other.load_state_dict(count.state_dict())
    ends = last.starts, last.lengths, last.terminated
    assert other.of(*ends) == count.of(*ends) != EpisodeCount(40).of(*ends)


def test_what_is_remembered_has_a_bound() -> None:
    """Episodes of 1000 steps in batches of one: 3 of 3000 steps, though only the latest are kept one by one."""
    count = EpisodeCount(None)
    for batch in batches(lambda: 1000, 1, 1, 3000, 1.0):
        count.add(batch)
    assert len(count.state_dict()) <= 1024
    assert count.of(np.array([0]), np.array([1000]), np.array([True])) == pytest.approx(1000 * 4 / 4000)


def test_staggered_copies_are_counted_by_their_own_batch() -> None:
    """Their first episodes are cut short once, and say nothing of the others."""
    count = EpisodeCount(100, staggered=True)
    early = np.array([0, 0]), np.array([30, 20]), np.array([True, False])
    assert count.of(*early) == 2.0
    assert count.of(np.array([20, 0]), np.array([50, 50]), np.array([False, False])) == 1.0
