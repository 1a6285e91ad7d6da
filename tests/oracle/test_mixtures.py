"""Frank–Wolfe against the global optimum, its planner against enumeration, and mixtures: one draw for each episode."""

from itertools import product

import gymnasium as gym
import numpy as np
import pytest

from constrained_maxent.errors import InvalidData, InvalidSetting, NonFiniteValue
from constrained_maxent.functionals import Entropy, LinearCost
from constrained_maxent.oracle import MixturePolicy, TabularMDP, frank_wolfe, plan, solve
from constrained_maxent.penalties import Lagrangian, Quadratic
from constrained_maxent.problem import Constraint

BETA = 50.0


@pytest.fixture(scope="module")
def mdp():
    return TabularMDP.random(5, 3, seed=1, discount=0.9, branching=3)


@pytest.fixture(scope="module")
def cost(mdp):
    """A cost whose limit uniform behavior exceeds by 0.05."""
    table = np.random.default_rng(1).normal(size=(5, 3))
    uniform = mdp.occupancy(np.full((5, 3), 1.0 / 3.0))
    return LinearCost(table, limit=float((table * uniform).sum()) - 0.05)


def deterministic(n_states, n_actions):
    for actions in product(range(n_actions), repeat=n_states):
        yield np.eye(n_actions)[list(actions)]


def test_reaches_the_oracle_s_optimum(mdp, cost):
    """At small violations the penalized optimum has R = μ/(2β), and entropy μR more than the constrained one."""
    result = frank_wolfe(mdp, constraints={"cost": Constraint(cost, Quadratic(BETA))}, iterations=200)
    best = solve(mdp, constraints={"cost": cost})
    multiplier = best.multipliers["cost"]
    assert multiplier > 0.1, "the constraint does not bind"
    assert result.constraints["cost"] == pytest.approx(multiplier / (2 * BETA), abs=2e-4)
    assert result.objective == pytest.approx(best.value + multiplier**2 / (2 * BETA), abs=1e-3)
    assert result.gaps[-1] < 1e-3


def test_the_gap_bounds_what_is_missing(mdp):
    best = solve(mdp).value
    for iterations in (1, 3, 10, 30):
        result = frank_wolfe(mdp, iterations=iterations)
        # The gap of the next iterate, from one iteration more.
        gap = frank_wolfe(mdp, iterations=iterations + 1).gaps[-1]
        assert -1e-4 < best - result.objective <= gap + 1e-4  # smoothing: 1e-6 times 15 cells and their logarithms


def test_within_a_finite_horizon_it_passes_every_stationary_policy():
    """The optimum is that of the convex program over time-dependent policies."""
    mdp = TabularMDP.random(4, 2, seed=0, discount=1.0, horizon=3)
    result = frank_wolfe(mdp, iterations=300, tolerance=1e-3)
    assert result.objective == pytest.approx(solve(mdp).value, abs=2e-3)


def test_the_mixture_s_occupancy_is_the_mean_of_its_policies(mdp, cost):
    result = frank_wolfe(mdp, constraints={"cost": Constraint(cost, Quadratic(BETA))}, iterations=20)
    mean = sum(w * mdp.occupancy(pi) for w, pi in zip(result.mixture.weights, result.mixture.policies, strict=True))
    np.testing.assert_allclose(result.occupancy, mean)
    assert result.objective == pytest.approx(Entropy()(mean))
    assert len({policy.tobytes() for policy in result.mixture.policies}) == len(result.mixture)


@pytest.mark.parametrize("discount", [0.1, 0.9, 0.999])
def test_planner_against_all_deterministic_policies(discount):
    mdp = TabularMDP.random(4, 3, seed=5, discount=discount)
    reward = np.random.default_rng(0).normal(size=(4, 3))
    best = max(float((mdp.occupancy(policy) * reward).sum()) for policy in deterministic(4, 3))
    assert float((mdp.occupancy(plan(mdp, reward)) * reward).sum()) == pytest.approx(best)


@pytest.mark.parametrize("scale", ["normalized", "truncated"])
def test_planner_within_a_horizon_against_all_deterministic_policies(scale):
    mdp = TabularMDP.random(2, 2, seed=5, discount=0.8, horizon=3)
    reward = np.random.default_rng(0).normal(size=(2, 2))
    best = max(
        float((mdp.occupancy(np.array(policies), scale=scale) * reward).sum())
        for policies in product(list(deterministic(2, 2)), repeat=3)
    )
    found = mdp.occupancy(plan(mdp, reward, scale=scale), scale=scale)
    assert float((found * reward).sum()) == pytest.approx(best)


@pytest.mark.parametrize(
    "wrong",
    [
        {"iterations": 0},
        {"iterations": 1.5},
        {"tolerance": -1.0},
        {"objective": Entropy(smoothing=0.0)},
        {"constraints": {"cost": Constraint(LinearCost(np.zeros((5, 3))), Lagrangian(0.1))}},
    ],
    ids=str,
)
def test_settings_that_cannot_be(mdp, wrong):
    with pytest.raises(InvalidSetting):
        frank_wolfe(mdp, **wrong)


def test_a_cost_of_another_size(mdp):
    with pytest.raises(InvalidData):
        frank_wolfe(mdp, constraints={"cost": Constraint(LinearCost([[1.0]]), Quadratic(1.0))})


@pytest.mark.parametrize(
    "wrong",
    [
        {"iterations": "x"},
        {"iterations": None},
        {"tolerance": "x"},
        {"objective": "entropy"},
        {"constraints": [1]},
        {"constraints": {"cost": LinearCost(np.zeros((5, 3)))}},
        {"constraints": {"cost": Constraint(LinearCost(np.zeros((5, 3))), 1.0)}},
    ],
    ids=str,
)
def test_settings_of_another_kind(mdp, wrong):
    with pytest.raises(InvalidSetting):
        frank_wolfe(mdp, **wrong)


def test_an_environment_is_no_mdp():
    with pytest.raises(InvalidSetting, match=r"TabularMDP\.from_env"):
        frank_wolfe(gym.make("SafeFrozenLake-v0"))


LEFT, RIGHT = [[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]


def test_one_draw_for_each_episode_with_the_right_frequencies():
    """1000 episodes with probability 0.3 for right: within 5 standard deviations of 300."""
    rng, mixture = np.random.default_rng(0), MixturePolicy([LEFT, RIGHT], [0.7, 0.3])
    drawn = [mixture.draw(rng).tolist() for _ in range(1000)]
    assert drawn.count(LEFT) + drawn.count(RIGHT) == 1000
    assert abs(drawn.count(RIGHT) - 300) < 5 * np.sqrt(1000 * 0.3 * 0.7)


@pytest.mark.parametrize(
    ("policies", "weights", "error"),
    [
        ([], [], InvalidData),
        ([LEFT], [0.5, 0.5], InvalidData),
        ([LEFT, RIGHT], [0.5, 0.4], InvalidData),
        ([LEFT, RIGHT], [1.5, -0.5], InvalidData),
        ([[[0.5, 0.4]]], [1.0], InvalidData),
        ([[[np.nan, 1.0]]], [1.0], NonFiniteValue),
    ],
    ids=["none", "more weights", "weights below 1", "negative", "no distribution", "nan"],
)
def test_what_is_no_mixture(policies, weights, error):
    with pytest.raises(error):
        MixturePolicy(policies, weights)
