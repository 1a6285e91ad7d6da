"""Figures of the cartpole, snapshots and motion over time, and of the point mass, visits and actions as arrows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from constrained_maxent.errors import InvalidData
from constrained_maxent.reporting.curves import Curve, Panel, curves_figure
from constrained_maxent.reporting.scenes import ON_LIGHT, CartpoleScene, PointMassScene
from constrained_maxent.reporting.style import (
    BLUE,
    GREY,
    INK,
    PALE_BLUE,
    blank_figure,
    color_bar,
    draw_arrows,
    episodes_of,
)
from constrained_maxent.types import FloatArray, check_count

SNAPSHOTS = (1.6, 3.2, 4.8, 6.4, 8.0, 9.6)
"""Times [s], equally far apart."""
N_PATHS = 8
"""The paper's number of trajectories."""
REFERENCE_GREY = "#7F868D"

ActionFunction = Callable[[Any], ArrayLike]
"""Actions ``(n, 2)`` for observations ``(n, 4)``."""


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
        name: episodes_of(f"episodes[{name!r}]", np.expand_dims(states, 0), 4)[0] for name, states in episodes.items()
    }
    if not rows or not len(times):
        raise InvalidData("There is nothing to draw: give at least one episode and one time.")
    norm = scene.tracer_norm(np.concatenate(list(rows.values())))
    left, right, bottom, top = scene.frame
    width = 2.2
    height = (width * (top - bottom) / (right - left) + 0.08) * len(rows) + 0.95 + (0.2 if title else 0.0)
    figure = blank_figure(width * len(times) + 0.4, height, title)
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
    figure.legend(handles=[scene.key], loc="outside upper right", frameon=False, fontsize=8)
    colors = ScalarMappable(norm, ON_LIGHT)
    color_bar(figure, colors, grid, scene.tracer_label, location="bottom", aspect=50, shrink=0.4, pad=0.02)
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

    positions: list[Panel] = []
    angles: list[Panel] = []
    for name, table in tables.items():
        x, angle, seconds = table[..., 0], np.abs(table[..., 2]), timestep * np.arange(table.shape[1])
        label, is_first = "mean ± standard deviation over episodes", not positions
        ylabel = "cart position x [m]" if is_first else ""
        lines = {"slider limit": (-slider_limit, slider_limit)}
        positions.append(Panel([Curve(label, seconds, x)], title=name, ylabel=ylabel, lines=lines))
        ylabel = "angle from upright |ω| [rad]" if is_first else ""
        angles.append(Panel([Curve(label, seconds, angle)], xlabel="time [s]", ylabel=ylabel))
    figure = curves_figure([positions, angles], title=title)
    above, below = figure.axes[: len(tables)], figure.axes[len(tables) :]
    reach = max(abs(bound) for axes in above for bound in axes.get_ylim())
    for axes in above:
        axes.set_ylim(-reach, reach)
    for axes in below:
        axes.set_ylim(0.0, 1.02 * np.pi)
        axes.set_yticks([0.0, np.pi / 2, np.pi], ["0 (up)", "π/2", "π (down)"])
    return figure


def visit_maps_figure(
    scene: PointMassScene, policies: Mapping[str, ArrayLike], *, bins: int = 40, title: str | None = None
) -> Figure:
    """Draw how often each place is visited, one map for each policy, on one logarithmic scale of colors.

    A cell's color is its share of the policy's steps in per cent; cells without a visit stay white.

    Args:
        scene: sizes of table and target.
        policies: by name, the states [x, y, ẋ, ẏ], ``(n_episodes, n_steps, 4)``; NaN where an episode ended early.
        bins: cells along each side of the table.
        title: above the figure.

    Raises:
        InvalidSetting: bins below 1.
        InvalidData: no policy, states of another shape, or no visit on the table.
    """
    bins = check_count("bins", bins)
    edges = np.linspace(-scene.reach, scene.reach, bins + 1)
    tables = []
    for name, states in policies.items():
        places = episodes_of(f"policies[{name!r}]", states, 4)[..., :2].reshape(-1, 2)
        places = places[np.isfinite(places).all(axis=1)]
        counts = np.histogram2d(places[:, 0], places[:, 1], bins=[edges, edges])[0]
        tables.append(np.ma.masked_equal(100.0 * (counts.T / max(len(places), 1)), 0.0))
    visited = np.concatenate([table.compressed() for table in tables]) if tables else np.zeros(0)
    if not visited.size:
        raise InvalidData("There is nothing to draw: give at least one policy that was on the table.")
    low, high = float(visited.min()), float(visited.max())
    norm = LogNorm(low, high if high > low else 10.0 * low)
    figure, axes_row = _tables(scene, list(policies), title)
    for axes, table in zip(axes_row, tables, strict=True):
        mesh = axes.pcolormesh(edges, edges, table, cmap="Blues", norm=norm, zorder=1, rasterized=True)
    figure.legend(handles=[scene.key], loc="outside lower center", frameon=False, fontsize=8)
    color_bar(figure, mesh, axes_row, "share of steps in a cell [%]", aspect=25, shrink=0.9, pad=0.02)
    return figure


