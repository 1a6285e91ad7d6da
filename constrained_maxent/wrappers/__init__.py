"""Gymnasium wrappers that turn an environment into a constrained exploration problem."""

from constrained_maxent.wrappers import vector
from constrained_maxent.wrappers.boolean_costs import BooleanCosts
from constrained_maxent.wrappers.convex_constraint import ConvexConstraint
from constrained_maxent.wrappers.cost_constraint import CostConstraint
from constrained_maxent.wrappers.entropy_objective import EntropyObjective
from constrained_maxent.wrappers.imitation_constraint import ImitationConstraint
from constrained_maxent.wrappers.keys import NEW_BATCH
from constrained_maxent.wrappers.pseudo_reward import PseudoReward
from constrained_maxent.wrappers.stack import constrain
from constrained_maxent.wrappers.terms import find_tracker
from constrained_maxent.wrappers.track_occupancy import TrackOccupancy

__all__ = [
    "NEW_BATCH",
    "BooleanCosts",
    "ConvexConstraint",
    "CostConstraint",
    "EntropyObjective",
    "ImitationConstraint",
    "PseudoReward",
    "TrackOccupancy",
    "constrain",
    "find_tracker",
    "vector",
]
