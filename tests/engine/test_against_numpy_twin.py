"""The compiled code against its NumPy twin, which uses the package's own functionals and penalties."""

import numpy as np
import pytest

from constrained_maxent.engine import RunSettings, TabularEngine
from constrained_maxent.functionals import Entropy, KLDivergence, L2Distance, LinearCost
from constrained_maxent.penalties import (
    AdaptiveLagrangian,
    AugmentedLagrangian,
    Quadratic,
    QuadraticContinuation,
)
from constrained_maxent.problem import Constraint
from constrained_maxent.schedules import Geometric

REFERENCE = np.random.default_rng(3).dirichlet(np.ones(15)).reshape(5, 3)
STEEP = LinearCost(100.0 * np.random.default_rng(0).normal(size=(5, 3)))


@pytest.mark.parametrize("pairing", ["same", "split", "previous"])
@pytest.mark.parametrize("optimizer", ["sgd", "normalized", "natural", "adam"])
@pytest.mark.parametrize("baseline", ["none", "batch-mean"])
@pytest.mark.parametrize("memory", [0.0, 0.9, Geometric(0.5, 0.99)], ids=["forgets", "remembers", "learns to"])
def test_every_variant_of_the_iteration(require_equal, ending_mdp, constraints, pairing, optimizer, baseline, memory):
    settings = RunSettings(
        seed=4,
        constraints=constraints,
        episodes_per_batch=5,
        pairing=pairing,
        optimizer=optimizer,
        baseline=baseline,
        memory=memory,
        learning_rate=Geometric(0.5, 0.05),
        projection_radius=1.0,
    )
    require_equal(ending_mdp, settings)


@pytest.mark.parametrize(
    "objective",
    [
        None,
        Entropy(smoothing=0.01),
        Entropy(over="state"),
        LinearCost(REFERENCE),
        KLDivergence(REFERENCE, smoothing=0.1),
        L2Distance(REFERENCE),
    ],
    ids=["none", "entropy", "state entropy", "linear", "divergence", "distance"],
)
def test_every_objective(require_equal, ending_mdp, constraints, objective):
    settings = RunSettings(objective=objective, constraints={"cost": constraints["cost"]}, learning_rate=0.5)
    require_equal(ending_mdp, settings)


def test_beta_on_the_way_up(require_equal, ending_mdp):
    penalties = {"a": Quadratic(1.0), "b": AugmentedLagrangian(1.0), "c": AugmentedLagrangian(1.0, learning_rate=0.2)}
    constraints = {
        name: Constraint(LinearCost(np.roll(REFERENCE, i), limit=0.01), penalty)
        for i, (name, penalty) in enumerate(penalties.items())
    }
    settings = RunSettings(constraints=constraints, beta=Geometric(0.5, 20.0), learning_rate=0.3)
    require_equal(ending_mdp, settings, scale="truncated")


@pytest.mark.parametrize("pairing", ["same", "previous"])
def test_penalties_that_change_by_themselves(require_equal, ending_mdp, pairing):
    """Two limits are violated, one so little that its largest violation comes late, and one never is."""
    penalties = {
        "grows": (0.01, QuadraticContinuation(0.5, 20.0)),
        "has grown a while": (0.01, QuadraticContinuation(0.5, 20.0, progress=0.6)),
        "adapts": (0.03, AdaptiveLagrangian(0.5)),
        "has adapted": (0.03, AdaptiveLagrangian(0.2, 3.0, price=1.5, largest_violation=0.05, progress=0.1)),
        "is kept": (9.0, AdaptiveLagrangian(price=0.7, largest_violation=0.5)),
        "has no unit": (0.03, AdaptiveLagrangian(0.5, largest_violation=0.0)),
    }
    constraints = {
        name.replace(" ", "_"): Constraint(LinearCost(np.roll(REFERENCE, i), limit=limit), penalty)
        for i, (name, (limit, penalty)) in enumerate(penalties.items())
    }
    settings = RunSettings(constraints=constraints, learning_rate=0.3, pairing=pairing)
    require_equal(ending_mdp, settings, iterations=25, planned=20)
    multiplier = TabularEngine(ending_mdp, [settings]).run(25).multipliers
    assert 0.0 <= multiplier["is_kept"][0] < 0.7 / 0.5  # it was never violated here
    assert multiplier["has_adapted"][0] != 1.5 / 0.05


