"""Scenes put things where MuJoCo's kinematics puts them."""

import mujoco
import numpy as np
import pytest

RNG = np.random.default_rng(0)


def placed(scene, state):
    """MuJoCo's own kinematics of a state."""
    data = mujoco.MjData(scene.model)
    data.qpos[:] = scene.qpos(state[None])[0]
    mujoco.mj_kinematics(scene.model, data)
    return data


def test_tip_of_the_pole(cartpole):
    states = np.column_stack([RNG.uniform(-2, 2, 9), np.zeros(9), RNG.uniform(-np.pi, np.pi, 9), np.zeros(9)])
    tips = cartpole.traced(states)
    for state, tip in zip(states, tips, strict=True):
        data = placed(cartpole, state)
        pole = data.geom("pole_1")
        # The capsule's axis has two ends: the hinge, and the tip.
        half = pole.xmat.reshape(3, 3)[:, 2] * cartpole.model.geom("pole_1").size[1]
        hinge = data.joint("hinge_1").xanchor
        expected = max(pole.xpos + half, pole.xpos - half, key=lambda end: np.linalg.norm(end - hinge))
        np.testing.assert_allclose(tip, expected, atol=1e-12)
    np.testing.assert_array_equal(cartpole.projected(states), tips[:, [0, 2]])


def test_mass_on_the_table(point_mass):
    state = np.array([0.1, -0.2, 3.0, 4.0])
    np.testing.assert_allclose(point_mass.traced(state[None])[0], placed(point_mass, state).geom("pointmass").xpos)
    assert point_mass.tracer_values(state[None]) == pytest.approx(5.0)
    assert point_mass.reach == pytest.approx(0.3)


def test_color_scales(cartpole, point_mass):
    states = np.array([[0.0, 0.0, 0.0, 3.0], [0.0, 0.0, 0.0, -4.0], [np.nan] * 4])
    signed, speed = cartpole.tracer_norm(states), point_mass.tracer_norm(states)
    assert (signed.vmin, signed.vmax) == (-4.0, 4.0)
    assert (speed.vmin, speed.vmax) == (0.0, 4.0)
    still = point_mass.tracer_norm(np.zeros((2, 4)))
    assert (still.vmin, still.vmax) == (0.0, 1.0)


def test_a_flat_pole_at_the_end_of_the_rail_is_in_sight(cartpole):
    tip = cartpole.projected(np.array([[2.0, 0.0, np.pi / 2, 0.0]]))[0]
    left, right, bottom, top = cartpole.frame
    assert left < -tip[0] < tip[0] < right
    assert bottom < tip[1] < top


@pytest.mark.fault
def test_films_show_the_limit_and_a_rail_under_the_cart(cartpole, point_mass):
    assert cartpole.walls[:, :, 0].tolist() == [[-1.5, -1.5], [1.5, 1.5]]
    assert len(point_mass.walls) == 0
    # Without care the soft stop at 1.8 m is passed by 0.28 m, and half a cart is 0.2 m.
    assert float(cartpole.model.geom("rail1").size[1]) >= 1.8 + 0.28 + 0.2
