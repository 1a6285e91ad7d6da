"""The paper's experiments as configurations."""

from constrained_maxent.experiments.frozen_lake import PRESETS, make_frozen_lake, make_frozen_lake_vector

__all__ = ["PRESETS", "make_frozen_lake", "make_frozen_lake_vector"]
