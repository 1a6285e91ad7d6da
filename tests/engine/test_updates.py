"""Momentum, importance weights and the proximal term: what they must reduce to, and what they are for."""

from dataclasses import replace

import numpy as np
import pytest

from constrained_maxent.engine import RunSettings, TabularEngine
from constrained_maxent.engine.multipliers import beta_of, penalties_of, slope
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals import LinearCost
from constrained_maxent.oracle import TabularMDP
from constrained_maxent.penalties import (
    AdaptiveLagrangian,
    AugmentedLagrangian,
    Exact,
    Lagrangian,
    Quadratic,
    QuadraticContinuation,
)
from constrained_maxent.problem import Constraint
from constrained_maxent.schedules import Geometric


def thetas(mdp, settings, iterations=30):
    return TabularEngine(mdp, [settings], snapshot_every=1).run(iterations).snapshots[0]


@pytest.mark.parametrize("optimizer", ["sgd", "normalized"])
@pytest.mark.parametrize("pairing", ["same", "split", "previous"])
def test_momentum_1_is_primal_dual(ending_mdp, constraints, optimizer, pairing):
    """A schedule from 1 to 1 takes the code of VR-PDPG, the number 1 does not; the steps are equal to the last bit."""
    penalty = Lagrangian(0.05, multiplier=0.3, largest=2.0)
    plain = RunSettings(
        constraints={"cost": Constraint(constraints["cost"].functional, penalty)},
        optimizer=optimizer,
        pairing=pairing,
        learning_rate=0.3,
    )
    reduced = replace(plain, momentum=Geometric(1.0, 1.0))
    assert reduced.uses_momentum
    assert not plain.uses_momentum
    np.testing.assert_array_equal(thetas(ending_mdp, reduced), thetas(ending_mdp, plain))
    assert (thetas(ending_mdp, replace(plain, momentum=0.5)) != thetas(ending_mdp, plain)).any()


def test_a_proximal_term_of_weight_0_is_pgp(ending_mdp, constraints):
    plain = RunSettings(constraints=constraints, learning_rate=0.3)
    np.testing.assert_array_equal(thetas(ending_mdp, replace(plain, proximal_weight=0.0)), thetas(ending_mdp, plain))
    assert (thetas(ending_mdp, replace(plain, proximal_weight=0.5)) != thetas(ending_mdp, plain)).any()


def test_a_stiff_proximal_term_holds_the_inner_iterates_at_the_center():
    """With η ρ̂ = 1 every inner iterate is the center plus ĝ / ρ̂, however many came before it.

    With one step and rewards of 0 and 1, no entry of ĝ exceeds 1: 10 free steps go further than η.
    """
    mdp = TabularMDP.from_arrays([[[1.0], [1.0]]], [1.0], discount=1.0, horizon=1)
    settings = RunSettings(
        objective=LinearCost([[0.0, 1.0]]), proximal_weight=100.0, inner_iterations=10, learning_rate=0.01
    )
    path = thetas(mdp, settings, 40)[:, 0]
    for outer in range(4):
        distance = np.abs(path[10 * outer + 1 : 10 * outer + 11] - path[10 * outer]).max()
        assert 0.0 < distance <= 0.01
    assert path[-1, 1] > path[0, 1]
    free = thetas(mdp, replace(settings, proximal_weight=None), 40)[:, 0]
    assert free[10, 1] > max(0.01, 3.0 * path[10, 1])


def test_momentum_reduces_the_variance_of_both_estimates():
    """At small steps λ̂ is nearer to the exact occupancy than a batch's own: by more than 2 of √(2/α) = 6, in the mean
    over 40 seeds. Steps are scattered less as well."""
    mdp = TabularMDP.random(5, 3, seed=2, discount=0.9, horizon=10)
    objective = LinearCost(np.random.default_rng(0).normal(size=(5, 3)))
    errors, scatter = [], []
    for momentum in (1.0, 0.05):
        runs = [
            RunSettings(seed=seed, objective=objective, momentum=momentum, learning_rate=0.02, importance_bound=10.0)
            for seed in range(40)
        ]
        engine = TabularEngine(mdp, runs, snapshot_every=1)
        result = engine.run(200)
        # λ̂ belongs to the policy that sampled the last batch.
        exact = np.array([mdp.occupancy(policies[-2]) for policies in result.snapshot_policies])
        found = engine.state_dict()["occupancy"].reshape(exact.shape)
        errors.append(np.sqrt(np.mean((found - exact) ** 2)))
        scatter.append(np.diff(result.snapshots[:, 150:], n=2, axis=1).std())
    assert errors[1] < errors[0] / 2.0
    assert scatter[1] < scatter[0] / 2.0


