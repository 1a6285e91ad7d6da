"""Which runs the grid study consists of, as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.tasks.frozen_lake import PRESETS, schedules_of

World = Literal["holes", "relaxed", "open"]
"""Holes that cost 50, holes that cost 2, or no holes and a reference to stay close to."""

Method = Literal[
    "pgp",
    "unconstrained",
    "primal-dual",
    "vr-pdpg",
    "augmented-lagrangian",
    "proximal-point",
    "adam-schedules",
    "natural-schedules",
    "natural-short",
    "defaults",
    "defaults-short",
]
"""What each stands for: :mod:`constrained_maxent.reproduction.grid.methods`."""

ScaleName = Literal["smoke", "paper"]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What one curve of a figure stands for; each is run with several seeds."""

    method: Method
    """Algorithm 1 with the paper's plain steps, the same without a penalty, a baseline, or one of our own."""
    episodes_per_batch: int = 8
    """B."""
    learning_rate: float = 0.01
    """η of the policy; the first of them where a schedule follows."""
    beta: float = 0.0
    """β of the penalty; the last of them where a schedule leads there."""
    dual_rate: float = 0.0
    """Step of the multiplier."""
    momentum: float = 1.0
    """α, weight of the new batch in VR-PDPG's estimates."""
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
    most_seeds: int = 10
    """Seeds at paper scale; fewer in a search."""
    most_iterations: int | None = None
    """Iterations at paper scale, where they are fewer than the paper's."""
    draws_policies: bool = False
    """Whether the last policies are kept, and drawn."""

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
        iterations = self.iterations_of(study)
        return max(1, iterations // min(study.snapshots, iterations))

    def iterations_of(self, study: Study) -> int:
        """Batches of each run."""
        return min(self.iterations, study.most_iterations or self.iterations)

    def seeds_of(self, study: Study) -> int:
        """Runs of each setting."""
        return min(self.seeds, study.most_seeds)


SCALES: dict[str, Scale] = {"smoke": Scale("smoke", 60, 2), "paper": Scale("paper", 15_000, 10)}

RATES = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0)
MOMENTA = (0.001, 0.005, 0.01, 0.03, 0.05, 0.1, 1.0)
"""Of the primal-dual search: α_θ and α_μ, and α_t, where 1 is primal-dual without momentum."""

BATCHES = (8, 24, 72)
STEPS = (0.001, 0.01, 0.1)


MOMENTA_AT_BATCHES = (0.05, 1.0)
"""Of the search at larger batches: the best with momentum at B = 8, and none."""


def _search(batches: Iterable[int], momenta: Iterable[float]) -> tuple[Setting, ...]:
    return tuple(
        Setting(
            method="primal-dual" if momentum == 1.0 else "vr-pdpg",
            episodes_per_batch=episodes,
            learning_rate=step,
            dual_rate=dual,
            momentum=momentum,
        )
        for episodes, momentum, step, dual in product(batches, momenta, RATES, RATES)
    )


def _sweep(betas: Iterable[float]) -> tuple[Setting, ...]:
    return tuple(
        Setting(method="pgp", episodes_per_batch=episodes, learning_rate=step, beta=beta)
        for episodes, step, beta in product(BATCHES, STEPS, betas)
    )


FIGURE_1 = (
    Setting(method="pgp", beta=0.005),
    Setting(method="unconstrained"),
    Setting(method="primal-dual", dual_rate=0.001),
)
"""The paper's three methods at its settings."""

# Each the best found for its method at this budget; docs/results/grid.md says among which.
VR_PDPG = Setting(method="vr-pdpg", learning_rate=0.03, dual_rate=0.001, momentum=0.1)
AUGMENTED = Setting(method="augmented-lagrangian", beta=0.001, dual_rate=0.0001)
PROXIMAL = Setting(method="proximal-point", beta=0.005)
ADAM = Setting(method="adam-schedules", learning_rate=0.05, beta=20.0)
NATURAL = Setting(method="natural-schedules", learning_rate=0.005, beta=20.0)
NATURAL_SHORT = Setting(method="natural-short", learning_rate=0.005, beta=3.0)

# What FrozenLake-PGP-v0 has by default.
_PRESET = PRESETS["default"]
_SCHEDULES = schedules_of("default", _PRESET["iterations"])
DEFAULTS = Setting(
    method="defaults",
    episodes_per_batch=_PRESET["episodes_per_batch"],
    learning_rate=_SCHEDULES["agent"]["learning_rate"],
    beta=_SCHEDULES["penalty"].end,
)
DEFAULTS_SHORT = replace(DEFAULTS, method="defaults-short")
SHORT_DEFAULTS = 4000
"""Batches of ``make demo``."""

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        Study(
            name="fig1",
            world="holes",
            settings=FIGURE_1,
            snapshots=150,
        ),
        Study(
            name="defaults",
            world="holes",
            settings=(DEFAULTS,),
            snapshots=100,
            most_iterations=_PRESET["iterations"],
        ),
        Study(
            name="defaults-short",
            world="holes",
            settings=(DEFAULTS_SHORT,),
            snapshots=100,
            most_iterations=SHORT_DEFAULTS,
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
        Study(
            name="policies",
            world="holes",
            settings=(*FIGURE_1, NATURAL),
            snapshots=1,
            draws_policies=True,
        ),
        Study(
            name="methods",
            world="holes",
            settings=(*FIGURE_1, VR_PDPG, AUGMENTED, PROXIMAL, ADAM, NATURAL, NATURAL_SHORT),
            snapshots=600,
        ),
        Study(
            name="primal-dual-search",
            world="holes",
            settings=_search((8,), MOMENTA),
            snapshots=30,
            most_seeds=3,
        ),
        Study(
            name="primal-dual-batches",
            world="holes",
            settings=_search((24, 72), MOMENTA_AT_BATCHES),
            snapshots=30,
            most_seeds=3,
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
        raise InvalidSetting(f"Unknown grid study {', '.join(unknown)}: choose from {', '.join(STUDIES)}.")
    return tuple(STUDIES[name] for name in names)
