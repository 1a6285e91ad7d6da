"""The worlds, against values known from the convex program and from counting steps."""

import numpy as np
import pytest

from constrained_maxent.reproduction.grid.worlds import optimum, reference_policy, world_of

UNIFORM = np.full((1, 36, 4), 0.25)


def test_reference_takes_ten_different_steps():
    ((entropy, distance),) = world_of("open").measure(reference_policy()[None])
    # Ten cells of mass 0.99^t: -sum of 0.99^t ln 0.99^t.
    masses = 0.99 ** np.arange(10)
    assert entropy == pytest.approx(-np.sum(masses * np.log(masses)))
    assert distance == pytest.approx(0.0)


def test_relaxed_cost_is_smaller_in_holes_only():
    ((_, cost),) = world_of("holes").measure(UNIFORM)
    ((_, relaxed),) = world_of("relaxed").measure(UNIFORM)
    mass = world_of("holes").mdp.occupancy(UNIFORM[0], scale="truncated").sum()
    # cost = 50 h - 0.001 (mass - h) with h the mass in holes.
    in_holes = (cost + 0.001 * mass) / 50.001
    assert relaxed == pytest.approx(2.001 * in_holes - 0.001 * mass)


@pytest.mark.parametrize("name", ["holes", "relaxed", "open"])
def test_many_policies_at_once(name):
    """Against the oracle's occupancy of each, and −Σ λ ln λ of it."""
    world = world_of(name)
    policies = np.random.default_rng(0).dirichlet(np.ones(4), size=(5, 36))
    occupancies = [world.mdp.occupancy(policy, scale="truncated") for policy in policies]
    expected = [(-np.sum(o[o > 0] * np.log(o[o > 0])), world.functional(o)) for o in occupancies]
    np.testing.assert_allclose(world.measure(policies), expected, rtol=1e-12)


def test_optimum_of_the_paper_s_grid():
    # The convex program over time-indexed occupancies.
    assert optimum("holes", 0.0) == pytest.approx(36.720, abs=1e-3)
    assert optimum("holes", 0.0, constrained=False) == pytest.approx(40.188, abs=1e-3)
