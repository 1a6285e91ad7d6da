"""What the methods of the grid study are: their penalties, and the steps of the engine.

What a ``Setting`` does not say stands here. Schedules are geometric over all iterations of paper scale, those of
``natural-short`` over a twenty-fifth of them; after that the last value stays.
"""

from __future__ import annotations

from typing import Any

from constrained_maxent.engine import Geometric
from constrained_maxent.functionals import Entropy
from constrained_maxent.penalties import AugmentedLagrangian, Lagrangian, Penalty, Quadratic
from constrained_maxent.reproduction.grid.sweep import SCALES, SHORT_DEFAULTS, Setting
from constrained_maxent.tasks.frozen_lake import PRESETS, schedules_of

DUAL_BOUND = 10.0
"""Largest multiplier of the dual methods; the optimal one is 0.333."""

LONG = SCALES["paper"].iterations
SHORT = LONG // 25


def penalty_of(setting: Setting) -> Penalty:
    """The penalty of a setting's constraint."""
    match setting.method:
        case "primal-dual" | "vr-pdpg":
            return Lagrangian(setting.dual_rate, largest=DUAL_BOUND)
        case "augmented-lagrangian":
            return AugmentedLagrangian(setting.beta, learning_rate=setting.dual_rate)
        case "defaults" | "defaults-short":
            penalty: Penalty = _defaults(setting)["penalty"]
            return penalty
    return Quadratic(setting.beta)


def options_of(setting: Setting) -> dict[str, Any]:
    """Arguments of ``RunSettings`` besides seed, constraint and batch size."""
    step = setting.learning_rate
    match setting.method:
        case "vr-pdpg":
            # Pseudo-rewards from batches before this one: see agents/tabular/momentum.py.
            options = {"momentum": setting.momentum, "optimizer": "normalized", "pairing": "previous"}
            return {"learning_rate": step, **options}
        case "proximal-point":
            return {"learning_rate": step, "proximal_weight": 1.0, "inner_iterations": 100}
        case "adam-schedules":
            return _schedules(setting, "adam", LONG, step=0.001, beta=0.01, weight=0.03)
        case "natural-schedules":
            return _schedules(setting, "natural", LONG, step=0.0003, beta=0.005, weight=0.03)
        case "natural-short":
            return _schedules(setting, "natural", SHORT, step=0.003, beta=0.005, weight=0.03)
        case "defaults" | "defaults-short":
            return _options_of_defaults(setting)
    return {"learning_rate": step}


def _defaults(setting: Setting) -> dict[str, Any]:
    """What ``FrozenLake-PGP-v0`` has by default, for its usual number of batches or for the short one."""
    preset = PRESETS["default"]
    iterations = preset["iterations"] if setting.method == "defaults" else SHORT_DEFAULTS
    return preset | schedules_of("default", iterations)


def _options_of_defaults(setting: Setting) -> dict[str, Any]:
    defaults = _defaults(setting)
    agent = defaults["agent"]
    rates = agent["learning_rate"], agent["final_learning_rate"], agent["decay_iterations"]
    return {
        "objective": Entropy(smoothing=defaults["smoothing"]),
        "memory": defaults["memory"],
        "learning_rate": Geometric(*rates),
        **{name: agent[name] for name in ("optimizer", "damping", "baseline")},
    }


def _schedules(
    setting: Setting, optimizer: str, iterations: int, *, step: float, beta: float, weight: float
) -> dict[str, Any]:
    """The step falls to ``step``, β rises from ``beta``, and the weight of the new batch in λ̂ falls from 0.3."""
    return {
        "objective": Entropy(smoothing=1e-5),
        "optimizer": optimizer,
        "damping": 0.001,
        "baseline": "batch-mean",
        "learning_rate": Geometric(setting.learning_rate, step, iterations),
        "beta": Geometric(beta, setting.beta, iterations),
        "memory": Geometric(0.7, 1.0 - weight, iterations),
    }
