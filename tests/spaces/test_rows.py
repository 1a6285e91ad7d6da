"""The numbering of finite spaces: NumPy's own mixed radix, bijections, and what has no number."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained_maxent.errors import InvalidData, InvalidSetting, UnsupportedSpace
from constrained_maxent.spaces import (
    FiniteSpace,
    as_batch,
    as_row,
    as_rows,
    from_row,
    from_rows,
    is_single,
    kept_rows,
    single_spaces,
)

SPACES = [
    Discrete(5),
    Discrete(4, start=-2),
    MultiDiscrete([2, 3, 4]),
    MultiDiscrete([[2, 3], [1, 2]]),
    MultiDiscrete([3, 2], start=[1, -1]),
    MultiBinary(4),
    MultiBinary((2, 2)),
    Tuple((Discrete(3), MultiBinary(2))),
    Tuple((Discrete(2, start=1), Tuple((MultiDiscrete([2, 3]), Discrete(2))))),
    Dict(b=Discrete(2, start=1), a=Dict(c=MultiBinary(2), d=Tuple((Discrete(3),)))),
]
each_space = pytest.mark.parametrize("space", SPACES, ids=str)


@each_space
def test_every_element_has_one_number_and_every_number_one_element(space: gym.Space[Any]) -> None:
    finite = FiniteSpace(space)
    space.seed(0)
    rows = {tuple(np.ravel(as_row(space, element))): element for element in (space.sample() for _ in range(2000))}
    assert len(rows) == finite.n, "2000 samples should have seen every element of so small a space"
    assert sorted(finite.encode_one(element) for element in rows.values()) == list(range(finite.n))


@each_space
def test_many_are_numbered_as_one(space: gym.Space[Any]) -> None:
    finite = FiniteSpace(space)
    space.seed(1)
    elements = [space.sample() for _ in range(20)]
    rows = np.array([as_row(space, element) for element in elements])
    assert finite.encode(rows).tolist() == [finite.encode_one(element) for element in elements]
    assert finite.encode(rows).dtype == np.int64


@each_space
def test_rows_of_a_vector_environment_are_the_rows_of_its_elements(space: gym.Space[Any]) -> None:
    vector_space = gym.vector.utils.batch_space(space, 6)
    vector_space.seed(2)
    elements = vector_space.sample()
    one_by_one = [as_row(space, element) for element in gym.vector.utils.iterate(vector_space, elements)]
    np.testing.assert_array_equal(as_rows(space, elements), one_by_one)


@each_space
def test_numbers_go_back_to_rows(space: gym.Space[Any]) -> None:
    finite = FiniteSpace(space)
    rows = finite.decode(np.arange(finite.n))
    assert finite.encode(rows).tolist() == list(range(finite.n))
    assert all(space.contains(from_row(space, row)) for row in rows)
    space.seed(3)
    elements = [space.sample() for _ in range(20)]
    known = np.array([as_row(space, element) for element in elements])
    np.testing.assert_array_equal(finite.decode(finite.encode(known)), known)


@pytest.mark.parametrize(
    "space",
    [
        *SPACES,
        Box(-1, 1, (2, 3)),
        Tuple((Box(-1, 1, (2,)), Discrete(3, start=5))),
        Dict(b=Box(-1, 1, (2, 1)), a=Dict(c=MultiBinary(2), d=Box(0, 255, (2,), np.uint8)), e=Discrete(3, start=5)),
    ],
    ids=str,
)
class TestBackToElements:
    def test_of_one_row(self, space: gym.Space[Any]) -> None:
        space.seed(4)
        element = space.sample()
        back = from_row(space, as_row(space, element))
        assert space.contains(back)
        np.testing.assert_array_equal(as_row(space, back), as_row(space, element))

    def test_of_many_rows(self, space: gym.Space[Any]) -> None:
        vector_space = gym.vector.utils.batch_space(space, 5)
        vector_space.seed(5)
        elements = vector_space.sample()
        back = from_rows(space, as_rows(space, elements))
        assert vector_space.contains(back)
        np.testing.assert_array_equal(as_rows(space, back), as_rows(space, elements))

    def test_one_is_told_from_many(self, space: gym.Space[Any]) -> None:
        vector_space = gym.vector.utils.batch_space(space, 5)
        vector_space.seed(6)
        space.seed(6)
        one, many = space.sample(), vector_space.sample()
        assert is_single(space, one)
        assert not is_single(space, many)
        rows, was_one = as_batch(space, one)
        assert was_one
        np.testing.assert_array_equal(rows, np.asarray(as_row(space, one))[None])
        rows, was_one = as_batch(space, many)
        assert not was_one
        np.testing.assert_array_equal(rows, as_rows(space, many))


def test_a_start_is_translated_by_hand() -> None:
    # The third of -2, -1, 0 and 1 is 0.
    assert FiniteSpace(Discrete(4, start=-2)).decode(np.array([2])).tolist() == [0]
    assert from_row(Discrete(4, start=-2), np.int64(-1)) == -1


def test_spaces_of_one_sub_environment() -> None:
    scalar, vector = gym.make("CartPole-v1"), gym.make_vec("CartPole-v1", num_envs=2)
    assert single_spaces(vector) == single_spaces(scalar) == (scalar.observation_space, Discrete(2))
    with pytest.raises(InvalidSetting, match="env="):
        single_spaces("CartPole-v1")  # type: ignore[arg-type]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.data())
@settings(deadline=None)
def test_numbers_are_mixed_radix_with_the_last_component_fastest(sizes: list[int], data: st.DataObject) -> None:
    digits = [data.draw(st.integers(0, size - 1)) for size in sizes]
    finite = FiniteSpace(MultiDiscrete(sizes))
    assert finite.n == np.prod(sizes)
    assert finite.encode_one(np.array(digits)) == np.ravel_multi_index(digits, sizes)


def test_binary_numbers_are_read_from_the_left() -> None:
    assert FiniteSpace(MultiBinary(4)).encode(np.array([[1, 0, 1, 1]])).tolist() == [0b1011]


def test_no_elements_have_no_numbers() -> None:
    for space in (Discrete(3), MultiDiscrete([2, 3])):
        empty = np.zeros((0, *space.shape), dtype=np.int64)
        assert FiniteSpace(space).encode(empty).shape == (0,)


def test_large_spaces_are_numbered_without_listing_them() -> None:
    finite = FiniteSpace(MultiBinary(62))
    assert finite.n == 2**62
    assert finite.encode_one(np.ones(62, dtype=np.int8)) == 2**62 - 1


@pytest.mark.parametrize("value", [np.int64(2), np.array(2), np.uint8(2), 2])
def test_whole_numbers_of_any_type_do(value: Any) -> None:
    assert FiniteSpace(Discrete(3)).encode_one(value) == 2
    assert as_row(Discrete(3), value) == 2


def test_rows_are_copies() -> None:
    for space, values in ((Box(-1, 1, (2,)), np.zeros(2)), (MultiDiscrete([2, 2]), np.zeros(2, dtype=np.int64))):
        assert not np.shares_memory(as_row(space, values), values)
        assert not np.shares_memory(as_rows(space, values[None]), values)


def test_rows_of_a_box_are_float64() -> None:
    assert as_row(Box(-1, 1, (2,), dtype=np.float32), np.zeros(2, np.float32)).dtype == np.float64


class TestRefuses:
    @pytest.mark.parametrize("numbers", [[-1], [6], [0.0], [True]])
    def test_numbers_of_no_element(self, numbers: list[Any]) -> None:
        with pytest.raises(InvalidData, match="numbers"):
            FiniteSpace(MultiDiscrete([2, 3])).decode(np.array(numbers))

    @pytest.mark.parametrize(
        "space", [Box(0, 1), Dict({"a": Box(0, 1)}), Dict(), Text(3), Tuple((Discrete(2), Box(0, 1)))]
    )
    def test_spaces_that_are_not_finite(self, space: gym.Space[Any]) -> None:
        with pytest.raises(UnsupportedSpace, match="cannot be counted"):
            FiniteSpace(space)

    @pytest.mark.parametrize("space", [Dict({"a": Text(3)}), Text(3)])
    def test_rows_of_spaces_it_does_not_know(self, space: gym.Space[Any]) -> None:
        for to_rows in (as_row, as_rows):
            with pytest.raises(UnsupportedSpace):
                to_rows(space, space.sample())
        for back in (from_row, from_rows):
            with pytest.raises(UnsupportedSpace):
                back(space, np.zeros((1, 2)))

    @pytest.mark.parametrize("size", [63, 5000])
    def test_spaces_too_large_to_number(self, size: int) -> None:
        with pytest.raises(UnsupportedSpace, match="elements"):
            FiniteSpace(MultiBinary(size))

    @pytest.mark.parametrize("value", [-3, 2, 10**20])
    def test_numbers_outside(self, value: int) -> None:
        with pytest.raises(InvalidData, match="Discrete"):
            FiniteSpace(Discrete(4, start=-2)).encode_one(value)

    @pytest.mark.parametrize("rows", [[-1], [5], [0, 1, 5]])
    def test_entries_outside(self, rows: list[int]) -> None:
        with pytest.raises(InvalidData, match="Discrete"):
            FiniteSpace(Discrete(5)).encode(np.array(rows))

    @pytest.mark.parametrize("value", [1.0, 1.7, np.nan, "1", None, np.array([1, 2])])
    def test_one_element_that_is_not_a_whole_number(self, value: Any) -> None:
        for encode in (FiniteSpace(Discrete(5)).encode_one, lambda element: as_row(Discrete(5), element)):
            with pytest.raises(InvalidData, match="element of"):
                encode(value)

    @pytest.mark.parametrize("space", [Discrete(5), MultiDiscrete([2, 3])])
    def test_rows_that_are_not_whole_numbers(self, space: gym.Space[Any]) -> None:
        with pytest.raises(InvalidData, match="Elements of"):
            as_rows(space, np.full((4, *space.shape), 0.5))
        with pytest.raises(InvalidData, match="Elements of"):
            FiniteSpace(space).encode(np.full((4, *space.shape), 0.5))

    @pytest.mark.parametrize("shape", [(), (4,), (4, 3), (4, 2, 2)])
    def test_a_wrong_number_of_components(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(InvalidData, match="Elements of"):
            FiniteSpace(MultiDiscrete([2, 3])).encode(np.zeros(shape, dtype=np.int64))


@pytest.mark.parametrize(
    ("space", "one", "many"),
    [
        (Discrete(3), np.array(1), (0, 2)),
        (Box(-1.0, 1.0, (2,)), [0.0, 5.0], [[0.0, 5.0]]),
        (Box(-1.0, 1.0, ()), 0.5, [0.5]),
    ],
)
def test_one_is_told_from_many_whatever_they_are_held_in(space: gym.Space[Any], one: Any, many: Any) -> None:
    assert is_single(space, one)
    assert not is_single(space, many)


def test_one_number_of_a_box_is_an_array() -> None:
    action = from_row(Box(-1.0, 1.0, ()), np.float32(0.5))
    assert isinstance(action, np.ndarray)
    assert (action.shape, action.dtype, action.item()) == ((), np.float32, 0.5)


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (Dict(a=MultiBinary(3), b=Box(-1.0, 1.0, (2,))), {"a": [1, 0, 1, 1], "b": [0.0, 0.0]}),
        (MultiDiscrete([3, 3]), [[1, 0], [1, 1]]),
        (MultiBinary(2), [1]),
    ],
)
def test_parts_of_another_width_would_move_the_others(space, value):
    with pytest.raises(InvalidData, match="numbers, here are"):
        as_row(space, value)


@pytest.mark.parametrize("shape", [(3, 2), (6,), (1, 6)])
def test_as_many_numbers_in_another_layout_would_be_others(shape):
    """A row-major copy of a (3, 2) array, read as (2, 3), has entry 3 where the space has entry 2."""
    numbers = np.arange(6.0).reshape(shape)
    with pytest.raises(InvalidData, match=r"has shape \(2, 3\), here the numbers have shape"):
        as_row(Box(0, 9, (2, 3)), numbers)
    with pytest.raises(InvalidData, match="here the numbers have shape"):
        as_rows(Box(0, 9, (2, 3)), numbers[None])


def test_axes_of_length_one_are_no_layout():
    numbers = np.arange(6.0).reshape(1, 2, 3)
    assert as_row(Box(0, 9, (2, 3)), numbers).shape == (2, 3)
    assert as_row(Box(0, 9, (1,)), 3.0).shape == (1,)


def test_fractions_in_a_space_of_whole_numbers_are_not_cut_off():
    space = Box(0, 255, (300,), dtype=np.uint8)
    kept = kept_rows(space, np.full((2, 300), 7.0), are_needed=True)
    assert kept.dtype == np.uint8
    with pytest.raises(InvalidData, match="no whole numbers of type uint8"):
        kept_rows(space, np.full((2, 300), 0.5), are_needed=True)
