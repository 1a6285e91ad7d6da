"""Parts of observations, beside Gymnasium's own flattening and lookups by hand."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple, flatten
from gymnasium.vector.utils import batch_space, iterate

from constrained_maxent.errors import InvalidData, InvalidSetting, UnsupportedSpace
from constrained_maxent.spaces import Selection, with_numbers

NESTED = Dict(b=Box(-1, 1, (2, 2)), a=Dict(c=Box(-5, 5, (1,)), d=Tuple((Box(0, 9, (2,)), Box(0, 1, ())))))
WORDS = Dict(word=Text(4), direction=Discrete(4, start=1), at=MultiDiscrete([3, 5]), size=Box(0, 1, (2,)))


@pytest.mark.parametrize("numbers", [[0], [7, 0, 3], list(range(8))])
def test_coordinates_are_those_of_gymnasiums_flattening(numbers: list[int]) -> None:
    space, selection = NESTED, Selection(NESTED, numbers)
    many = batch_space(space, 4)
    many.seed(0)
    batch = many.sample()
    right = np.array([flatten(space, one)[numbers] for one in iterate(many, batch)], dtype=np.float64)
    np.testing.assert_array_equal(selection.rows(batch), right)
    np.testing.assert_array_equal([selection.row(one) for one in iterate(many, batch)], right)
    assert selection.space.shape == (len(numbers),)


def test_keys_in_their_order_and_nothing_else_is_looked_at() -> None:
    value: dict[str, Any] = {"b": np.full((2, 2), 7.0), "a": {"c": [3.0]}}
    selection = Selection(NESTED, ["a.c", "b"])
    assert selection.row(value).tolist() == [3.0, 7.0, 7.0, 7.0, 7.0]
    assert Selection(WORDS, ["size"]).row({"size": [0.5, 0.25], "word": None}).tolist() == [0.5, 0.25]
    assert Selection(WORDS, ["size", "direction"]).row({"size": [0.5, 0.25], "direction": 3}).tolist() == [0.5, 0.25, 3]


def test_a_key_with_a_dot_in_it() -> None:
    space = Dict({"a.b": Discrete(3), "a": Dict(b=Discrete(5))})
    assert Selection(space, ["a.b"]).row({"a.b": 2, "a": {"b": 4}}) == 2


@pytest.mark.parametrize(
    ("entries", "space"),
    [
        (["direction"], Discrete(4, start=1)),
        (["at"], MultiDiscrete([3, 5])),
        (["at", "direction"], Tuple((MultiDiscrete([3, 5]), Discrete(4, start=1)))),
    ],
)
def test_what_is_finite_stays_finite(entries: list[str], space: gym.Space[Any]) -> None:
    assert Selection(WORDS, entries).space == space


def test_coordinates_of_what_is_finite_are_finite() -> None:
    space = Tuple((Discrete(4, start=1), MultiDiscrete([3, 5]), MultiBinary(2)))
    selection = Selection(space, [2, 0, 4])
    assert selection.space == MultiDiscrete([5, 4, 2], start=[0, 1, 0])
    assert selection.row((3, np.array([2, 4]), np.array([0, 1]))).tolist() == [4, 3, 1]


@pytest.mark.parametrize(
    ("space", "entries", "message"),
    [
        (NESTED, [], "must list"),
        (NESTED, ["b", 0], "must list"),
        (NESTED, ["b", "b"], "twice"),
        (NESTED, [1, 1], "twice"),
        (NESTED, [8], "only 8 coordinates"),
        (NESTED, [-1], "at least 0"),
        (NESTED, [0.5], "whole number"),
        (NESTED, ["e"], "no 'e', it has b, a"),
        (NESTED, ["a.e"], "no 'e', it has c, d"),
        (NESTED, ["b.c"], "'c' is a key, and Box has none"),
        (Box(-1, 1, (2,)), ["x"], "'x' is a key, and Box has none"),
    ],
)
def test_what_there_is_not(space: gym.Space[Any], entries: list[Any], message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        Selection(space, entries)


def test_parts_without_numbers() -> None:
    for entries in (["word"], ["word", "size"], [0]):
        with pytest.raises(UnsupportedSpace, match="Text"):
            Selection(WORDS, entries)


def test_an_observation_that_lacks_the_key() -> None:
    with pytest.raises(InvalidData, match="lacks 'size'"):
        Selection(WORDS, ["size"]).row({"at": [0, 0]})


def test_a_dictionary_without_what_has_no_numbers() -> None:
    space = Dict(z=WORDS, a=Discrete(2), t=Text(3), d=Dict(t=Text(2)), u=Tuple((Text(1), Discrete(2))))
    kept = with_numbers(space)
    assert isinstance(kept, Dict)
    assert list(kept.spaces) == ["z", "a"]
    assert list(kept["z"].spaces) == ["direction", "at", "size"]  # type: ignore[attr-defined]
    for nothing in (Text(3), Dict(t=Text(3))):
        assert with_numbers(nothing) == nothing
