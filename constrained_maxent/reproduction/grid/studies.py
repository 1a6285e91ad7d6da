"""Which runs the grid study consists of, as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

from constrained_maxent.reproduction import Effort, GridStudyName
from constrained_maxent.reproduction.grid.methods import PRESET, Setting

WorldName = Literal["holes", "relaxed", "open"]
"""Holes that cost 50, holes that cost 2, or no holes and a reference to stay close to."""

EFFORTS: dict[Effort, tuple[int, int]] = {"smoke": (60, 2), "paper": (15_000, 10)}
"""Most iterations, and most seeds of each setting."""


@dataclass(frozen=True, kw_only=True)
class GridStudy:
    """Settings that share a world, and so an engine and a figure."""

    name: GridStudyName
    world: WorldName = "holes"
    settings: tuple[Setting, ...]
    snapshots: int = 30
    """How often the policy is evaluated over a run, besides at the start."""
    iterations: int = 15_000
    """Batches of each run."""
    seeds: int = 10
    """Runs of each setting."""
    planned_iterations: int | None = None
    """Batches over which schedules go from their start to their end; ``iterations`` where nothing is said."""
    draws_policies: bool = False
    """Whether the last policies are kept, and drawn."""

    @property
    def constraint(self) -> str:
        """Name of the constrained quantity: the cost, or the distance to the reference."""
        return "distance" if self.world == "open" else "cost"

    @property
    def snapshot_every(self) -> int:
        """Batches between evaluations."""
        return max(1, self.iterations // min(self.snapshots, self.iterations))

    def within(self, effort: Effort) -> GridStudy:
        """The beginning of its runs that such an effort allows, of some of its seeds: schedules stay as planned."""
        iterations, seeds = EFFORTS[effort]
        return replace(
            self,
            iterations=min(self.iterations, iterations),
            seeds=min(self.seeds, seeds),
            planned_iterations=self.planned_iterations or self.iterations,
        )


RATES = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0)
MOMENTA = (0.001, 0.005, 0.01, 0.03, 0.05, 0.1, 1.0)
"""Of the primal-dual search: α_θ and α_μ, and α_t, where 1 is primal-dual without momentum."""

MOMENTA_AT_BATCHES = (0.05, 1.0)
"""Of the search at larger batches: the best with momentum at B = 8, and none."""

BATCHES = (8, 24, 72)
STEPS = (0.001, 0.01, 0.1)
LIMITS = (0.0, 0.2, 0.5, 1.0)


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


def _sweep(
    betas: Iterable[float], *, batches: Iterable[int] = BATCHES, steps: Iterable[float] = STEPS
) -> tuple[Setting, ...]:
    return tuple(
        Setting(method="pgp", episodes_per_batch=episodes, learning_rate=step, beta=beta)
        for episodes, step, beta in product(batches, steps, betas)
    )


def _norm(betas: Iterable[float]) -> tuple[Setting, ...]:
    return tuple(Setting(method="pgp", beta=beta, limit=limit) for limit, beta in product(LIMITS, betas))


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
DEFAULTS = Setting(method="defaults", episodes_per_batch=16, learning_rate=0.005, beta=40.0)

_ALL = (
    GridStudy(name="fig1", settings=FIGURE_1, snapshots=150),
    GridStudy(name="defaults", settings=(DEFAULTS,), snapshots=100, iterations=PRESET.iterations),
    # The length of `make demo`.
    GridStudy(name="defaults-short", settings=(DEFAULTS,), snapshots=100, iterations=4000),
    GridStudy(name="norm", world="open", settings=_norm((0.5,)), snapshots=150),
    GridStudy(name="norm-beta", world="open", settings=_norm((0.1, 0.5, 1.0, 2.0, 5.0, 10.0))),
    GridStudy(
        name="robustness",
        settings=_sweep((1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0), batches=(8,), steps=(0.001, 0.01)),
    ),
    GridStudy(
        name="unconstrained",
        settings=tuple(
            Setting(method="unconstrained", episodes_per_batch=episodes, learning_rate=step)
            for episodes, step in product(BATCHES, STEPS)
        ),
    ),
    GridStudy(name="policies", settings=(*FIGURE_1, NATURAL), snapshots=1, draws_policies=True),
    GridStudy(name="methods", settings=(*FIGURE_1, VR_PDPG, AUGMENTED, PROXIMAL, ADAM, NATURAL), snapshots=600),
    # A plan of its own: its schedules end early, and the last values stay.
    GridStudy(name="methods-short", settings=(NATURAL_SHORT,), snapshots=600, planned_iterations=600),
    GridStudy(name="primal-dual-search", settings=_search((8,), MOMENTA), seeds=3),
    GridStudy(name="primal-dual-batches", settings=_search((24, 72), MOMENTA_AT_BATCHES), seeds=3),
    GridStudy(name="ablation", settings=_sweep((5e-4, 1e-3, 5e-3, 1e-2))),
    GridStudy(name="relaxed", world="relaxed", settings=_sweep((0.0125, 0.025, 0.125, 0.25))),
)

STUDIES: dict[str, GridStudy] = {study.name: study for study in _ALL}
"""By name, in the order of ``GridStudyName``."""
