"""What stands where in the cartpole and the point mass: sizes read from the model, drawn by Matplotlib."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Rectangle

from constrained_maxent.reporting.style import BLUE, GREY, INK, VERMILLION
from constrained_maxent.types import FloatArray

# Blue against orange, which color-blind people tell apart; the middle stands out from what is behind it.
ON_LIGHT = LinearSegmentedColormap.from_list("on light", ["#56B4E9", "#0072B2", INK, "#D55E00", "#E69F00"])
ON_DARK = LinearSegmentedColormap.from_list("on dark", ["#3DA5FF", "#86C9F7", "#F7F7F7", "#F7C65A", "#FF9A00"])

WOOD, METAL = "#C9A27A", "#6B7B8C"

Move = Callable[[FloatArray], None]
"""Puts what was drawn into another state, ``(n_state,)``."""


@dataclass(frozen=True, kw_only=True)
class Scene(ABC):
    """Turns physical states, ``(n, n_state)`` as in ``info["state"]``, into places [m], and draws them.

    Attributes:
        model: the ``mujoco.MjModel``.
        tracer_label: what colors the tracer, with its unit.
        is_signed: whether that may be negative.
        image_size: width and height of films [pixels].
        plane: the coordinates of space that the picture shows.
    """

    tracer_label: ClassVar[str]
    is_signed: ClassVar[bool]
    image_size: ClassVar[tuple[int, int]]
    plane: ClassVar[tuple[int, int]]

    model: Any

    @property
    @abstractmethod
    def frame(self) -> tuple[float, float, float, float]:
        """Left, right, bottom and top of what is drawn [m]."""

    @abstractmethod
    def qpos(self, states: FloatArray) -> FloatArray:
        """MuJoCo's positions of states ``(n, n_state)``: ``(n, nq)``."""

    @abstractmethod
    def traced(self, states: FloatArray) -> FloatArray:
        """The point that leaves a trace, in space: ``(n, 3)`` [m]."""

    @abstractmethod
    def tracer_values(self, states: FloatArray) -> FloatArray:
        """The numbers that color the trace of states ``(n, n_state)``: ``(n,)``."""

    @abstractmethod
    def draw(self, axes: Axes) -> Move:
        """Draw everything, and return what moves it."""

    @property
    @abstractmethod
    def key(self) -> Line2D:
        """What a legend says of the mark that is drawn: the limit, or the target."""

    @property
    def walls(self) -> FloatArray:
        """Lines in space that a film shows of limits, ``(n, 2, 3)`` [m]."""
        return np.zeros((0, 2, 3))

    def projected(self, states: FloatArray) -> FloatArray:
        """The traced point as the picture shows it: ``(n, 2)`` [m]."""
        return self.traced(states)[:, self.plane]

    def tracer_norm(self, states: FloatArray) -> Normalize:
        """The color scale for states ``(..., n_state)``: symmetric where values are signed. NaN is left out."""
        values = np.abs(self.tracer_values(states.reshape(-1, states.shape[-1])))
        values = values[np.isfinite(values)]
        largest = float(values.max()) if values.size and values.max() > 0.0 else 1.0
        return Normalize(-largest if self.is_signed else 0.0, largest)

    def draw_tracer(self, axes: Axes, norm: Normalize, *, width: float = 1.3) -> Move:
        """Draw the traced point's path, at first empty, and return what gives it states ``(n, n_state)``."""
        path = LineCollection([], cmap=ON_LIGHT, norm=norm, linewidths=width, zorder=3, gid="tracer")
        axes.add_collection(path, autolim=False)

        def show(states: FloatArray) -> None:
            points = self.projected(states)
            path.set_segments(list(np.stack([points[:-1], points[1:]], axis=1)))
            path.set_array(self.tracer_values(states)[1:])

        return show

    def _prepare(self, axes: Axes) -> None:
        left, right, bottom, top = self.frame
        axes.set(xlim=(left, right), ylim=(bottom, top), aspect="equal", xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set(color=GREY, linewidth=0.6)


@dataclass(frozen=True, kw_only=True)
class CartpoleScene(Scene):
    """The cartpole from the front; states are [x, ẋ, ω, ω̇], and the pole's tip leaves a trace."""

    tracer_label: ClassVar[str] = "angular velocity of the pole [rad/s]"
    is_signed: ClassVar[bool] = True
    plane: ClassVar[tuple[int, int]] = (0, 2)
    image_size: ClassVar[tuple[int, int]] = (864, 480)  # MuJoCo's camera has to see the pole at the ends of the rail

    slider_limit: float
    """Position of the cart where the cost begins [m]."""

    @property
    def pole_length(self) -> float:
        """Length from the hinge to the end of the pole's axis [m]."""
        pole = self.model.geom("pole_1")
        return float(pole.pos[2] + pole.size[1])

    @property
    def hinge_height(self) -> float:
        """Height of the hinge, in the middle of the cart [m]."""
        return float(self.model.body("cart").pos[2] + self.model.body("pole_1").pos[2])

    @property
    def frame(self) -> tuple[float, float, float, float]:
        # A pole that lies flat at the end of the rail is still in sight.
        width = max(float(self.model.geom("rail1").size[1]), self.slider_limit) + self.pole_length + 0.1
        height = self.pole_length + float(self.model.geom("pole_1").size[0]) + 0.1
        return -width, width, self.hinge_height - height, self.hinge_height + height

    def qpos(self, states: FloatArray) -> FloatArray:
        return np.stack([states[:, 0], states[:, 2]], axis=1)

    def traced(self, states: FloatArray) -> FloatArray:
        x, angle = states[:, 0], states[:, 2]
        height = self.hinge_height + self.pole_length * np.cos(angle)
        return np.stack([x + self.pole_length * np.sin(angle), np.zeros(len(x)), height], axis=1)

    def tracer_values(self, states: FloatArray) -> FloatArray:
        return states[:, 3]

    @property
    def key(self) -> Line2D:
        return Line2D([], [], color=VERMILLION, linestyle="--", linewidth=0.9, label="slider limit")

    @property
    def walls(self) -> FloatArray:
        _, _, bottom, top = self.frame
        return np.array([[(x, 0.0, z) for z in (bottom, top)] for x in (-self.slider_limit, self.slider_limit)])

    def draw(self, axes: Axes) -> Move:
        self._prepare(axes)
        half_width, _, half_height = self.model.geom("cart").size.tolist()
        hinge = self.hinge_height
        reach = float(self.model.geom("rail1").size[1])
        axes.plot([-reach, reach], [hinge, hinge], color=METAL, linewidth=1.6, zorder=1, gid="rail")
        for limit in (-self.slider_limit, self.slider_limit):
            axes.axvline(limit, color=VERMILLION, linestyle="--", linewidth=0.9, zorder=1, gid="limit")
        cart = Rectangle((0, 0), 2 * half_width, 2 * half_height, facecolor=WOOD, edgecolor=INK, zorder=4, gid="cart")
        axes.add_patch(cart)
        (pole,) = axes.plot([], [], color=INK, linewidth=2.0, solid_capstyle="round", zorder=5, gid="pole")

        def move(state: FloatArray) -> None:
            ((x, y),) = self.projected(state[None])
            cart.set_xy((state[0] - half_width, hinge - half_height))
            pole.set_data([state[0], x], [hinge, y])

        return move


@dataclass(frozen=True, kw_only=True)
class PointMassScene(Scene):
    """The table from above; states are [x, y, ẋ, ẏ], and the mass leaves a trace."""

    tracer_label: ClassVar[str] = "speed [m/s]"
    is_signed: ClassVar[bool] = False
    plane: ClassVar[tuple[int, int]] = (0, 1)
    image_size: ClassVar[tuple[int, int]] = (480, 480)

    @property
    def reach(self) -> float:
        """Half the side of the table [m]."""
        return float(self.model.geom("ground").size[0])

    @property
    def frame(self) -> tuple[float, float, float, float]:
        edge = 1.07 * self.reach
        return -edge, edge, -edge, edge

    def qpos(self, states: FloatArray) -> FloatArray:
        return states[:, :2]

    def traced(self, states: FloatArray) -> FloatArray:
        height = float(self.model.body("pointmass").pos[2])
        return np.concatenate([states[:, :2], np.full((len(states), 1), height)], axis=1)

    def tracer_values(self, states: FloatArray) -> FloatArray:
        speed: FloatArray = np.hypot(states[:, 2], states[:, 3])
        return speed

    @property
    def key(self) -> Line2D:
        return Line2D([], [], linestyle="", marker="o", markersize=8, fillstyle="none", color=BLUE, label="target")

    def draw(self, axes: Axes) -> Move:
        self._prepare(axes)
        self.draw_table(axes)
        radius = float(self.model.geom("pointmass").size[0])
        mass = Circle((0, 0), radius, facecolor=WOOD, edgecolor=INK, linewidth=0.8, zorder=5, gid="mass")
        axes.add_patch(mass)

        def move(state: FloatArray) -> None:
            mass.set_center((float(state[0]), float(state[1])))

        return move

    def draw_table(self, axes: Axes) -> None:
        """Draw the edge of the table, and the ring of the target in its middle."""
        reach, target = self.reach, float(self.model.geom("target").size[0])
        axes.add_patch(Rectangle((-reach, -reach), 2 * reach, 2 * reach, fill=False, edgecolor=INK, gid="table"))
        axes.add_patch(Circle((0, 0), target, fill=False, edgecolor=BLUE, linewidth=1.2, zorder=4, gid="target"))
