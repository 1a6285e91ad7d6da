"""Which runs the grid study consists of, as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Literal

from constrained_maxent.errors import InvalidSetting

World = Literal["holes", "relaxed", "open"]
"""Holes that cost 50, holes that cost 2, or no holes and a reference to stay close to."""

Method = Literal["pgp", "unconstrained", "primal-dual"]

ScaleName = Literal["smoke", "paper"]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What one curve of a figure stands for; each is run with several seeds."""

    method: Method
    """Policy gradient penalty, the same without a penalty, or projected dual ascent on a multiplier."""
    episodes_per_batch: int = 8
    """B."""
    learning_rate: float = 0.01
    """η of the policy."""
    beta: float = 0.0
    """β of the quadratic penalty."""
    dual_rate: float = 0.0
    """Step of the multiplier."""
    limit: float = 0.0
    """Of the constraint."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """Settings that share a world, and so an engine and a figure."""

    name: str
    world: World
    settings: tuple[Setting, ...]
    snapshots: int
    """How often the policy is evaluated over a run at paper scale, besides at the start."""

    @property
    def constraint(self) -> str:
        """Name of the constrained quantity: the cost, or the distance to the reference."""
        return "distance" if self.world == "open" else "cost"


@dataclass(frozen=True)
class Scale:
    """How long and how often each setting is run."""

    name: ScaleName
    iterations: int
    seeds: int

    def snapshot_every(self, study: Study) -> int:
        """Batches between evaluations."""
        return max(1, self.iterations // min(study.snapshots, self.iterations))


SCALES: dict[str, Scale] = {"smoke": Scale("smoke", 60, 2), "paper": Scale("paper", 15_000, 10)}

BATCHES = (8, 24, 72)
STEPS = (0.001, 0.01, 0.1)


def _sweep(betas: Iterable[float]) -> tuple[Setting, ...]:
    return tuple(
        Setting(method="pgp", episodes_per_batch=episodes, learning_rate=step, beta=beta)
        for episodes, step, beta in product(BATCHES, STEPS, betas)
    )


STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        Study(
            name="fig1",
            world="holes",
            settings=(
                Setting(method="pgp", beta=0.005),
                Setting(method="unconstrained"),
                Setting(method="primal-dual", dual_rate=0.001),
            ),
            snapshots=150,
        ),
        Study(
            name="norm",
            world="open",
            settings=tuple(Setting(method="pgp", beta=0.5, limit=limit) for limit in (0.0, 0.2, 0.5, 1.0)),
            snapshots=150,
        ),
        Study(
            name="norm-beta",
            world="open",
            settings=tuple(
                Setting(method="pgp", beta=beta, limit=limit)
                for limit, beta in product((0.0, 0.2, 0.5, 1.0), (0.1, 0.5, 1.0, 2.0, 5.0, 10.0))
            ),
            snapshots=30,
        ),
        Study(
            name="robustness",
            world="holes",
            settings=tuple(
                Setting(method="pgp", learning_rate=step, beta=beta)
                for step, beta in product((0.001, 0.01), (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0))
            ),
            snapshots=30,
        ),
        Study(
            name="unconstrained",
            world="holes",
            settings=tuple(
                Setting(method="unconstrained", episodes_per_batch=episodes, learning_rate=step)
                for episodes, step in product(BATCHES, STEPS)
            ),
            snapshots=30,
        ),
        Study(name="ablation", world="holes", settings=_sweep((5e-4, 1e-3, 5e-3, 1e-2)), snapshots=30),
        Study(name="relaxed", world="relaxed", settings=_sweep((0.0125, 0.025, 0.125, 0.25)), snapshots=30),
    )
}
"""By name, short ones first."""


def chosen(names: Iterable[str]) -> tuple[Study, ...]:
    """The studies of these names, or all if there are none.

    Raises:
        InvalidSetting: an unknown name.
    """
    names = tuple(dict.fromkeys(names)) or tuple(STUDIES)
    if unknown := [name for name in names if name not in STUDIES]:
        raise InvalidSetting(f"There is no grid study {', '.join(unknown)}: choose among {', '.join(STUDIES)}.")
    return tuple(STUDIES[name] for name in names)
