"""Stochastic policies: a softmax table, and networks for any finite or ``Box`` action space."""

from constrained_maxent.agents.policies.categorical import CategoricalMLP
from constrained_maxent.agents.policies.choice import make_policy
from constrained_maxent.agents.policies.gaussian import LOG_STD_BOUNDS, GaussianMLP
from constrained_maxent.agents.policies.networks import LARGEST_NORMALIZED, Features, Network, mlp, network
from constrained_maxent.agents.policies.policy import Policy
from constrained_maxent.agents.policies.squashing import Squashing
from constrained_maxent.agents.policies.tabular_softmax import TabularSoftmax

__all__ = [
    "LARGEST_NORMALIZED",
    "LOG_STD_BOUNDS",
    "CategoricalMLP",
    "Features",
    "GaussianMLP",
    "Network",
    "Policy",
    "Squashing",
    "TabularSoftmax",
    "make_policy",
    "mlp",
    "network",
]
