"""Finite problems for the engine."""

from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

from constrained_maxent.evaluation import ExactProblem
from constrained_maxent.functionals import Entropy, KLDivergence, L2Distance, LinearCost
from constrained_maxent.oracle import TabularMDP
from constrained_maxent.penalties import AugmentedLagrangian, Exact, Lagrangian, Quadratic
from constrained_maxent.problem import Constraint


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
        "states": Constraint(Entropy("state", limit=0.5), Exact(0.3)),
    }


@pytest.fixture(scope="session")
def lake():
    """The paper's grid: MDP, cost, and the exact entropy and cost of policies, ``(..., 2)``."""
    exact = ExactProblem.from_env(gym.make("FrozenLake-PGP-v0", preset="paper"))

    def evaluate(policies):
        evaluations = [exact.evaluate(policy) for policy in policies]
        return np.array([[point.objective, point.constraints["cost"]] for point in evaluations])

    return SimpleNamespace(mdp=exact.mdp, cost=exact.constraints["cost"], scale=exact.scale, evaluate=evaluate)
