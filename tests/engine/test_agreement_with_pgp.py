"""The engine against ``PGP``, the single-run path: different random numbers, the same distribution."""

import gymnasium as gym
import numpy as np
import pytest
from scipy.stats import ks_2samp, ttest_ind

from constrained_maxent.agents import PGP
from constrained_maxent.engine import RunSettings, TabularEngine
from constrained_maxent.functionals import Entropy, LinearCost
from constrained_maxent.occupancy import Counts
from constrained_maxent.penalties import Quadratic, QuadraticContinuation
from constrained_maxent.problem import Constraint
from constrained_maxent.schedules import Geometric
from constrained_maxent.wrappers import constrain

SEEDS, ITERATIONS, ETA = 12, 40, 0.05


@pytest.mark.parametrize("pairing", ["same", "split", "previous"])
def test_the_same_distribution_of_last_policies(lake, pairing):
    """Entropy and cost of the last policy, exact: means and distributions agree, at a confidence of 99.9 % each."""
    single = []
    for seed in range(SEEDS):
        env = gym.make_vec("FrozenLake-PGP-v0", num_envs=8, preset="paper", pairing=pairing)
        single.append(PGP(env, learning_rate=ETA, seed=seed).learn(iterations=ITERATIONS).policy_table())
    constraints = {"cost": Constraint(lake.cost, Quadratic(0.005))}
    runs = [
        RunSettings(seed=seed, constraints=constraints, learning_rate=ETA, pairing=pairing)
        for seed in range(20 * SEEDS)
    ]
    many = TabularEngine(lake.mdp, runs, scale=lake.scale).run(ITERATIONS).policies
    untrained = lake.evaluate(np.full((1, 36, 4), 0.25))[0]
    few, many = lake.evaluate(single), lake.evaluate(many)
    assert np.abs(few.mean(axis=0) - untrained).min() > few.std(axis=0).max() / 3, "training moved nothing"
    for column in range(2):
        assert ttest_ind(few[:, column], many[:, column], equal_var=False).pvalue > 1e-3
        assert ks_2samp(few[:, column], many[:, column]).pvalue > 1e-3


@pytest.mark.parametrize("pairing", ["same", "split", "previous"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "natural"])
@pytest.mark.parametrize("proximal_weight", [None, 0.7])
def test_the_same_actions_make_the_same_steps(numpy_twin, lake, optimizer, pairing, proximal_weight):
    """The grid is deterministic: where PGP takes the actions that the engine drew, θ is the same after every batch."""
    options = {"optimizer": optimizer, "baseline": "batch-mean", "damping": 0.002, "projection_radius": 2.0}
    options |= {"proximal_weight": proximal_weight, "inner_iterations": 2}
    penalty = QuadraticContinuation(0.005, 0.1)
    memory = Geometric(0.5, 0.9)
    settings = RunSettings(
        seed=3,
        objective=Entropy(smoothing=1e-5),
        constraints={"cost": Constraint(lake.cost, Quadratic(1.0))},
        beta=Geometric(0.005, 0.1),
        memory=memory,
        episodes_per_batch=4,
        pairing=pairing,
        learning_rate=Geometric(0.05, 0.01),
        **options,
    )
    thetas = TabularEngine(lake.mdp, [settings], scale=lake.scale, snapshot_every=1).run(6).snapshots[0]
    twin = numpy_twin.NumpyTwin(lake.mdp, settings, 6, lake.scale)

    env = constrain(
        gym.make_vec("SafeFrozenLake-v0", num_envs=4),
        Entropy(smoothing=1e-5),
        constraints={"cost": Constraint(LinearCost("cost", limit=0.0), penalty)},
        estimator=Counts(memory=memory),
        episodes_per_batch=4,
        discount=0.99,
        scale=lake.scale,
        pairing=pairing,
    )
    agent = PGP(env, learning_rate=0.05, final_learning_rate=0.01, **options)
    for k in range(6):
        twin.theta = thetas[k]
        steps = iter(twin.sample(k))
        agent.policy.sample = lambda rows, rng, steps=steps: np.maximum(next(steps), 0) % 4
        agent.learn(iterations=1, planned=6)
        np.testing.assert_allclose(agent.policy.theta.detach(), thetas[k + 1], rtol=0.0, atol=1e-11)
    assert np.abs(thetas[-1]).max() > 0.02, "nothing was learnt that could differ"


def test_the_whole_training_at_the_paper_s_settings(lake):
    """Mean and standard deviation of PGP itself, 10 seeds, from ``benchmarks/grid_seeds.py``: 34.416 ± 0.028 nats at a
    cost of 0.835 ± 0.042. Means of ten agree within 4 standard errors of their difference."""
    constraints = {"cost": Constraint(lake.cost, Quadratic(0.005))}
    runs = [RunSettings(seed=seed, constraints=constraints) for seed in range(10)]
    points = lake.evaluate(TabularEngine(lake.mdp, runs, scale=lake.scale).run(15_000).policies)
    deviations = np.array([0.028, 0.042])
    errors = np.sqrt((points.var(axis=0, ddof=1) + deviations**2) / 10)
    assert (np.abs(points.mean(axis=0) - [34.416, 0.835]) < 4.0 * errors).all()
    assert (points.std(axis=0, ddof=1) < 2.5 * deviations).all()


def test_the_whole_training_without_constraint(lake):
    """At least 38 nats, of 38.84 that the best stationary policy has."""
    runs = [RunSettings(seed=seed) for seed in range(10)]
    points = lake.evaluate(TabularEngine(lake.mdp, runs, scale=lake.scale).run(15_000).policies)
    assert points[:, 0].min() > 38.0
    assert points[:, 0].max() < 38.8427
