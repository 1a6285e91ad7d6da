"""The worlds, against values known from the convex program and from counting steps."""

import numpy as np
import pytest

from constrained_maxent.penalties import AugmentedLagrangian, Lagrangian, Quadratic, QuadraticContinuation
from constrained_maxent.reproduction.grid.sweep import STUDIES
from constrained_maxent.reproduction.grid.worlds import place_of, reference_policy
from constrained_maxent.schedules import Geometric

UNIFORM = np.full((36, 4), 0.25)


def test_reference_takes_ten_different_steps():
    place = place_of("open")
    entropy, distance = place.measure(reference_policy())
    # Ten cells of mass 0.99^t: -sum of 0.99^t ln 0.99^t.
    masses = 0.99 ** np.arange(10)
    assert entropy == pytest.approx(-np.sum(masses * np.log(masses)))
    assert distance == pytest.approx(0.0)


def test_relaxed_cost_is_smaller_in_holes_only():
    _, cost = place_of("holes").measure(UNIFORM)
    _, relaxed = place_of("relaxed").measure(UNIFORM)
    mass = place_of("holes").mdp.occupancy(UNIFORM, scale="truncated").sum()
    # cost = 50 h - 0.001 (mass - h) with h the mass in holes.
    in_holes = (cost + 0.001 * mass) / 50.001
    assert relaxed == pytest.approx(2.001 * in_holes - 0.001 * mass)


def test_settings_become_penalties():
    place, study = place_of("holes"), STUDIES["fig1"]
    penalties = [place.run_settings(study, s, 0).constraints["cost"].penalty for s in study.settings]
    assert penalties == [Quadratic(0.005), Quadratic(0.0), Lagrangian(0.001, largest=10.0)]


def test_limits_reach_the_constraint():
    place, study = place_of("open"), STUDIES["norm"]
    limits = [place.run_settings(study, s, 3).constraints["distance"].functional.limit for s in study.settings]
    assert limits == [0.0, 0.2, 0.5, 1.0]


@pytest.mark.parametrize("world", ["holes", "relaxed", "open"])
def test_many_policies_at_once(world):
    """Against the oracle's occupancy of each."""
    place = place_of(world)
    policies = np.random.default_rng(0).dirichlet(np.ones(4), size=(5, 36))
    np.testing.assert_allclose(place.measure_all(policies), [place.measure(policy) for policy in policies], rtol=1e-12)


def test_methods_become_settings_of_the_engine():
    place, study = place_of("holes"), STUDIES["methods"]
    runs = {setting.method: place.run_settings(study, setting, 0) for setting in study.settings}
    reduced, short = runs["vr-pdpg"], runs["natural-short"]
    assert (reduced.optimizer, reduced.momentum, reduced.pairing) == ("normalized", 0.1, "previous")
    assert reduced.constraints["cost"].penalty == Lagrangian(0.001, largest=10.0)
    assert runs["augmented-lagrangian"].constraints["cost"].penalty == AugmentedLagrangian(0.001, learning_rate=0.0001)
    assert (runs["proximal-point"].proximal_weight, runs["proximal-point"].inner_iterations) == (1.0, 100)
    assert short.optimizer == "natural"
    assert short.learning_rate.iterations == 600
    assert short.beta.end == 3.0


def test_the_defaults_are_those_of_the_environment():
    """Written down from the documentation of the preset."""
    (setting,) = STUDIES["defaults"].settings
    run = place_of("holes").run_settings(STUDIES["defaults"], setting, 0)
    assert run.constraints["cost"].penalty == QuadraticContinuation(0.005, 40.0, 10_000)
    assert (run.episodes_per_batch, run.optimizer, run.damping, run.baseline) == (16, "natural", 0.001, "batch-mean")
    assert (run.learning_rate, run.memory) == (Geometric(0.005, 0.0003, 10_000), Geometric(0.7, 0.97, 10_000))
    assert run.objective.smoothing == 1e-5
    # What the table of the study says.
    assert (setting.learning_rate, setting.beta, setting.episodes_per_batch) == (0.005, 40.0, 16)
