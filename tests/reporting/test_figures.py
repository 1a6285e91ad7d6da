"""Figures carry the data they were given; what is drawn is read back from Matplotlib's artists."""

from __future__ import annotations

import io
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.quiver import Quiver

import constrained_maxent  # noqa: F401  # registers the environments
from constrained_maxent.errors import InvalidData, NonFiniteValue
from constrained_maxent.oracle import TabularMDP
from constrained_maxent.reporting import grid_occupancy_figure, training_figure

DESC = ["SFH", "FFG"]
OCCUPANCY = np.arange(24.0).reshape(6, 4) / 100.0
# Certain of one action in every cell; those of the goal, the last state, must not be drawn.
LEFT, DOWN, RIGHT, UP = np.eye(4)
POLICY = np.array([RIGHT, DOWN, LEFT, UP, RIGHT, UP])


@pytest.fixture(autouse=True)
def no_window() -> Any:
    yield
    assert pyplot.get_fignums() == []


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


def lines(axes: Axes) -> dict[str, Line2D]:
    return {str(line.get_label()): line for line in axes.lines}


class TestGridOccupancy:
    def test_colours_are_the_state_occupancy(self) -> None:
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
            [b"SFH", b"FFG"],
            [list("SFH"), list("FFG")],
            np.array([list("SFH"), list("FFG")]),
            np.asarray(DESC, dtype="c"),
            np.array(DESC),
        ],
        ids=["bytes", "lists", "letters", "gymnasium", "rows"],
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
        ("desc", "message"),
        [
            ("SFHFFG", "list of rows"),
            ([], "equally long"),
            ([""], "equally long"),
            (["SF", "G"], "equally long"),
            (["SFX", "FFG"], "'X'"),
            ([1, 2], "rows of the letters"),
        ],
    )
    def test_bad_desc(self, desc: Any, message: str) -> None:
        with pytest.raises(InvalidData, match=message):
            grid_occupancy_figure(desc, OCCUPANCY, POLICY)

    @pytest.mark.parametrize("name", ["occupancy", "policy"])
    @pytest.mark.parametrize(
        ("table", "message"),
        [
            (OCCUPANCY[:5], "shape"),
            (OCCUPANCY[:, :3], "shape"),
            (OCCUPANCY.ravel(), "shape"),
            (-OCCUPANCY, "negative"),
            ([["x"] * 4] * 6, "numbers"),
        ],
    )
    def test_bad_tables(self, name: str, table: Any, message: str) -> None:
        with pytest.raises(InvalidData, match=f"{name}.*{message}"):
            _grid(**{name: table})

    def test_values_that_make_no_sense(self) -> None:
        with pytest.raises(NonFiniteValue, match="occupancy"):
            _grid(occupancy=np.full((6, 4), np.nan))
        with pytest.raises(InvalidData, match="at most 1"):
            _grid(policy=2.0 * POLICY)


def _grid(*, occupancy: Any = OCCUPANCY, policy: Any = POLICY) -> Figure:
    return grid_occupancy_figure(DESC, occupancy, policy)


