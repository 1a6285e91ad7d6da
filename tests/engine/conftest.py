"""Finite problems for the engine, and its twin."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from constrained_maxent.engine import TabularEngine
from constrained_maxent.envs import SafeFrozenLake
from constrained_maxent.functionals import Entropy, KLDivergence, L2Distance, LinearCost
from constrained_maxent.oracle import TabularMDP
from constrained_maxent.penalties import AugmentedLagrangian, Exact, Lagrangian, Quadratic
from constrained_maxent.problem import Constraint


@pytest.fixture(scope="session")
def numpy_twin():
    """The module ``numpy_twin`` beside this file; pytest imports tests without their folder in the path."""
    spec = importlib.util.spec_from_file_location("numpy_twin", Path(__file__).with_name("numpy_twin.py"))
    module = sys.modules["numpy_twin"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def require_equal(numpy_twin):
    """Hold a run of the engine, of ``iterations`` batches where schedules run over ``planned``, equal to the twin's."""

    def require_equal(mdp, settings, *, iterations=15, planned=10, scale="normalized"):
        engine = TabularEngine(
            mdp, [settings], planned_iterations=planned, scale=scale, record_every=1, snapshot_every=iterations
        )
        result = engine.run(iterations)
        twin = numpy_twin.NumpyTwin(mdp, settings, planned, scale).run(iterations)
        assert np.abs(twin.theta).max() > 0.05, "nothing was learnt that could differ"
        # Adam divides by the size of the gradient, and where that is 0 blows rounding up by 1e8.
        tolerance = 1e-10 if settings.optimizer == "adam" else 1e-12
        np.testing.assert_allclose(result.theta[0], twin.theta, rtol=0.0, atol=tolerance)
        np.testing.assert_array_equal(result.snapshots[0, 1], result.theta[0])
        if settings.objective is not None:
            np.testing.assert_allclose(result.objective[0], twin.objective, rtol=0.0, atol=tolerance)
        for name in settings.constraints:
            np.testing.assert_allclose(result.constraints[name][0], twin.constraints[name], rtol=0.0, atol=tolerance)
            np.testing.assert_allclose(result.slopes[name][0], twin.slopes[name], rtol=tolerance, atol=tolerance)
        for name, multiplier in twin.multipliers.items():
            assert result.multipliers[name][0] == pytest.approx(multiplier, abs=tolerance)

    return require_equal


@pytest.fixture(scope="session")
def ending_mdp():
    """A random MDP of 5 states and 3 actions; entering the last state ends the episode."""
    rng = np.random.default_rng(1)
    transition = rng.dirichlet(np.ones(5), size=(5, 3))
    transition[0, 0] = [0.0, 1.0, 0.0, 0.0, 0.0]  # one certain move
    transition[1, 1] = [0.0, 0.0, 0.0, 0.0, 1.0]  # one certain end
    return TabularMDP.from_arrays(transition, [0.5, 0.3, 0.0, 0.2, 0.0], discount=0.9, horizon=7, terminal=[4])


@pytest.fixture(scope="session")
def constraints():
    """One constraint of every kind of functional, under one penalty of every kind, for 5 states and 3 actions."""
    rng = np.random.default_rng(2)
    reference = rng.dirichlet(np.ones(15)).reshape(5, 3)
    return {
        "cost": Constraint(LinearCost(rng.normal(size=(5, 3)), limit=-0.1), Quadratic(3.0)),
        "kl": Constraint(KLDivergence(reference, limit=0.1), Lagrangian(0.1, multiplier=0.3, largest=0.4)),
        "l2": Constraint(L2Distance(reference, limit=0.05), AugmentedLagrangian(2.0)),
        "states": Constraint(Entropy(over="state", limit=0.5), Exact(0.3)),
    }


@pytest.fixture(scope="session")
def lake():
    """The paper's grid: MDP, cost, and the exact entropy and cost of policies, ``(..., 2)``."""
    grid = SafeFrozenLake()
    mdp, scale = TabularMDP.from_env(grid, discount=0.99), "truncated"
    cost, entropy = LinearCost(grid.cost_tables["cost"], limit=0.0), Entropy(smoothing=0.0)

    def evaluate(policies):
        occupancies = [mdp.occupancy(policy, scale=scale) for policy in policies]
        return np.array([[entropy(occupancy), cost(occupancy)] for occupancy in occupancies])

    return SimpleNamespace(mdp=mdp, cost=cost, scale=scale, evaluate=evaluate)
