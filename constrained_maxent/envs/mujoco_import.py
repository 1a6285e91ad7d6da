"""MuJoCo, or an error that says what to install or to set; only modules that simulate import this one."""

from __future__ import annotations

import os

from gymnasium.error import DependencyNotInstalled

INSTALL = 'run `pip install "mujoco>=3.3,<4" "dm_control>=1.0.30"`'


def unusable(package: str, error: Exception) -> DependencyNotInstalled:
    """Why a package cannot be imported: it is missing, or it does not like the backend that MUJOCO_GL names."""
    backend = os.environ.get("MUJOCO_GL", "").strip()
    is_missing = isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == package
    if backend and not is_missing:
        return DependencyNotInstalled(
            f"{package} cannot be imported with MUJOCO_GL={backend} ({type(error).__name__}: {error}): unset "
            "MUJOCO_GL, or set it to what is installed here, egl, glfw or osmesa; MUJOCO_GL=off does without OpenGL."
        )
    return DependencyNotInstalled(f"{package} cannot be imported ({error}): {INSTALL}.")


try:
    import mujoco
    from mujoco import rollout
# At a backend that is unknown or not installed: RuntimeError, AttributeError, OSError, ...
except Exception as error:
    raise unusable("mujoco", error) from error

__all__ = ["INSTALL", "mujoco", "rollout", "unusable"]
