"""Other people's agents and data, each library's apart, each behind its extra."""

from constrained_maxent.adapters import sb3

__all__ = ["sb3"]
