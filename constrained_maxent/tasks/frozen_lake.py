"""``FrozenLake-PGP-v0``: the paper's grid world inside its wrapper stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from constrained_maxent.envs import SafeFrozenLake, SafeFrozenLakeVector
from constrained_maxent.functionals import Entropy, LinearCost
from constrained_maxent.occupancy import Counts, Scale
from constrained_maxent.penalties import Penalty, Quadratic, QuadraticContinuation
from constrained_maxent.problem import Constraint
from constrained_maxent.schedules import Geometric, Schedule
from constrained_maxent.tasks.presets import Preset, penalty_of, settings_of
from constrained_maxent.tracker import Pairing
from constrained_maxent.wrappers import constrain

PRESETS: dict[str, dict[str, Any]] = {
    # Natural steps that shrink, a penalty that grows, and an estimate that remembers more and more.
    "default": {
        "iterations": 10_000,
        "num_envs": 16,
        "limit": 0.0,
        "episodes_per_batch": 16,
        "discount": 0.99,
        "scale": "truncated",
        "smoothing": 1e-5,
    },
    # Algorithm 1 as its authors ran it.
    "paper": {
        "iterations": 15_000,
        "num_envs": 8,
        "limit": 0.0,
        "episodes_per_batch": 8,
        "discount": 0.99,
        "scale": "truncated",
        "smoothing": 1e-6,
    },
}


def schedules_of(preset: Preset, iterations: int) -> dict[str, Any]:
    """Penalty, memory and the agent's hyperparameters of a run of so many batches."""
    if preset == "paper":
        return {"penalty": Quadratic(0.005), "memory": 0.0, "agent": {}}
    return {
        "penalty": QuadraticContinuation(0.005, 40.0),
        "memory": Geometric(0.7, 0.97),
        "agent": {
            "optimizer": "natural",
            "damping": 0.001,
            "learning_rate": 0.005,
            "final_learning_rate": 0.0003,
            "baseline": "batch-mean",
        },
    }


def make_frozen_lake(
    *,
    num_envs: int | None = None,
    preset: Preset = "default",
    iterations: int | None = None,
    pairing: Pairing = "same",
    beta: float | None = None,
    penalty: Penalty | Mapping[str, Any] | None = None,
    limit: float | None = None,
    episodes_per_batch: int | None = None,
    steps_per_batch: int | None = None,
    discount: float | None = None,
    scale: Scale | None = None,
    memory: Schedule | None = None,
    smoothing: float | None = None,
    **environment: Any,
) -> Any:
    """The grid with the entropy objective and its cost budget; what ``gym.make("FrozenLake-PGP-v0")`` returns.

    Args:
        num_envs: ``None`` for the scalar environment, else the number of sub-environments of the vector one.
        preset: ``"default"`` for what measures best, ``"paper"`` for the paper's settings. What is given explicitly
            goes before the preset.
        iterations: batches that a run will have: the default preset raises β and the memory over them, and suggests to
            ``PGP`` to shrink its steps meanwhile.
        pairing: which estimate goes with which reward.
        beta: β of the quadratic penalty, constant.
        penalty: another one, or its plain data, instead of the preset's.
        limit: the budget of ⟨c, λ⟩.
        episodes_per_batch, steps_per_batch: size of a batch; at least ``num_envs``.
        discount: γ.
        scale: ``"truncated"`` or ``"normalized"``; β and the limit are in its units.
        memory: share of the old occupancy estimate that each fit keeps, see ``Counts``.
        smoothing: σ of the entropy.
        environment: arguments of :class:`~constrained_maxent.envs.SafeFrozenLake`.

    Raises:
        InvalidSetting: unknown preset, or values out of range.
    """
    settings = settings_of(PRESETS, preset, iterations=iterations)
    settings |= schedules_of(preset, settings["iterations"])
    given = {"limit": limit, "discount": discount, "scale": scale, "memory": memory, "smoothing": smoothing}
    settings |= {name: value for name, value in given.items() if value is not None}
    if steps_per_batch is not None or episodes_per_batch is not None:
        settings["episodes_per_batch"] = episodes_per_batch
    elif num_envs is not None:
        settings["episodes_per_batch"] = max(settings["episodes_per_batch"], num_envs)
    enforced = penalty_of(settings["penalty"], beta=beta, penalty=penalty)
    env: Any = (
        SafeFrozenLake(**environment) if num_envs is None else SafeFrozenLakeVector(num_envs=num_envs, **environment)
    )
    return constrain(
        env,
        Entropy(smoothing=settings["smoothing"]),
        constraints={"cost": Constraint(LinearCost("cost", limit=settings["limit"]), enforced)},
        estimator=Counts(memory=settings["memory"]),
        episodes_per_batch=settings["episodes_per_batch"],
        steps_per_batch=steps_per_batch,
        discount=settings["discount"],
        scale=settings["scale"],
        pairing=pairing,
        suggestions=settings["agent"],
    )


def make_frozen_lake_vector(*, num_envs: int = 1, **settings: Any) -> gym.vector.VectorEnv[Any, Any, Any]:
    """The vector form; what ``gym.make_vec("FrozenLake-PGP-v0", num_envs=...)`` returns."""
    env: gym.vector.VectorEnv[Any, Any, Any] = make_frozen_lake(num_envs=num_envs, **settings)
    return env
