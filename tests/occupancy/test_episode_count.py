"""Episodes of fragments, against renewal theory: the mass of λ̂ is the mean sum of weights of one episode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from constrained_maxent.occupancy.episode_count import EpisodeCount
from constrained_maxent.occupancy.weighting import Weighting
from constrained_maxent.types import Batch, FloatArray


def counter(horizon: int | None, *, discount: float = 1.0, staggered: bool = False) -> EpisodeCount:
    """For weights γᵗ; without a horizon the count does not ask for the discount."""
    return EpisodeCount(Weighting(discount if horizon else 0.9, horizon, "truncated"), staggered=staggered)


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
    rng, count, found = np.random.default_rng(0), counter(horizon, discount=discount), []
    for batch in batches(lambda: int(rng.choice(lengths)), steps // copies, copies, n_batches, discount):
        found.append(batch.weights.sum() / count.of(batch))
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
    count = counter(40)
    rng = np.random.default_rng(0)
    for batch in batches(lambda: int(rng.choice((2, 40))), 4000, 1, 5, 1.0):
        begun = np.count_nonzero(batch.starts == 0)
        assert count.of(batch) == begun > 64
        count.add(batch)


def test_goes_on_where_it_stood() -> None:
    rng = np.random.default_rng(0)
    *seen, last = batches(lambda: int(rng.choice((2, 40))), 32, 1, 40, 1.0)
    count, other = counter(40), counter(40)
    for batch in seen:
        count.add(batch)
    other.load_state_dict(count.state_dict())
    assert other.of(last) == count.of(last) != counter(40).of(last)


def test_what_is_remembered_has_a_bound() -> None:
    """Episodes of 1000 steps in batches of one: 3 of 3000 steps, though only the latest are kept one by one."""
    count = counter(None)
    for batch in batches(lambda: 1000, 1, 1, 3000, 1.0):
        count.add(batch)
    assert len(count.state_dict()) <= 1024
    [whole] = batches(lambda: 1000, 1000, 1, 1, 1.0)
    assert count.of(whole) == pytest.approx(1000 * 4 / 4000)


@pytest.mark.fault
def test_first_episodes_of_staggered_copies_say_nothing_of_the_others() -> None:
    """Copy i of 4 is truncated after 100 - 25 i steps at first, later after 100: a step is a hundredth of one."""
    ends = iter([100, 75, 50, 25])
    count = counter(100, staggered=True)
    for batch in batches(lambda: next(ends, 100), 10, 4, 60, 1.0):
        cut = replace(batch, terminated=np.zeros(len(batch), dtype=bool), truncated=batch.terminated)
        assert count.of(cut) == pytest.approx(0.4)
        count.add(cut)


@pytest.mark.fault
def test_no_mass_that_no_policy_has() -> None:
    """Of 1000 steps, weighted by 0.9ᵗ, a batch holds the first 50: they are an episode, and not a twentieth of one."""
    count = counter(1000, discount=0.9)
    first, second, *_ = batches(lambda: 1000, 50, 1, 20, 0.9)
    assert first.weights.sum() / count.of(first) == pytest.approx(10.0)
    count.add(first)
    assert count.of(second) == pytest.approx(0.05)  # steady, from here on
