"""The sampled gradient against the exact one of the oracle, on average; and the limit of training."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import t as student

from constrained_maxent.engine import RunSettings, TabularEngine
from constrained_maxent.envs import SafeFrozenLake
from constrained_maxent.functionals import Entropy, KLDivergence, L2Distance, LinearCost
from constrained_maxent.oracle import SoftmaxProblem, TabularMDP, best_stationary, solve
from constrained_maxent.penalties import Lagrangian, Quadratic, QuadraticContinuation
from constrained_maxent.problem import Constraint
from constrained_maxent.schedules import Geometric

N_RUNS = 100


def sampled_gradients(mdp, theta, settings):
    """The first step's direction at θ, for seeds 0, 1, ...: ``(N_RUNS, n_states, n_actions)``."""
    runs = [replace(settings, seed=seed, learning_rate=1.0) for seed in range(N_RUNS)]
    engine = TabularEngine(mdp, runs)
    state = engine.state_dict()
    state["theta"][:] = theta
    engine.load_state_dict(state)
    return engine.run(1).theta - theta


def largest_z(samples, expected):
    """The largest deviation of a mean, in standard errors; entries without spread must be exact."""
    mean, error = samples.mean(axis=0), samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    np.testing.assert_allclose(mean[error < 1e-12], expected[error < 1e-12], atol=1e-9)
    return np.abs((mean - expected)[error >= 1e-12] / error[error >= 1e-12]).max()


def bound(n_entries, confidence, n_runs=N_RUNS):
    """What the largest of so many Student variables does not exceed, with this confidence (Bonferroni)."""
    return student.ppf(1.0 - (1.0 - confidence) / (2.0 * n_entries), n_runs - 1)


def test_slippery_grid():
    """99.9 % confidence. λ̂ comes from 2,000 episodes: its bias is far below the standard errors."""
    env = gym.make("SafeFrozenLake-v0", slippery=True)
    mdp = TabularMDP.from_env(env, discount=0.99)
    cost = LinearCost(SafeFrozenLake(slippery=True).cost_tables["cost"], limit=1.0)
    theta = np.random.default_rng(0).normal(size=(36, 4))
    settings = RunSettings(
        constraints={"cost": Constraint(cost, Quadratic(0.1))},
        episodes_per_batch=4000,
        pairing="split",
        baseline="batch-mean",  # less noise, and a bias of 1/2000
    )
    samples = sampled_gradients(mdp, theta, settings)
    exact = SoftmaxProblem(mdp, constraints={"cost": cost}, penalty=Quadratic(0.1)).evaluate(theta)
    assert exact.constraints["cost"] > 0.0
    assert largest_z(samples, 0.9 * -exact.gradient) > bound(144, 0.999), "10 % more or less would pass as well"
    assert largest_z(samples, -exact.gradient) < bound(144, 0.999)


def test_random_mdps():
    """99.9 % confidence over 50 MDPs together, with entropy, cost, divergence and distance all in force."""
    rng = np.random.default_rng(5)
    worst, n_entries = 0.0, 0
    for seed in range(50):
        n_states, n_actions = int(rng.integers(2, 9)), int(rng.integers(2, 5))
        mdp = TabularMDP.random(n_states, n_actions, seed=seed, discount=0.9, horizon=10, branching=min(3, n_states))
        reference = mdp.occupancy(rng.dirichlet(np.ones(n_actions), size=n_states))
        constraints = {
            "cost": Constraint(LinearCost(rng.normal(size=(n_states, n_actions)), limit=-1.0), Quadratic(0.5)),
            "kl": Constraint(KLDivergence(reference), Lagrangian(0.0, multiplier=0.5)),
            "l2": Constraint(L2Distance(reference), Lagrangian(0.0, multiplier=0.5)),
        }
        theta = rng.normal(size=(n_states, n_actions))
        settings = RunSettings(constraints=constraints, episodes_per_batch=1000, pairing="split")
        samples = sampled_gradients(mdp, theta, settings)
        exact = SoftmaxProblem(
            mdp,
            constraints={name: constraint.functional for name, constraint in constraints.items()},
            penalty={name: constraint.penalty for name, constraint in constraints.items()},
        ).evaluate(theta)
        worst, n_entries = max(worst, largest_z(samples, -exact.gradient)), n_entries + theta.size
    assert worst < bound(n_entries, 0.999)


