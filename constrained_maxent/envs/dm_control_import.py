"""The parts of dm_control that the environments use, or an error that says what to install."""

from __future__ import annotations

import warnings

from gymnasium.error import DependencyNotInstalled

from constrained_maxent.envs.mujoco_import import INSTALL

try:
    with warnings.catch_warnings():
        # dm_control looks for a window system as it is imported, and GLFW warns if there is none.
        warnings.simplefilter("ignore")
        from dm_control.rl.control import PhysicsError
        from dm_control.suite import cartpole, point_mass
except ImportError as error:
    raise DependencyNotInstalled(f"dm_control cannot be imported ({error}): {INSTALL}.") from error

__all__ = ["PhysicsError", "cartpole", "point_mass"]
