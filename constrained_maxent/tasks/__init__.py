"""The -PGP- environments: each task inside its stack of wrappers, with presets."""

from constrained_maxent.tasks.presets import PRESETS, Preset, PresetName
from constrained_maxent.tasks.stacks import (
    make_ant,
    make_ant_vector,
    make_cartpole,
    make_cartpole_vector,
    make_frozen_lake,
    make_frozen_lake_vector,
    make_half_cheetah,
    make_half_cheetah_vector,
    make_humanoid,
    make_humanoid_vector,
    make_point_mass,
    make_point_mass_vector,
)

__all__ = [
    "PRESETS",
    "Preset",
    "PresetName",
    "make_ant",
    "make_ant_vector",
    "make_cartpole",
    "make_cartpole_vector",
    "make_frozen_lake",
    "make_frozen_lake_vector",
    "make_half_cheetah",
    "make_half_cheetah_vector",
    "make_humanoid",
    "make_humanoid_vector",
    "make_point_mass",
    "make_point_mass_vector",
]
