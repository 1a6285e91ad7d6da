"""Cells and coverage counted by hand; entropy against closed forms, also where the steps of an episode depend."""

import numpy as np
import pytest
from scipy.linalg import expm, solve_continuous_lyapunov
from scipy.special import digamma
from scipy.stats import entropy

from constrained_maxent.errors import InvalidData, InvalidSetting, NonFiniteValue
from constrained_maxent.evaluation import Coverage, Grid, state_entropy

GRID = Grid((0.0, -1.0), (4.0, 1.0), (4, 2))
"""Unit squares."""


def test_cells():
    # A cell holds its lower bounds, the last one its upper bound as well: twice the first cell, twice the last.
    states = [[0.0, -1.0], [0.99, -0.01], [1.0, -0.01], [1.0, 0.0], [3.5, 0.5], [4.0, 1.0]]
    effective = np.exp(entropy([2, 1, 1, 2])) / 8
    expected = Coverage(share=4 / 8, effective=pytest.approx(effective), outside=0.0, n_states=6)
    assert GRID.coverage(states) == expected


def test_what_is_outside_is_in_no_cell():
    states = [[-0.01, 0.0], [4.01, 0.0], [1.0, 1.01], [1.0, -9.0], [1.0, 0.5]]
    assert GRID.coverage(states) == Coverage(share=1 / 8, effective=1 / 8, outside=4 / 5, n_states=5)
    assert GRID.coverage([[9.0, 9.0]]) == Coverage(share=0.0, effective=0.0, outside=1.0, n_states=1)


def test_every_cell_once():
    centers = np.stack(np.meshgrid(np.arange(4) + 0.5, [-0.5, 0.5], indexing="ij"), axis=-1).reshape(-1, 2)
    assert GRID.coverage(centers).share == 1.0
    assert GRID.coverage(centers).effective == pytest.approx(1.0)
    assert GRID.n_cells == 8


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


def test_no_cell_of_what_is_not_finite():
    with pytest.raises(NonFiniteValue):
        GRID.coverage([[np.nan, 0.0]])


def episodes(rows, n=40):
    return np.array_split(np.asarray(rows), n)


def oscillators(n_episodes, *, seed, n_steps=1000, step=0.01):
    """Two oscillators pushed by white noise, from their stationary distribution: smooth paths with a known entropy."""
    drift, noise = np.array([[0.0, 1.0], [-4.0, -1.0]]), np.diag([0.0, 4.0])
    covariance = solve_continuous_lyapunov(drift, -noise)
    forward = expm(drift * step)
    spread = np.linalg.cholesky(covariance - forward @ covariance @ forward.T)
    rng = np.random.default_rng(seed)
    state = rng.normal(size=(n_episodes, 2, 2)) @ np.linalg.cholesky(covariance).T
    path = np.empty((n_steps, n_episodes, 4))
    for t in range(n_steps):
        path[t] = state.reshape(n_episodes, 4)
        state = state @ forward.T + rng.normal(size=state.shape) @ spread.T
    return list(path.transpose(1, 0, 2)), np.log((2 * np.pi * np.e) ** 2 * np.linalg.det(covariance))


# Tolerances: an estimate from n samples scatters by about sqrt(Var[log p] + 0.13) / sqrt(n), here 0.03 at most; in four
# dimensions the tails add a bias of a few hundredths.
def test_uniform_in_a_box():
    rows = np.random.default_rng(0).random((4000, 2)) * [3.0, 5.0]
    assert state_entropy(episodes(rows)).mean == pytest.approx(np.log(15.0), abs=0.08)


@pytest.mark.parametrize("d", [1, 4])
def test_gaussian(d):
    rows = 3.0 * np.random.default_rng(0).normal(size=(4000, d))
    exact = d * (0.5 * np.log(2.0 * np.pi * np.e) + np.log(3.0))
    assert state_entropy(episodes(rows)).mean == pytest.approx(exact, abs=0.12)


