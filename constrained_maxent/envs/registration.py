"""Every environment id of this package."""

from __future__ import annotations

import gymnasium as gym


def register_environments() -> None:
    """Make the ids known to ``gymnasium.make`` and ``gymnasium.make_vec``. Calling it again changes nothing."""
    _register(
        "SafeFrozenLake-v0",
        entry_point="constrained_maxent.envs.frozen_lake:SafeFrozenLake",
        vector_entry_point="constrained_maxent.envs.frozen_lake_vector:SafeFrozenLakeVector",
    )
    _register(
        "SafeCartpole-v0",
        entry_point="constrained_maxent.envs.cartpole:SafeCartpole",
        vector_entry_point="constrained_maxent.envs.cartpole:SafeCartpoleVector",
    )
    _register(
        "PointMass-v0",
        entry_point="constrained_maxent.envs.point_mass:PointMass",
        vector_entry_point="constrained_maxent.envs.point_mass:PointMassVector",
    )
    # The stacks live above the environments; entry points as strings keep imports pointing one way.
    _register(
        "FrozenLake-PGP-v0",
        entry_point="constrained_maxent.tasks:make_frozen_lake",
        vector_entry_point="constrained_maxent.tasks:make_frozen_lake_vector",
    )
    _register(
        "SafeCartpole-PGP-v0",
        entry_point="constrained_maxent.tasks:make_cartpole",
        vector_entry_point="constrained_maxent.tasks:make_cartpole_vector",
    )
    _register(
        "PointMass-PGP-v0",
        entry_point="constrained_maxent.tasks:make_point_mass",
        vector_entry_point="constrained_maxent.tasks:make_point_mass_vector",
    )


def _register(env_id: str, *, entry_point: str, vector_entry_point: str) -> None:
    # Gymnasium warns when an id is registered again, although a reloaded module brings the same one.
    if env_id not in gym.registry:
        gym.register(env_id, entry_point=entry_point, vector_entry_point=vector_entry_point)
