"""The data sets of one seed: uniform actions, exploration without and with a limit, and what the latter cost."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from constrained_maxent.adapters import minari
from constrained_maxent.reproduction import WorldName
from constrained_maxent.reproduction.explore_then_learn.tasks import WORLDS
from constrained_maxent.reproduction.trained_once import trained_once
from constrained_maxent.runs import RunFolder, TrainSettings, collect
from constrained_maxent.seeds import derived_seed
from constrained_maxent.types import FloatArray

Kind = Literal["uniform actions", "exploration, no limit", "exploration, limit", "training, limit"]
"""Where data come from; the last is what the training of the one before saw."""

KINDS: Sequence[Kind] = get_args(Kind)

_EXPLORATIONS: Mapping[Kind, Mapping[str, Any]] = {"exploration, no limit": {"beta": 0.0}, "exploration, limit": {}}

_DRAW = 1
"""Place of a seed."""


@dataclass(frozen=True, kw_only=True)
class Gathering:
    """Two trainings of one seed, and the data sets.

    Attributes:
        steps: of each data set, at least.
        iterations: of each training; ``None`` for those of the preset.
    """

    world: WorldName
    seed: int
    steps: int
    iterations: int | None

    @property
    def name(self) -> str:
        """In what is said of progress."""
        return f"{self.world}, data, seed {self.seed}"


@dataclass(frozen=True)
class Episodes:
    """Whole episodes of a data set.

    Attributes:
        file: of the data set, HDF5.
        numbers: of the episodes in it.
        observations: of each ``(n + 1, d)``, the last one included.
        actions, costs: of each ``(n, m)`` and ``(n,)``.
    """

    file: Path
    numbers: tuple[int, ...]
    observations: tuple[FloatArray, ...]
    actions: tuple[FloatArray, ...]
    costs: tuple[FloatArray, ...]

    def __getitem__(self, chosen: Sequence[int]) -> Episodes:
        """Those at these places."""
        return Episodes(
            self.file,
            tuple(self.numbers[i] for i in chosen),
            *(tuple(part[i] for i in chosen) for part in (self.observations, self.actions, self.costs)),
        )

    @property
    def lengths(self) -> list[int]:
        """Steps of each."""
        return [len(cost) for cost in self.costs]

    def violations(self) -> dict[str, float]:
        """Steps, the share of them that cost, and the mean cost of all."""
        costs = np.concatenate(self.costs)
        return {"steps": len(costs), "share": float((costs > 0.0).mean()), "cost": float(costs.mean())}


def gather(run: Gathering, folder: Path) -> dict[str, Any]:
    """Make what is not there yet; how often limits were broken on the way, by kind and by training."""
    world, begun = WORLDS[run.world], time.perf_counter()
    arguments = json.dumps(dict(world.arguments))
    with datasets_in(place(folder, run.world, run.seed)) as here:
        settings = TrainSettings(env_kwargs=arguments)
        collect(world.explored_id, dataset("uniform actions"), steps=run.steps, settings=settings, seed=run.seed)
        for kind, terms in _EXPLORATIONS.items():
            settings = TrainSettings(
                seed=run.seed,
                iterations=run.iterations,
                env_kwargs=arguments,
                record=dataset(kind, "training"),
                **terms,
            )
            trained, _ = trained_once(world.explored_id, settings, here / dataset(kind))
            collect(RunFolder(trained.path), dataset(kind), steps=run.steps, seed=run.seed)
        trainings = {kind: read(dataset(kind, "training")).violations() for kind in _EXPLORATIONS}
        collecting = {kind: chosen(run, kind).violations() for kind in KINDS}
    return {"collecting": collecting, "training": trainings, "seconds": round(time.perf_counter() - begun, 1)}


def load(run: Gathering, kind: Kind, folder: Path) -> Episodes:
    """The data of that kind, once they are gathered."""
    with datasets_in(place(folder, run.world, run.seed)):
        return chosen(run, kind)


def chosen(run: Gathering, kind: Kind) -> Episodes:
    """Episodes in random order, until they take as many steps: of a training some, of what was collected all."""
    is_training = kind == "training, limit"
    episodes = read(dataset("exploration, limit", "training") if is_training else dataset(kind))
    order = np.random.default_rng(derived_seed(run.seed, _DRAW)).permutation(len(episodes.numbers))
    before = np.cumsum(np.array(episodes.lengths)[order]) - np.array(episodes.lengths)[order]
    return episodes[order[before < run.steps].tolist()]


def read(name: str) -> Episodes:
    """All episodes of a data set."""
    data = minari.open_dataset(name)
    found = list(data.iterate_episodes())
    return Episodes(
        Path(data.storage.data_path) / "main_data.hdf5",
        tuple(int(episode.id) for episode in found),
        tuple(np.asarray(episode.observations, dtype=np.float64) for episode in found),
        tuple(np.asarray(episode.actions, dtype=np.float64) for episode in found),
        tuple(np.asarray(episode.infos["cost"], dtype=np.float64) for episode in found),
    )


def dataset(kind: Kind, what: str = "data") -> str:
    """The name of a data set."""
    return f"{kind.replace(', ', '-').replace(' ', '-')}-{what}-v0"


def place(folder: Path, world: WorldName, seed: int) -> Path:
    """Where the data sets and trainings of one seed are."""
    return folder / f"{world}-seed{seed}"


@contextmanager
def datasets_in(path: Path) -> Iterator[Path]:
    """Minari looks for data sets there, and nowhere else, within."""
    before = os.environ.get("MINARI_DATASETS_PATH")
    os.environ["MINARI_DATASETS_PATH"] = str(path.absolute() / "datasets")
    try:
        yield path
    finally:
        if before is None:
            del os.environ["MINARI_DATASETS_PATH"]
        else:
            os.environ["MINARI_DATASETS_PATH"] = before
