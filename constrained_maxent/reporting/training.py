"""Figures of one training: entropy and constraints over iterations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from constrained_maxent.errors import InvalidData, NonFiniteValue
from constrained_maxent.reporting.style import (
    BLUE,
    GREEN,
    PALE_BLUE,
    VERMILLION,
    blank_figure,
    mark_single_points,
    plain_axes,
)
from constrained_maxent.types import FloatArray, as_array, require_finite

WIDTH = 7.0  # [inches]


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
    label: str = "entropy [nats]",
    units: Mapping[str, str] | None = None,
    title: str | None = None,
) -> Figure:
    """Draw a training: the objective above, where it is known, and one panel for each constraint with its limit.

    Sampled estimates are thin and pale, exact values strong. NaN and infinite values leave gaps.

    Args:
        iterations: of the estimates, ``(n,)``.
        objective: its estimates, an entropy [nats] unless ``label`` says else, ``(n,)``; or ``None``.
        constraints: estimated values by constraint, ``(n,)`` each: of the value itself, not of value − limit.
        limits: the limit of each constraint of ``constraints`` and ``exact_constraints``.
        exact_iterations: of the exact values, ``(m,)``; ``None`` means ``iterations``.
        exact_objective: its exact values, ``(m,)``.
        exact_constraints: exact values by constraint, ``(m,)`` each.
        references: values of the objective to draw as horizontal lines, by label; for example the optimum.
        label: what the objective is called, with its unit.
        units: of constraints by name, where they are known.
        title: above the figure.

    Raises:
        InvalidData: lengths disagree, limits and constraints do not have the same names, or there is nothing to draw.
        NonFiniteValue: an iteration, a limit or a reference is NaN or infinite.
    """
    x = _iterations("iterations", iterations)
    exact_x = x if exact_iterations is None else _iterations("exact_iterations", exact_iterations)
    estimate = None if objective is None else _series("objective", objective, x)
    exact = None if exact_objective is None else _series("exact_objective", exact_objective, exact_x)
    estimates = {name: _series(f"constraints[{name!r}]", values, x) for name, values in constraints.items()}
    given = (exact_constraints or {}).items()
    exacts = {name: _series(f"exact_constraints[{name!r}]", values, exact_x) for name, values in given}
    names = list(dict.fromkeys([*estimates, *exacts]))
    if set(names) != set(limits):
        raise InvalidData(f"limits has the names {sorted(limits)}, the constraints {sorted(names)}: give each a limit.")
    references = references or {}
    for name, value in [*limits.items(), *references.items()]:
        if not np.isfinite(value):
            raise NonFiniteValue(f"The limit or reference {name!r} is {value!r}: only finite lines can be drawn.")
    has_entropy = estimate is not None or exact is not None or bool(references)
    heights = [2.7] * has_entropy + [1.8] * len(names)
    if not heights:
        raise InvalidData("There is nothing to draw: give objective, exact_objective, references or a constraint.")

    figure = blank_figure(WIDTH, 0.6 + sum(heights), title)
    grid = figure.subplots(len(heights), sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights})
    panels: list[Axes] = list(grid[:, 0])
    if has_entropy:
        _draw_curves(panels[0], x, estimate, exact_x, exact)
        for index, (name, value) in enumerate(references.items()):
            style = ("-.", ":", (0, (8, 2)), (0, (1, 3)))[index % 4]
            panels[0].axhline(value, color=GREEN, linestyle=style, linewidth=1.3, label=name)
        panels[0].set_ylabel(label, parse_math=False)
    for panel, name in zip(panels[has_entropy:], names, strict=True):
        _draw_curves(panel, x, estimates.get(name), exact_x, exacts.get(name))
        panel.axhline(limits[name], color=VERMILLION, linestyle="--", linewidth=1.3, label="limit")
        unit = (units or {}).get(name)
        panel.set_ylabel(name if unit is None else f"{name} [{unit}]", parse_math=False)
    _style_panels(panels)
    panels[-1].set_xlabel("iteration")
    if len(everywhere := np.unique(np.concatenate([x, exact_x]))) == 1:
        panels[-1].set_xlim(everywhere[0] - 1.0, everywhere[0] + 1.0)
    figure.align_ylabels(panels)
    return figure


def _iterations(name: str, values: ArrayLike) -> FloatArray:
    """The numbers of iterations, ``(n,)``, checked."""
    x = as_array(name, values, np.float64)
    if x.ndim != 1:
        raise InvalidData(f"{name} has shape {x.shape}, expected one dimension.")
    require_finite(name, x)
    return x


def _series(name: str, values: ArrayLike, x: FloatArray) -> FloatArray:
    """Values over iterations; what is not finite becomes NaN, which Matplotlib leaves out."""
    y = as_array(name, values, np.float64)
    if y.shape != x.shape:
        raise InvalidData(f"{name} has shape {y.shape}, its iterations {x.shape}: they must agree.")
    return np.where(np.isfinite(y), y, np.nan)


def _draw_curves(
    panel: Axes, x: FloatArray, estimate: FloatArray | None, exact_x: FloatArray, exact: FloatArray | None
) -> None:
    _draw_curve(panel, x, estimate, PALE_BLUE, 0.8 if x.size > 500 else 1.2, "sampled estimate")
    _draw_curve(panel, exact_x, exact, BLUE, 1.8, "exact")


def _draw_curve(panel: Axes, x: FloatArray, y: FloatArray | None, color: str, width: float, label: str) -> None:
    if y is None:
        return
    (line,) = panel.plot(x, y, color=color, linewidth=width, label=label, solid_joinstyle="round")
    mark_single_points(line, 2.0 + 2.0 * width)


def _style_panels(panels: list[Axes]) -> None:
    for index, panel in enumerate(panels):
        plain_axes(panel, 9)
        panel.set_axisbelow(True)
        panel.margins(x=0.01)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.yaxis.set_major_locator(MaxNLocator(nbins=5 if index else 6))
        # The curves are explained once, every line that belongs to one panel in that panel; above it, so that nothing
        # is hidden.
        entries = {str(line.get_label()): line for line in panel.lines}
        if index:
            entries = {label: line for label, line in entries.items() if label not in ("sampled estimate", "exact")}
        _place_legend(panel, list(entries.values()), list(entries), WIDTH)


def fit_legends(figure: Figure, width: float) -> None:
    """Give the legends above the panels of a figure as many columns as fit into its new width [inches]."""
    for panel in figure.axes:
        if (legend := panel.get_legend()) is not None:
            labels = [text.get_text() for text in legend.get_texts()]
            _place_legend(panel, [line for line in legend.legend_handles if line is not None], labels, width)


def _place_legend(panel: Axes, lines: Sequence[Artist], labels: Sequence[str], width: float) -> None:
    # Widths at this font size [inches]; columns of the widest entries must fit beside each other.
    widths = sorted((0.55 + 0.07 * len(label) for label in labels), reverse=True)
    panel.legend(
        lines,
        labels,
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=max([1, *(n for n in (2, 3, 4) if sum(widths[:n]) <= width - 0.6)]),
        frameon=False,
        fontsize=9,
        borderaxespad=0.1,
    )
