"""Every environment id of this package."""

from __future__ import annotations

import gymnasium as gym

_ENTRY_POINTS = {
    "SafeFrozenLake-v0": ("envs.frozen_lake:SafeFrozenLake", "envs.frozen_lake_vector:SafeFrozenLakeVector"),
    "SafeCartpole-v0": ("envs.cartpole:SafeCartpole", "envs.cartpole:SafeCartpoleVector"),
    "PointMass-v0": ("envs.point_mass:PointMass", "envs.point_mass:PointMassVector"),
    # The stacks live above the environments; entry points as strings keep imports pointing one way.
    "FrozenLake-PGP-v0": ("tasks:make_frozen_lake", "tasks:make_frozen_lake_vector"),
    "SafeCartpole-PGP-v0": ("tasks:make_cartpole", "tasks:make_cartpole_vector"),
    "PointMass-PGP-v0": ("tasks:make_point_mass", "tasks:make_point_mass_vector"),
}
"""Ids to what makes the scalar and the vector environment, within this package."""


def register_environments() -> None:
    """Make the ids known to ``gymnasium.make`` and ``gymnasium.make_vec``. Calling it again changes nothing."""
    for env_id, (scalar, vector) in _ENTRY_POINTS.items():
        # Gymnasium warns when an id is registered again, although a reloaded module brings the same one.
        if env_id not in gym.registry:
            gym.register(
                env_id,
                entry_point=f"constrained_maxent.{scalar}",
                vector_entry_point=f"constrained_maxent.{vector}",
            )
