"""Which runs the grid study consists of, and what each of them is for the engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal

from constrained_maxent.engine import RunSettings
from constrained_maxent.functionals import Entropy, Functional
from constrained_maxent.penalties import AugmentedLagrangian, Lagrangian, Penalty, Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.reproduction import Effort, GridStudyName
from constrained_maxent.schedules import Geometric
from constrained_maxent.tasks import PRESETS

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
]
"""Algorithm 1 with the paper's plain steps, the same without a penalty, a baseline, or one of our own."""

TINY_SMOOTHING = 1e-18
"""The authors' σ."""

DUAL_BOUND = 10.0
"""Largest multiplier of the dual methods; the optimal one is 0.333."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What one curve of a figure stands for; each is run with several seeds."""

    method: Method
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
    """Limit of the constraint."""


PRESET = PRESETS["FrozenLake-PGP-v0"]["default"]


@dataclass(frozen=True, kw_only=True)
class Conventions:
    """Where the settings that the paper's authors published differ from its text, whose conventions are the default."""

    cost_on_entering: bool = False
    """The cost is of the tile that a step enters, not of the one that it leaves."""
    larger_base_cost: bool = False
    """Outside of holes the cost is -0.1, not -0.001."""
    half_beta: bool = False
    """The penalty is β/2 [R]₊², not β [R]₊²."""
    linear_layer: bool = False
    """The softmax is of a linear layer with a bias for each action from a random start, not of a table of zeros."""
    tiny_smoothing: bool = False
    """σ of the entropy is 1e-18, not the library's usual one."""
    printed_signs: bool = False
    """PGP's constraint is ⟨c, λ⟩ ≤ 0 with the signs of c as they are printed, under which holes are a reward."""


TEXT = Conventions()

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
    conventions: Conventions = TEXT

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


def run_settings(
    setting: Setting, name: str, functional: Functional, *, seed: int, conventions: Conventions = TEXT
) -> RunSettings:
    """What the engine is to do for one setting and seed; the functional, with its limit, is the constraint's."""
    if conventions.printed_signs and setting.method == "pgp" and name == "cost":
        functional = -1.0 * functional
    usual = {"objective": Entropy(smoothing=TINY_SMOOTHING)} if conventions.tiny_smoothing else {}
    return RunSettings(
        seed=seed,
        constraints={name: Constraint(functional, _penalty(setting, conventions))},
        episodes_per_batch=setting.episodes_per_batch,
        **usual | {"learning_rate": setting.learning_rate} | _options(setting),
    )


def _penalty(setting: Setting, conventions: Conventions) -> Penalty:
    match setting.method:
        case "primal-dual" | "vr-pdpg":
            return Lagrangian(setting.dual_rate, largest=DUAL_BOUND)
        case "augmented-lagrangian":
            return AugmentedLagrangian(setting.beta, learning_rate=setting.dual_rate)
        case "defaults":
            return PRESET.penalty
    return Quadratic(setting.beta / 2.0 if conventions.half_beta else setting.beta)


def _options(setting: Setting) -> dict[str, Any]:
    """Arguments of ``RunSettings`` that the method adds or changes."""
    match setting.method:
        case "vr-pdpg":
            # Pseudo-rewards from batches before this one: with those of its own, the correction for the old policy
            # knows fewer cells than the gradient that it corrects.
            return {"momentum": setting.momentum, "optimizer": "normalized", "pairing": "previous"}
        case "proximal-point":
            return {"proximal_weight": 1.0, "inner_iterations": 100}
        case "adam-schedules":
            return _schedules(setting, "adam", step=0.001, beta=0.01)
        case "natural-schedules":
            return _schedules(setting, "natural", step=0.0003, beta=0.005)
        case "natural-short":
            return _schedules(setting, "natural", step=0.003, beta=0.005)
        case "defaults":
            agent = PRESET.agent
            return {
                "objective": Entropy(smoothing=PRESET.smoothing),
                "memory": PRESET.estimator["memory"],
                "learning_rate": Geometric(setting.learning_rate, agent["final_learning_rate"]),
                **{name: agent[name] for name in ("optimizer", "damping", "baseline")},
            }
    return {}


def _schedules(setting: Setting, optimizer: str, *, step: float, beta: float) -> dict[str, Any]:
    """The step falls to ``step``, β rises from ``beta``, the weight of the new batch in λ̂ falls from 0.3 to 0.03."""
    return {
        "objective": Entropy(smoothing=1e-5),
        "optimizer": optimizer,
        "damping": 0.001,
        "baseline": "batch-mean",
        "learning_rate": Geometric(setting.learning_rate, step),
        "beta": Geometric(beta, setting.beta),
        "memory": Geometric(0.7, 0.97),
    }
