"""The same wrappers for vector environments; one occupancy estimate serves all sub-environments."""

from constrained_maxent.wrappers.vector.boolean_costs import BooleanCosts
from constrained_maxent.wrappers.vector.declarations import (
    ConvexConstraint,
    CostConstraint,
    EntropyObjective,
    ImitationConstraint,
    Objective,
    PseudoReward,
)
from constrained_maxent.wrappers.vector.track_occupancy import TrackOccupancy

__all__ = [
    "BooleanCosts",
    "ConvexConstraint",
    "CostConstraint",
    "EntropyObjective",
    "ImitationConstraint",
    "Objective",
    "PseudoReward",
    "TrackOccupancy",
]
