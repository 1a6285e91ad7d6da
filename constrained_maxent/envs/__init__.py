"""The bare environments; importing this package registers their ids with Gymnasium.

Those that MuJoCo simulates are imported when their names are first used, so that the others need neither it nor
dm_control.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from constrained_maxent.envs.frozen_lake import MAPS, SafeFrozenLake
from constrained_maxent.envs.frozen_lake_vector import SafeFrozenLakeVector
from constrained_maxent.envs.registration import register_environments
from constrained_maxent.lazy import lazy

if TYPE_CHECKING:
    from constrained_maxent.envs.cartpole import SafeCartpole, SafeCartpoleVector
    from constrained_maxent.envs.mujoco_model import MujocoStates
    from constrained_maxent.envs.mujoco_vector import MujocoVectorEnv
    from constrained_maxent.envs.point_mass import PointMass, PointMassVector

register_environments()

__getattr__, __dir__ = lazy(
    __name__,
    cartpole=["SafeCartpole", "SafeCartpoleVector"],
    mujoco_model=["MujocoStates"],
    mujoco_vector=["MujocoVectorEnv"],
    point_mass=["PointMass", "PointMassVector"],
)

__all__ = [
    "MAPS",
    "MujocoStates",
    "MujocoVectorEnv",
    "PointMass",
    "PointMassVector",
    "SafeCartpole",
    "SafeCartpoleVector",
    "SafeFrozenLake",
    "SafeFrozenLakeVector",
    "register_environments",
]
