"""The optimum of a wrapped environment's own problem; right values from the convex-program table of the experiments."""

import gymnasium as gym
import numpy as np
import pytest

import constrained_maxent as cmx
from constrained_maxent.evaluation import ExactProblem
from constrained_maxent.evaluation.optimum import certificate, n_variables, optimum


@pytest.fixture(scope="module")
def grid():
    return ExactProblem.from_env(gym.make("FrozenLake-PGP-v0"))


def test_optimum_with_and_without_constraints(grid):
    assert optimum(grid).value == pytest.approx(36.720, rel=1e-4)
    assert optimum(grid, constrained=False).value == pytest.approx(40.188, rel=1e-4)


def test_optimum_with_a_penalty(grid):
    penalized = optimum(grid, beta=0.1)
    assert penalized.value == pytest.approx(36.811, rel=1e-4)
    assert penalized.constraints["cost"] == pytest.approx(0.633, rel=1e-3)


def test_certificate_of_the_uniform_policy(grid):
    uniform = np.full((36, 4), 0.25)
    found = certificate(grid, uniform)
    assert found.value == pytest.approx(grid.evaluate(uniform).objective)
    assert found.optimum == pytest.approx(36.720, rel=1e-4)
    assert found.epsilon == max(abs(found.gap), found.violation)


def test_variables_of_the_program(grid):
    # 35 tiles without the goal, 4 actions, 25 time steps.
    assert n_variables(grid) == 35 * 4 * 25


def test_a_functional_without_convex_formulation_is_refused():
    env = cmx.wrappers.constrain(
        gym.make("SafeFrozenLake-v0"),
        constraints={
            "sum": cmx.problem.Constraint(
                cmx.functionals.Autograd(lambda occupancy: occupancy.sum(), limit=2.0), cmx.penalties.Quadratic(1.0)
            )
        },
        episodes_per_batch=1,
    )
    with pytest.raises(cmx.errors.InvalidSetting, match="no convex formulation"):
        optimum(ExactProblem.from_env(env))