class TestTraining:
    def test_panels_carry_the_data(self) -> None:
        figure = training_figure(
            [1, 2, 3],
            [0.5, 0.6, 0.8],
            {"cost": [3.0, 2.0, 1.0], "norm": [0.1, 0.2, 0.3]},
            limits={"norm": 0.25, "cost": 1.5},
            exact_iterations=[1, 3],
            exact_objective=[0.4, 0.7],
            exact_constraints={"cost": [2.5, 1.25]},
            references={"optimum": 0.9, "uniform": 0.3},
            title="a title",
        )
        entropy, cost, norm = figure.axes
        assert [panel.get_ylabel() for panel in figure.axes] == ["entropy [nats]", "cost", "norm"]
        assert [panel.get_xlabel() for panel in figure.axes] == ["", "", "iteration"]
        assert figure.get_suptitle() == "a title"

        assert list(lines(entropy)) == ["sampled estimate", "exact", "optimum", "uniform"]
        np.testing.assert_array_equal(lines(entropy)["sampled estimate"].get_xydata(), [[1, 0.5], [2, 0.6], [3, 0.8]])
        np.testing.assert_array_equal(lines(entropy)["exact"].get_xydata(), [[1, 0.4], [3, 0.7]])
        np.testing.assert_array_equal(lines(entropy)["optimum"].get_ydata(), [0.9, 0.9])
        np.testing.assert_array_equal(lines(entropy)["uniform"].get_ydata(), [0.3, 0.3])
        assert list(lines(cost)) == ["sampled estimate", "exact", "limit"]
        np.testing.assert_array_equal(lines(cost)["sampled estimate"].get_ydata(), [3.0, 2.0, 1.0])
        np.testing.assert_array_equal(lines(cost)["exact"].get_ydata(), [2.5, 1.25])
        np.testing.assert_array_equal(lines(cost)["limit"].get_ydata(), [1.5, 1.5])
        assert lines(cost)["limit"].get_linestyle() == "--"
        assert list(lines(norm)) == ["sampled estimate", "limit"]
        np.testing.assert_array_equal(lines(norm)["limit"].get_ydata(), [0.25, 0.25])

        legends = [[text.get_text() for text in panel.get_legend().get_texts()] for panel in figure.axes]
        assert legends == [["sampled estimate", "exact", "optimum", "uniform"], ["limit"], ["limit"]]
        assert cost.get_xlim() == entropy.get_xlim()
        assert png(figure).startswith(b"\x89PNG")

    def test_exact_line_is_the_stronger(self) -> None:
        (panel,) = training_figure([1, 2], [0.5, 0.6], {}, limits={}, exact_objective=[0.4, 0.5]).axes
        assert lines(panel)["exact"].get_linewidth() > lines(panel)["sampled estimate"].get_linewidth()
        np.testing.assert_array_equal(lines(panel)["exact"].get_xdata(), [1, 2])

    def test_limit_far_from_the_values_is_in_sight(self) -> None:
        (panel,) = training_figure([1, 2], None, {"cost": [0.1, 0.2]}, limits={"cost": -7.0}).axes
        bottom, top = panel.get_ylim()
        assert bottom < -7.0 < 0.2 < top

    def test_without_entropy_there_is_no_panel_for_it(self) -> None:
        figure = training_figure([1, 2], None, {"cost": [1.0, 2.0]}, limits={"cost": 0.0})
        (panel,) = figure.axes
        assert panel.get_ylabel() == "cost"
        assert [text.get_text() for text in panel.get_legend().get_texts()] == ["sampled estimate", "limit"]

    def test_constraint_that_is_only_known_exactly(self) -> None:
        _, panel = training_figure(
            [1, 2], [0.0, 0.0], {}, limits={"cost": 0.0}, exact_constraints={"cost": [1.0, 2.0]}
        ).axes
        assert list(lines(panel)) == ["exact", "limit"]

    def test_gaps_stay_gaps_and_lone_points_are_marked(self) -> None:
        values = [1.0, 2.0, np.nan, 3.0, np.inf, 4.0, 5.0]
        figure = training_figure(range(7), values, {}, limits={})
        line = lines(figure.axes[0])["sampled estimate"]
        np.testing.assert_array_equal(line.get_ydata(), [1.0, 2.0, np.nan, 3.0, np.nan, 4.0, 5.0])
        assert line.get_marker() == "o"
        assert line.get_markevery() == [3]
        assert png(figure)

    @pytest.mark.parametrize("values", [[2.0], [np.nan], []], ids=["one", "unknown", "none"])
    def test_hardly_any_points(self, values: list[float]) -> None:
        x = [7][: len(values)]
        figure = training_figure(x, values, {"cost": values}, limits={"cost": 0.0}, exact_objective=values)
        if x:
            assert figure.axes[-1].get_xlim() == (6.0, 8.0)
        assert png(figure)

    def test_long_series_are_thinned_to_their_envelope(self) -> None:
        n = 200_000
        values = np.random.default_rng(0).normal(size=n)
        values[[12_345, 150_001]] = 50.0, -50.0
        values[80_000:100_000] = np.nan
        (panel,) = training_figure(np.arange(n), values, {}, limits={}).axes
        x, y = lines(panel)["sampled estimate"].get_data()
        assert len(x) <= 5_000
        assert (x[0], x[-1]) == (0, n - 1)
        assert (np.diff(x) > 0).all()
        np.testing.assert_array_equal(y, values[np.asarray(x, dtype=int)])  # points of the series, not averages
        assert {12_345, 150_001} <= set(x)
        assert np.isnan(y[(x > 80_100) & (x < 99_900)]).all()
        assert np.isfinite(y[(x < 79_900) | (x > 100_100)]).all()

    @pytest.mark.parametrize("n", [4_999, 5_000, 5_001, 7_499, 12_497])
    def test_thinning_begins_beyond_5000_points(self, n: int) -> None:
        (panel,) = training_figure(np.arange(n), np.sin(np.arange(n)), {}, limits={}).axes
        drawn = len(lines(panel)["sampled estimate"].get_xdata())
        assert drawn == n if n <= 5_000 else 3_000 < drawn <= 5_000

    def test_names_are_shown_as_they_are(self) -> None:
        figure = training_figure([1], None, {"a_$b$_c": [1.0]}, limits={"a_$b$_c": 0.0})
        assert not figure.axes[0].yaxis.label.get_parse_math()

    def test_many_long_labels_leave_room_for_the_curves(self) -> None:
        references = {f"a rather long label, number {index}": float(index) for index in range(6)}
        figure = training_figure([1, 2], [0.0, 1.0], {}, limits={}, references=references)
        png(figure)
        assert figure.axes[0].get_position().width > 0.8

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"iterations": [[1, 2]]}, "iterations has shape"),
            ({"iterations": ["a", "b"]}, "iterations must be an array of numbers"),
            ({"iterations": [1.0, np.nan]}, "iterations has an entry"),
            ({"objective": [1.0]}, "objective has shape"),
            ({"constraints": {"cost": [1.0]}}, r"constraints\['cost'\] has shape"),
            ({"exact_objective": [1.0]}, "exact_objective has shape"),
            ({"exact_iterations": [1], "exact_constraints": {"cost": [1.0, 2.0]}}, "exact_constraints.*has shape"),
            ({"limits": {}}, "give each a limit"),
            ({"limits": {"cost": 0.0, "norm": 0.0}}, "give each a limit"),
            ({"limits": {"cost": np.inf}}, "'cost' is inf"),
            ({"references": {"optimum": np.nan}}, "'optimum' is nan"),
            ({"objective": None, "constraints": {}, "limits": {}}, "nothing to draw"),
        ],
    )
    def test_bad_arguments(self, options: dict[str, Any], message: str) -> None:
        given: dict[str, Any] = {
            "iterations": [1, 2],
            "objective": [0.0, 1.0],
            "constraints": {"cost": [1.0, 2.0]},
            "limits": {"cost": 0.0},
            **options,
        }
        with pytest.raises(InvalidData, match=message):
            training_figure(given.pop("iterations"), given.pop("objective"), given.pop("constraints"), **given)
