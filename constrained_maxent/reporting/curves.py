"""Curves of several settings in a grid of panels, each the mean over seeds within a band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from constrained_maxent.errors import InvalidData, InvalidSetting, NonFiniteValue
from constrained_maxent.reporting.style import INK, blank_figure, mark_single_points, plain_axes
from constrained_maxent.types import FloatArray

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Colors of curves, by Okabe and Ito, which color-blind people can tell apart."""
DASHES = ("-", "--", ":")
"""Line styles: the first six curves are solid, the next six dashed."""
Band = Literal["deviation", "interval", "runs"]
LINES = ("--", ":", "-.", (0, (8, 2)), (0, (1, 4)), (0, (4, 4)))


@dataclass(frozen=True, eq=False)
class Curve:
    """One setting over ``x`` ``(n,)``: ``values`` of every seed, ``(n_seeds, n)``, where NaN leaves a gap.

    The same ``label`` has the same color in every panel. ``middle`` ``(n,)`` is drawn in place of the mean over seeds,
    with its ``bounds``, low and high ``(n,)``, as the band; without bounds, with the seeds' own lines.
    """

    label: str
    x: ArrayLike
    values: ArrayLike
    middle: ArrayLike | None = None
    bounds: tuple[ArrayLike, ArrayLike] | None = None


@dataclass(frozen=True, eq=False)
class Panel:
    """One pair of axes.

    Attributes:
        curves, title, xlabel, ylabel: what is drawn in it and written beside it.
        lines: horizontal lines by label, such as the optimum or a limit; several of one label for both sides of one.
        xscale, yscale: Matplotlib's names: ``"linear"``, ``"log"`` or ``"symlog"`` (linear between -1 and 1).
    """

    curves: Sequence[Curve]
    title: str = ""
    xlabel: str = ""
    ylabel: str = ""
    lines: Mapping[str, float | Sequence[float]] = field(default_factory=dict)
    xscale: str = "linear"
    yscale: str = "linear"


def curves_figure(panels: Sequence[Sequence[Panel]], *, band: Band = "deviation", title: str | None = None) -> Figure:
    """Draw means over seeds within bands, with one legend for all panels below them.

    Args:
        panels: by row; all rows equally long.
        band: what is around a mean: one standard deviation of the seeds to both sides (``"deviation"``), or the 95 %
            interval of the mean by Student's t distribution (``"interval"``); of one seed, nothing. Or the seeds'
            own lines (``"runs"``), where they are too few for an interval that tells anything.
        title: above the figure.

    Raises:
        InvalidData: no panels, rows of different lengths, or values whose shape does not fit ``x``.
        InvalidSetting: unknown band.
        NonFiniteValue: a line is NaN or infinite.
    """
    if band not in get_args(Band):
        raise InvalidSetting(f"band={band!r} must be one of {', '.join(get_args(Band))}.")
    if not panels or not panels[0] or len({len(row) for row in panels}) > 1:
        raise InvalidData("panels must be rows of equal length, with at least one panel.")
    every = [panel for row in panels for panel in row]
    labels = list(dict.fromkeys(curve.label for panel in every for curve in panel.curves))
    names = list(dict.fromkeys(name for panel in every for name in panel.lines))
    n_rows, n_columns = len(panels), len(panels[0])
    figure = blank_figure(max(3.1 * n_columns, 5.0), 2.5 * n_rows + 0.8, title)
    grid = figure.subplots(n_rows, n_columns, squeeze=False)
    handles = {}
    for axes, panel in zip(grid.reshape(-1), every, strict=True):
        for curve in panel.curves:
            number = labels.index(curve.label)
            color = COLORS[number % len(COLORS)]
            dashes = DASHES[number // len(COLORS) % len(DASHES)]
            x, mean, half = _moments(curve, band)
            low, high, runs = mean - half, mean + half, band == "runs"
            if curve.middle is not None:
                mean, runs = np.asarray(curve.middle, dtype=np.float64), curve.bounds is None
                low, high = (mean, mean) if curve.bounds is None else map(np.asarray, curve.bounds)
                if not len(x) == len(mean) == len(low) == len(high):
                    raise InvalidData(f"The curve {curve.label!r} has a middle or bounds of other lengths than its x.")
            axes.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
            if runs:
                for run in axes.plot(x, np.asarray(curve.values).T, color=color, linewidth=0.6, alpha=0.6):
                    mark_single_points(run, 2.0)
            (line,) = axes.plot(x, mean, dashes, color=color, linewidth=1.4, label=curve.label)
            mark_single_points(line, 4.0)
            handles[curve.label] = line
        for name, values in panel.lines.items():
            style = LINES[names.index(name) % len(LINES)]
            for value in np.atleast_1d(values).tolist():
                if not np.isfinite(value):
                    raise NonFiniteValue(f"The line {name!r} is {value!r}: only finite lines can be drawn.")
                handles[name] = axes.axhline(value, color=INK, linestyle=style, linewidth=1.0, label=name)
        if not panel.curves and not panel.lines:
            axes.set_axis_off()
        axes.set_title(panel.title, fontsize=9)
        axes.set_xlabel(panel.xlabel, fontsize=9)
        axes.set_ylabel(panel.ylabel, fontsize=9)
        axes.set_xscale(panel.xscale)
        if panel.xscale == "linear":
            # Labels of five digits run into each other where there are more.
            axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
        axes.set_yscale(panel.yscale, **({"linthresh": 1.0} if panel.yscale == "symlog" else {}))
        plain_axes(axes, 8)
    if shown := [handles[name] for name in [*labels, *names]]:
        columns = min(len(shown), max(2, n_columns + 1))
        figure.legend(handles=shown, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)
    return figure


def _moments(curve: Curve, band: Band) -> tuple[FloatArray, FloatArray, FloatArray]:
    """x, the means over seeds, NaN where nothing is known, and half the heights of the band, 0 for one seed."""
    x, values = np.asarray(curve.x, dtype=np.float64), np.asarray(curve.values, dtype=np.float64)
    if x.ndim != 1 or values.ndim != 2 or values.shape[1] != len(x) or not len(values):
        raise InvalidData(
            f"The curve {curve.label!r} has values of shape {values.shape} over {x.shape}: expected (n_seeds, n)."
        )
    known = np.isfinite(values)
    count = known.sum(axis=0)
    mean = np.where(known, values, 0.0).sum(axis=0) / np.maximum(count, 1)
    squares = np.where(known, (values - mean) ** 2, 0.0).sum(axis=0) / np.maximum(count - 1, 1)
    mean, deviation = np.where(count > 0, mean, np.nan), np.where(count > 0, np.sqrt(squares), np.nan)
    if band == "deviation":
        return x, mean, deviation
    if band == "runs":
        return x, mean, np.zeros_like(mean)
    # Imported late: SciPy's distributions take longer to load than most figures to draw.
    from scipy.stats import t

    quantile = np.where(count > 1, t.ppf(0.975, np.maximum(count - 1, 1)), 0.0)
    return x, mean, quantile * deviation / np.sqrt(np.maximum(count, 1))