def test_uniform_on_a_circle():
    # Cut open anywhere but at ±π, the circle is the same.
    angles = np.random.default_rng(0).uniform(-np.pi, np.pi, (4000, 1))
    assert state_entropy(episodes(angles), periodic=(0,)).mean == pytest.approx(np.log(2.0 * np.pi), abs=0.05)


def test_angles_near_the_cut_are_neighbors():
    rows = [[[3.1]], [[-3.1]]]
    distance = 2.0 * np.pi - 6.2
    # One neighbor among one sample: H = ψ(2) - ψ(1) + log 2 + log r.
    expected = digamma(2) - digamma(1) + np.log(2.0 * distance)
    assert state_entropy(rows, periodic=(0,), n_neighbors=1).mean == pytest.approx(expected, rel=1e-9)


def test_steps_of_one_episode_are_no_neighbors():
    """With them the entropy would be nats too low: of 20 such episodes by 1.25."""
    errors = []
    for seed in range(4):
        paths, exact = oscillators(20, seed=seed)
        errors.append(state_entropy(paths).mean - exact)
    # A single one of these scatters by 0.18, as 20 episodes of 10 s are few.
    assert np.mean(errors) == pytest.approx(0.0, abs=0.3)
    paths, exact = oscillators(1, seed=0)
    assert state_entropy(paths).mean < exact - 1.5


def test_identical_states_have_the_least_distance():
    # Five samples of the other episode, of which the state itself counts as one: 2nd of 4 neighbors, at 1e-5.
    expected = digamma(5) - digamma(2) + np.log(2.0 * 1e-5)
    assert state_entropy([np.zeros((5, 1))] * 2, n_neighbors=2).mean == pytest.approx(expected, rel=1e-12)


def test_a_start_that_recurs_costs_a_bounded_amount():
    rows = np.random.default_rng(0).normal(size=(40, 50, 2))
    with_start = rows.copy()
    with_start[:, 0] = 0.3
    # 2 % of the steps, each with about 2·log(1e-5) = -23 nats instead of +3.
    lowered = state_entropy(with_start).mean - state_entropy(rows).mean
    assert -0.02 * 30 < lowered < -0.02 * 15


def test_more_steps_than_samples():
    rows = np.random.default_rng(0).random((20_000, 1))
    few, many = (state_entropy(episodes(rows), max_samples=n).mean for n in (400, 8000))
    assert few == pytest.approx(0.0, abs=0.12)
    assert many == pytest.approx(0.0, abs=0.04)
    assert few != many


def test_interval_is_over_episodes():
    rng = np.random.default_rng(0)
    # Episodes that stay where they are, each in its own place: they differ by far more than their steps do.
    still = [place + 0.1 * rng.normal(size=(100, 1)) for place in rng.normal(size=20)]
    mixed = episodes(np.concatenate(still)[rng.permutation(2000)], 20)
    narrow, wide = (found.high - found.low for found in map(state_entropy, (mixed, still)))
    assert wide > 3.0 * narrow
    assert state_entropy(still) == state_entropy(still)


def test_many_episodes():
    rows = np.random.default_rng(0).random((900, 1))
    assert state_entropy(episodes(rows, 300)).mean == pytest.approx(0.0, abs=0.1)


@pytest.mark.parametrize("states", [[], [np.zeros(3)], [np.zeros((2, 1)), np.zeros((2, 2))]])
def test_no_episodes_of_states(states):
    with pytest.raises(InvalidData, match="episodes"):
        state_entropy(states)


@pytest.mark.parametrize("options", [{"max_samples": 0}, {"n_neighbors": 0}, {"periodic": (1,)}])
def test_bad_settings(options):
    with pytest.raises(InvalidSetting):
        state_entropy([np.zeros((3, 1))] * 2, **options)


def test_entropy_of_what_is_not_finite():
    with pytest.raises(NonFiniteValue):
        state_entropy([np.array([[0.0], [np.nan]])] * 2)
