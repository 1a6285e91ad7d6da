"""Snapshots and courses of the cartpole, read back from Matplotlib's artists."""

import numpy as np
import pytest

from constrained_maxent.errors import InvalidData, NonFiniteValue
from constrained_maxent.reporting import cartpole_motion_figure, cartpole_strip_figure

# Five states, 0.5 s apart: the cart moves right, the pole falls from upright over its right to hanging, and spins.
STATES = np.array([[0.1 * k, 0.2, k * np.pi / 4, k - 2.0] for k in range(5)])


def artist(axes, gid):
    (found,) = [one for one in [*axes.patches, *axes.lines, *axes.collections] if one.get_gid() == gid]
    return found


class TestStrip:
    def test_a_snapshot_shows_its_state(self, cartpole):
        figure = cartpole_strip_figure(cartpole, {"last": STATES}, timestep=0.5, times=(0.0, 1.0))
        now = figure.axes[1]
        assert now.get_title() == "t = 1 s"
        # At step 2 the pole of 1 m lies flat; the hinge is 1 m up, the cart 0.4 m wide and 0.2 m high.
        cart = artist(now, "cart")
        assert (*cart.get_xy(), cart.get_width(), cart.get_height()) == pytest.approx((0.0, 0.9, 0.4, 0.2))
        np.testing.assert_allclose(artist(now, "pole").get_xydata(), [[0.2, 1.0], [1.2, 1.0]], atol=1e-12)
        assert [line.get_xdata()[0] for line in now.lines if line.get_gid() == "limit"] == [-1.5, 1.5]

    @pytest.mark.fault
    def test_times_are_equally_far_apart_and_marks_explained(self, cartpole):
        figure = cartpole_strip_figure(cartpole, {"last": STATES}, timestep=0.01)
        titles = [float(axes.get_title().removeprefix("t = ").removesuffix(" s")) for axes in figure.axes[:-1]]
        np.testing.assert_allclose(np.diff(titles), titles[0])
        assert [text.get_text() for text in figure.legends[0].get_texts()] == ["slider limit"]

    def test_the_tracer_is_the_past_of_the_tip_in_color(self, cartpole):
        figure = cartpole_strip_figure(cartpole, {"last": STATES}, timestep=0.5, times=(0.0, 1.0))
        start, now = (artist(axes, "tracer") for axes in figure.axes[:2])
        assert len(start.get_segments()) == 0
        half = np.sqrt(0.5)
        expected = [[[0.0, 2.0], [0.1 + half, 1.0 + half]], [[0.1 + half, 1.0 + half], [1.2, 1.0]]]
        np.testing.assert_allclose(now.get_segments(), expected, atol=1e-12)
        assert now.get_array().tolist() == [-1.0, 0.0]
        assert (now.norm.vmin, now.norm.vmax) == (-2.0, 2.0)
        assert figure.axes[-1].get_xlabel() == "angular velocity of the pole [rad/s]"

    def test_one_row_for_each_policy(self, cartpole):
        rows = {"iteration 100": STATES, "iteration 200": 2.0 * STATES}
        figure = cartpole_strip_figure(cartpole, rows, timestep=0.5, times=(0.5, 1.0, 1.5))
        assert [axes.get_ylabel() for axes in figure.axes[:-1]] == ["iteration 100", "", "", "iteration 200", "", ""]
        norms = {(artist(axes, "tracer").norm.vmin, artist(axes, "tracer").norm.vmax) for axes in figure.axes[:-1]}
        assert norms == {(-4.0, 4.0)}

    def test_after_the_end(self, cartpole):
        ended = STATES.copy()
        ended[3:] = np.nan
        figure = cartpole_strip_figure(cartpole, {"last": ended}, timestep=0.5, times=(1.0, 1.5, 99.0))
        assert [artist(axes, "cart").get_visible() for axes in figure.axes[:3]] == [True, False, False]
        assert [text.get_text() for axes in figure.axes[:3] for text in axes.texts] == ["ended", "ended"]

    @pytest.mark.parametrize(
        ("episodes", "times"), [({}, (1.0,)), ({"last": STATES}, ()), ({"last": STATES[:, :3]}, (1.0,))]
    )
    def test_what_cannot_be_drawn(self, cartpole, episodes, times):
        with pytest.raises(InvalidData):
            cartpole_strip_figure(cartpole, episodes, timestep=0.5, times=times)


class TestMotion:
    def test_means_and_deviations_by_hand(self):
        one = np.zeros((3, 2, 4))
        one[:, 0, 0] = [1.0, 2.0, 3.0]
        one[:, 1, 2] = [np.pi, -np.pi, np.pi]  # all hang
        figure = cartpole_motion_figure({"a": one, "b": one}, timestep=0.1, slider_limit=2.0)
        position, _, angle, _ = figure.axes
        curve, *limits = position.lines
        np.testing.assert_allclose(curve.get_xydata(), [[0.0, 2.0], [0.1, 0.0]])
        band = position.collections[0].get_paths()[0].vertices
        assert band[band[:, 0] == 0.0, 1].min() == pytest.approx(1.0)  # the deviation of 1, 2, 3 is 1
        assert band[band[:, 0] == 0.0, 1].max() == pytest.approx(3.0)
        assert [line.get_ydata()[0] for line in limits] == [-2.0, 2.0]
        np.testing.assert_allclose(angle.lines[0].get_ydata(), [0.0, np.pi])
        assert [axes.get_title() for axes in figure.axes] == ["a", "b", "", ""]
        assert (position.get_ylabel(), angle.get_xlabel()) == ("cart position x [m]", "time [s]")
        bottom, top = position.get_ylim()
        assert bottom == -top < -3.0

    def test_what_cannot_be_drawn(self):
        with pytest.raises(InvalidData, match="policy"):
            cartpole_motion_figure({}, timestep=0.1, slider_limit=2.0)
        with pytest.raises(InvalidData, match=r"policies\['a'\]"):
            cartpole_motion_figure({"a": STATES}, timestep=0.1, slider_limit=2.0)
        with pytest.raises(NonFiniteValue, match="infinite"):
            cartpole_motion_figure({"a": np.full((1, 2, 4), np.inf)}, timestep=0.1, slider_limit=2.0)
