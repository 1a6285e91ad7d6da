"""Figures of the point mass: where it goes, and which way it is pushed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from constrained_maxent.errors import InvalidData
from constrained_maxent.reporting.scenes import PointMassScene, draw_table
from constrained_maxent.reporting.style import (
    BLUE,
    INK,
    PALE_BLUE,
    blank_figure,
    color_bar,
    draw_arrows,
    episodes_of,
    sequential_colors,
)
from constrained_maxent.types import FloatArray, check_count

ActionFunction = Callable[[Any], ArrayLike]
"""Actions ``(n, 2)`` for observations ``(n, 4)``."""

REFERENCE_GREY = "#7F868D"


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
    shares = {
        name: visit_shares(episodes_of(f"policies[{name!r}]", states, 4), scene.reach, bins)
        for name, states in policies.items()
    }
    visited = np.concatenate([share[share > 0.0] for share in shares.values()]) if shares else np.zeros(0)
    if not visited.size:
        raise InvalidData("There is nothing to draw: give at least one policy that was on the table.")
    low, high = 100.0 * float(visited.min()), 100.0 * float(visited.max())
    norm = LogNorm(low, high if high > low else 10.0 * low)
    figure, axes_row = _tables(scene, list(shares), title)
    edges = np.linspace(-scene.reach, scene.reach, bins + 1)
    mesh = None
    for axes, share in zip(axes_row, shares.values(), strict=True):
        table = np.ma.masked_equal(100.0 * share.T, 0.0)
        mesh = axes.pcolormesh(edges, edges, table, cmap=sequential_colors(), norm=norm, zorder=1, rasterized=True)
    assert mesh is not None
    color_bar(figure, mesh, axes_row, "share of steps in a cell [%]", aspect=25, shrink=0.9, pad=0.02)
    return figure


def visit_shares(states: FloatArray, reach: float, bins: int) -> FloatArray:
    """Share of the steps in each cell of the table, ``(bins, bins)`` over x and y; steps beyond it are in no cell.

    >>> visit_shares(np.array([[[-0.5, 0.5], [0.5, 0.5], [0.2, 0.9], [3.0, 0.0]]]), reach=1.0, bins=2)
    array([[0.  , 0.25],
           [0.  , 0.5 ]])
    """
    places = states[..., :2].reshape(-1, 2)
    places = places[np.isfinite(places).all(axis=1)]
    counts = np.histogram2d(places[:, 0], places[:, 1], bins=bins, range=[[-reach, reach], [-reach, reach]])[0]
    shares: FloatArray = counts / max(len(places), 1)
    return shares


def action_arrows_figure(
    scene: PointMassScene,
    policies: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    reference: ActionFunction | None = None,
    n_starts: int = 8,
    every: int = 25,
    title: str | None = None,
) -> Figure:
    """Draw trajectories with the policy's actions as arrows, and what a reference would do there in gray.

    An arrow of the greatest action along one axis is a tenth of the table's half side long.

    Args:
        scene: sizes of table and target.
        policies: by name, states [x, y, ẋ, ẏ] ``(n_episodes, n_steps, 4)`` and the actions taken there
            ``(n_episodes, n_steps, 2)``; NaN where an episode ended early.
        reference: actions for observations, which are the states in float32.
        n_starts: episodes to draw, the first ones.
        every: steps from one arrow to the next.
        title: above the figure.

    Raises:
        InvalidSetting: ``n_starts`` or ``every`` below 1.
        InvalidData: no policy, or arrays of other shapes, the reference's among them.
    """
    n_starts, every = check_count("n_starts", n_starts), check_count("every", every)
    if not policies:
        raise InvalidData("There is nothing to draw: give at least one policy.")
    figure, axes_row = _tables(scene, list(policies), title)
    for axes, (name, (given_states, given_actions)) in zip(axes_row, policies.items(), strict=True):
        states = episodes_of(f"policies[{name!r}]'s states", given_states, 4)[:n_starts]
        actions = episodes_of(f"policies[{name!r}]'s actions", given_actions, 2)[:n_starts]
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
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=8)
    return figure


def _tables(scene: PointMassScene, names: list[str], title: str | None) -> tuple[Figure, list[Axes]]:
    """Empty tables beside each other."""
    figure = blank_figure(3.4 * len(names) + 0.9, 4.0 + (0.3 if title else 0.0))
    axes_row: list[Axes] = list(figure.subplots(1, len(names), squeeze=False, sharey=True)[0])
    edge = 1.03 * scene.reach
    for axes, name in zip(axes_row, names, strict=True):
        axes.set(xlim=(-edge, edge), ylim=(-edge, edge), aspect="equal")
        axes.set_title(name, fontsize=9, parse_math=False)
        axes.set_xlabel("x [m]", fontsize=9)
        axes.set_xticks([-0.2, 0.0, 0.2])
        axes.set_yticks([-0.2, 0.0, 0.2])
        axes.tick_params(labelsize=8)
        axes.spines[:].set_visible(False)
        draw_table(axes, scene.reach, scene.target)
    axes_row[0].set_ylabel("y [m]", fontsize=9)
    if title is not None:
        figure.suptitle(title, fontsize=10)
    return figure, axes_row


def _push_arrows(
    axes: Axes, scene: PointMassScene, places: FloatArray, actions: FloatArray, color: str, gid: str
) -> None:
    length = 0.1 * scene.reach
    heads = {"headwidth": 5.0, "headlength": 5.0, "headaxislength": 4.5}
    order = 4 if gid == "policy" else 3
    draw_arrows(axes, places[:, :2], length * actions, gid=gid, width=0.04 * length, color=color, zorder=order, **heads)
