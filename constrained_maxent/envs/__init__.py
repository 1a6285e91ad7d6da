"""The bare environments; importing this package registers their ids with Gymnasium.

Those that MuJoCo simulates are imported when their names are first used, so that the others need neither it nor
dm_control.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from constrained_maxent.envs.frozen_lake import MAPS, SafeFrozenLake
from constrained_maxent.envs.frozen_lake_vector import SafeFrozenLakeVector
from constrained_maxent.envs.registration import register_environments

if TYPE_CHECKING:
    from constrained_maxent.envs.cartpole import SafeCartpole, SafeCartpoleVector
    from constrained_maxent.envs.mujoco_model import MujocoStates
    from constrained_maxent.envs.mujoco_vector import MujocoVectorEnv
    from constrained_maxent.envs.point_mass import PointMass, PointMassVector

register_environments()

_MODULES = {
    "MujocoStates": "mujoco_model",
    "MujocoVectorEnv": "mujoco_vector",
    "PointMass": "point_mass",
    "PointMassVector": "point_mass",
    "SafeCartpole": "cartpole",
    "SafeCartpoleVector": "cartpole",
}

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


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
