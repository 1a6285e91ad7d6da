"""Cells and coverage, counted by hand."""

import numpy as np
import pytest
from scipy.stats import entropy

from constrained_maxent.errors import InvalidData, InvalidSetting, NonFiniteValue
from constrained_maxent.evaluation import Coverage, Grid

GRID = Grid((0.0, -1.0), (4.0, 1.0), (4, 2))
"""Unit squares."""


def test_cells():
    states = [[0.0, -1.0], [0.99, -0.01], [1.0, -0.01], [1.0, 0.0], [3.5, 0.5], [4.0, 1.0]]
    assert GRID.cells_of(states).tolist() == [0, 0, 2, 3, 7, 7]


def test_what_is_outside_is_in_no_cell():
    states = [[-0.01, 0.0], [4.01, 0.0], [1.0, 1.01], [1.0, -9.0], [1.0, 0.5]]
    assert GRID.cells_of(states).tolist() == [-1, -1, -1, -1, 3]
    assert GRID.coverage(states) == Coverage(share=1 / 8, effective=1 / 8, outside=4 / 5, n_states=5)
    assert GRID.coverage([[9.0, 9.0]]) == Coverage(share=0.0, effective=0.0, outside=1.0, n_states=1)


def test_every_cell_once():
    centers = np.stack(np.meshgrid(np.arange(4) + 0.5, [-0.5, 0.5], indexing="ij"), axis=-1).reshape(-1, 2)
    assert GRID.cells_of(centers).tolist() == list(range(8))
    assert GRID.coverage(centers).share == 1.0
    assert GRID.coverage(centers).effective == pytest.approx(1.0)
    assert (GRID.n_coordinates, GRID.n_cells) == (2, 8)


def test_agrees_with_numpys_histogram():
    low, high, cells = (-2.0, -6.0, -np.pi), (2.0, 6.0, np.pi), (8, 8, 12)
    states = np.random.default_rng(0).normal(size=(500, 3)) * [1.5, 4.0, 2.0]
    counts = np.histogramdd(states, bins=cells, range=list(zip(low, high, strict=True)))[0]
    coverage = Grid(low, high, cells).coverage(states)
    assert coverage.share == np.count_nonzero(counts) / (8 * 8 * 12)
    assert coverage.effective == pytest.approx(np.exp(entropy(counts.ravel())) / (8 * 8 * 12))
    assert coverage.outside == pytest.approx(1.0 - counts.sum() / 500)


@pytest.mark.parametrize(
    "arguments",
    [
        ((), (), ()),
        ((0.0,), (1.0, 2.0), (3,)),
        ((0.0,), (0.0,), (3,)),
        ((0.0,), (np.inf,), (3,)),
        ((np.nan,), (1.0,), (3,)),
        ((0.0,), (1.0,), (0,)),
        ((0.0,), (1.0,), (2.5,)),
        ((0.0,), (1.0,), (True,)),
    ],
)
def test_no_grid(arguments):
    with pytest.raises(InvalidSetting):
        Grid(*arguments)


@pytest.mark.parametrize("states", [[1.0, 2.0], [[1.0, 2.0, 3.0]], np.zeros((0, 2))])
def test_no_states_of_this_grid(states):
    with pytest.raises(InvalidData):
        GRID.coverage(states)


def test_not_finite():
    with pytest.raises(NonFiniteValue):
        GRID.cells_of([[np.nan, 0.0]])
