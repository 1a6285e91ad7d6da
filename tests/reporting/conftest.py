"""No figure may open a window or stay in pyplot's list."""

import pytest
from matplotlib import pyplot


@pytest.fixture(autouse=True)
def _no_window():
    yield
    assert pyplot.get_fignums() == []


@pytest.fixture(scope="session")
def cartpole():
    """The cartpole with a limit of 1.5 m."""
    from constrained_maxent.envs.cartpole import cartpole_physics
    from constrained_maxent.reporting import CartpoleScene

    return CartpoleScene(model=cartpole_physics(1.8).model.ptr, slider_limit=1.5)


@pytest.fixture(scope="session")
def point_mass():
    """The table of the point mass, which reaches 0.3 m to each side."""
    from constrained_maxent.envs.point_mass import point_mass_physics
    from constrained_maxent.reporting import PointMassScene

    return PointMassScene(model=point_mass_physics().model.ptr)
