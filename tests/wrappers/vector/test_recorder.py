"""The recorder by itself: which steps belong to which episode, and in which order they are handed out."""

import numpy as np
import pytest

from constrained_maxent.wrappers.vector.recorder import NO_EPISODE, VectorRecorder, join

NOBODY, BOTH, FIRST, SECOND = (np.array(mask) for mask in ([False] * 2, [True] * 2, [True, False], [False, True]))


def record(recorder, *values):
    recorder.record({"value": np.array(values)})


@pytest.fixture
def recorder():
    """Values 10, 11, ... in sub-environment 0, where episodes 0 and 2 run; 20, 21, ... in 1, where episode 1 does."""
    recorder = VectorRecorder(2)
    recorder.start(BOTH)
    record(recorder, 10, 20)
    recorder.end(FIRST, FIRST)  # terminated
    recorder.start(FIRST)
    record(recorder, 11, 21)
    record(recorder, 12, 22)
    recorder.end(SECOND, NOBODY)  # truncated
    return recorder


def test_episodes_are_numbered_as_they_start(recorder):
    assert recorder.queue == [0, 1, 2]
    assert recorder.ended == {0: (True, False), 1: (False, True)}
    assert recorder.episode.tolist() == [2, NO_EPISODE]
    assert recorder.time[0] == 2
    assert recorder.active.tolist() == [True, False]
    assert (recorder.n_steps, recorder.calls) == (6, 3)


def test_whole_episodes_come_in_the_order_of_their_starts(recorder):
    assert recorder.count_ended(3) == 2
    assert recorder.count_ended(1) == 1
    columns = recorder.take_episodes(2)
    assert columns["value"].tolist() == [10, 20, 21, 22]
    assert columns["episode"].tolist() == [0, 1, 1, 1]
    assert columns["time"].tolist() == [0, 0, 1, 2]
    assert columns["env"].tolist() == [0, 1, 1, 1]
    assert columns["call"].tolist() == [0, 0, 1, 2]
    assert columns["terminated"].tolist() == [True, False, False, False]
    assert columns["truncated"].tolist() == [False, True, False, False]
    assert (recorder.queue, recorder.ended, recorder.n_steps) == ([2], {}, 2)


def test_a_gap_in_the_queue_waits():
    recorder = VectorRecorder(2)
    recorder.start(BOTH)
    record(recorder, 10, 20)
    recorder.end(SECOND, SECOND)
    assert recorder.count_ended(2) == 0  # episode 1 is over, but 0 started before it


def test_rows_between_two_episodes_are_ignored(recorder):
    record(recorder, 13, 99)
    record(recorder, 14, 98)
    recorder.start(SECOND)
    record(recorder, 15, 23)
    assert recorder.n_steps == 10
    recorder.end(BOTH, NOBODY)
    assert recorder.take_episodes(4)["value"].tolist() == [10, 20, 21, 22, 11, 12, 13, 14, 15, 23]


def test_fragments_go_on(recorder):
    first = recorder.take_all()
    assert first["value"].tolist() == [10, 20, 21, 22, 11, 12]
    assert recorder.queue == [2]
    record(recorder, 13, 99)
    recorder.end(FIRST, FIRST)
    second = recorder.take_all()
    assert second["value"].tolist() == [13]
    assert second["time"].tolist() == [2]
    assert second["call"].tolist() == [3]
    assert second["terminated"].tolist() == [True]
    assert recorder.queue == []


def test_an_episode_that_ends_after_its_last_step_was_handed_out_leaves_nothing(recorder):
    recorder.take_all()
    recorder.end(FIRST, NOBODY)
    recorder.start(BOTH)
    record(recorder, 14, 24)
    assert recorder.take_all()["truncated"].tolist() == [False, False]
    assert (recorder.ended, recorder.queue) == ({}, [3, 4])


def test_dropping_takes_the_steps_along(recorder):
    recorder.drop(FIRST)
    assert recorder.queue == [0, 1]
    assert recorder.n_steps == 4
    assert not recorder.active.any()
    recorder.start(FIRST)
    record(recorder, 13, 99)
    assert recorder.take_all()["value"].tolist() == [10, 20, 21, 22, 13]


def test_dropping_what_has_no_steps():
    recorder = VectorRecorder(2)
    recorder.start(BOTH)
    recorder.drop(BOTH)
    assert recorder.queue == []
    recorder.start(BOTH)
    record(recorder, 10, 20)
    recorder.end(BOTH, BOTH)
    recorder.drop(BOTH)  # ended episodes stay
    assert recorder.take_episodes(2)["value"].tolist() == [10, 20]


def test_join_cuts_an_episode_that_runs_on(recorder):
    first = recorder.take_all()
    record(recorder, 13, 99)
    columns, firsts, n_first = join([first, recorder.take_all()])
    assert columns["value"].tolist() == [10, 20, 21, 22, 11, 12, 13]
    assert firsts.tolist() == [0, 1, 4, 6]
    assert n_first == 3
