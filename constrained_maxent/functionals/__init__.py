"""Functionals of the occupancy measure: value, derivative, what else they can do, and the limit of a constraint."""

from constrained_maxent.functionals.autograd import Autograd
from constrained_maxent.functionals.base import (
    OWN_REWARD,
    Combination,
    CostFunction,
    Functional,
    OwnReward,
    Source,
)
from constrained_maxent.functionals.convex import ConicOccupancy, Curvature, Majorant
from constrained_maxent.functionals.distance import L2Distance
from constrained_maxent.functionals.divergence import KLDivergence
from constrained_maxent.functionals.entropy import Entropy
from constrained_maxent.functionals.linear import LinearCost, Reward
from constrained_maxent.functionals.mixture_distance import MixtureDistance
from constrained_maxent.functionals.state_cost import StateCost
from constrained_maxent.functionals.terms import EngineTerm

__all__ = [
    "OWN_REWARD",
    "Autograd",
    "Combination",
    "ConicOccupancy",
    "CostFunction",
    "Curvature",
    "EngineTerm",
    "Entropy",
    "Functional",
    "KLDivergence",
    "L2Distance",
    "LinearCost",
    "Majorant",
    "MixtureDistance",
    "OwnReward",
    "Reward",
    "Source",
    "StateCost",
]
