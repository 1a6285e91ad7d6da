"""The path that is drawn with a model. Skipped where MuJoCo has no OpenGL."""

import mujoco
import numpy as np
import pytest
from gymnasium.error import DependencyNotInstalled

from constrained_maxent.envs.cartpole import cartpole_physics
from constrained_maxent.envs.mujoco_painter import MujocoPainter
from constrained_maxent.envs.point_mass import point_mass_physics


@pytest.mark.parametrize(
    ("model", "points", "pixel"),
    [
        # The camera is 4 m in front of the hinge: half the height of 120 pixels is 4 m · tan(22.5°) = 1.66 m.
        (
            cartpole_physics(1.8).model.ptr,
            [[0.8, 0.0, 1.4], [0.8, 0.0, 2.0]],
            (60 - 60 * 0.7 / 1.657, 80 + 60 * 0.8 / 1.657),
        ),
        # It is 0.75 m above the table: half the height is 0.31 m.
        (
            point_mass_physics().model.ptr,
            [[0.1, 0.0, 0.01], [0.1, 0.2, 0.01]],
            (60 - 60 * 0.1 / 0.3107, 80 + 60 * 0.1 / 0.3107),
        ),
    ],
)
def test_a_trace_has_its_color_and_place(model, points, pixel):
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    painter = MujocoPainter(model, width=160, height=120)
    color = np.array([0.2, 0.7, 0.9, 1.0])
    try:
        without = painter.image(data).astype(float)
        image = painter.image(data, paths=[(np.array(points), color[None], 5.0)]).astype(float)
        again = painter.image(data).astype(float)
    except DependencyNotInstalled as error:
        pytest.skip(str(error))
    finally:
        painter.close()
    row, column = (round(part) for part in pixel)
    np.testing.assert_allclose(image[row, column] / 255, color[:3], atol=0.06)
    assert np.abs(without[row, column] - image[row, column]).max() > 50
    np.testing.assert_array_equal(again, without)
