"""Functionals of the occupancy measure: value, derivative, and the limit of the constraint that they make."""

from constrained_maxent.functionals.autograd import Autograd
from constrained_maxent.functionals.base import Functional
from constrained_maxent.functionals.distance import L2Distance
from constrained_maxent.functionals.divergence import KLDivergence
from constrained_maxent.functionals.entropy import Entropy
from constrained_maxent.functionals.linear import LinearCost
from constrained_maxent.functionals.mixture_distance import MixtureDistance

__all__ = ["Autograd", "Entropy", "Functional", "KLDivergence", "L2Distance", "LinearCost", "MixtureDistance"]
