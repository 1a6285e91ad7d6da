"""The -PGP- environments: each task inside its stack of wrappers, with presets."""

from constrained_maxent.tasks.presets import PRESETS, Preset, PresetName
from constrained_maxent.tasks.stacks import (
    make_ant,
    make_cartpole,
    make_frozen_lake,
    make_half_cheetah,
    make_humanoid,
    make_point_mass,
)

__all__ = [
    "PRESETS",
    "Preset",
    "PresetName",
    "make_ant",
    "make_cartpole",
    "make_frozen_lake",
    "make_half_cheetah",
    "make_humanoid",
    "make_point_mass",
]
