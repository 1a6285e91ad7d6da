"""Trainings carry the curves that they were given; what is drawn is read back from Matplotlib's artists."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from matplotlib import image as pictures
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

import constrained_maxent  # noqa: F401  # registers the environments
from constrained_maxent.errors import InvalidData
from constrained_maxent.reporting import training_figure


def png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file)
    return file.getvalue()


def lines(axes: Axes) -> dict[str, Line2D]:
    return {str(line.get_label()): line for line in axes.lines}


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
            units={"cost": "per step"},
            title="a title",
        )
        entropy, cost, norm = figure.axes
        assert [panel.get_ylabel() for panel in figure.axes] == ["entropy [nats]", "cost [per step]", "norm"]
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

    def test_no_spike_of_a_long_series_is_lost(self) -> None:
        n = 200_000
        values = np.random.default_rng(0).normal(size=n)
        values[[n // 4, n // 2]] = 50.0, -50.0
        figure = training_figure(np.arange(n), values, {}, limits={})
        image = pictures.imread(io.BytesIO(png(figure)))
        for at, value in ((n // 4, 45.0), (n // 2, -45.0)):
            x, y = figure.axes[0].transData.transform((at, value))
            spot = image[image.shape[0] - round(y), round(x) - 2 : round(x) + 3, :3]
            assert spot[:, 0].min() < 0.9  # a pale blue line; beside it, white

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
            ({"iterations": ["a", "b"]}, "iterations cannot be made an array"),
            ({"iterations": [1.0, np.nan]}, "iterations must be finite"),
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
