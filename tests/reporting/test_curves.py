"""Curves carry means and deviations; what is drawn is read back from Matplotlib's artists."""

from io import BytesIO
from itertools import pairwise

import numpy as np
import pytest

from constrained_maxent.errors import InvalidData, InvalidSetting, NonFiniteValue
from constrained_maxent.reporting import Curve, Panel, curves_figure

CURVE = Curve("one", [0, 1], [[1.0, 2.0], [3.0, 2.0]])


def test_means_and_deviations_of_what_is_known():
    curve = Curve("one", [0, 1, 2], [[1.0, np.nan, np.nan], [3.0, 5.0, np.nan]])
    (axes,) = curves_figure([[Panel([curve])]]).axes
    assert axes.lines[0].get_ydata().tolist()[:2] == [2.0, 5.0]
    assert np.isnan(axes.lines[0].get_ydata()[2])
    vertices = axes.collections[0].get_paths()[0].vertices
    heights = [np.ptp(vertices[vertices[:, 0] == x, 1]) for x in (0.0, 1.0)]
    assert heights == pytest.approx([2 * 2.0**0.5, 0.0])


def test_curve_band_and_line():
    figure = curves_figure([[Panel([CURVE], title="t", lines={"limit": 0.5})]])
    (axes,) = figure.axes
    curve, line = axes.lines
    assert curve.get_ydata().tolist() == [2.0, 2.0]
    assert line.get_ydata() == [0.5, 0.5]
    heights = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((2 - 2.0**0.5, 2 + 2.0**0.5))
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["one", "limit"]


def test_a_label_has_one_color():
    other = Curve("two", [0], [[0.0]])
    figure = curves_figure([[Panel([CURVE, other]), Panel([other])]])
    left, right = figure.axes
    assert left.lines[1].get_color() == right.lines[0].get_color() != left.lines[0].get_color()


@pytest.mark.parametrize("panels", [[], [[]], [[Panel([])], [Panel([]), Panel([])]]])
def test_panels_must_be_a_grid(panels):
    with pytest.raises(InvalidData, match="panels"):
        curves_figure(panels)


def test_values_must_fit():
    with pytest.raises(InvalidData, match="n_seeds"):
        curves_figure([[Panel([Curve("one", [0, 1], [1.0, 2.0])])]])


def test_lines_must_be_finite():
    with pytest.raises(NonFiniteValue, match="'limit'"):
        curves_figure([[Panel([CURVE], lines={"limit": float("nan")})]])


def test_the_runs_themselves():
    (axes,) = curves_figure([[Panel([CURVE])]], band="runs").axes
    assert [line.get_ydata().tolist() for line in axes.lines] == [[1.0, 2.0], [3.0, 2.0], [2.0, 2.0]]
    heights = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert np.ptp(heights) == 0.0


def test_interval_of_the_mean_by_hand():
    # Of 1 and 3 the mean's standard error is sqrt(2)/sqrt(2) = 1; the 97.5 % quantile of t with 1 degree of freedom,
    # the Cauchy distribution, is tan(0.475 pi). The second column is known of one seed only.
    figure = curves_figure([[Panel([Curve("one", [0, 1], [[1.0, 2.0], [3.0, np.nan]])])]], band="interval")
    vertices = figure.axes[0].collections[0].get_paths()[0].vertices
    assert np.ptp(vertices[vertices[:, 0] == 0.0, 1]) == pytest.approx(2 * np.tan(0.475 * np.pi))
    assert np.ptp(vertices[vertices[:, 0] == 1.0, 1]) == 0.0


def test_lines_on_both_sides():
    figure = curves_figure([[Panel([CURVE], lines={"limit": (-2.0, 2.0)})]])
    (axes,) = figure.axes
    assert [line.get_ydata()[0] for line in axes.lines if line.get_label() == "limit"] == [-2.0, 2.0]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["one", "limit"]


def test_labels_of_iterations_do_not_run_into_each_other():
    """Three panels of 15,000 iterations, as the ablation has: by the boxes that Matplotlib draws the labels in."""
    long = Curve("one", np.linspace(0.0, 15_000.0, 5), np.zeros((1, 5)))
    figure = curves_figure([[Panel([long])] * 3])
    figure.savefig(BytesIO())
    for axes in figure.axes:
        boxes = [label.get_window_extent() for label in axes.get_xticklabels() if label.get_text()]
        shown = sorted(
            (box.x0, box.x1) for box in boxes if axes.bbox.x0 - 1 <= (box.x0 + box.x1) / 2 <= axes.bbox.x1 + 1
        )
        assert len(shown) >= 3
        assert all(right[0] - left[1] > 5.0 for left, right in pairwise(shown))


def test_unknown_band():
    with pytest.raises(InvalidSetting, match="band="):
        curves_figure([[Panel([CURVE])]], band="range")


@pytest.mark.fault
@pytest.mark.parametrize("band", ["deviation", "runs"])
def test_one_evaluation_is_a_point_and_no_empty_panel(band):
    nan = float("nan")
    panels = [Panel([Curve("one", [5.0], [[1.0], [3.0]])]), Panel([Curve("one", [1.0, 2.0, 3.0], [[1.0, nan, 2.0]])])]
    figure = curves_figure([panels], band=band)
    for axes, alone in zip(figure.axes, ([0], [0, 2]), strict=True):
        assert [(line.get_marker(), line.get_markevery()) for line in axes.lines] == [("o", alone)] * len(axes.lines)


def test_a_middle_and_bounds_of_ones_own():
    curve = Curve("one", [0, 1], [[1.0, 2.0], [3.0, 2.0]], middle=[1.5, 2.5], bounds=([1.0, 2.0], [4.0, 2.75]))
    (axes,) = curves_figure([[Panel([curve])]]).axes
    (line,) = axes.lines
    assert line.get_ydata().tolist() == [1.5, 2.5]
    vertices = axes.collections[0].get_paths()[0].vertices
    assert [np.ptp(vertices[vertices[:, 0] == x, 1]) for x in (0.0, 1.0)] == pytest.approx([3.0, 0.75])
    # Without bounds, the seeds' own lines.
    (axes,) = curves_figure([[Panel([Curve("one", [0, 1], [[1.0, 2.0], [3.0, 2.0]], middle=[1.5, 2.5])])]]).axes
    assert [each.get_ydata().tolist() for each in axes.lines] == [[1.0, 2.0], [3.0, 2.0], [1.5, 2.5]]


@pytest.mark.parametrize(("middle", "bounds"), [([1.0], None), ([1.0, 2.0], ([1.0], [2.0]))])
def test_a_middle_and_bounds_must_fit(middle, bounds):
    with pytest.raises(InvalidData, match="'one'"):
        curves_figure([[Panel([Curve("one", [0, 1], [[1.0, 2.0]], middle, bounds)])]])


def test_an_empty_panel_is_blank():
    figure = curves_figure([[Panel([CURVE]), Panel([])]])
    assert [axes.axison for axes in figure.axes] == [True, False]
