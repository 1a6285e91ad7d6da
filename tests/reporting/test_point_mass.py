"""Visits and arrows of the point mass, counted by hand and read back from Matplotlib's artists."""

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.quiver import Quiver

from constrained_maxent.errors import InvalidData, InvalidSetting
from constrained_maxent.reporting import action_arrows_figure, visit_maps_figure
from constrained_maxent.reporting.control import REFERENCE_GREY
from constrained_maxent.reporting.style import BLUE


def at(*places):
    """One episode through places."""
    return np.array([[[x, y, 0.0, 0.0] for x, y in places]])


class TestVisits:
    def test_counts_by_hand(self, point_mass):
        # Cells of 0.2 m: two visits left below, one in the middle at the top, one beyond the table.
        states = at((-0.29, -0.29), (-0.11, -0.2), (0.0, 0.2), (0.4, 0.0))
        ended = np.concatenate([states, np.full_like(states, np.nan)])
        figure = visit_maps_figure(point_mass, {"one": ended}, bins=3)
        mesh = figure.axes[0].collections[0]
        shares = mesh.get_array()
        assert np.ma.filled(shares, 0.0).reshape(3, 3).tolist() == [[50.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 25.0, 0.0]]
        assert shares.mask.sum() == 7  # never visited: white
        np.testing.assert_allclose(mesh.get_coordinates()[0, :, 0], [-0.3, -0.1, 0.1, 0.3])

    def test_one_scale_for_all(self, point_mass):
        policies = {"reference": at((0, 0), (0, 0)), "other": at((0, 0), (0.2, 0.2), (0.2, -0.2), (-0.2, 0.2))}
        figure = visit_maps_figure(point_mass, policies, bins=3, title="a title")
        scales = {(axes.collections[0].norm.vmin, axes.collections[0].norm.vmax) for axes in figure.axes[:2]}
        assert scales == {(25.0, 100.0)}
        assert [axes.get_title() for axes in figure.axes[:2]] == ["reference", "other"]
        assert figure.axes[2].get_ylabel() == "share of steps in a cell [%]"

    def test_what_cannot_be_drawn(self, point_mass):
        with pytest.raises(InvalidSetting, match="bins=0"):
            visit_maps_figure(point_mass, {"one": at((0, 0))}, bins=0)
        with pytest.raises(InvalidData, match="policy"):
            visit_maps_figure(point_mass, {"one": at((0.5, 0.0))})
        with pytest.raises(InvalidData, match="policies"):
            visit_maps_figure(point_mass, {"one": at((0, 0))[0]})


class TestArrows:
    STATES = np.concatenate(
        [at((0.0, 0.0), (0.1, 0.0), (0.2, 0.0), (0.25, 0.0)), at(*[(-0.1, y / 10) for y in range(4)])]
    )
    ACTIONS = np.stack([np.full((4, 2), (1.0, 0.0)), np.full((4, 2), (0.0, -0.5))])

    def quivers(self, axes):
        return {one.get_gid(): one for one in axes.collections if isinstance(one, Quiver)}

    def test_actions_and_reference(self, point_mass):
        seen = []

        def home(observations):
            seen.append(observations)
            return -observations[:, :2]

        figure = action_arrows_figure(point_mass, {"one": (self.STATES, self.ACTIONS)}, reference=home, every=2)
        axes = figure.axes[0]
        arrows = self.quivers(axes)
        places = [[0.0, 0.0], [0.2, 0.0], [-0.1, 0.0], [-0.1, 0.2]]
        np.testing.assert_allclose(arrows["policy"].XY, places)
        # A tenth of the half side, 0.03 m, for the greatest action.
        vectors = np.column_stack([arrows["policy"].U, arrows["policy"].V])
        np.testing.assert_allclose(vectors, [[0.03, 0.0], [0.03, 0.0], [0.0, -0.015], [0.0, -0.015]], atol=1e-9)
        advised = np.column_stack([arrows["reference"].U, arrows["reference"].V])
        np.testing.assert_allclose(advised, -0.03 * np.array(places), atol=1e-9)
        assert seen[0].dtype == np.float32
        assert to_rgba(BLUE) == tuple(arrows["policy"].get_facecolor()[0])
        assert to_rgba(REFERENCE_GREY) == tuple(arrows["reference"].get_facecolor()[0])
        paths = [line for line in axes.lines if line.get_gid() == "trajectory"]
        np.testing.assert_array_equal([line.get_xydata() for line in paths], self.STATES[..., :2])
        assert "action of the reference" in [text.get_text() for text in figure.legends[0].get_texts()]

    def test_first_8_paths_only_and_no_reference(self, point_mass):
        many = self.STATES[[0] * 8 + [1]], self.ACTIONS[[0] * 8 + [1]]
        figure = action_arrows_figure(point_mass, {"one": many}, every=1)
        arrows = self.quivers(figure.axes[0])
        assert list(arrows) == ["policy"]
        np.testing.assert_allclose(arrows["policy"].XY[:, 0], [0.0, 0.1, 0.2, 0.25] * 8)
        assert [text.get_text() for text in figure.legends[0].get_texts()] == [
            "action of the policy",
            "start",
            "target",
        ]

    def test_no_arrow_after_an_episode_ended(self, point_mass):
        states, actions = self.STATES.copy(), self.ACTIONS.copy()
        states[0, 2:], actions[0, 1:] = np.nan, np.nan
        figure = action_arrows_figure(point_mass, {"one": (states, actions)}, every=1)
        assert len(self.quivers(figure.axes[0])["policy"].XY) == 1 + 4

    def test_what_cannot_be_drawn(self, point_mass):
        with pytest.raises(InvalidData, match="policy"):
            action_arrows_figure(point_mass, {})
        with pytest.raises(InvalidData, match="actions"):
            action_arrows_figure(point_mass, {"one": (self.STATES, self.ACTIONS[:, :3])})
        with pytest.raises(InvalidSetting, match="every=0"):
            action_arrows_figure(point_mass, {"one": (self.STATES, self.ACTIONS)}, every=0)
        with pytest.raises(InvalidData, match="reference"):
            action_arrows_figure(point_mass, {"one": (self.STATES, self.ACTIONS)}, reference=lambda rows: rows)