def test_importance_weights_are_finite_however_far_policies_are_apart(ending_mdp, constraints):
    """Steps of length 500 make policies certain, so that ratios of probabilities exceed what floats can hold."""
    settings = RunSettings(
        constraints=constraints, optimizer="normalized", learning_rate=500.0, momentum=0.2, importance_bound=5.0
    )
    result = TabularEngine(ending_mdp, [settings], record_every=1).run(50)
    assert result.diverged.tolist() == [-1]
    assert np.abs(np.diff(result.theta, axis=-1)).max() > 710.0, "no ratio overflows"
    assert np.isfinite(result.objective).all()


def test_a_gradient_of_0_takes_no_normalized_step():
    mdp = TabularMDP.from_arrays([[[1.0], [1.0]]], [1.0], discount=1.0, horizon=3)
    settings = RunSettings(objective=LinearCost(np.zeros((1, 2))), optimizer="normalized")
    assert TabularEngine(mdp, [settings]).run(5).theta.tolist() == [[[0.0, 0.0]]]


def test_going_on_equals_one_call(ending_mdp, constraints):
    runs = [
        RunSettings(constraints=constraints, momentum=0.3, learning_rate=0.2),
        RunSettings(constraints=constraints, proximal_weight=0.3, inner_iterations=7, optimizer="adam"),
        RunSettings(constraints=constraints, optimizer="natural"),
        RunSettings(constraints=constraints, momentum=0.6, proximal_weight=0.1, seed=5),
    ]
    first, second = TabularEngine(ending_mdp, runs), TabularEngine(ending_mdp, runs)
    first.run(20)
    second.load_state_dict(first.state_dict())
    np.testing.assert_array_equal(
        second.run(50, chunk_iterations=9).theta, TabularEngine(ending_mdp, runs).run(50).theta
    )


def test_going_on_with_penalties_that_change(ending_mdp, constraints):
    """Where β was in its schedule, and the largest violation, are part of what is kept."""
    functional = constraints["cost"].functional
    runs = [
        RunSettings(constraints={"cost": Constraint(functional, penalty)}, learning_rate=0.2)
        for penalty in (QuadraticContinuation(0.1, 9.0), AdaptiveLagrangian(2.0, 9.0))
    ]
    first, second, whole = (TabularEngine(ending_mdp, runs, planned_iterations=40) for _ in range(3))
    first.run(20)
    second.load_state_dict(first.state_dict())
    np.testing.assert_array_equal(second.run(50).theta, whole.run(50).theta)


def test_beta_and_a_schedule_of_it(constraints):
    constraint = Constraint(constraints["cost"].functional, QuadraticContinuation(0.1, 9.0))
    with pytest.raises(InvalidSetting, match="beta"):
        RunSettings(constraints={"cost": constraint}, beta=2.0)


@pytest.mark.parametrize(
    "penalty",
    [
        Quadratic(0.3),
        QuadraticContinuation(0.1, 10.0, progress=0.3),
        Exact(0.7),
        Lagrangian(0.1, multiplier=0.4, largest=2.0),
        AugmentedLagrangian(0.5, learning_rate=0.2, multiplier=0.6),
        AdaptiveLagrangian(0.7),
        AdaptiveLagrangian(0.7, 7.0, price=0.4, largest_violation=1.5, progress=0.4),
    ],
    ids=lambda penalty: type(penalty).__name__,
)
def test_compiled_slopes_are_those_of_the_penalties(penalty):
    compiled, multipliers, peaks = penalties_of([penalty])
    for violation in (-9.0, -0.3, 0.0, 1e-3, 0.5, 1.5, 1.6, 4.0, 100.0):
        found = slope(compiled, 0, beta_of(compiled, 0, 0.0), multipliers[0], peaks[0], violation)
        assert found == pytest.approx(penalty.slope(violation), rel=1e-12), violation


def test_a_penalty_of_the_user_s_is_refused():
    """Even one that derives from the package's: its formula may be another."""

    class Steeper(Quadratic):
        def slope(self, violation):
            return 10.0 * super().slope(violation)

    with pytest.raises(InvalidSetting, match="Steeper"):
        penalties_of([Steeper(1.0)])
