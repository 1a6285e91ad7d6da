"""Other people's agents and data, one file each, each behind its extra."""

from constrained_maxent.adapters import sb3

__all__ = ["sb3"]