@pytest.mark.parametrize("pairing", ["same", "split", "previous"])
def test_a_penalty_whose_unit_is_a_spread(require_equal, ending_mdp, pairing):
    """Of a cost, of one that is the same everywhere and has none, of a divergence, and of a distance in states."""
    functionals = {
        "cost": LinearCost(REFERENCE, limit=0.03),
        "constant": LinearCost(np.full_like(REFERENCE, 2.0), limit=0.3),
        "divergence": KLDivergence(REFERENCE / REFERENCE.sum(), limit=0.2),
        "distance": L2Distance(REFERENCE / REFERENCE.sum(), limit=0.1),
    }
    constraints = {name: Constraint(functional) for name, functional in functionals.items()}
    settings = RunSettings(constraints=constraints, learning_rate=0.1, pairing=pairing, episodes_per_batch=4)
    require_equal(ending_mdp, settings, iterations=25, planned=20)
    multipliers = TabularEngine(ending_mdp, [settings]).run(25).multipliers
    assert all(multipliers[name][0] > 0.0 for name in ("cost", "constant", "distance"))


@pytest.mark.parametrize("optimizer", ["sgd", "natural"])
@pytest.mark.parametrize("pairing", ["same", "previous"])
def test_steps_that_overflow(numpy_twin, ending_mdp, optimizer, pairing):
    """Both stop in the same batch, at the same θ."""
    settings = RunSettings(objective=STEEP, learning_rate=1e308, optimizer=optimizer, pairing=pairing, seed=1)
    result = TabularEngine(ending_mdp, [settings]).run(60)
    twin = numpy_twin.NumpyTwin(ending_mdp, settings, 60).run(60)
    assert result.diverged.tolist() == [twin.diverged] != [-1]
    np.testing.assert_allclose(result.theta[0], twin.theta, rtol=1e-6)


def test_the_grid_of_the_paper(require_equal, lake):
    constraint = Constraint(lake.cost, Quadratic(0.005))
    require_equal(lake.mdp, RunSettings(constraints={"cost": constraint}), scale="truncated")


@pytest.mark.parametrize("pairing", ["same", "split", "previous"])
@pytest.mark.parametrize("optimizer", ["sgd", "normalized"])
@pytest.mark.parametrize("baseline", ["none", "batch-mean"])
@pytest.mark.parametrize("momentum", [0.3, Geometric(1.0, 0.1)], ids=str)
def test_variance_reduction(require_equal, ending_mdp, constraints, pairing, optimizer, baseline, momentum):
    settings = RunSettings(
        seed=4,
        constraints=constraints,
        episodes_per_batch=5,
        pairing=pairing,
        optimizer=optimizer,
        baseline=baseline,
        momentum=momentum,
        importance_bound=1.2,
        learning_rate=0.3,
    )
    require_equal(ending_mdp, settings)


@pytest.mark.parametrize("optimizer", ["sgd", "normalized", "natural", "adam"])
@pytest.mark.parametrize("momentum", [1.0, 0.3])
def test_proximal_point(require_equal, ending_mdp, constraints, optimizer, momentum):
    settings = RunSettings(
        seed=4,
        constraints=constraints,
        optimizer=optimizer,
        momentum=momentum,
        proximal_weight=0.7,
        damping=0.3,  # in units of the proximal term's curvature, which the natural gradient does not know
        inner_iterations=4,
        learning_rate=0.3,
    )
    require_equal(ending_mdp, settings)
