"""Grids carry the occupancy and policy that they were given; what is drawn is read back from Matplotlib's artists."""

from __future__ import annotations

import io
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.quiver import Quiver

import constrained_maxent  # noqa: F401  # registers the environments
from constrained_maxent.errors import InvalidData, NonFiniteValue
from constrained_maxent.oracle import TabularMDP
from constrained_maxent.reporting import grid_occupancy_figure

DESC = ["SFH", "FFG"]
OCCUPANCY = np.arange(24.0).reshape(6, 4) / 100.0
# Certain of one action in every cell; those of the goal, the last state, must not be drawn.
LEFT, DOWN, RIGHT, UP = np.eye(4)
POLICY = np.array([RIGHT, DOWN, LEFT, UP, RIGHT, UP])


def png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file)
    return file.getvalue()


def quivers(axes: Axes) -> list[Quiver]:
    return [artist for artist in axes.collections if isinstance(artist, Quiver)]


def arrows(figure: Figure) -> dict[tuple[int, int], list[tuple[float, float]]]:
    """The directions of the arrows in each cell (column, row)."""
    found: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for quiver in quivers(figure.axes[0]):
        for (x, y), u, v in zip(quiver.XY, quiver.U, quiver.V, strict=True):
            found.setdefault((round(x), round(y)), []).append((float(u), float(v)))
    return found


class TestGridOccupancy:
    def test_colors_are_the_state_occupancy(self) -> None:
        figure = grid_occupancy_figure(DESC, OCCUPANCY, POLICY, title="a title")
        axes, bar = figure.axes
        (image,) = axes.images
        # The sums of 0..3, 4..7, ... in hundredths, row by row.
        np.testing.assert_allclose(image.get_array(), [[0.06, 0.22, 0.38], [0.54, 0.70, 0.86]])
        assert image.get_clim() == (0.0, pytest.approx(0.86))
        assert bar.get_ylabel() == "state occupancy d(s)"
        assert axes.get_title() == "a title"
        assert axes.get_aspect() == 1.0
        assert not [*axes.get_xticks(), *axes.get_yticks()]

    def test_arrows_point_where_the_actions_lead(self) -> None:
        # Rows of an image run downwards: down is +y.
        figure = grid_occupancy_figure(DESC, OCCUPANCY, POLICY)
        signs = {cell: np.sign(found).tolist() for cell, found in arrows(figure).items()}
        assert signs == {(0, 0): [[1, 0]], (1, 0): [[0, 1]], (2, 0): [[-1, 0]], (0, 1): [[0, -1]], (1, 1): [[1, 0]]}
        assert figure.axes[0].yaxis_inverted()

    def test_arrows_are_as_long_as_the_actions_are_probable(self) -> None:
        policy = np.tile([0.19, 0.3, 0.5, 0.01], (6, 1))
        lengths = {cell: np.hypot(*np.transpose(found)) for cell, found in arrows(_grid(policy=policy)).items()}
        assert len(lengths) == 5
        for found in lengths.values():
            np.testing.assert_allclose(found / found.max(), [0.38, 0.6, 1.0])  # and none for 1 %

    def test_certain_arrow_stays_in_its_cell(self) -> None:
        (quiver,) = quivers(_grid().axes[0])
        tips = quiver.XY + np.stack([quiver.U, quiver.V], axis=1)
        assert np.abs(tips - np.round(quiver.XY)).max() < 0.5

    def test_arrows_differ_on_light_and_dark_cells(self) -> None:
        occupancy = np.zeros((6, 4))
        occupancy[0] = 1.0
        (quiver,) = quivers(_grid(occupancy=occupancy).axes[0])
        brightness = quiver.get_facecolor()[:, :3].mean(axis=1)
        assert brightness[0] == 1.0
        assert (brightness[1:] < 0.3).all()

    def test_only_goals_draws_no_arrow(self) -> None:
        assert arrows(grid_occupancy_figure(["G"], np.zeros((1, 4)), [UP])) == {}

    def test_tiles_are_marked(self) -> None:
        axes = _grid().axes[0]
        assert sorted(text.get_text() for text in axes.texts) == ["G", "H", "S"]
        (hole,) = [patch for patch in axes.patches if patch.get_gid() == "hole"]
        assert hole.get_hatch()
        np.testing.assert_allclose(hole.get_bbox().get_points().mean(axis=0), [2.0, 0.0])

    @pytest.mark.parametrize(
        "desc",
        [
            [list("SFH"), list("FFG")],
            np.array([list("SFH"), list("FFG")]),
            np.asarray(DESC, dtype="c"),
            np.array(DESC),
        ],
        ids=["lists", "letters", "gymnasium", "rows"],
    )
    def test_forms_of_desc(self, desc: Any) -> None:
        axes = grid_occupancy_figure(desc, OCCUPANCY, POLICY).axes[0]
        assert axes.images[0].get_array().shape == (2, 3)
        assert sorted(text.get_text() for text in axes.texts) == ["G", "H", "S"]

    def test_frozen_lake(self) -> None:
        env = gym.make("SafeFrozenLake-v0")
        uniform = np.full((36, 4), 0.25)
        occupancy = TabularMDP.from_env(env, discount=0.99).occupancy(uniform)
        figure = grid_occupancy_figure(env.unwrapped.desc, occupancy, uniform)  # type: ignore[attr-defined]
        assert png(figure).startswith(b"\x89PNG")
        np.testing.assert_allclose(figure.axes[0].images[0].get_array().ravel(), occupancy.sum(axis=1))
        found = arrows(figure)
        assert len(found) == 35
        assert all(len(cell) == 4 for cell in found.values())

    @pytest.mark.parametrize("desc", [["S"], ["SFFFFG"], ["S", "F", "G"]])
    def test_narrow_grids_and_empty_occupancies(self, desc: list[str]) -> None:
        n_states = len("".join(desc))
        figure = grid_occupancy_figure(desc, np.zeros((n_states, 4)), np.tile(UP, (n_states, 1)), title="narrow")
        assert figure.axes[0].images[0].get_clim() == (0.0, 1.0)
        assert png(figure)

    @pytest.mark.parametrize(
        "desc", ["SFHFFG", b"SFHFFG", [], [""], ["SF", "G"], ["SFX", "FFG"], [1, 2], [b"SFH", b"FFG"]]
    )
    def test_bad_desc(self, desc: Any) -> None:
        with pytest.raises(InvalidData, match="desc"):
            grid_occupancy_figure(desc, OCCUPANCY, POLICY)

    @pytest.mark.parametrize("name", ["occupancy", "policy"])
    @pytest.mark.parametrize(
        ("table", "message"),
        [
            (OCCUPANCY[:5], "shape"),
            (OCCUPANCY[:, :3], "shape"),
            (OCCUPANCY.ravel(), "shape"),
            (-OCCUPANCY, "negative"),
            ([["x"] * 4] * 6, "array"),
        ],
    )
    def test_bad_tables(self, name: str, table: Any, message: str) -> None:
        with pytest.raises(InvalidData, match=f"{name}.*{message}"):
            _grid(**{name: table})

    def test_values_that_make_no_sense(self) -> None:
        with pytest.raises(NonFiniteValue, match="occupancy"):
            _grid(occupancy=np.full((6, 4), np.nan))
        with pytest.raises(InvalidData, match="policy"):
            _grid(policy=2.0 * POLICY)


def _grid(*, occupancy: Any = OCCUPANCY, policy: Any = POLICY) -> Figure:
    return grid_occupancy_figure(DESC, occupancy, policy)
