"""What all figures share: size, colors and arrows. They are independent of ``pyplot``: no display, no window.

The colors are those of Okabe and Ito, which color-blind people can tell apart.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from constrained_maxent.atomic import check_writable, replacing
from constrained_maxent.errors import InvalidData, InvalidSetting, NonFiniteValue
from constrained_maxent.types import FloatArray, as_array

DPI = 150
BLUE, PALE_BLUE, VERMILLION, GREEN, GREY, INK = "#0072B2", "#97C6E6", "#D55E00", "#009E73", "#B8BEC4", "#1B2A38"


def blank_figure(width: float, height: float, title: str | None = None) -> Figure:
    """A figure [inches] with nothing but a title, that no window and no global list knows of."""
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    if title is not None:
        figure.suptitle(title, fontsize=10, color=INK)
    return figure


def save_figure(figure: Figure, path: Path, **options: Any) -> Path:
    """Write a figure, whole or not at all; ``options`` are those of Matplotlib's ``savefig``. Returns the path."""
    with replacing(path) as temporary:
        figure.savefig(temporary, **options)
    return path


def check_figure_path(path: Path) -> None:
    """See that a figure can be written there, before long work for it; its folder is made.

    Raises:
        InvalidSetting: an ending of no kind of image.
        OSError: the file cannot be written.
    """
    if (ending := path.suffix.removeprefix(".").lower()) not in (kinds := FigureCanvasAgg.get_supported_filetypes()):
        raise InvalidSetting(
            f"{path} ends in {ending or 'nothing'!r}: give it the ending of an image, {', '.join(kinds)}."
        )
    check_writable(path)


def plain_axes(axes: Axes, label_size: float) -> None:
    """Leave of a frame what the eye needs to read values."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=GREY, linewidth=0.5, alpha=0.5)
    axes.tick_params(labelsize=label_size)


def mark_single_points(line: Line2D, size: float) -> None:
    """Show the points of a line that have gaps, or nothing, on both sides, which would be invisible."""
    known = np.concatenate([[False], np.isfinite(np.asarray(line.get_ydata(), dtype=np.float64)), [False]])
    if alone := np.flatnonzero(known[1:-1] & ~known[:-2] & ~known[2:]).tolist():
        line.set(marker="o", markersize=size, markevery=alone)


def color_bar(figure: Figure, colors: ScalarMappable, axes: Any, label: str, **place: Any) -> None:
    """A bar that explains colors; ``place`` is what Matplotlib's ``Figure.colorbar`` takes."""
    bar = figure.colorbar(colors, ax=axes, **place)
    bar.set_label(label, fontsize=9)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, length=2)


def draw_arrows(axes: Axes, places: FloatArray, vectors: FloatArray, *, gid: str, width: float, **look: Any) -> None:
    """Arrows from places ``(n, 2)`` along vectors ``(n, 2)``, all in the units of the axes."""
    units: dict[str, Any] = {"angles": "xy", "scale_units": "xy", "scale": 1.0, "units": "xy", "minlength": 0.0}
    axes.quiver(*places.T, *vectors.T, width=width, **units, **look).set_gid(gid)


def episodes_of(name: str, values: ArrayLike, width: int) -> FloatArray:
    """An array of episodes, ``(n_episodes, n_steps, width)``, checked; NaN stands where one ended early."""
    episodes = as_array(name, values, np.float64)
    if episodes.ndim != 3 or episodes.shape[2] != width or not episodes.size:
        raise InvalidData(f"{name} has shape {episodes.shape}, expected (n_episodes, n_steps, {width}), not empty.")
    if np.isinf(episodes).any():
        raise NonFiniteValue(f"{name} has an infinite entry.")
    return episodes
