"""Trajectories, batches and measures: what they accept, refuse, cut and join."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained_maxent.errors import InvalidData, NonFiniteValue
from constrained_maxent.types import Batch, Measure, Trajectory

STEPS = {"observations": [0, 1, 2], "actions": [1, 0, 1]}


def batch(**columns: Any) -> Batch:
    """Two trajectories, of two steps and of one."""
    return Batch(**{**STEPS, "lengths": [2, 1], **columns})


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
    n = sum(lengths)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return Batch(
        observations=rng.normal(size=(n, 2)),
        actions=rng.integers(4, size=n),
        lengths=np.array(lengths),
        weights=rng.uniform(size=n),
        costs={"cost": rng.normal(size=n), "heat": rng.normal(size=n)},
        log_probs=rng.normal(size=n) if draw(st.booleans()) else None,
        starts=rng.integers(3, size=len(lengths)) if draw(st.booleans()) else None,
        terminated=rng.random(len(lengths)) < 0.5,
        truncated=rng.random(len(lengths)) < 0.5,
    )


def assert_equal(first: Batch, second: Batch) -> None:
    for field in dataclasses.fields(Batch):
        one, other = getattr(first, field.name), getattr(second, field.name)
        if field.name == "costs":
            assert one.keys() == other.keys()
            for name in one:
                np.testing.assert_array_equal(one[name], other[name])
        elif field.name == "episodes":
            assert first.n_episodes == pytest.approx(second.n_episodes)
        else:
            np.testing.assert_array_equal(one, other)


class TestTrajectory:
    def test_weights_are_ones_and_costs_none_unless_given(self) -> None:
        trajectory = Trajectory(**STEPS)
        assert trajectory.weights.tolist() == [1.0, 1.0, 1.0]
        assert trajectory.costs == {}
        assert (len(trajectory), trajectory.start, trajectory.log_probs) == (3, 0, None)

    def test_numbers_become_float64_and_observations_keep_their_type(self) -> None:
        trajectory = Trajectory(
            observations=np.zeros((1, 2), np.float32), actions=[True], weights=[1], costs={"cost": [2]}, log_probs=[-1]
        )
        assert trajectory.observations.dtype == np.float32
        assert {trajectory.weights.dtype, trajectory.costs["cost"].dtype, trajectory.log_probs.dtype} == {
            np.dtype(np.float64)
        }

    def test_is_frozen(self) -> None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            Trajectory(**STEPS).start = 1  # type: ignore[misc]

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"observations": []}, "at least one step"),
            ({"observations": 3}, "observations"),
            ({"observations": [[1], [1, 2], [3]]}, "observations cannot be made an array"),
            ({"observations": ["a", "b", "c"]}, "observations must be numbers"),
            ({"actions": [0, 1]}, r"actions must have one entry per step \(3\)"),
            ({"actions": 1}, "actions"),
            ({"weights": [1.0, 1.0]}, "weights must have one number per step"),
            ({"weights": [[1.0], [1.0], [1.0]]}, r"shape \(3,\), got shape \(3, 1\)"),
            ({"weights": [1.0, -0.5, 1.0]}, "must not be negative, the smallest is -0.5"),
            ({"costs": {"cost": [1.0]}}, r"costs\['cost'\]"),
            ({"costs": {"cost": np.ones((3, 2))}}, r"costs\['cost'\].*\(3, 2\)"),
            ({"costs": {"cost": [None, 1.0, "x"]}}, r"costs\['cost'\] cannot be made an array"),
            ({"log_probs": [0.0]}, "log_probs"),
            ({"start": -1}, "start=-1"),
        ],
    )
    def test_refuses_columns_that_disagree(self, columns: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidData, match=message):
            Trajectory(**{**STEPS, **columns})

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("name", ["observations", "actions", "weights", "log_probs", "cost"])
    def test_refuses_what_is_not_finite(self, name: str, bad: float) -> None:
        column = [0.0, bad, 0.0]
        columns = {"costs": {"cost": column}} if name == "cost" else {name: column}
        with pytest.raises(NonFiniteValue, match=rf"{name}.*entry 1 is {bad}"):
            Trajectory(**{**STEPS, **columns})


class TestBatch:
    def test_defaults(self) -> None:
        both = batch()
        assert (len(both), both.n_steps, both.n_episodes) == (2, 3, 2.0)
        assert both.starts.tolist() == [0, 0]
        assert both.terminated.tolist() == both.truncated.tolist() == [False, False]

    def test_may_stand_for_a_fraction_of_an_episode(self) -> None:
        assert batch(episodes=0.25).n_episodes == 0.25

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"lengths": []}, "at least one trajectory"),
            ({"lengths": 3}, "at least one trajectory"),
            ({"lengths": [3, 0]}, "at least 1"),
            ({"lengths": [[2, 1]]}, "lengths"),
            ({"lengths": [1.5, 1.5]}, "whole number"),
            ({"lengths": [2, 2]}, r"observations must have one entry per step \(4\)"),
            ({"starts": [0]}, "starts must have one entry per trajectory"),
            ({"starts": [0, -2]}, "starts must be times of at least 0, got -2"),
            ({"terminated": [True]}, "terminated"),
            ({"truncated": [[True, False]]}, "truncated"),
            ({"episodes": 0.0}, "episodes=0.0"),
            ({"episodes": -1.0}, "episodes"),
            ({"episodes": np.nan}, "episodes"),
            ({"episodes": np.inf}, "episodes"),
        ],
    )
    def test_refuses_what_does_not_fit(self, columns: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidData, match=message):
            batch(**columns)

    def test_refuses_what_is_not_finite(self) -> None:
        with pytest.raises(NonFiniteValue, match=r"costs\['cost'\]"):
            batch(costs={"cost": [0.0, 0.0, np.nan]})


class TestCuttingAndJoining:
    def test_by_hand(self) -> None:
        first, second = batch(weights=[1.0, 0.5, 1.0], starts=[4, 0], terminated=[False, True])
        assert first.observations.tolist() == [0, 1]
        assert second.observations.tolist() == [2]
        assert (first.start, first.terminated, second.terminated) == (4, False, True)

    @given(batches())
    @settings(deadline=None)
    def test_iterating_and_joining_gives_the_batch_back(self, whole: Batch) -> None:
        assert_equal(Batch.from_trajectories(list(whole)), whole)

    @given(batches(), st.data())
    @settings(deadline=None)
    def test_taking_two_parts_and_joining_gives_the_batch_back(self, whole: Batch, data: st.DataObject) -> None:
        if len(whole) == 1:
            return
        middle = data.draw(st.integers(1, len(whole) - 1))
        first, second = whole.take(0, middle), whole.take(middle, len(whole))
        assert_equal(Batch.from_trajectories([*first, *second]), whole)
        assert first.n_episodes + second.n_episodes == pytest.approx(whole.n_episodes)

    @given(batches())
    @settings(deadline=None)
    def test_split_columns_are_views_that_put_the_column_together(self, whole: Batch) -> None:
        parts = whole.split(whole.observations)
        assert [len(part) for part in parts] == whole.lengths.tolist()
        assert all(np.shares_memory(part, whole.observations) for part in parts)
        np.testing.assert_array_equal(np.concatenate(parts), whole.observations)

    def test_whole_episodes_share_by_number_and_fragments_by_steps(self) -> None:
        assert batch(episodes=1.0).take(0, 1).n_episodes == 0.5
        assert batch(episodes=1.0, starts=[3, 0]).take(0, 1).n_episodes == pytest.approx(2 / 3)

    def test_log_probs_are_dropped_unless_all_trajectories_have_them(self) -> None:
        one = {"observations": [0], "actions": [0]}
        joined = Batch.from_trajectories([Trajectory(**one, log_probs=[-1.0]), Trajectory(**one)])
        assert joined.log_probs is None

    @pytest.mark.parametrize(
        ("trajectories", "message"),
        [
            ([], "at least one trajectory"),
            ([Trajectory(**STEPS), Trajectory(**STEPS, costs={"cost": np.ones(3)})], "the same costs"),
            ([Trajectory(**STEPS), Trajectory(observations=[[0, 1]], actions=[0])], "observations of one shape"),
            ([Trajectory(**STEPS), Trajectory(observations=[0], actions=[[0, 1]])], "actions of one shape"),
        ],
    )
    def test_refuses_to_join_what_does_not_fit(self, trajectories: list[Trajectory], message: str) -> None:
        with pytest.raises(InvalidData, match=message):
            Batch.from_trajectories(trajectories)


class TestMeasureOfATable:
    def test_marginal_is_the_sum_over_actions(self) -> None:
        measure = Measure.from_table([[0.5, 0.25], [0.0, 0.125]], {"cost": 2.0})
        assert measure.points.state_density.tolist() == [[0.75, 0.75], [0.125, 0.125]]
        assert measure.points.density.tolist() == measure.weights.tolist() == [[0.5, 0.25], [0.0, 0.125]]
        assert measure.points.cells is None
        assert measure.expected_costs == {"cost": 2.0}

    @pytest.mark.parametrize(
        ("table", "error", "message"),
        [
            ([0.5, 0.5], InvalidData, r"\(n_states, n_actions\), got shape \(2,\)"),
            ([[0.5], [0.25, 0.25]], InvalidData, "cannot be made an array"),
            ([[0.5, -0.1]], InvalidData, "smallest entry is -0.1"),
            ([[0.5, np.nan]], NonFiniteValue, "λ must be finite"),
            ([[np.inf]], NonFiniteValue, "λ must be finite"),
        ],
    )
    def test_refuses_what_is_no_occupancy(self, table: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            Measure.from_table(table)
