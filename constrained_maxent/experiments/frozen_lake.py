"""``FrozenLake-PGP-v0``: the paper's grid world inside its wrapper stack."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium as gym

from constrained_maxent.envs import SafeFrozenLake, SafeFrozenLakeVector
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals import LinearCost
from constrained_maxent.occupancy import Counts, Scale
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.wrappers import constrain
from constrained_maxent.wrappers.tracker import Pairing

Preset = Literal["default", "paper"]

PRESETS: dict[str, dict[str, Any]] = {
    # Algorithm 1 as its authors ran it: B = 8, beta = 0.005, scale of the paper's estimator.
    "paper": {
        "beta": 0.005,
        "limit": 0.0,
        "episodes_per_batch": 8,
        "discount": 0.99,
        "scale": "truncated",
        "memory": 0.0,
    },
}
# What measures better takes schedules of step size, β and memory, which only the batched engine has so far.
PRESETS["default"] = PRESETS["paper"]


def make_frozen_lake(
    *,
    num_envs: int | None = None,
    preset: Preset = "default",
    pairing: Pairing = "same",
    beta: float | None = None,
    limit: float | None = None,
    episodes_per_batch: int | None = None,
    steps_per_batch: int | None = None,
    discount: float | None = None,
    scale: Scale | None = None,
    memory: float | None = None,
    **environment: Any,
) -> Any:
    """The grid with the entropy objective and its cost budget; what ``gym.make("FrozenLake-PGP-v0")`` returns.

    Args:
        num_envs: ``None`` for the scalar environment, else the number of sub-environments of the vector one.
        preset: ``"paper"`` for the paper's settings, ``"default"`` for ours, at present the same. What is given
            explicitly goes before the preset.
        pairing: which estimate goes with which reward.
        beta: β of the quadratic penalty.
        limit: the budget of ⟨c, λ⟩.
        episodes_per_batch, steps_per_batch: size of a batch; at least ``num_envs``.
        discount: γ.
        scale: ``"truncated"`` or ``"normalised"``; β and the limit are in its units.
        memory: share of the old occupancy estimate that each fit keeps.
        environment: arguments of :class:`~constrained_maxent.envs.SafeFrozenLake`.

    Raises:
        InvalidSetting: unknown preset, or values out of range.
    """
    if preset not in PRESETS:
        raise InvalidSetting(f"preset={preset!r} must be one of {', '.join(PRESETS)}.")
    given = {"beta": beta, "limit": limit, "discount": discount, "scale": scale, "memory": memory}
    settings = PRESETS[preset] | {name: value for name, value in given.items() if value is not None}
    if steps_per_batch is not None or episodes_per_batch is not None:
        settings["episodes_per_batch"] = episodes_per_batch
    elif num_envs is not None:
        settings["episodes_per_batch"] = max(settings["episodes_per_batch"], num_envs)
    env: Any = (
        SafeFrozenLake(**environment) if num_envs is None else SafeFrozenLakeVector(num_envs=num_envs, **environment)
    )
    return constrain(
        env,
        constraints={"cost": Constraint(LinearCost("cost", limit=settings["limit"]), Quadratic(settings["beta"]))},
        estimator=Counts(memory=settings["memory"]),
        episodes_per_batch=settings["episodes_per_batch"],
        steps_per_batch=steps_per_batch,
        discount=settings["discount"],
        scale=settings["scale"],
        pairing=pairing,
    )


def make_frozen_lake_vector(*, num_envs: int = 1, **settings: Any) -> gym.vector.VectorEnv[Any, Any, Any]:
    """The vector form; what ``gym.make_vec("FrozenLake-PGP-v0", num_envs=...)`` returns."""
    env: gym.vector.VectorEnv[Any, Any, Any] = make_frozen_lake(num_envs=num_envs, **settings)
    return env
