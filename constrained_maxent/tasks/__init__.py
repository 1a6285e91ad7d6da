"""The -PGP- environments: each task inside its stack of wrappers, with presets."""

from constrained_maxent.tasks.presets import PRESETS, Preset, PresetName
from constrained_maxent.tasks.stacks import (
    make_cartpole,
    make_cartpole_vector,
    make_frozen_lake,
    make_frozen_lake_vector,
    make_point_mass,
    make_point_mass_vector,
)

__all__ = [
    "PRESETS",
    "Preset",
    "PresetName",
    "make_cartpole",
    "make_cartpole_vector",
    "make_frozen_lake",
    "make_frozen_lake_vector",
    "make_point_mass",
    "make_point_mass_vector",
]
