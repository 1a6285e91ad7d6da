"""Estimates λ̂ of the occupancy measure from batches of trajectories."""

from constrained_maxent.occupancy.adam_mixture import AdamGaussianMixture
from constrained_maxent.occupancy.base import OccupancyEstimator, fresh_share
from constrained_maxent.occupancy.config import estimator_config, estimator_from_config
from constrained_maxent.occupancy.continuous import ContinuousEstimator
from constrained_maxent.occupancy.counts import Counts
from constrained_maxent.occupancy.from_scikit_learn import FromScikitLearn
from constrained_maxent.occupancy.gaussian_mixture import GaussianMixture
from constrained_maxent.occupancy.gaussians import Gaussians, Mixture
from constrained_maxent.occupancy.neighbors import NearestNeighbors
from constrained_maxent.occupancy.weighting import Scale, Weighting

__all__ = [
    "AdamGaussianMixture",
    "ContinuousEstimator",
    "Counts",
    "FromScikitLearn",
    "GaussianMixture",
    "Gaussians",
    "Mixture",
    "NearestNeighbors",
    "OccupancyEstimator",
    "Scale",
    "Weighting",
    "estimator_config",
    "estimator_from_config",
    "fresh_share",
]
