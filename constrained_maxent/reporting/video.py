"""Films of a scene with the path that a point leaves: drawn by MuJoCo or by Matplotlib, written as MP4."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.error import DependencyNotInstalled
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Normalize, to_rgba
from matplotlib.figure import Figure
from numpy.typing import NDArray

from constrained_maxent.atomic import replacing
from constrained_maxent.errors import InvalidData, InvalidSetting
from constrained_maxent.reporting.scenes import ON_DARK, Scene
from constrained_maxent.reporting.style import INK, VERMILLION
from constrained_maxent.types import FloatArray

Image = NDArray[np.uint8]

# Segments of a path: more cannot be told apart, and each is a geometry for MuJoCo.
TRACE_SEGMENTS = 300
# Width of a path, as a share of the image's height.
TRACE_WIDTH = 0.006


class MujocoFrames:
    """Draws a scene through MuJoCo, its path in the colors of ``norm``; images have the scene's size.

    Raises:
        gymnasium.error.DependencyNotInstalled: MuJoCo or its OpenGL cannot be used here.
    """

    def __init__(self, scene: Scene, norm: Normalize) -> None:
        # Imported late, as Matplotlib draws where there is no MuJoCo.
        from constrained_maxent.envs.mujoco_model import mujoco
        from constrained_maxent.envs.mujoco_painter import MujocoPainter

        self._scene, self._norm, self._mujoco = scene, norm, mujoco
        self._data = mujoco.MjData(scene.model)
        self._painter = MujocoPainter(scene.model, *scene.image_size)
        self._painter.image(self._data)  # whether it can is only known by trying

    def image(self, states: FloatArray, time: float) -> Image:
        """The last of the states ``(n, n_state)`` with the path of all; uint8 (height, width, 3)."""
        scene, data = self._scene, self._data
        data.qpos[:] = scene.qpos(states[-1:])[0]
        self._mujoco.mj_forward(scene.model, data)
        colors = np.asarray(ON_DARK(self._norm(scene.tracer_values(states)[1:])), dtype=np.float64)
        width = TRACE_WIDTH * scene.image_size[1]
        walls = [(wall, np.array([to_rgba(VERMILLION)]), 0.5 * width) for wall in scene.walls]
        return self._painter.image(data, paths=[*walls, (scene.traced(states), colors, width)])

    def close(self) -> None:
        """Free what belongs to OpenGL."""
        self._painter.close()


class MatplotlibFrames:
    """Draws by Matplotlib what :class:`MujocoFrames` draws, with a clock."""

    def __init__(self, scene: Scene, norm: Normalize) -> None:
        width, height = scene.image_size
        figure = Figure(figsize=(width / 100, height / 100), dpi=100, facecolor="white")
        self._canvas = FigureCanvasAgg(figure)
        axes = figure.add_axes((0.02, 0.02, 0.96, 0.96))
        self._move, self._show = scene.draw(axes), scene.draw_tracer(axes, norm, width=1.8)
        axes.legend(handles=[scene.key], loc="upper right", frameon=False, fontsize=11, borderaxespad=1.5)
        self._clock = axes.text(0.06, 0.94, "", transform=axes.transAxes, va="top", color=INK, fontsize=11)

    def image(self, states: FloatArray, time: float) -> Image:
        """The last of the states ``(n, n_state)`` with the path of all; uint8 (height, width, 3)."""
        self._move(states[-1])
        self._show(states)
        self._clock.set_text(f"t = {time:.1f} s")
        self._canvas.draw()  # type: ignore[no-untyped-call]
        pixels = self._canvas.buffer_rgba()  # type: ignore[no-untyped-call]
        return np.array(pixels, dtype=np.uint8)[..., :3]

    def close(self) -> None:
        """There is nothing to free."""


Frames = MujocoFrames | MatplotlibFrames


def open_frames(scene: Scene, norm: Normalize) -> tuple[Frames, str | None]:
    """What draws a scene here: MuJoCo where it can, else Matplotlib with the reason why not."""
    try:
        return MujocoFrames(scene, norm), None
    except DependencyNotInstalled as error:
        return MatplotlibFrames(scene, norm), str(error)


def film(
    frames: Frames, episodes: Sequence[FloatArray], *, timestep: float, seconds: float, fps: int
) -> Iterator[Image]:
    """The images of episodes one after the other, at true speed, each with its own path.

    Args:
        episodes: states from the start on, ``(n_steps, n_state)`` each.
        timestep: between states [s].
        seconds, fps: length and images for each second, see ``number_of_frames``; the last episode's end is the film's.
    """
    ends = np.cumsum([len(states) for states in episodes])
    starts = ends - [len(states) for states in episodes]
    for frame in range(number_of_frames(seconds, fps)):
        step = round(frame / fps / timestep)
        if step >= ends[-1]:
            return
        i = int(np.searchsorted(ends, step, side="right"))
        last = step - int(starts[i])
        # Always the same points of the path, so that it stands still once drawn, and the newest one.
        stride = max(1, -(-len(episodes[i]) // TRACE_SEGMENTS))
        chosen = np.append(np.arange(0, last, stride), last)
        yield frames.image(episodes[i][chosen], last * timestep)


def number_of_frames(seconds: float, fps: int) -> int:
    """Images of a film; ``InvalidSetting`` for fps that are no whole number above 0, or seconds without an image."""
    if isinstance(fps, bool) or not (fps >= 1 and fps % 1 == 0):
        raise InvalidSetting(f"fps={fps!r} must be a whole number of at least 1.")
    if not 0.0 < seconds < np.inf or round(seconds * fps) < 1:
        raise InvalidSetting(f"seconds={seconds!r} must be long enough for one image, and finite.")
    return round(seconds * fps)


def write_video(path: str | os.PathLike[str], images: Iterable[Image], *, fps: int) -> int:
    """Write images as MP4 (H.264), atomically: an old film stays until the new one is complete.

    Args:
        path: the file, ``*.mp4``.
        images: uint8 ``(height, width, 3)``, all of one size; of an odd side the edge is repeated, as H.264 asks for.
        fps: images for each second.

    Returns:
        Number of images.

    Raises:
        InvalidSetting: another ending of the path.
        InvalidData: no images, or of other shape or type.
        gymnasium.error.DependencyNotInstalled: there is no ffmpeg for imageio.
    """
    target = Path(path)
    if target.suffix.lower() != ".mp4":
        raise InvalidSetting(f"{target} must end in .mp4: no other kind of film is written.")
    try:
        import imageio.v2 as imageio
        import imageio_ffmpeg  # noqa: F401  # imageio would ask for it at the first image only
    except ImportError as error:
        raise DependencyNotInstalled(f'Films need more ({error}): run `pip install "imageio[ffmpeg]"`.') from error
    target.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    # A block of 2 keeps the size of even images; by default imageio would stretch them to multiples of 16.
    options: Any = {"format": "FFMPEG", "fps": fps, "codec": "libx264", "quality": 8, "macro_block_size": 2}
    writer: Any
    with replacing(target) as temporary:
        with imageio.get_writer(temporary, mode="I", **options) as writer:
            for image in images:
                writer.append_data(_even(image))
                count += 1
        if not count:
            raise InvalidData("A film needs at least one image.")
    return count


def _even(image: Image) -> Image:
    """The image, checked, with a last row or column repeated where a side is odd."""
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise InvalidData(f"Images must be uint8 (height, width, 3), not {image.dtype} {image.shape}.")
    odd = [(0, side % 2) for side in image.shape[:2]]
    return np.pad(image, [*odd, (0, 0)], mode="edge") if any(pad for _, pad in odd) else image
