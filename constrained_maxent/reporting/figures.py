"""Figures of occupancies on a grid and of training curves: data in, a Matplotlib ``Figure`` out.

The figures are independent of ``pyplot``: they need no display, no window opens, and they are freed like any other
object. Write them with ``figure.savefig``. The colours are those of Okabe and Ito, which colour-blind people can tell
apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from constrained_maxent.errors import InvalidData, NonFiniteValue
from constrained_maxent.types import FloatArray

DPI = 150
BLUE, PALE_BLUE, VERMILLION, GREEN, GREY, INK = "#0072B2", "#97C6E6", "#D55E00", "#009E73", "#B8BEC4", "#1B2A38"

# Columns of the actions left, down, right, up as steps on an image, whose rows run downwards.
ARROWS = np.array([[-1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, -1.0]])
# Arrows start this far from the middle of their cell, so that their heads stay apart, and that of an action that is
# certain ends just inside it [cells].
ARROW_START, ARROW_LENGTH = 0.07, 0.39
LEAST_PROBABILITY = 0.02
# Curves are thinned to this many points: a page is a few thousand dots wide.
MAX_POINTS = 5_000


def grid_occupancy_figure(
    desc: Iterable[Iterable[str | bytes] | bytes],
    occupancy: ArrayLike,
    policy: ArrayLike,
    *,
    title: str | None = None,
) -> Figure:
    r"""Draw where a policy spends its time on a grid, and what it does there.

    Colour is the occupancy of the state, :math:`d(s) = \sum_a \lambda(s, a)`. In every cell an arrow for each action
    is as long as the action is probable; those below 2 %, and all in goals, where no action is taken, are left out.
    Holes are hatched.

    Args:
        desc: letters ``S`` (start), ``F`` (free), ``H`` (hole) and ``G`` (goal): rows of text, or an array of single
            letters such as Gymnasium's ``env.unwrapped.desc``. States are numbered row by row.
        occupancy: λ(s, a), ``(n_states, 4)``.
        policy: π(a|s), ``(n_states, 4)``, with the actions left, down, right and up.
        title: above the grid.

    Raises:
        InvalidData: desc is no grid of these letters, shapes disagree, or an entry is negative or a probability
            above 1.
        NonFiniteValue: an occupancy or a probability is NaN or infinite.
    """
    letters = _letters(desc)
    n_rows, n_columns = letters.shape
    visits = _table("occupancy", occupancy, letters.size).sum(axis=1).reshape(letters.shape)
    probabilities = _table("policy", policy, letters.size)
    if probabilities.max() > 1.0 + 1e-6:
        raise InvalidData(f"policy has an entry {probabilities.max():.6g}: probabilities are at most 1.")

    cell = float(np.clip(6.0 / max(n_rows, n_columns), 0.25, 0.9))  # [inches]
    flat = n_rows * 2 <= n_columns  # a colour bar beside it would be a stub
    width, height = n_columns * cell + (0.2 if flat else 1.2), n_rows * cell + (0.9 if flat else 0.1)
    height += 0.0 if title is None else 0.3
    figure = blank_figure(max(width, 3.2), height if flat else max(height, 2.2))
    axes = figure.add_subplot()
    image = axes.imshow(visits, cmap=_sequential(), vmin=0.0, vmax=float(visits.max()) or 1.0, aspect="equal")
    bar = figure.colorbar(
        image, ax=axes, label="state occupancy d(s)", location="bottom" if flat else "right", shrink=0.92, pad=0.03
    )
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, length=2)
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
    _draw_arrows(axes, letters, probabilities, dark, cell)
    if title is not None:
        axes.set_title(title, fontsize=11)
    return figure


def training_figure(
    iterations: ArrayLike,
    objective: ArrayLike | None,
    constraints: Mapping[str, ArrayLike],
    *,
    limits: Mapping[str, float],
    exact_iterations: ArrayLike | None = None,
    exact_objective: ArrayLike | None = None,
    exact_constraints: Mapping[str, ArrayLike] | None = None,
    references: Mapping[str, float] | None = None,
    title: str | None = None,
) -> Figure:
    """Draw a training: the entropy above, and one panel for each constraint with its limit.

    Sampled estimates are thin and pale, exact values strong. NaN and infinite values leave gaps. Curves of more than
    5,000 points are drawn by the smallest and largest value of short stretches, so no spike is lost.

    Args:
        iterations: of the estimates, ``(n,)``.
        objective: estimated entropy [nats], ``(n,)``; or ``None``.
        constraints: estimated values by constraint, ``(n,)`` each: of the value itself, not of value − limit.
        limits: the limit of each constraint of ``constraints`` and ``exact_constraints``.
        exact_iterations: of the exact values, ``(m,)``; ``None`` means ``iterations``.
        exact_objective: exact entropy [nats], ``(m,)``.
        exact_constraints: exact values by constraint, ``(m,)`` each.
        references: entropies [nats] to draw as horizontal lines, by label; for example the optimum.
        title: above the figure.

    Returns:
        The figure. The panel of the entropy is left out if nothing is known of it.

    Raises:
        InvalidData: lengths disagree, limits and constraints do not have the same names, or nothing is given to draw.
        NonFiniteValue: an iteration, a limit or a reference is NaN or infinite.
    """
    x = _iterations("iterations", iterations)
    exact_x = x if exact_iterations is None else _iterations("exact_iterations", exact_iterations)
    estimate = None if objective is None else _series("objective", objective, x)
    exact = None if exact_objective is None else _series("exact_objective", exact_objective, exact_x)
    estimates = {name: _series(f"constraints[{name!r}]", values, x) for name, values in constraints.items()}
    exacts = {
        name: _series(f"exact_constraints[{name!r}]", values, exact_x)
        for name, values in (exact_constraints or {}).items()
    }
    names = list(dict.fromkeys([*estimates, *exacts]))
    if set(names) != set(limits):
        raise InvalidData(f"limits has the names {sorted(limits)}, the constraints {sorted(names)}: give each a limit.")
    references = references or {}
    for label, value in [*limits.items(), *references.items()]:
        if not np.isfinite(value):
            raise NonFiniteValue(f"The limit or reference {label!r} is {value!r}: only finite lines can be drawn.")
    has_entropy = estimate is not None or exact is not None or bool(references)
    heights = [2.7] * has_entropy + [1.8] * len(names)
    if not heights:
        raise InvalidData("There is nothing to draw: give objective, exact_objective, references or a constraint.")

    figure = blank_figure(7.0, 0.6 + sum(heights))
    grid = figure.subplots(len(heights), sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights})
    panels: list[Axes] = list(grid[:, 0])
    if has_entropy:
        _draw_curves(panels[0], x, estimate, exact_x, exact)
        for index, (label, value) in enumerate(references.items()):
            style = ("-.", ":", (0, (8, 2)), (0, (1, 3)))[index % 4]
            panels[0].axhline(value, color=GREEN, linestyle=style, linewidth=1.3, label=label)
        panels[0].set_ylabel("entropy [nats]")
    for panel, name in zip(panels[has_entropy:], names, strict=True):
        _draw_curves(panel, x, estimates.get(name), exact_x, exacts.get(name))
        panel.axhline(limits[name], color=VERMILLION, linestyle="--", linewidth=1.3, label="limit")
        panel.set_ylabel(name, parse_math=False)
    _style_panels(panels)
    panels[-1].set_xlabel("iteration")
    everywhere = np.concatenate([x, exact_x])
    if everywhere.size and np.ptp(everywhere) == 0.0:
        panels[-1].set_xlim(everywhere[0] - 1.0, everywhere[0] + 1.0)
    figure.align_ylabels(panels)
    if title is not None:
        figure.suptitle(title, fontsize=11)
    return figure


def blank_figure(width: float, height: float) -> Figure:
    """An empty figure [inches] that no window and no global list knows of."""
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def _sequential() -> LinearSegmentedColormap:
    """From almost white to dark blue, evenly in lightness."""
    colours = matplotlib.colormaps["Blues"](np.linspace(0.02, 1.0, 256))
    return LinearSegmentedColormap.from_list("occupancy", list(colours))


def _letters(desc: Iterable[Iterable[str | bytes] | bytes]) -> NDArray[np.str_]:
    """The grid as an array of single letters, checked."""
    if isinstance(desc, str | bytes):
        raise InvalidData(f'desc={desc!r} must be a list of rows, such as ["SF", "HG"].')
    try:
        rows = [row.decode("latin-1") if isinstance(row, bytes) else "".join(map(_letter, row)) for row in desc]
    except TypeError:
        raise InvalidData(f"desc={desc!r} must be rows of the letters S, F, H and G.") from None
    if not rows or not rows[0] or len(set(map(len, rows))) > 1:
        raise InvalidData(f"The rows of desc must be equally long and not empty, not {[len(row) for row in rows]}.")
    if unknown := set("".join(rows)) - set("SFHG"):
        raise InvalidData(f"desc may hold the letters S, F, H and G only, not {', '.join(map(repr, sorted(unknown)))}.")
    return np.array([list(row) for row in rows])


def _letter(tile: str | bytes) -> str:
    return tile.decode("latin-1") if isinstance(tile, bytes) else tile


def _table(name: str, values: ArrayLike, n_states: int) -> FloatArray:
    """A table over states and the four actions, without negative entries."""
    table = _numbers(name, values)
    if table.shape != (n_states, len(ARROWS)):
        raise InvalidData(f"{name} has shape {table.shape}, expected (n_states, n_actions) = {(n_states, 4)}.")
    if not np.isfinite(table).all():
        raise NonFiniteValue(f"{name} has an entry that is NaN or infinite.")
    if table.min() < 0.0:
        raise InvalidData(f"{name} has a negative entry, {table.min():.6g}.")
    return table


def _numbers(name: str, values: ArrayLike) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidData(f"{name} must be an array of numbers.") from None


def _iterations(name: str, values: ArrayLike) -> FloatArray:
    x = _numbers(name, values)
    if x.ndim != 1:
        raise InvalidData(f"{name} has shape {x.shape}, expected one dimension.")
    if not np.isfinite(x).all():
        raise NonFiniteValue(f"{name} has an entry that is NaN or infinite.")
    return x


def _series(name: str, values: ArrayLike, x: FloatArray) -> FloatArray:
    """Values over iterations; what is not finite becomes NaN, which Matplotlib leaves out."""
    y = _numbers(name, values)
    if y.shape != x.shape:
        raise InvalidData(f"{name} has shape {y.shape}, its iterations {x.shape}: they must agree.")
    return np.where(np.isfinite(y), y, np.nan)


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
        colour, halo = ("white", INK) if dark[row, column] else (INK, "white")
        text = axes.text(x, y, str(letter), size=size, color=colour, weight="bold", ha="center", va="center", zorder=4)
        text.set_path_effects([withStroke(linewidth=1.8 * cell, foreground=halo)])


def _draw_arrows(
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
    arrows = axes.quiver(
        *starts.T,
        *vectors.T,
        angles="xy",
        scale_units="xy",
        scale=1.0,
        units="xy",
        width=0.03,
        headwidth=4.0,
        headlength=3.6,
        headaxislength=3.3,
        minlength=0.0,
        color=np.where(is_dark, "white", INK),
        edgecolor=np.where(is_dark, INK, "white"),
        linewidth=0.5 * cell,
        zorder=3,
    )
    arrows.set_gid("policy")


def _draw_curves(
    panel: Axes, x: FloatArray, estimate: FloatArray | None, exact_x: FloatArray, exact: FloatArray | None
) -> None:
    if estimate is not None:
        _draw_curve(panel, x, estimate, PALE_BLUE, 0.8 if x.size > 500 else 1.2, "sampled estimate")
    if exact is not None:
        _draw_curve(panel, exact_x, exact, BLUE, 1.8, "exact")


def _draw_curve(panel: Axes, x: FloatArray, y: FloatArray, colour: str, width: float, label: str) -> None:
    x, y = _thin(x, y)
    # A point between gaps has no line to show it.
    known = np.concatenate([[False], np.isfinite(y), [False]])
    alone = np.flatnonzero(known[1:-1] & ~known[:-2] & ~known[2:]).tolist()
    (line,) = panel.plot(x, y, color=colour, linewidth=width, label=label, solid_joinstyle="round")
    if alone:
        line.set(marker="o", markersize=2.0 + 2.0 * width, markevery=alone)


def _thin(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """At most ``MAX_POINTS`` of the points: the ends, and the extremes of equally long stretches."""
    if x.size <= MAX_POINTS:
        return x, y
    length = -(-x.size // (MAX_POINTS // 2 - 1))
    n_stretches = -(-x.size // length)
    padded = np.full(n_stretches * length, np.nan)
    padded[: y.size] = y
    stretches = padded.reshape(n_stretches, length)
    lowest = np.argmin(np.where(np.isnan(stretches), np.inf, stretches), axis=1)
    highest = np.argmax(np.where(np.isnan(stretches), -np.inf, stretches), axis=1)
    first = np.arange(n_stretches) * length
    kept = np.unique(np.concatenate([[0], first + lowest, first + highest, [x.size - 1]]))
    return x[kept], y[kept]


def _style_panels(panels: list[Axes]) -> None:
    for index, panel in enumerate(panels):
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", color=GREY, linewidth=0.5, alpha=0.5)
        panel.set_axisbelow(True)
        panel.margins(x=0.01)
        panel.tick_params(labelsize=9)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.yaxis.set_major_locator(MaxNLocator(nbins=5 if index else 6))
        # The curves are explained once, every line that belongs to one panel in that panel; above it, so that nothing
        # is hidden.
        handles, labels = panel.get_legend_handles_labels()
        entries = [
            (handle, label)
            for handle, label in zip(handles, labels, strict=True)
            if index == 0 or label not in ("sampled estimate", "exact")
        ]
        # Widths at this font size [inches]; columns of the widest entries must fit beside each other.
        widths = sorted((0.55 + 0.07 * len(label) for _, label in entries), reverse=True)
        panel.legend(
            *zip(*entries, strict=True),
            loc="lower right",
            bbox_to_anchor=(1.0, 1.0),
            ncols=max([1, *(n for n in (2, 3, 4) if sum(widths[:n]) <= 6.4)]),
            frameon=False,
            fontsize=9,
            borderaxespad=0.1,
        )
