"""A Minari data set that is written in parts: each is there whole or not at all, and so is what they are made to."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import DependencyNotInstalled
from numpy.typing import NDArray

from constrained_maxent.adapters.minari.recording import Columns, Episode, nested
from constrained_maxent.atomic import naming, replacing, write_text
from constrained_maxent.errors import InvalidDataset, InvalidSetting, UnsupportedSpace

OURS = "constrained_maxent"
"""Key of the metadata under which everything of this package stands."""
PART_BYTES = 32_000_000
"""What is kept in memory before it is written as a part."""
_FILE = "main_data.hdf5"  # as Minari calls it


def require_minari() -> None:
    """Raise ``DependencyNotInstalled`` without Minari and h5py."""
    try:
        import h5py  # noqa: F401
        import minari  # noqa: F401
    except ImportError as error:
        raise DependencyNotInstalled(
            f'Minari is needed, and cannot be imported ({error}): run `pip install "constrained-maxent[minari]"`.'
        ) from error


def open_dataset(name: str) -> Any:
    """A data set of this machine by its name, as ``minari.load_dataset`` has it.

    Raises:
        InvalidDataset: there is none, or none that can be read.
        DependencyNotInstalled: without Minari.
    """
    require_minari()
    import minari

    check_name(name)
    try:
        return minari.load_dataset(name)
    except FileNotFoundError as error:
        raise InvalidDataset(f"There is no data set {name!r} on this machine ({error}).") from error
    except Exception as error:
        raise InvalidDataset(f"The data set {name!r} cannot be read: {type(error).__name__}: {error}") from error


def episodes_of(data: Any, indices: Iterable[int]) -> Iterator[Any]:
    """Episodes of a data set one by one, as Minari has them. Raises InvalidDataset: they cannot be read."""
    episodes = data.iterate_episodes(indices)
    while True:
        try:
            episode = next(episodes, None)
        except Exception as error:  # whatever HDF5, Minari and their decoders say of a damaged file
            raise InvalidDataset(
                f"The episodes of {data.id!r} cannot be read: {type(error).__name__}: {error}. Make the data set anew."
            ) from error
        if episode is None:
            return
        yield episode


def check_name(name: str) -> None:
    """Raise ``InvalidSetting`` unless Minari can give a data set this name."""
    from minari.dataset.minari_dataset import parse_dataset_id

    try:
        parse_dataset_id(name)
    except (ValueError, TypeError) as error:
        raise InvalidSetting(
            f"dataset={name!r} is no name of a Minari data set: these end in a version, such as 'cartpole/safe-v0', "
            "and have letters, digits, '-' and '_', two at least before a '/'."
        ) from error


class Store:
    """The folder of one data set: parts while it is being made, and the data set itself.

    Args:
        name: of the data set.
        source: where its episodes come from, as plain data: what has another source is another's.

    Raises:
        InvalidSetting: no name of a data set.
        InvalidDataset: there is a data set of this name, or a beginning of one, from another source.
        DependencyNotInstalled: without Minari.
    """

    def __init__(self, name: str, source: Mapping[str, Any]) -> None:
        require_minari()
        from minari.storage.datasets_root_dir import get_dataset_path

        check_name(name)
        self.name, self._source = name, json.loads(json.dumps(source))
        self.folder = Path(get_dataset_path(name))
        self.data = self.folder / "data"
        self.parts_folder = self.folder / ".collecting"
        self._plan = self.parts_folder / "source.json"
        self._new, self._old = self.parts_folder / "data", self.parts_folder / "old"
        self._generation = 0  # of what is under way
        self._is_noted = False
        if not self.data.exists() and self._old.exists():  # killed between two renames
            (self._new if self._new.exists() else self._old).rename(self.data)
        self.check_source()

    def check_source(self) -> None:
        """Raise ``InvalidDataset`` if what is there is from another source."""
        for found, where in ((self._published(), self.data), (self._begun(), self.parts_folder)):
            if found is not None and found != self._source:
                raise InvalidDataset(
                    f"{where} holds the data set {self.name!r}, or a beginning of it, of another origin: "
                    f"{_difference(found, self._source)}. Take another name or version, or delete "
                    f"{self.folder} first."
                )

    @property
    def is_published(self) -> bool:
        """Whether there is a data set."""
        return self.data.exists()

    def begin(self) -> None:
        """Make the folder; the first part will say whose it is."""
        self.parts_folder.mkdir(parents=True, exist_ok=True)

    def leave(self) -> None:
        """Remove the folders in which nothing was written."""
        for folder in (self.parts_folder, self.folder):
            with suppress(OSError):
                folder.rmdir()

    def discard(self) -> None:
        """Remove all parts."""
        for path in self.parts_folder.glob("*.npz"):
            path.unlink()

    def clear(self) -> None:
        """Remove the parts that are in the data set; others stay, for when it grows."""
        begin = self.n_numbered
        for path in self._parts():
            if all(number < begin for number, _, _ in _about(path)["episodes"]):
                path.unlink()
        for path in self.parts_folder.glob("under-way-*.npz"):
            path.unlink()
        shutil.rmtree(self._old, ignore_errors=True)
        if not self.has_parts:
            shutil.rmtree(self.parts_folder, ignore_errors=True)

    def _published(self) -> Any:
        if not self.data.exists():
            return None
        import h5py

        about = self.metadata().get(OURS)
        if about is None:
            return {}
        with self._readable(), h5py.File(self.data / _FILE):
            return about["source"]

    def metadata(self) -> dict[str, Any]:
        """Of the data set that is there, as its file has it. Raises InvalidDataset: it cannot be read."""
        with self._readable():
            content: dict[str, Any] = json.loads((self.data / "metadata.json").read_text(encoding="utf-8"))
            return content

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            raise InvalidDataset(f"{self.data} is no data set that can be read ({error}): delete it first.") from error

    def _begun(self) -> Any:
        if not self.has_parts:
            return None  # whose folder it was does not matter
        try:
            return json.loads(self._plan.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}

    @property
    def n_numbered(self) -> int:
        """The number of the first episode that the data set does not hold; void ones have numbers, too."""
        return int(self.metadata()[OURS]["next_number"]) if self.is_published else 0

    @property
    def has_parts(self) -> bool:
        """Whether there is something that is not in the data set yet."""
        return any(self.parts_folder.glob("*.npz"))

    # Parts.

    def write(self, episodes: Mapping[int, Episode], under_way: Sequence[Episode] = ()) -> None:
        """Write episodes by their numbers as one part, and what there is of those that have not ended.

        The latter take the place of what was written of such before. Killed in between, the part that is not there, or
        is, says which of them count: nothing is lost, and nothing there twice.
        """
        before = self._under_way
        if episodes:
            self._generation += 1
        if under_way:
            self._write(dict(enumerate(under_way)), self._under_way)
        if episodes:
            self._write(episodes, self.parts_folder / f"part-{min(episodes):09d}-{max(episodes):09d}.npz")
            before.unlink(missing_ok=True)

    def end_under_way(self, number: int) -> None:
        """Make a part of what there is of episodes that had not ended, from that number on: nobody will go on."""
        self._generation = max((_about(path)["generation"] for path in self._parts()), default=0)
        if self._under_way.exists():
            self.write({number + i: episode for i, episode in _episodes(self._under_way).items()})
        for path in self.parts_folder.glob("under-way-*.npz"):
            path.unlink()

    @property
    def _under_way(self) -> Path:
        return self.parts_folder / f"under-way-{self._generation}.npz"

    def _write(self, episodes: Mapping[int, Episode], path: Path) -> None:
        first = next(iter(episodes.values()))
        about = {
            "episodes": [[number, episode.seed, len(episode)] for number, episode in episodes.items()],
            "generation": self._generation,
            "longer": [name for name, column in first.columns.items() if len(column) > len(first)],
        }
        arrays = {
            name: _plain(np.concatenate([e.columns.get(name, np.full(len(e), np.nan)) for e in episodes.values()]))
            for name in dict.fromkeys(name for episode in episodes.values() for name in episode.columns)
        }
        if not self._is_noted:
            write_text(self._plan, json.dumps(self._source))
            self._is_noted = True
        with replacing(path) as temporary, temporary.open("wb") as file:
            text = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
            np.savez(file, **{"about": text, **arrays})

    def _parts(self) -> list[Path]:
        return sorted(self.parts_folder.glob("part-*.npz"))

    def lengths(self) -> dict[int, int]:
        """Steps of the episodes that parts hold, by number, but for those that were published before."""
        begin = self.n_numbered
        found = [(number, length) for path in self._parts() for number, _, length in _about(path)["episodes"]]
        return {number: length for number, length in found if number >= begin}

    def episodes(self, numbers: Sequence[int]) -> Iterator[Episode]:
        """The episodes of these numbers, in their order; a few parts are in memory at a time."""
        places = {number: path for path in self._parts() for number, _, _ in _about(path)["episodes"]}
        read = lru_cache(maxsize=4)(_episodes)
        for number in numbers:
            yield read(places[number])[number]

    def column(self, name: str) -> Iterator[NDArray[Any]]:
        """A column of all that parts hold, what is under way included, in no order."""
        for path in self.parts_folder.glob("*.npz"):
            yield _columns(path, [name])[name]

    def keep(self, kept: Callable[[Episode], Episode | None]) -> None:
        """Put in the place of each episode in the parts what is kept of it."""
        for path in self._parts():
            episodes = _episodes(path)
            found = {number: kept(episode) for number, episode in episodes.items()}
            if all(found[number] is episode for number, episode in episodes.items()):
                continue
            rest = {number: episode for number, episode in found.items() if episode is not None}
            if rest:
                self.write(rest)  # first: a kill loses nothing, and what is then there twice is cut again
            if not rest or (min(rest), max(rest)) != (min(episodes), max(episodes)):
                path.unlink()

    # The data set.

    def publish(
        self,
        numbers: Sequence[int],
        spaces: tuple[gym.Space[Any], gym.Space[Any]],
        spec: EnvSpec | None,
        describe: Callable[[Any], Mapping[str, Any]],
    ) -> None:
        """Add episodes to the data set, or make it, and remove the parts. What is there stays until the new one is.

        Args:
            numbers: of the episodes in the parts.
            spaces: of observations and actions.
            spec: of the scalar environment, as which Minari makes it again.
            describe: the metadata of the data set that it is given.
        """
        from minari import MinariDataset, __version__
        from minari.dataset.minari_dataset import parse_dataset_id
        from minari.dataset.minari_storage import MinariStorage
        from minari.namespace import create_namespace, list_local_namespaces

        with naming(self.data):
            namespace = parse_dataset_id(self.name)[0]
            if namespace is not None and namespace not in list_local_namespaces():
                create_namespace(namespace)
            shutil.rmtree(self._new, ignore_errors=True)
            if self.is_published:
                shutil.copytree(self.data, self._new)
                storage = MinariStorage.read(self._new)
            else:
                self._new.mkdir(parents=True)
                storage = MinariStorage.new(
                    self._new,
                    *map(storable, spaces),
                    env_spec=_plain_spec(spec),
                    data_format="hdf5",
                    jpeg_encoding=False,
                )
                storage.update_metadata({"dataset_id": self.name, "minari_version": __version__})
            storage.update_episodes(self._buffers(numbers, spaces))
            _fill(self._new / _FILE)
            next_number = 1 + max([self.n_numbered - 1, *numbers])
            about = {"source": self._source, "next_number": next_number, **describe(MinariDataset(storage))}
            storage.update_metadata({"algorithm_name": "constrained-maxent", OURS: json.loads(json.dumps(about))})
            for path in self._new.iterdir():
                with path.open("rb") as written:
                    os.fsync(written.fileno())
            shutil.rmtree(self._old, ignore_errors=True)
            if self.data.exists():
                self.data.rename(self._old)
            self._new.rename(self.data)
        self.clear()

    def _buffers(self, numbers: Sequence[int], spaces: tuple[gym.Space[Any], gym.Space[Any]]) -> Iterable[Any]:
        from minari.data_collector import EpisodeBuffer

        for seed, columns in self.episodes(numbers):
            infos = {
                name.removeprefix("infos/"): column for name, column in columns.items() if name.startswith("infos/")
            }
            yield EpisodeBuffer(
                seed=seed,
                observations=nested(spaces[0], columns, "observations"),
                actions=nested(spaces[1], columns, "actions"),
                infos=infos,
                **{name: columns[name] for name in ("rewards", "terminations", "truncations")},
            )


def storable(space: gym.Space[Any]) -> gym.Space[Any]:
    """The space as Minari stores it: one of texts of its own kind, such as MiniGrid's, becomes ``Text``.

    Raises:
        UnsupportedSpace: Minari has no place for it.
    """
    spaces = gym.spaces
    if isinstance(space, spaces.Dict) and not any("/" in str(key) for key in space.spaces):
        return spaces.Dict({key: storable(part) for key, part in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([storable(part) for part in space.spaces])
    if isinstance(space, (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Text)):
        return space
    try:
        is_text = isinstance(deepcopy(space).sample(), str)
    except Exception:  # whatever a space of somebody's does
        is_text = False
    if not is_text:
        raise UnsupportedSpace(f"Minari cannot store elements of {space}: leave them out by a wrapper.")
    return spaces.Text(max_length=4096, charset="".join(map(chr, range(32, 127))))


def _about(part: Path) -> Any:
    return json.loads(_columns(part, ["about"])["about"].tobytes())


def _columns(part: Path, names: Sequence[str] | None = None) -> Columns:
    """Columns of a part, by default all."""
    try:
        with part.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return {name: file[name] for name in names or file.files if names or name != "about"}
    except (OSError, ValueError, EOFError, KeyError, BadZipFile) as error:
        raise InvalidDataset(
            f"{part} cannot be read ({type(error).__name__}: {error}): delete it. What it held is collected again; of "
            "a recorded training it is lost."
        ) from error


def _episodes(part: Path) -> dict[int, Episode]:
    """All that a part holds, by number."""
    about = _about(part)
    columns = _columns(part)
    found, begin = {}, 0
    for i, (number, seed, length) in enumerate(about["episodes"]):
        begins = {name: begin + i * (name in about["longer"]) for name in columns}
        ends = {name: begins[name] + length + (name in about["longer"]) for name in columns}
        found[number] = Episode(seed, {name: column[begins[name] : ends[name]] for name, column in columns.items()})
        begin += length
    return found


def _fill(file: Path) -> None:
    """Give all episodes of a file the same infos: NaN for costs that were not reported before later ones."""
    import h5py

    with h5py.File(file, "r+") as content:
        groups = [(int(group.attrs["total_steps"]), group.require_group("infos")) for group in content.values()]
        names = {name for _, infos in groups for name in infos}
        for length, infos in groups:
            for name in names - infos.keys():
                infos.create_dataset(name, data=np.full(length, np.nan), chunks=True, maxshape=(None,))


def _plain(column: Any) -> Any:
    return column.astype(str) if column.dtype == object else column


def _plain_spec(spec: EnvSpec | None) -> EnvSpec | None:
    """The spec, if it can be written as JSON; Minari would warn, and leave it out."""
    try:
        if spec is not None:
            spec.to_json()
        return spec
    except (TypeError, ValueError):
        return None


def _difference(found: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    if not found:
        return "it was not made by this package"
    return ", ".join(_differing(found, given))


def _differing(found: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted({*found, *given}):
        old, new = found.get(name), given.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differing(old, new)
        elif old != new:
            yield f"{name} is {str(old)[:80]} and not {str(new)[:80]}"
