"""The bare environments; importing this package registers their ids with Gymnasium."""

from constrained_maxent.envs.frozen_lake import MAPS, SafeFrozenLake
from constrained_maxent.envs.frozen_lake_vector import SafeFrozenLakeVector
from constrained_maxent.envs.registration import register_environments

register_environments()

__all__ = ["MAPS", "SafeFrozenLake", "SafeFrozenLakeVector", "register_environments"]
