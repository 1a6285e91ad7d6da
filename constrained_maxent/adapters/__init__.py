"""Other people's agents, environments, costs and data, one file or room each, each behind its extra."""

from constrained_maxent.adapters import costs, dm_control, horizon, leader, minari, rllib, sb3

__all__ = ["costs", "dm_control", "horizon", "leader", "minari", "rllib", "sb3"]
