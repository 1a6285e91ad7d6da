"""One iteration worked out by hand."""

import math

import numpy as np
import pytest

from constrained_maxent.engine import RunSettings, TabularEngine
from constrained_maxent.engine.sampling import stream_key
from constrained_maxent.functionals import Entropy, LinearCost
from constrained_maxent.oracle import TabularMDP
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint

SEED = 36


def test_two_steps_of_one_episode(numpy_twin):
    # Action 0 stays, action 1 changes the state; two steps, so that w = (1, 0.5).
    mdp = TabularMDP.from_arrays(
        [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]], [1.0, 0.0], discount=0.5, horizon=2
    )
    # Positions of B = 1, H = 2: start, action, next state, action, next state. The policy is uniform at first: u ≥ 1/2
    # takes action 1. With seed 36 the episode goes 0 -(1)-> 1 -(0)-> 1.
    u = numpy_twin.uniforms(stream_key(SEED), np.arange(5))
    assert u[1] >= 0.5 > u[3]
    cost = LinearCost([[0.0, 0.0], [3.0, 0.0]], limit=0.5)
    settings = RunSettings(
        seed=SEED,
        objective=Entropy(smoothing=0.25),
        constraints={"cost": Constraint(cost, Quadratic(2.0))},
        episodes_per_batch=1,
        learning_rate=0.1,
    )
    result = TabularEngine(mdp, [settings], scale="truncated", record_every=1).run(1)

    # λ̂ = 1 at (0, 1) and 1/2 at (1, 0); R = 3/2 - 1/2 = 1 and ℒ'(R) = 2 * 2 * 1 = 4.
    assert result.objective[0, 0] == pytest.approx(-math.log(1.25) - 0.5 * math.log(0.75))
    assert result.constraints["cost"][0, 0] == pytest.approx(1.0)
    assert result.slopes["cost"][0, 0] == pytest.approx(4.0)
    # r = -log(λ + 1/4) - λ / (λ + 1/4) - 4 c
    first = -math.log(1.25) - 1.0 / 1.25
    second = -math.log(0.75) - 0.5 / 0.75 - 12.0
    # Returns w_t r_t + w_{t+1} r_{t+1} + ...; grad log pi = (1[a] - 1/2) in the state's row.
    later = 0.5 * second
    early = first + later
    expected = 0.1 * np.array([[-0.5 * early, 0.5 * early], [0.5 * later, -0.5 * later]])
    np.testing.assert_allclose(result.theta[0], expected, rtol=1e-13)
    assert result.transitions.tolist() == [2]
