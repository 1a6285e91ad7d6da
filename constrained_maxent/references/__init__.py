"""Reference occupancies λ_ref to imitate: a state density and a policy, stored as plain data."""

from constrained_maxent.references.gaussian_network import GaussianNetwork, Layer
from constrained_maxent.references.policies import CallablePolicy, ReferencePolicy
from constrained_maxent.references.reference import Reference
from constrained_maxent.references.shipped import SHIPPED, shipped

__all__ = ["SHIPPED", "CallablePolicy", "GaussianNetwork", "Layer", "Reference", "ReferencePolicy", "shipped"]
