"""Other people's agents and data, one file or room each, each behind its extra."""

from constrained_maxent.adapters import horizon, leader, rllib, sb3

__all__ = ["horizon", "leader", "rllib", "sb3"]
