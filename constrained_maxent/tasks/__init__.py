"""The -PGP- environments: each task inside its stack of wrappers, with presets."""

from constrained_maxent.tasks.control import (
    make_cartpole,
    make_cartpole_vector,
    make_point_mass,
    make_point_mass_vector,
)
from constrained_maxent.tasks.frozen_lake import PRESETS, make_frozen_lake, make_frozen_lake_vector

__all__ = [
    "PRESETS",
    "make_cartpole",
    "make_cartpole_vector",
    "make_frozen_lake",
    "make_frozen_lake_vector",
    "make_point_mass",
    "make_point_mass_vector",
]
