"""No figure may open a window or stay in pyplot's list."""

import pytest
from matplotlib import pyplot


@pytest.fixture(autouse=True)
def _no_window():
    yield
    assert pyplot.get_fignums() == []
