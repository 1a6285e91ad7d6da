"""Figures of the cartpole: a strip of snapshots, and position and angle over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from constrained_maxent.errors import InvalidData
from constrained_maxent.reporting.curves import Curve, Panel, curves_figure
from constrained_maxent.reporting.scenes import ON_LIGHT, CartpoleScene
from constrained_maxent.reporting.style import GREY, INK, blank_figure, color_bar, episodes_of
from constrained_maxent.types import FloatArray

SNAPSHOTS = (2.4, 4.8, 6.0, 7.2, 8.4, 9.6)
"""The paper's times [s]."""


def cartpole_strip_figure(
    scene: CartpoleScene,
    episodes: Mapping[str, ArrayLike],
    *,
    timestep: float,
    times: Sequence[float] = SNAPSHOTS,
    title: str | None = None,
) -> Figure:
    """Draw one row of snapshots for each policy, with the path of the pole's tip so far, colored by angular velocity.

    Args:
        scene: sizes of cart, pole and rail.
        episodes: by policy, the states [x, ẋ, ω, ω̇] of one episode from its start on, ``(n_steps, 4)``; rows of NaN
            where it ended early.
        timestep: between them [s].
        times: of the snapshots [s]. A snapshot past an episode's end stays empty.
        title: above the figure.

    Raises:
        InvalidData: no episode or no time, or states of another shape.
    """
    rows = {
        name: episodes_of(f"episodes[{name!r}]", np.asarray(states)[None], 4)[0] for name, states in episodes.items()
    }
    if not rows or not len(times):
        raise InvalidData("There is nothing to draw: give at least one episode and one time.")
    norm = scene.tracer_norm(np.concatenate(list(rows.values())))
    left, right, bottom, top = scene.frame
    width = 2.2
    height = width * (top - bottom) / (right - left)
    figure = blank_figure(width * len(times) + 0.4, (height + 0.08) * len(rows) + 0.95 + (0.2 if title else 0.0))
    grid = figure.subplots(len(rows), len(times), squeeze=False)
    for (name, states), line in zip(rows.items(), grid, strict=True):
        line[0].set_ylabel(name, fontsize=9, parse_math=False)
        for time, axes in zip(times, line, strict=True):
            if axes in grid[0]:
                axes.set_title(f"t = {time:g} s", fontsize=9)
            move, trace = scene.draw(axes), scene.draw_tracer(axes, norm)
            step = round(time / timestep)
            if step < len(states) and np.isfinite(states[step]).all():
                move(states[step])
                trace(states[: step + 1])
            else:
                for artist in [*axes.lines, *axes.patches]:
                    artist.set_visible(False)
                axes.text(0.5, 0.5, "ended", transform=axes.transAxes, ha="center", va="center", color=GREY)
    place: dict[str, Any] = {"location": "bottom", "aspect": 50, "shrink": 0.4, "pad": 0.02}
    color_bar(figure, ScalarMappable(norm, ON_LIGHT), grid, scene.tracer_label, **place)
    if title is not None:
        figure.suptitle(title, fontsize=10, color=INK)
    return figure


def cartpole_motion_figure(
    policies: Mapping[str, ArrayLike], *, timestep: float, slider_limit: float, title: str | None = None
) -> Figure:
    """Draw mean and standard deviation over episodes of cart position and pole angle, one column for each policy.

    The angle is that from upright, |ω| in [0, π]: the mean of ω itself, of +π and −π, would put a hanging pole upright.

    Args:
        policies: by name, the states [x, ẋ, ω, ω̇], ``(n_episodes, n_steps, 4)``; NaN where an episode ended early.
        timestep: between them [s].
        slider_limit: where the cost begins [m], drawn on both sides.
        title: above the figure.

    Raises:
        InvalidData: no policy, or states of another shape.
    """
    tables = {name: episodes_of(f"policies[{name!r}]", states, 4) for name, states in policies.items()}
    if not tables:
        raise InvalidData("There is nothing to draw: give at least one policy.")

    def row(ylabel: str, values: Mapping[str, FloatArray], lines: Mapping[str, Sequence[float]]) -> list[Panel]:
        return [
            Panel(
                [Curve("mean ± standard deviation over episodes", timestep * np.arange(table.shape[1]), table)],
                title=name if lines else "",
                xlabel="" if lines else "time [s]",
                ylabel="" if index else ylabel,
                lines=lines,
            )
            for index, (name, table) in enumerate(values.items())
        ]

    positions = {name: table[..., 0] for name, table in tables.items()}
    angles = {name: np.abs(table[..., 2]) for name, table in tables.items()}
    panels = [
        row("cart position x [m]", positions, {"slider limit": (-slider_limit, slider_limit)}),
        row("angle from upright |ω| [rad]", angles, {}),
    ]
    figure = curves_figure(panels, title=title)
    n = len(tables)
    reach = max(abs(bound) for axes in figure.axes[:n] for bound in axes.get_ylim())
    for axes in figure.axes[:n]:
        axes.set_ylim(-reach, reach)
    for axes in figure.axes[n:]:
        axes.set_ylim(0.0, 1.02 * np.pi)
        axes.set_yticks([0.0, np.pi / 2, np.pi], ["0 (up)", "π/2", "π (down)"])
    return figure
