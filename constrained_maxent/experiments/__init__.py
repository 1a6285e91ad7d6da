"""The paper's experiments as configurations."""

from constrained_maxent.experiments.control import (
    make_cartpole,
    make_cartpole_vector,
    make_point_mass,
    make_point_mass_vector,
)
from constrained_maxent.experiments.frozen_lake import PRESETS, make_frozen_lake, make_frozen_lake_vector

__all__ = [
    "PRESETS",
    "make_cartpole",
    "make_cartpole_vector",
    "make_frozen_lake",
    "make_frozen_lake_vector",
    "make_point_mass",
    "make_point_mass_vector",
]
