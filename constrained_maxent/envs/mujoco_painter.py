"""Pictures of MuJoCo models: into an image without a display, or into a window. OpenGL is touched at the first one."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.error import DependencyNotInstalled
from numpy.typing import NDArray

from constrained_maxent.envs.mujoco_model import mujoco
from constrained_maxent.types import FloatArray, check_count

WITHOUT_DISPLAY = (
    "Without a display, install EGL (Debian, Ubuntu: `apt-get install libegl1`) and set MUJOCO_GL=egl before Python "
    'starts; then render_mode="rgb_array" works.'
)

MAX_GEOMS = 4000


Path = tuple[FloatArray, FloatArray, float]
"""Points ``(n, 3)`` [m], red, green, blue and opacity of the segments ``(n - 1, 4)``, and a width [pixels]."""


class MujocoPainter:
    """Draws one ``mujoco.MjModel`` with its first camera.

    Its first picture raises ``gymnasium.error.DependencyNotInstalled`` if there is no OpenGL or no display.
    """

    def __init__(self, model: Any, width: int = 480, height: int = 360) -> None:
        self.model = model
        self.width, self.height = check_count("width", width), check_count("height", height)
        self._gl: Any = None
        self._window: Any = None

    def image(self, data: Any, *, paths: Sequence[Path] = ()) -> NDArray[np.uint8]:
        """Draw an ``mujoco.MjData``, with the paths that are given: uint8 (height, width, 3)."""
        if self._gl is None:
            self._gl, self._context = self._open()
            self._scene = mujoco.MjvScene(self.model, maxgeom=MAX_GEOMS)
            self._options, self._camera = mujoco.MjvOption(), mujoco.MjvCamera()
            if self.model.ncam:
                self._camera.type, self._camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, 0
            else:
                mujoco.mjv_defaultFreeCamera(self.model, self._camera)
        self._gl.make_current()
        everything = mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(self.model, data, self._options, None, self._camera, everything, self._scene)
        # Each light that casts shadows would draw a line once more, and twice as bright.
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW.value] = not paths
        for points, colors, width in paths:
            for start, end, color in zip(points[:-1], points[1:], colors, strict=True):
                geom = self._scene.geoms[self._scene.ngeom]
                line = mujoco.mjtGeom.mjGEOM_LINE.value  # a tenth of the time of tubes, where OpenGL runs on the CPU
                mujoco.mjv_initGeom(geom, line, np.zeros(3), np.zeros(3), np.zeros(9), color.astype(np.float32))
                mujoco.mjv_connector(geom, line, width, start, end)
                self._scene.ngeom += 1
        viewport = mujoco.MjrRect(0, 0, self.width, self.height)
        upside_down = np.empty((self.height, self.width, 3), dtype=np.uint8)
        mujoco.mjr_render(viewport, self._scene, self._context)
        mujoco.mjr_readPixels(upside_down, None, viewport, self._context)
        return np.ascontiguousarray(upside_down[::-1])

    def show(self, data: Any) -> None:
        """Draw an ``mujoco.MjData`` in a window, always the same object."""
        if self._window is None:
            # Without a display, GLFW does not raise: it ends the process.
            if not _has_display():
                raise DependencyNotInstalled(
                    f'render_mode="human" opens a window, but there is no display. {WITHOUT_DISPLAY}'
                )
            try:
                from gymnasium.envs.mujoco.mujoco_rendering import MujocoRenderer
            except ImportError as error:
                raise DependencyNotInstalled(
                    f'A window needs more ({error}): run `pip install "gymnasium[mujoco]" "mujoco<4"`.'
                ) from error
            self._window = MujocoRenderer(self.model, data, camera_id=0 if self.model.ncam else -1)
        self._window.render("human")

    def close(self) -> None:
        """Free what belongs to OpenGL; the next picture makes it anew."""
        if self._gl is not None:
            self._gl.make_current()
            self._context.free()
            self._gl.free()
        if self._window is not None:
            self._window.close()
        self._gl = self._window = None

    def _open(self) -> tuple[Any, Any]:
        """An OpenGL context and, in it, MuJoCo's own with a buffer for images."""
        backend = os.environ.get("MUJOCO_GL", "").strip().lower() or ("glfw" if _has_display() else "egl")
        if backend not in ("glfw", "egl", "osmesa"):
            raise DependencyNotInstalled(f"MUJOCO_GL={backend} leaves MuJoCo without OpenGL. {WITHOUT_DISPLAY}")
        buffer = self.model.vis.global_
        buffer.offwidth, buffer.offheight = max(buffer.offwidth, self.width), max(buffer.offheight, self.height)
        try:
            gl = importlib.import_module(f"mujoco.{backend}").GLContext(self.width, self.height)
            gl.make_current()
            context = mujoco.MjrContext(self.model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        # What a missing library raises differs by backend: AttributeError, OSError, ImportError, FatalError, ...
        except Exception as error:
            raise DependencyNotInstalled(
                f"MuJoCo cannot draw with OpenGL's {backend!r} ({type(error).__name__}: {error}). {WITHOUT_DISPLAY}"
            ) from error
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, context)
        return gl, context

    def __reduce__(self) -> tuple[Any, ...]:
        return MujocoPainter, (self.model, self.width, self.height)


def _has_display() -> bool:
    return not sys.platform.startswith("linux") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
