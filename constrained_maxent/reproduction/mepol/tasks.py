"""The four tasks of Mutti et al. (2021), and for each a cost with a limit that binds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from constrained_maxent.evaluation import Grid
from constrained_maxent.reproduction import MepolTaskName
from constrained_maxent.reproduction.mepol.worlds import EndlessMountainCar, FourRooms
from constrained_maxent.types import FloatArray
from constrained_maxent.wrappers.states import StateSource

VectorEnv = gym.vector.VectorEnv[Any, Any, Any]


@dataclass(frozen=True, kw_only=True)
class Task:
    """One of them.

    Attributes:
        make: as many copies.
        explored: what λ̂ is over, as ``state=`` has it: what the yardstick measures, without what is redundant.
        periodic: angles of that.
        measured: the coordinates of the observation that the yardstick measures; ``None``: all.
        neighbors: k of the yardstick.
        copies: of the environment: the episodes of a batch, which has about 8,000 to 10,000 steps.
        batches: how many are trained on.
        seeds: how many are run.
        cost: 0 or 1 for each step: a key of ``info``, or a function of observation, action and next observation.
        limit: the share of steps that may cost.
        grid: whose cells are counted, of the first coordinates of what is measured.
    """

    make: Callable[[int], VectorEnv]
    explored: StateSource | None = None
    periodic: tuple[int, ...] = ()
    measured: tuple[int, ...] | None = None
    neighbors: int = 4
    copies: int = 20
    batches: int
    seeds: int = 5
    cost: str | Callable[[Any, Any, Any], float]
    limit: float
    grid: Grid | None = None

    def states(self, observations: FloatArray) -> FloatArray:
        """What the yardstick measures, of observations ``(..., n)``."""
        return observations if self.measured is None else observations[..., list(self.measured)]


def _copies(make: Callable[[], gym.Env[Any, Any]], horizon: int) -> Callable[[int], VectorEnv]:
    def one() -> gym.Env[Any, Any]:
        return gym.wrappers.TimeLimit(make(), horizon)

    return lambda num_envs: gym.vector.SyncVectorEnv([one] * num_envs)


def _robot(env_id: str, horizon: int, dt: float) -> Callable[[int], VectorEnv]:
    settings: dict[str, Any] = {"exclude_current_positions_from_observation": False, "time_limit": horizon * dt}
    return lambda num_envs: gym.make_vec(env_id, num_envs=num_envs, **settings)


def is_fast(observation: Any, action: Any, next_observation: Any) -> float:
    """The car's speed is over five sevenths of the highest."""
    return float(abs(observation[1]) > 0.05)


def is_upper_right(observation: Any, action: Any, next_observation: Any) -> float:
    """The point is in the room that is farthest from where it starts."""
    return float(min(observation) > FourRooms.THICK)


TASKS: Mapping[MepolTaskName, Task] = {
    "mountain-car": Task(make=_copies(EndlessMountainCar, 400), batches=130, cost=is_fast, limit=0.05),
    "four-rooms": Task(
        make=_copies(FourRooms, 1200), neighbors=50, copies=8, batches=100, cost=is_upper_right, limit=0.05
    ),
    "ant": Task(
        make=_robot("SafeAnt-v0", 500, 0.05),
        explored="torso",
        periodic=(3, 5),
        measured=tuple(range(7)),
        batches=200,
        cost="cost_speed",
        limit=0.1,
        grid=Grid((-12.0, -12.0), (12.0, 12.0), (40, 40)),
    ),
    "humanoid": Task(
        make=_robot("SafeHumanoid-v0", 500, 0.015),
        explored=[0, 1, 2, *range(4, 24)],  # of a unit quaternion three numbers tell the fourth
        measured=tuple(range(24)),
        batches=100,
        seeds=2,
        cost="cost_speed",
        limit=0.1,
    ),
}
"""A fifth of their steps on the first two, a tenth on the ant; 1 M steps of the humanoid."""
