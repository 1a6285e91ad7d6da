"""Parts of observations by name: entries of a ``Dict``, coordinates of whatever has numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidData, InvalidSetting
from constrained_maxent.spaces.rows import Composite, as_row, as_rows, components, is_finite, parts_of, row_space, width
from constrained_maxent.types import check_count

Path = tuple[Any, ...]
"""Keys from the whole observation to one of its parts."""


class Selection:
    """What is asked for of an observation, and nothing else of it is looked at.

    Args:
        space: of one observation.
        entries: keys of a ``Dict``, ``"outer.inner"`` for one of a ``Dict`` in it; or numbers of coordinates of the
            flattened observation, whose parts come in the order that the space has them in.

    Raises:
        InvalidSetting: no entries, one twice, both kinds, or one that the observation does not have.
        UnsupportedSpace: a part that is asked for has no numbers; or there are coordinates to count, and not all parts
            have numbers.

    >>> space = gym.spaces.Dict(at=gym.spaces.Box(-1, 1, (2,)), word=gym.spaces.Text(5), level=gym.spaces.Discrete(3))
    >>> Selection(space, ("level", "at")).row({"at": np.array([0.5, 0.25]), "word": "no", "level": 2}).tolist()
    [2.0, 0.5, 0.25]
    """

    def __init__(self, space: gym.Space[Any], entries: Sequence[str | int]) -> None:
        entries = list(entries)
        are_keys = all(isinstance(entry, str) for entry in entries)
        if not entries or not (are_keys or not any(isinstance(entry, str) for entry in entries)):
            raise InvalidSetting(
                f"state={entries!r} must list keys of a Dict observation, such as ('position',), or numbers of "
                "coordinates, such as [0, 1]."
            )
        if len(set(entries)) < len(entries):
            raise InvalidSetting(f"state={entries!r} lists an entry twice.")
        self._coordinates: list[list[int]] | None = None
        self._order: list[int] = []
        if are_keys:
            self._paths = [_path(space, str(key)) for key in entries]
        else:
            self._paths = self._paths_of_numbers(space, entries)
        self._spaces = [_at(space, path) for path in self._paths]
        self.space = self._row_space()
        """What the rows are elements of."""

    def _paths_of_numbers(self, space: gym.Space[Any], numbers: Sequence[Any]) -> list[Path]:
        """The parts that have the coordinates; each is asked for once, whichever the order of the numbers."""
        numbers = [check_count("a coordinate of state", number, least=0) for number in numbers]
        if max(numbers) >= (n := width(space)):
            raise InvalidSetting(f"state={numbers!r}: the observation has only {n} coordinates, from 0.")
        paths, self._coordinates, found, at = [], [], [], 0
        for path, part in leaves(space):
            end = at + width(part)
            if own := [number for number in numbers if at <= number < end]:
                paths.append(path)
                self._coordinates.append([number - at for number in own])
                found += own
            at = end
        self._order = [found.index(number) for number in numbers]
        return paths

    def _row_space(self) -> gym.Space[Any]:
        if self._coordinates is None:
            return row_space(self._spaces[0] if len(self._spaces) == 1 else gym.spaces.Tuple(self._spaces))
        if not all(map(is_finite, self._spaces)):
            return gym.spaces.Box(-np.inf, np.inf, (len(self._order),), dtype=np.float64)
        starts, sizes = [], []
        for part, own in zip(self._spaces, self._coordinates, strict=True):
            firsts, counts = components(part)
            starts += [firsts[i] for i in own]
            sizes += [counts[i] for i in own]
        return gym.spaces.MultiDiscrete([sizes[i] for i in self._order], start=[starts[i] for i in self._order])

    def row(self, observation: Any) -> Any:
        """What is asked for of one observation, as :func:`~constrained_maxent.spaces.as_row` has it."""
        parts = [as_row(space, part) for space, part in self._found(observation)]
        if self._coordinates is None:
            return parts[0] if len(parts) == 1 else np.concatenate([np.ravel(part) for part in parts])
        flat = [np.ravel(part)[own] for part, own in zip(parts, self._coordinates, strict=True)]
        return np.concatenate(flat)[self._order]

    def rows(self, observations: Any) -> NDArray[Any]:
        """What is asked for of a batch of observations, ``(n, ...)``."""
        parts = [as_rows(space, part) for space, part in self._found(observations)]
        if self._coordinates is None and len(parts) == 1:
            return parts[0]
        flat = [part.reshape(len(part), -1) for part in parts]
        if self._coordinates is None:
            return np.concatenate(flat, axis=1)
        chosen = [part[:, own] for part, own in zip(flat, self._coordinates, strict=True)]
        return np.concatenate(chosen, axis=1)[:, self._order]

    def _found(self, observation: Any) -> list[tuple[gym.Space[Any], Any]]:
        return [(space, _follow(observation, path)) for space, path in zip(self._spaces, self._paths, strict=True)]


def _path(space: gym.Space[Any], key: str) -> Path:
    if not isinstance(space, gym.spaces.Dict):
        raise InvalidSetting(
            f"state: {key!r} is a key, and {type(space).__name__} has none: give numbers of coordinates, such as "
            f"[0, 1], a function of the observation, or, not in a list, a key of info."
        )
    if key in space.spaces:
        return (key,)
    outer, _, inner = key.partition(".")
    if inner and outer in space.spaces:
        return (outer, *_path(space.spaces[outer], inner))
    raise InvalidSetting(f"state: the observation has no {key!r}, it has {', '.join(map(str, space.spaces))}.")


def leaves(space: gym.Space[Any]) -> list[tuple[Path, gym.Space[Any]]]:
    """The parts of a space that have no parts themselves, each with its keys, in the order of its rows."""
    if not isinstance(space, Composite):
        return [((), space)]
    return [((key, *path), leaf) for key, part in parts_of(space).items() for path, leaf in leaves(part)]


def _at(space: gym.Space[Any], path: Path) -> gym.Space[Any]:
    for key in path:
        space = parts_of(space)[key]  # type: ignore[arg-type]  # a path leads through composite spaces
    return space


def _follow(observation: Any, path: Path) -> Any:
    for key in path:
        if not (key in observation if isinstance(observation, Mapping) else isinstance(key, int)):
            raise InvalidData(f"An observation lacks {key!r}: {observation!r:.500}.")
        observation = observation[key]
    return observation


def with_numbers(space: gym.Space[Any]) -> gym.Space[Any]:
    """A ``Dict`` without the parts that have no numbers, such as ``Text``. What has none at all stays as it is."""
    if not isinstance(space, gym.spaces.Dict):
        return space
    parts = [(key, with_numbers(part)) for key, part in space.spaces.items()]
    kept = [(key, part) for key, part in parts if _has_numbers(part)]
    return gym.spaces.Dict(kept) if kept else space  # of pairs: a dictionary would be sorted


def _has_numbers(space: gym.Space[Any]) -> bool:
    parts = [leaf for _, leaf in leaves(space)]
    return bool(parts) and all(isinstance(leaf, gym.spaces.Box) or is_finite(leaf) for leaf in parts)