def action_arrows_figure(
    scene: PointMassScene,
    policies: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    reference: ActionFunction | None = None,
    every: int = 25,
    title: str | None = None,
) -> Figure:
    """Draw the first 8 trajectories with the policy's actions as arrows, and in gray what a reference would do there.

    An arrow of the greatest action along one axis is a tenth of the table's half side long.

    Args:
        scene: sizes of table and target.
        policies: by name, states [x, y, ẋ, ẏ] ``(n_episodes, n_steps, 4)`` and the actions taken there
            ``(n_episodes, n_steps, 2)``; NaN where an episode ended early.
        reference: actions for observations, which are the states in float32.
        every: steps from one arrow to the next.
        title: above the figure.

    Raises:
        InvalidSetting: ``every`` below 1.
        InvalidData: no policy, or arrays of other shapes, the reference's among them.
    """
    every = check_count("every", every)
    if not policies:
        raise InvalidData("There is nothing to draw: give at least one policy.")
    figure, axes_row = _tables(scene, list(policies), title)
    for axes, (name, (given_states, given_actions)) in zip(axes_row, policies.items(), strict=True):
        states = episodes_of(f"policies[{name!r}]'s states", given_states, 4)[:N_PATHS]
        actions = episodes_of(f"policies[{name!r}]'s actions", given_actions, 2)[:N_PATHS]
        if states.shape[:2] != actions.shape[:2]:
            raise InvalidData(
                f"policies[{name!r}] has states of shape {states.shape} and actions of shape {actions.shape}: "
                "each step needs both."
            )
        for path in states:
            axes.plot(path[:, 0], path[:, 1], color=PALE_BLUE, linewidth=0.8, zorder=2, gid="trajectory")
        axes.plot(*states[:, 0, :2].T, linestyle="", marker="o", markersize=4, color=INK, zorder=5, gid="starts")
        places, pushes = states[:, ::every].reshape(-1, 4), actions[:, ::every].reshape(-1, 2)
        known = np.isfinite(places).all(axis=1) & np.isfinite(pushes).all(axis=1)
        places, pushes = places[known], pushes[known]
        if reference is not None:
            advised = np.asarray(reference(places.astype(np.float32)), dtype=np.float64)
            if advised.shape != pushes.shape:
                raise InvalidData(f"reference(observations) must be of shape {pushes.shape}, not {advised.shape}.")
            _push_arrows(axes, scene, places, advised, REFERENCE_GREY, "reference")
        _push_arrows(axes, scene, places, pushes, BLUE, "policy")
    handles = [
        Line2D([], [], color=BLUE, linewidth=2, label="action of the policy"),
        *([Line2D([], [], color=REFERENCE_GREY, linewidth=2, label="action of the reference")] if reference else []),
        Line2D([], [], color=INK, linestyle="", marker="o", markersize=4, label="start"),
        scene.key,
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    return figure


def _tables(scene: PointMassScene, names: list[str], title: str | None) -> tuple[Figure, list[Axes]]:
    """Empty tables beside each other."""
    figure = blank_figure(3.4 * len(names) + 0.9, 4.0 + (0.3 if title else 0.0), title)
    axes_row: list[Axes] = list(figure.subplots(1, len(names), squeeze=False, sharey=True)[0])
    edge = 1.03 * scene.reach
    for axes, name in zip(axes_row, names, strict=True):
        ticks = [-0.2, 0.0, 0.2]
        axes.set(xlim=(-edge, edge), ylim=(-edge, edge), aspect="equal", xticks=ticks, yticks=ticks)
        axes.set_title(name, fontsize=9, parse_math=False)
        axes.set_xlabel("x [m]", fontsize=9)
        axes.tick_params(labelsize=8)
        axes.spines[:].set_visible(False)
        scene.draw_table(axes)
    axes_row[0].set_ylabel("y [m]", fontsize=9)
    return figure, axes_row


def _push_arrows(
    axes: Axes, scene: PointMassScene, places: FloatArray, actions: FloatArray, color: str, gid: str
) -> None:
    length = 0.1 * scene.reach
    look = {
        "color": color,
        "zorder": 4 if gid == "policy" else 3,
        "headwidth": 5,
        "headlength": 5,
        "headaxislength": 4.5,
    }
    draw_arrows(axes, places[:, :2], length * actions, gid=gid, width=0.04 * length, **look)