def test_large_grid():
    """50×50, slippery, 99.9 % confidence: the states that each sample visits often, and all states together along 200
    random directions. Rare states alone have no normal means: few samples come there."""
    rng = np.random.default_rng(7)
    desc = np.where(rng.random((50, 50)) < 0.1, "H", "F")
    desc[0, 0], desc[-1, -1] = "S", "G"
    env = SafeFrozenLake(desc=["".join(row) for row in desc], slippery=True, horizon=100)
    mdp = TabularMDP.from_env(env, discount=0.99)
    cost, objective = LinearCost(env.cost_tables["cost"], limit=1.0), Entropy(smoothing=1e-3)
    theta = 0.3 * rng.normal(size=(2500, 4))
    settings = RunSettings(
        objective=objective,
        constraints={"cost": Constraint(cost, Quadratic(0.05))},
        episodes_per_batch=2000,
        pairing="split",
        baseline="batch-mean",
    )
    samples = sampled_gradients(mdp, theta, settings)
    # By the policy gradient theorem, entropy smoothed as sampled: so the error of λ̂ in rare cells biases nothing.
    policy = softmax(theta, axis=1)
    occupancy = mdp.occupancy(policy)
    violation = cost(occupancy) - cost.limit
    assert violation > 0.0
    slope = -np.log(occupancy + 1e-3) - occupancy / (occupancy + 1e-3)
    by_policy = mdp.policy_gradient(policy, slope - 2.0 * 0.05 * violation * cost.table)
    exact = policy * (by_policy - (policy * by_policy).sum(axis=1, keepdims=True))
    often = 1000 * mdp.occupancy(policy, scale="truncated").sum(axis=1) > 100.0
    assert often.sum() > 50
    directions = rng.normal(size=(200, 10_000))
    for sampled, expected in (
        (samples[:, often], exact[often]),
        (samples.reshape(N_RUNS, -1) @ directions.T, directions @ exact.ravel()),
    ):
        assert largest_z(sampled, expected) < bound(expected.size, 0.999)
        assert largest_z(sampled, 0.8 * expected) > bound(expected.size, 0.999), "20 % less would pass as well"


def test_natural_gradient():
    """99.9 % confidence, against (F + δ)⁻¹ of the exact gradient with the exact Fisher matrix of all entries."""
    mdp = TabularMDP.random(4, 3, seed=3, discount=0.9, horizon=8)
    rng = np.random.default_rng(4)
    theta, cost = rng.normal(size=(4, 3)), LinearCost(rng.normal(size=(4, 3)), limit=-1.0)
    settings = RunSettings(
        constraints={"cost": Constraint(cost, Quadratic(0.5))},
        episodes_per_batch=4000,
        pairing="split",
        optimizer="natural",
        damping=0.02,
    )
    samples = sampled_gradients(mdp, theta, settings)
    exact = SoftmaxProblem(mdp, constraints={"cost": cost}, penalty=Quadratic(0.5)).evaluate(theta)
    # F = E[score scoreᵀ] over the visits that λ counts, entry by entry from its definition.
    fisher = np.zeros((12, 12))
    occupancy = mdp.occupancy(exact.policy)
    for s, a in np.ndindex(4, 3):
        score = np.zeros((4, 3))
        score[s] = np.eye(3)[a] - exact.policy[s]
        fisher += occupancy[s, a] * np.outer(score, score)
    # λ has mass 1 at this scale, so that δ is the damping itself.
    expected = np.linalg.solve(fisher + 0.02 * np.eye(12), -exact.gradient.ravel()).reshape(4, 3)
    assert largest_z(samples, 0.9 * expected) > bound(12, 0.999), "10 % less would pass as well"
    assert largest_z(samples, expected) < bound(12, 0.999)


