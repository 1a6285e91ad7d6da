"""RLlib: PPO over one occupancy estimate, on this machine or a cluster of Ray (``[ray]``).

Names are imported when they are first used, and that they need Ray is said then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnasium.error import DependencyNotInstalled

from constrained_maxent.lazy import lazy

if TYPE_CHECKING:
    from constrained_maxent.adapters.rllib.agents import as_agent
    from constrained_maxent.adapters.rllib.algorithm import PPO
    from constrained_maxent.adapters.rllib.configuration import PPOConfig, config

INSTALL = 'pip install "constrained-maxent[ray]"'


def require_ray() -> None:
    """Raise ``DependencyNotInstalled`` unless RLlib can be imported."""
    try:
        import ray.rllib  # noqa: F401
    except ImportError as error:
        raise DependencyNotInstalled(f"RLlib cannot be imported ({error}): {INSTALL}.") from error


_NAMES = {"agents": ["as_agent"], "algorithm": ["PPO"], "configuration": ["PPOConfig", "config"]}
_find, __dir__ = lazy(__name__, **_NAMES)


def __getattr__(name: str) -> Any:
    if name in __all__:
        require_ray()
    return _find(name)


__all__ = ["PPO", "PPOConfig", "as_agent", "config"]
