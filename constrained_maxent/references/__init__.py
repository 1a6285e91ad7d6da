"""Reference occupancies λ_ref to imitate: a state density and a policy, stored as plain data."""

from constrained_maxent.references.gaussian_network import GaussianNetwork, Layer
from constrained_maxent.references.policies import AgentPolicy, CallablePolicy, ReferencePolicy
from constrained_maxent.references.reference import SHIPPED, Reference, shipped

__all__ = [
    "SHIPPED",
    "AgentPolicy",
    "CallablePolicy",
    "GaussianNetwork",
    "Layer",
    "Reference",
    "ReferencePolicy",
    "shipped",
]
