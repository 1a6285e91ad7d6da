"""Frank–Wolfe against the global optimum, and its planner against enumeration."""

from dataclasses import replace
from itertools import product

import gymnasium as gym
import numpy as np
import pytest

from constrained_maxent.agents import frank_wolfe
from constrained_maxent.errors import InvalidData, InvalidSetting
from constrained_maxent.functionals import Entropy, LinearCost
from constrained_maxent.oracle import TabularMDP, solve
from constrained_maxent.oracle.frank_wolfe import plan
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
    assert result.transitions == 0


def test_the_gap_bounds_what_is_missing(mdp):
    best = solve(mdp).value
    for iterations in (1, 3, 10, 30):
        result = frank_wolfe(mdp, iterations=iterations, steps="open-loop")
        # The gap of the next iterate, from one iteration more.
        gap = frank_wolfe(mdp, iterations=iterations + 1, steps="open-loop").gaps[-1]
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


def test_sampled_densities():
    """2000 episodes for each policy: near the optimum, from counts alone, and the same for the same seed. Episodes end
    early here, in state 3."""
    rng = np.random.default_rng(1)
    mdp = TabularMDP.from_arrays(
        rng.dirichlet(np.ones(4), size=(4, 2)), [0.5, 0.5, 0.0, 0.0], discount=0.9, horizon=8, terminal=[3]
    )
    results = [frank_wolfe(mdp, iterations=60, episodes=2000, seed=seed) for seed in (0, 0, 1)]
    best = solve(mdp).value
    assert all(best - 0.02 < result.objective <= best + 1e-4 for result in results)
    assert results[0].objective == results[1].objective != results[2].objective
    # Steps: each policy's expected length, 2000 times; within 2 % in the mean over 61 policies.
    lengths = replace(mdp, discount=1.0)
    uniform = lengths.occupancy(np.full((4, 2), 0.5), scale="truncated").sum()
    one = frank_wolfe(mdp, iterations=1, episodes=20_000, tolerance=1e6)
    assert one.transitions > 0
    assert 0.9 * uniform < one.transitions / 20_000 - _expected_length(lengths, mdp, one) < 1.1 * uniform


def _expected_length(lengths, mdp, result):
    """Of the planner's policy for the uniform policy's slope, whose density the first iteration samples as well."""
    assert len(result.mixture) == 1
    slope = Entropy().gradient(mdp.occupancy(np.full((4, 2), 0.5))).reshape(4, 2)
    return lengths.occupancy(plan(mdp, slope), scale="truncated").sum()


@pytest.mark.parametrize(
    "wrong",
    [
        {"iterations": 0},
        {"iterations": 1.5},
        {"tolerance": -1.0},
        {"steps": "newton"},
        {"episodes": 0},
        {"episodes": 10},  # no horizon
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


@pytest.mark.parametrize(("steps", "episodes"), [("line-search", 5), ("line-search", 50), ("open-loop", 5)])
def test_noise_ends_no_sampled_run(steps, episodes):
    """The estimate of the gap is below 0 in some iterations, long before the last; what is found is no worse for it."""
    mdp = TabularMDP.random(5, 3, seed=1, discount=0.9, branching=3, horizon=10)
    result = frank_wolfe(mdp, iterations=80, episodes=episodes, steps=steps)
    assert len(result.gaps) == 80
    assert result.gaps[:40].min() < 0.0
    assert result.transitions == 81 * episodes * 10  # no episode ends early here
    # Of 80 policies as good as the planner's, what noise leaves: the best value, within a share that episodes set.
    assert result.objective > solve(mdp).value - {5: 0.1, 50: 0.05}[episodes]


def test_a_sampled_run_stops_at_a_tolerance_that_was_asked_for():
    mdp = TabularMDP.random(5, 3, seed=1, discount=0.9, branching=3, horizon=10)
    result = frank_wolfe(mdp, iterations=80, episodes=50, tolerance=0.05)
    assert len(result.gaps) < 80
    assert result.gaps[-1] <= 0.05 < result.gaps[:-1].min()


@pytest.mark.parametrize(
    "wrong",
    [
        {"iterations": "x"},
        {"iterations": None},
        {"tolerance": "x"},
        {"episodes": "x"},
        {"seed": "x"},
        {"seed": None},
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
