"""MuJoCo, or an error that says what to install; only modules that simulate import this one."""

from __future__ import annotations

from gymnasium.error import DependencyNotInstalled

INSTALL = 'run `pip install "mujoco>=3.3,<4" "dm_control>=1.0.30"`'

try:
    import mujoco
    from mujoco import rollout
except ImportError as error:
    raise DependencyNotInstalled(f"MuJoCo cannot be imported ({error}): {INSTALL}.") from error

__all__ = ["INSTALL", "mujoco", "rollout"]
