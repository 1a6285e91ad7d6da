"""Gymnasium wrappers that turn an environment into a constrained exploration problem."""

from constrained_maxent.tracker import NEW_BATCH, find_tracker
from constrained_maxent.wrappers import vector
from constrained_maxent.wrappers.boolean_costs import BooleanCosts
from constrained_maxent.wrappers.declarations import (
    ConvexConstraint,
    CostConstraint,
    EntropyObjective,
    ImitationConstraint,
    Objective,
    PseudoReward,
)
from constrained_maxent.wrappers.float_info import FloatInfo
from constrained_maxent.wrappers.random_encoder import RandomEncoder
from constrained_maxent.wrappers.stack import constrain
from constrained_maxent.wrappers.steady_info import SteadyInfo
from constrained_maxent.wrappers.track_occupancy import TrackOccupancy

__all__ = [
    "NEW_BATCH",
    "BooleanCosts",
    "ConvexConstraint",
    "CostConstraint",
    "EntropyObjective",
    "FloatInfo",
    "ImitationConstraint",
    "Objective",
    "PseudoReward",
    "RandomEncoder",
    "SteadyInfo",
    "TrackOccupancy",
    "constrain",
    "find_tracker",
    "vector",
]
