"""States, controls and times of a model, against numbers worked out by hand."""

import math

import gymnasium as gym
import mujoco
import numpy as np
import pytest

from constrained_maxent.envs.mujoco_model import control_space, folded, horizon_steps
from constrained_maxent.errors import InvalidSetting

ONE_LIMIT = """
<mujoco>
  <worldbody><body><joint name="slide" type="slide"/><geom size="0.1"/></body></worldbody>
  <actuator>
    <motor joint="slide" ctrllimited="true" ctrlrange="-2 3"/>
    <motor joint="slide" ctrllimited="false"/>
  </actuator>
</mujoco>
"""


class TestControlSpace:
    def test_has_the_limits_of_the_model_where_it_has_some(self):
        space = control_space(mujoco.MjModel.from_xml_string(ONE_LIMIT))
        assert space == gym.spaces.Box(np.array([-2, -np.inf], np.float32), np.array([3, np.inf], np.float32))

    def test_no_model(self):
        with pytest.raises(InvalidSetting, match="MjModel"):
            control_space("cartpole.xml")


@pytest.mark.parametrize(
    ("angle", "expected"),
    [(7.0, 7.0 - 2 * math.pi), (-math.pi, math.pi), (math.pi, math.pi), (-7.0, 2 * math.pi - 7.0), (0.0, 0.0)],
)
def test_angles_are_wrapped(angle, expected):
    assert folded(np.array([angle])).item() == pytest.approx(expected, abs=1e-12)


class TestTime:
    # In floating point 0.07 / 0.01 is 7.000000000000001, and 0.3 / 0.1 is 2.9999999999999996: whole all the same.
    @pytest.mark.parametrize(
        ("limit", "timestep", "steps"),
        [(0.07, 0.01, 7), (0.3, 0.1, 3), (0.31, 0.1, 4), (0.1, 0.1, 1), (None, 0.1, None)],
    )
    def test_limit_in_steps(self, limit, timestep, steps):
        assert horizon_steps(limit, timestep) == steps

    @pytest.mark.parametrize("limit", [0.05, 0.0, -1.0, math.inf, math.nan])
    def test_bad_limits(self, limit):
        with pytest.raises(InvalidSetting, match="time_limit="):
            horizon_steps(limit, 0.1)
