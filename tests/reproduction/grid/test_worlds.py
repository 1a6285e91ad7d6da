"""The worlds, against values known from the convex program and from counting steps."""

import numpy as np
import pytest

from constrained_maxent.envs import SafeFrozenLake
from constrained_maxent.functionals import LinearCost
from constrained_maxent.oracle import TabularMDP
from constrained_maxent.reproduction.grid.studies import Conventions
from constrained_maxent.reproduction.grid.worlds import entering_costs, optimum, reference_policy, world_of

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


LEFT, DOWN, RIGHT, UP = range(4)
ENTERING = Conventions(cost_on_entering=True, larger_base_cost=True)


class TestEnteringCosts:
    def test_by_hand(self):
        """Of "SHG", where down and up stay: from S only right leads into the hole, from the hole down and up do."""
        costs = entering_costs(SafeFrozenLake(desc=["SHG"], hole_cost=50.0, base_cost=-0.1))
        assert costs[0].tolist() == [-0.1, -0.1, 50.0, -0.1]
        assert costs[1].tolist() == [-0.1, 50.0, -0.1, 50.0]

    def test_of_a_walk_that_stays_in_the_hole(self):
        """Right, then down twice, γ = 0.5: 50 + 25 + 12.5 on entering, but -0.1 + 25 + 12.5 on leaving."""
        env = SafeFrozenLake(desc=["SHG"], hole_cost=50.0, base_cost=-0.1)
        mdp = TabularMDP.from_env(env, discount=0.5, horizon=3)
        occupancy = mdp.occupancy(np.eye(4)[[RIGHT, DOWN, DOWN]], scale="truncated")
        assert LinearCost(entering_costs(env))(occupancy) == pytest.approx(87.5)
        assert LinearCost(env.cost_tables["cost"])(occupancy) == pytest.approx(37.4)

    def test_of_a_slippery_lake_is_a_mean(self):
        """Right from S goes right, down or up with 1/3 each."""
        costs = entering_costs(SafeFrozenLake(desc=["SHG"], slippery=True, hole_cost=30.0, base_cost=0.0))
        assert costs[0, RIGHT] == pytest.approx(10.0)

    @pytest.mark.parametrize(("name", "cost"), [("holes", 50.0), ("relaxed", 2.0)])
    def test_of_the_paper_s_holes(self, name, cost):
        """From (1, 2) down into the hole (2, 2), from there right into (2, 3), from there up to (1, 3)."""
        world = world_of(name, ENTERING)
        table = world.functional.gradient(np.zeros((36, 4)))
        walk = [(8, DOWN), (14, RIGHT), (15, UP)]
        assert [table[cell] for cell in walk] == [cost, cost, -0.1]

    def test_the_two_conventions_are_apart(self):
        """In the hole (2, 2), and on (1, 2) above it, going right."""
        entering, larger = (
            world_of("holes", Conventions(**{name: True})).functional.gradient(np.zeros((36, 4)))
            for name in ("cost_on_entering", "larger_base_cost")
        )
        assert (entering[8, DOWN], entering[8, RIGHT], entering[14, UP]) == (50.0, -0.001, -0.001)
        assert (larger[8, DOWN], larger[8, RIGHT], larger[14, UP]) == (-0.1, -0.1, 50.0)

    def test_the_distance_has_none(self):
        ((_, distance),) = world_of("open").measure(UNIFORM)
        ((_, entering),) = world_of("open", ENTERING).measure(UNIFORM)
        assert distance == entering


def test_the_mass_in_holes():
    """A walk of 25 steps: two to (0, 2), two down into the hole (2, 2), where right and left go to the next hole and
    back until the end; all but the first four steps are taken in holes.
    """
    policy = np.full((36, 4), 0.0)
    policy[:, RIGHT] = 1.0
    policy[[2, 8]] = np.eye(4)[DOWN]
    policy[15] = np.eye(4)[LEFT]
    (mass,) = world_of("holes").mass_in_holes(policy[None])
    assert mass == pytest.approx(np.sum(0.99 ** np.arange(4, 25)))
