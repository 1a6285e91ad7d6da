"""Stable-Baselines3: its agents over one occupancy estimate, its models as agents of this package (``[sb3]``).

Names are imported when they are first used, and that they need Stable-Baselines3 is said then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnasium.error import DependencyNotInstalled

from constrained_maxent.lazy import lazy

if TYPE_CHECKING:
    from constrained_maxent.adapters.sb3.agents import as_agent, network_of
    from constrained_maxent.adapters.sb3.callbacks import EvalCallback, OccupancyCallback
    from constrained_maxent.adapters.sb3.checkpoints import load, save
    from constrained_maxent.adapters.sb3.policies import policy_log_prob, policy_table
    from constrained_maxent.adapters.sb3.replay_buffer import OccupancyReplayBuffer
    from constrained_maxent.adapters.sb3.vec_env import VecEnv

INSTALL = 'pip install "constrained-maxent[sb3]"'


def require_stable_baselines() -> None:
    """Raise ``DependencyNotInstalled`` unless Stable-Baselines3 can be imported."""
    try:
        import stable_baselines3  # noqa: F401
    except ImportError as error:
        raise DependencyNotInstalled(f"Stable-Baselines3 cannot be imported ({error}): {INSTALL}.") from error


_NAMES = {
    "agents": ["as_agent", "network_of"],
    "callbacks": ["EvalCallback", "OccupancyCallback"],
    "checkpoints": ["load", "save"],
    "policies": ["policy_log_prob", "policy_table"],
    "replay_buffer": ["OccupancyReplayBuffer"],
    "vec_env": ["VecEnv"],
}
_find, __dir__ = lazy(__name__, **_NAMES)


def __getattr__(name: str) -> Any:
    if name in __all__:
        require_stable_baselines()
    return _find(name)


__all__ = [
    "EvalCallback",
    "OccupancyCallback",
    "OccupancyReplayBuffer",
    "VecEnv",
    "as_agent",
    "load",
    "network_of",
    "policy_log_prob",
    "policy_table",
    "save",
]
