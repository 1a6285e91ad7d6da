"""Figures of occupancies on a grid: where a policy spends its time, and what it does there."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from numpy.typing import ArrayLike, NDArray

from constrained_maxent.errors import InvalidData
from constrained_maxent.occupancy import Scale
from constrained_maxent.reporting.style import GREY, INK, VERMILLION, blank_figure, color_bar, draw_arrows
from constrained_maxent.types import FloatArray, as_array, require_finite

# The actions left, down, right, up as steps on an image, whose rows run downwards.
ARROWS = np.array([[-1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, -1.0]])
# Arrows start beside the middle of their cell, so that their heads stay apart, and end just inside it [cells].
ARROW_START, ARROW_LENGTH = 0.07, 0.39
LEAST_PROBABILITY = 0.02

UNITS: dict[Scale, str] = {"truncated": "discounted steps", "normalized": "share of an episode"}
"""What occupancies of a state are counted in."""


def grid_occupancy_figure(
    desc: Iterable[Iterable[str | bytes]],
    occupancy: ArrayLike,
    policy: ArrayLike,
    *,
    scale: Scale | None = None,
    title: str | None = None,
) -> Figure:
    r"""Draw where a policy spends its time on a grid, and what it does there.

    Color is the occupancy of the state, :math:`d(s) = \sum_a \lambda(s, a)`. In every cell an arrow for each action
    is as long as the action is probable; those below 2 %, and all in goals, where no action is taken, are left out.
    Holes are hatched.

    Args:
        desc: letters ``S`` (start), ``F`` (free), ``H`` (hole) and ``G`` (goal): rows of text, or an array of single
            letters such as Gymnasium's ``env.unwrapped.desc``. States are numbered row by row.
        occupancy: λ(s, a), ``(n_states, 4)``.
        policy: π(a|s), ``(n_states, 4)``, with the actions left, down, right and up.
        scale: of the occupancy, which is its unit: discounted steps, or shares of a full-length episode. ``None``
            writes no unit.
        title: above the grid.

    Raises:
        InvalidData: desc is not a grid of these letters, shapes disagree, or an entry is negative or a probability
            above 1.
        NonFiniteValue: an occupancy or a probability is NaN or infinite.
    """
    letters = _letters(desc)
    n_rows, n_columns = letters.shape
    visits = _table("occupancy", occupancy, letters.size).sum(axis=1).reshape(letters.shape)
    probabilities = _table("policy", policy, letters.size)
    if probabilities.max() > 1.0 + 1e-6:
        raise InvalidData(f"policy has an entry {float(probabilities.max())!r}: probabilities are at most 1.")

    cell = float(np.clip(6.0 / max(n_rows, n_columns), 0.25, 0.9))  # [inches]
    flat = n_rows * 2 <= n_columns  # a color bar beside it would be a stub
    width, height = n_columns * cell + (0.2 if flat else 1.2), n_rows * cell + (0.9 if flat else 0.1)
    height += 0.0 if title is None else 0.3
    figure = blank_figure(max(width, 3.2), height if flat else max(height, 2.2))
    axes = figure.add_subplot()
    image = axes.imshow(visits, cmap="Blues", vmin=0.0, vmax=float(visits.max()) or 1.0, aspect="equal")
    side = "bottom" if flat else "right"
    unit = "" if scale is None else f" [{UNITS[scale]}]"
    color_bar(figure, image, axes, f"state occupancy d(s){unit}", location=side, shrink=0.92, pad=0.03)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(GREY)
    axes.vlines(np.arange(1, n_columns) - 0.5, -0.5, n_rows - 0.5, colors=GREY, linewidths=0.5)
    axes.hlines(np.arange(1, n_rows) - 0.5, -0.5, n_columns - 0.5, colors=GREY, linewidths=0.5)

    # White on dark cells, ink on light ones.
    luminance = np.asarray(image.cmap(image.norm(visits)))[..., :3] @ (0.2126, 0.7152, 0.0722)
    dark = luminance < 0.5
    _mark_cells(axes, letters, dark, cell)
    _policy_arrows(axes, letters, probabilities, dark, cell)
    if title is not None:
        axes.set_title(title, fontsize=11)
    return figure


def _letters(desc: Iterable[Iterable[str | bytes]]) -> NDArray[np.str_]:
    """The grid as an array of single letters, checked."""
    try:
        letters = np.array([] if isinstance(desc, str) else [list(row) for row in desc], dtype=np.str_)
    except (TypeError, ValueError):
        letters = np.array([], dtype=np.str_)
    if letters.ndim != 2 or not letters.size or not np.isin(letters, list("SFHG")).all():
        raise InvalidData(f"desc={desc!r} must be rows, equally long and not empty, of the letters S, F, H and G.")
    return letters


def _table(name: str, values: ArrayLike, n_states: int) -> FloatArray:
    """A table over states and the four actions, without negative entries."""
    table = as_array(name, values, np.float64)
    if table.shape != (n_states, len(ARROWS)):
        raise InvalidData(f"{name} has shape {table.shape}, expected (n_states, n_actions) = {(n_states, 4)}.")
    require_finite(name, table)
    if table.min() < 0.0:
        raise InvalidData(f"{name} has a negative entry, {table.min():.6g}.")
    return table


def _mark_cells(axes: Axes, letters: NDArray[np.str_], dark: NDArray[np.bool_], cell: float) -> None:
    """Hatch the holes, and write the letters of holes, starts and goals; ``cell`` is the size of one [inches]."""
    for (row, column), letter in np.ndenumerate(letters):
        if letter == "F":
            continue
        if letter == "H":
            frame = Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, fill=False, hatch="///")
            frame.set(edgecolor=VERMILLION, linewidth=1.2, alpha=0.75, gid="hole")
            axes.add_patch(frame)
        # Arrows have the middle of a cell, except in goals.
        x, y, size = (column, row, 22 * cell) if letter == "G" else (column - 0.3, row - 0.29, 13 * cell)
        color, halo = ("white", INK) if dark[row, column] else (INK, "white")
        text = axes.text(x, y, str(letter), size=size, color=color, weight="bold", ha="center", va="center", zorder=4)
        text.set_path_effects([withStroke(linewidth=1.8 * cell, foreground=halo)])


def _policy_arrows(
    axes: Axes, letters: NDArray[np.str_], policy: FloatArray, dark: NDArray[np.bool_], cell: float
) -> None:
    """Draw the policy's arrows, outwards from the middle of each cell."""
    states, actions = np.nonzero((policy >= LEAST_PROBABILITY) & (letters.reshape(-1, 1) != "G"))
    if not states.size:
        return
    rows, columns = np.divmod(states, letters.shape[1])
    starts = np.stack([columns, rows], axis=1) + ARROW_START * ARROWS[actions]
    vectors = ARROW_LENGTH * policy[states, actions, None] * ARROWS[actions]
    is_dark = dark[rows, columns]
    heads = {"headwidth": 4.0, "headlength": 3.6, "headaxislength": 3.3}
    colors = {"color": np.where(is_dark, "white", INK), "edgecolor": np.where(is_dark, INK, "white")}
    draw_arrows(axes, starts, vectors, gid="policy", width=0.03, linewidth=0.5 * cell, zorder=3, **heads, **colors)
