"""How long chunks get on machines of known speed."""

import pytest

from constrained_maxent.engine.pace import CHUNK_SECONDS, Pace


@pytest.mark.parametrize("seconds_per_batch", [1e-7, 1e-5, 1e-3, 0.05])
def test_chunks_come_to_take_the_time_that_they_are_to(seconds_per_batch):
    """From the third on none takes more than that; the shortest, of 20 batches, may be longer on a slow machine."""
    pace, taken = Pace(work=200.0), []
    for _ in range(12):
        taken.append(pace.iterations * seconds_per_batch)
        pace.observe(taken[-1])
    least = 20 * seconds_per_batch
    assert max(taken) <= max(CHUNK_SECONDS, least) * (1.0 + 1e-9)
    assert taken[-1] >= 0.9 * CHUNK_SECONDS


def test_a_slow_first_chunk_is_made_up_for():
    """The first call waits for the compiler."""
    pace = Pace(work=200.0)
    pace.observe(20.0)
    for _ in range(8):
        pace.observe(pace.iterations * 1e-5)
    assert pace.iterations * 1e-5 == pytest.approx(CHUNK_SECONDS, rel=0.1)


def test_no_time_at_all_and_work_beyond_a_chunk():
    pace = Pace(work=1e9)
    assert pace.iterations == 1
    pace.observe(0.0)
    assert 1 < pace.iterations < 100
    pace.observe(1e6)
    assert pace.iterations == 1
