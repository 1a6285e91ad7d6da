"""The methods of the grid study: what each setting is for the engine, with all that a ``Setting`` does not say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from constrained_maxent.engine import RunSettings
from constrained_maxent.functionals import Entropy, Functional
from constrained_maxent.penalties import AugmentedLagrangian, Lagrangian, Penalty, Quadratic
from constrained_maxent.problem import Constraint
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
    """Of the constraint."""


PRESET = PRESETS["FrozenLake-PGP-v0"]["default"]


def run_settings(setting: Setting, name: str, functional: Functional, *, seed: int) -> RunSettings:
    """What the engine is to do for one setting and seed; the functional, with its limit, is the constraint's."""
    return RunSettings(
        seed=seed,
        constraints={name: Constraint(functional, _penalty(setting))},
        episodes_per_batch=setting.episodes_per_batch,
        **{"learning_rate": setting.learning_rate} | _options(setting),
    )


def _penalty(setting: Setting) -> Penalty:
    match setting.method:
        case "primal-dual" | "vr-pdpg":
            return Lagrangian(setting.dual_rate, largest=DUAL_BOUND)
        case "augmented-lagrangian":
            return AugmentedLagrangian(setting.beta, learning_rate=setting.dual_rate)
        case "defaults":
            return PRESET.penalty
    return Quadratic(setting.beta)


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
