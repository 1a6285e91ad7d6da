"""Other people's agents, environments and data, one file or room each, each behind its extra."""

from constrained_maxent.adapters import dm_control, horizon, leader, rllib, sb3

__all__ = ["dm_control", "horizon", "leader", "rllib", "sb3"]