def test_baseline_only_shrinks_the_expected_gradient():
    """By 1 - 1/B where no episode ends early, as the step's own return is in the mean. 99.9 % confidence.

    A linear objective has a pseudo-reward without error, so that nothing is biased even with small batches.
    """
    mdp = TabularMDP.random(4, 3, seed=1, discount=0.9, horizon=6)
    theta = np.random.default_rng(1).normal(size=(4, 3))
    objective = LinearCost(np.random.default_rng(2).normal(size=(4, 3)))
    exact = SoftmaxProblem(mdp, objective).evaluate(theta)
    settings = RunSettings(objective=objective, episodes_per_batch=2)
    runs = [replace(settings, seed=s, learning_rate=1.0, baseline="batch-mean") for s in range(4000)]
    engine = TabularEngine(mdp, runs)
    state = engine.state_dict()
    state["theta"][:] = theta
    engine.load_state_dict(state)
    samples = engine.run(1).theta - theta
    assert largest_z(samples, -0.5 * exact.gradient) < bound(12, 0.999, 4000)


@pytest.mark.parametrize("seed", range(3))
def test_training_ends_at_the_global_optimum(seed):
    """At (nearly) infinite horizon stationary policies are enough: the oracle's value is what training must reach."""
    n = 6000
    long = TabularMDP.random(5, 3, seed=seed, discount=0.8, horizon=60, branching=3)  # 0.8^60 = 2e-6
    infinite = replace(long, horizon=None)
    uniform = infinite.occupancy(np.full((5, 3), 1.0 / 3.0))
    table = np.random.default_rng(seed).normal(size=(5, 3))
    cost = LinearCost(table, limit=float((table * uniform).sum()) - 0.05)
    settings = RunSettings(
        constraints={"cost": Constraint(cost, Quadratic(1.0))},
        episodes_per_batch=16,
        optimizer="adam",
        baseline="batch-mean",
        memory=Geometric(0.9, 0.99),
        learning_rate=Geometric(0.05, 0.001),
        beta=Geometric(1.0, 20.0),
    )
    policy = TabularEngine(long, [settings]).run(n).policies[0]
    occupancy = infinite.occupancy(policy)
    best = solve(infinite, constraints={"cost": cost})
    assert best.multipliers["cost"] > 0.01, "the constraint does not bind"
    assert Entropy(smoothing=0.0)(occupancy) == pytest.approx(best.value, abs=0.005)
    assert cost(occupancy) - cost.limit < 0.03  # of costs of standard deviation 1


def test_training_ends_at_the_best_stationary_policy_of_the_slippery_grid():
    """Within 25 steps policies that know the time are better: what training must reach is the best without."""
    n, limit, beta = 10_000, 50.0, 0.02
    grid = SafeFrozenLake(slippery=True)
    mdp = TabularMDP.from_env(grid, discount=0.99)
    cost = LinearCost(grid.cost_tables["cost"], limit=limit)
    settings = RunSettings(
        constraints={"cost": Constraint(cost, QuadraticContinuation(1e-4, beta))},
        episodes_per_batch=64,
        optimizer="natural",
        damping=0.001,
        baseline="batch-mean",
        memory=Geometric(0.7, 0.97),
        learning_rate=Geometric(0.005, 0.0003),
    )
    policy = TabularEngine(mdp, [settings], scale="truncated").run(n).policies[0]
    occupancy = mdp.occupancy(policy, scale="truncated")
    (best,) = best_stationary(mdp, Entropy(smoothing=0.0), {"cost": cost}, scale="truncated", starts=1)
    assert cost(mdp.occupancy(best.policy, scale="truncated")) == pytest.approx(limit, abs=1e-3), "it binds"
    # β leaves a violation of μ / 2β; the entropy per unit of cost near the limit is below 0.1.
    assert cost(occupancy) - limit < 0.1 / (2.0 * beta)
    assert Entropy(smoothing=0.0)(occupancy) == pytest.approx(best.value, rel=0.01)
