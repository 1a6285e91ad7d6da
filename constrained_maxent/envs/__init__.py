"""The bare environments; importing this package registers every id with Gymnasium.

Those that MuJoCo simulates are imported when their names are first used, so that the others need neither it nor
dm_control.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import gymnasium as gym

from constrained_maxent.envs.frozen_lake import MAPS, SafeFrozenLake
from constrained_maxent.envs.frozen_lake_vector import SafeFrozenLakeVector
from constrained_maxent.lazy import lazy

if TYPE_CHECKING:
    from constrained_maxent.envs.cartpole import SafeCartpole, SafeCartpoleVector
    from constrained_maxent.envs.mujoco_model import MujocoStates
    from constrained_maxent.envs.mujoco_vector import MujocoVectorEnv
    from constrained_maxent.envs.point_mass import PointMass, PointMassVector
    from constrained_maxent.envs.walkers import (
        SafeAnt,
        SafeAntVector,
        SafeHalfCheetah,
        SafeHalfCheetahVector,
        SafeHumanoid,
        SafeHumanoidVector,
    )

__getattr__, __dir__ = lazy(
    __name__,
    cartpole=["SafeCartpole", "SafeCartpoleVector"],
    mujoco_model=["MujocoStates"],
    mujoco_vector=["MujocoVectorEnv"],
    point_mass=["PointMass", "PointMassVector"],
    walkers=[
        "SafeAnt",
        "SafeAntVector",
        "SafeHalfCheetah",
        "SafeHalfCheetahVector",
        "SafeHumanoid",
        "SafeHumanoidVector",
    ],
)

__all__ = [
    "MAPS",
    "MujocoStates",
    "MujocoVectorEnv",
    "PointMass",
    "PointMassVector",
    "SafeAnt",
    "SafeAntVector",
    "SafeCartpole",
    "SafeCartpoleVector",
    "SafeFrozenLake",
    "SafeFrozenLakeVector",
    "SafeHalfCheetah",
    "SafeHalfCheetahVector",
    "SafeHumanoid",
    "SafeHumanoidVector",
]

_ENTRY_POINTS = {
    "SafeFrozenLake-v0": ("envs.frozen_lake:SafeFrozenLake", "envs.frozen_lake_vector:SafeFrozenLakeVector"),
    "SafeCartpole-v0": ("envs.cartpole:SafeCartpole", "envs.cartpole:SafeCartpoleVector"),
    "PointMass-v0": ("envs.point_mass:PointMass", "envs.point_mass:PointMassVector"),
    "SafeHalfCheetah-v0": ("envs.walkers:SafeHalfCheetah", "envs.walkers:SafeHalfCheetahVector"),
    "SafeAnt-v0": ("envs.walkers:SafeAnt", "envs.walkers:SafeAntVector"),
    "SafeHumanoid-v0": ("envs.walkers:SafeHumanoid", "envs.walkers:SafeHumanoidVector"),
    # The stacks live above the environments; entry points as strings keep imports pointing one way. One
    # function makes the scalar stack and, given num_envs, the vector one.
    "FrozenLake-PGP-v0": ("tasks:make_frozen_lake", "tasks:make_frozen_lake"),
    "SafeCartpole-PGP-v0": ("tasks:make_cartpole", "tasks:make_cartpole"),
    "PointMass-PGP-v0": ("tasks:make_point_mass", "tasks:make_point_mass"),
    "SafeHalfCheetah-PGP-v0": ("tasks:make_half_cheetah", "tasks:make_half_cheetah"),
    "SafeAnt-PGP-v0": ("tasks:make_ant", "tasks:make_ant"),
    "SafeHumanoid-PGP-v0": ("tasks:make_humanoid", "tasks:make_humanoid"),
}
"""Ids to what makes the scalar and the vector environment, within this package."""

for _id, (_scalar, _vector) in _ENTRY_POINTS.items():
    # Gymnasium warns when an id is registered again, although a reloaded module brings the same one.
    if _id not in gym.registry:
        gym.register(
            _id, entry_point=f"constrained_maxent.{_scalar}", vector_entry_point=f"constrained_maxent.{_vector}"
        )
