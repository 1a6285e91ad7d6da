"""The engine against ``PGP``, the single-run path: different random numbers, the same distribution."""

import gymnasium as gym
import numpy as np
import pytest
from scipy.stats import ks_2samp, ttest_ind

from constrained_maxent.agents import PGP
from constrained_maxent.agents.tabular import RunSettings, TabularEngine
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint

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
