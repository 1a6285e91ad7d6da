"""Settings of the studies become settings of the engine; right values from the documentation of each."""

import pytest

from constrained_maxent.functionals import LinearCost
from constrained_maxent.penalties import AugmentedLagrangian, Lagrangian, Quadratic, QuadraticContinuation
from constrained_maxent.reproduction.grid.methods import run_settings
from constrained_maxent.reproduction.grid.studies import DEFAULTS, STUDIES
from constrained_maxent.schedules import Geometric


@pytest.fixture
def run():
    """The engine's settings by method."""
    cost = LinearCost([[1.0]], limit=0.2)
    return lambda setting: run_settings(setting, "cost", cost, seed=3)


def test_the_constraint_and_the_seed(run):
    settings = run(STUDIES["fig1"].settings[0])
    assert settings.constraints["cost"].functional.limit == 0.2
    assert settings.seed == 3


def test_penalties(run):
    penalties = {
        setting.method: run(setting).constraints["cost"].penalty for setting in STUDIES["methods"].settings[:5]
    }
    assert penalties == {
        "pgp": Quadratic(0.005),
        "unconstrained": Quadratic(0.0),
        "primal-dual": Lagrangian(0.001, largest=10.0),
        "vr-pdpg": Lagrangian(0.001, largest=10.0),
        "augmented-lagrangian": AugmentedLagrangian(0.001, learning_rate=0.0001),
    }


def test_steps(run):
    runs = {setting.method: run(setting) for setting in STUDIES["methods"].settings}
    reduced, proximal, natural = runs["vr-pdpg"], runs["proximal-point"], runs["natural-schedules"]
    assert (reduced.optimizer, reduced.momentum, reduced.pairing) == ("normalized", 0.1, "previous")
    assert (proximal.proximal_weight, proximal.inner_iterations) == (1.0, 100)
    assert (natural.optimizer, natural.beta) == ("natural", Geometric(0.005, 20.0))
    assert runs["adam-schedules"].learning_rate == Geometric(0.05, 0.001)


def test_the_short_schedules(run):
    (setting,) = STUDIES["methods-short"].settings
    assert (run(setting).learning_rate, run(setting).beta) == (Geometric(0.005, 0.003), Geometric(0.005, 3.0))


def test_the_defaults_are_those_of_the_environment(run):
    """Written down from the documentation of the preset."""
    settings = run(DEFAULTS)
    assert settings.constraints["cost"].penalty == QuadraticContinuation(0.005, 40.0)
    assert (settings.episodes_per_batch, settings.optimizer, settings.damping) == (16, "natural", 0.001)
    assert settings.baseline == "batch-mean"
    assert (settings.learning_rate, settings.memory) == (Geometric(0.005, 0.0003), Geometric(0.7, 0.97))
    assert settings.objective.smoothing == 1e-5
    # What the table of the study says.
    assert (DEFAULTS.learning_rate, DEFAULTS.beta) == (0.005, 40.0)
