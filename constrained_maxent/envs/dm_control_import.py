"""The parts of dm_control that the environments use, or an error that says what to install or to set."""

from __future__ import annotations

import warnings

from constrained_maxent.envs.mujoco_import import unusable

try:
    with warnings.catch_warnings():
        # dm_control looks for a window system as it is imported, and GLFW warns if there is none.
        warnings.simplefilter("ignore")
        from dm_control.rl.control import PhysicsError
        from dm_control.suite import cartpole, point_mass
# As for MuJoCo: what an OpenGL that is not there raises differs by backend.
except Exception as error:
    raise unusable("dm_control", error) from error

__all__ = ["PhysicsError", "cartpole", "point_mass"]
