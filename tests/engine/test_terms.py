"""Functionals as sums of terms: functions of the user's in compiled code, weights, and what is refused."""

import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np
import pytest

from constrained_maxent.engine import RunSettings, TabularEngine
from constrained_maxent.engine.terms import terms_of
from constrained_maxent.errors import CheckpointMismatch, InvalidData, InvalidSetting, UnsupportedFunctional
from constrained_maxent.functionals import Entropy, Functional, KLDivergence, L2Distance, LinearCost
from constrained_maxent.functionals.terms import EngineTerm
from constrained_maxent.penalties import Lagrangian, Quadratic
from constrained_maxent.problem import Constraint

TABLE = np.random.default_rng(3).dirichlet(np.ones(15)).reshape(5, 3)
OTHER = np.random.default_rng(4).dirichlet(np.ones(15)).reshape(5, 3)


@dataclass(frozen=True, eq=False)
class Elementwise(Functional):
    """Σ f(m, e) over cells or states, with f and its slope as functions of numbers."""

    f: Callable[[float, float], float]
    df: Callable[[float, float], float]
    table: Any = None
    over_states: bool = False

    def value(self, measure):
        masses = measure.weights.sum(axis=1) if self.over_states else measure.weights
        return float(np.vectorize(self.f)(masses, self._entries(masses)).sum())

    def derivative(self, measure, points):
        if self.over_states:
            masses = measure.weights.sum(axis=1)
            return np.repeat(np.vectorize(self.df)(masses, 0.0)[:, None], points.density.shape[1], axis=1)
        return np.vectorize(self.df)(points.density, self._entries(points.density))

    def _entries(self, masses):
        return np.zeros(masses.shape) if self.table is None else self.table

    def engine_terms(self, n_states, n_actions):
        return [
            EngineTerm(kind="elementwise", value=self.f, slope=self.df, table=self.table, over_states=self.over_states)
        ]


@dataclass(frozen=True, eq=False)
class Terms(Functional):
    """Whatever terms it is given."""

    terms: Any = ()

    def value(self, measure):
        raise NotImplementedError

    def derivative(self, measure, points):
        raise NotImplementedError

    def engine_terms(self, n_states, n_actions):
        return self.terms


def entropy_of(sigma):
    return (
        lambda mass, entry: -mass * math.log(mass + sigma),
        lambda mass, entry: -math.log(mass + sigma) - mass / (mass + sigma),
    )


def square(mass, entry):
    return (mass - entry) ** 2


def twice(mass, entry):
    return 2.0 * (mass - entry)


SQUARE, TWICE = numba.njit(square), numba.njit(twice)


@pytest.mark.parametrize("over", ["state-action", "state"])
@pytest.mark.parametrize("pairing", ["same", "split", "previous"])
def test_the_entropy_as_a_function_of_the_user_s_is_the_entropy(ending_mdp, over, pairing):
    own = Elementwise(*entropy_of(0.01), over_states=over == "state")
    results = [
        TabularEngine(
            ending_mdp, [RunSettings(objective=objective, learning_rate=0.3, pairing=pairing)], record_every=1
        ).run(300)
        for objective in (own, Entropy(over=over, smoothing=0.01))
    ]
    assert np.abs(results[0].theta).max() > 0.5, "nothing was learnt that could differ"
    np.testing.assert_allclose(results[0].objective, results[1].objective, rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(results[0].theta, results[1].theta, rtol=0.0, atol=1e-12)


def test_a_cost_as_a_function_of_the_user_s_is_the_cost(ending_mdp):
    own = Elementwise(lambda mass, entry: mass * entry, lambda mass, entry: entry, table=TABLE, limit=0.05)
    thetas = [
        TabularEngine(ending_mdp, [RunSettings(constraints={"cost": Constraint(cost, Quadratic(50.0))})]).run(300).theta
        for cost in (own, LinearCost(TABLE, limit=0.05))
    ]
    np.testing.assert_allclose(thetas[0], thetas[1], rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("pairing", ["same", "split", "previous"])
@pytest.mark.parametrize("momentum", [1.0, 0.3])
def test_functions_of_the_user_s_as_objective_and_constraint(require_equal, ending_mdp, pairing, momentum):
    """With tables, enclosed numbers and calls of other functions; more than one compiled function in a run."""
    settings = RunSettings(
        objective=Elementwise(*entropy_of(0.02)) - 2.0 * Elementwise(square, twice, table=TABLE),
        constraints={
            "near": Constraint(Elementwise(square, twice, table=OTHER, limit=0.01), Quadratic(30.0)),
            "states": Constraint(
                Elementwise(lambda m, e: SQUARE(m, 0.2), lambda m, e: TWICE(m, 0.2), over_states=True, limit=0.01),
                Lagrangian(3.0),
            ),
        },
        pairing=pairing,
        momentum=momentum,
        learning_rate=0.3,
    )
    require_equal(ending_mdp, settings)


@pytest.mark.parametrize("pairing", ["same", "previous"])
def test_weighted_sums(require_equal, ending_mdp, pairing):
    """Two distances in one functional have two derivatives, each with its own distance below the line."""
    settings = RunSettings(
        objective=0.7 * Entropy(smoothing=0.01)
        + Entropy(over="state")
        - 0.3 * L2Distance(TABLE)
        - 0.2 * L2Distance(OTHER),
        constraints={
            "sum": Constraint(
                (KLDivergence(TABLE, smoothing=0.05) + 2.0 * LinearCost(OTHER)).with_limit(0.2), Quadratic(5.0)
            ),
            "difference": Constraint(
                (0.5 * L2Distance(OTHER) - 0.1 * Entropy(over="state")).with_limit(-0.1), Lagrangian(0.5)
            ),
        },
        pairing=pairing,
        learning_rate=0.3,
    )
    require_equal(ending_mdp, settings)


def test_a_functional_without_terms_is_0(ending_mdp):
    result = TabularEngine(ending_mdp, [RunSettings(objective=Terms())], record_every=1).run(3)
    assert result.objective.tolist() == [[0.0, 0.0, 0.0]]
    assert not result.theta.any()


def test_what_numba_has_compiled_is_taken_as_well(ending_mdp):
    plain, compiled = (
        TabularEngine(ending_mdp, [RunSettings(objective=Elementwise(*functions, table=TABLE))]).run(20).theta
        for functions in ((square, twice), (SQUARE, TWICE))
    )
    assert plain.any()
    np.testing.assert_array_equal(plain, compiled)


def test_threads_share_the_functions_of_the_user_s(ending_mdp):
    own = Elementwise(*entropy_of(0.01))
    runs = [RunSettings(seed=seed, objective=own) for seed in range(8)]
    one, two = (TabularEngine(ending_mdp, runs, threads=threads).run(200).theta for threads in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_functions_that_compute_the_same_share_their_machine_code():
    """Those made anew too; another enclosed number makes another function."""
    first, second, third = (terms_of([Elementwise(*entropy_of(sigma))], 5, 3) for sigma in (0.01, 0.01, 0.02))
    assert first[0].addresses.tolist() == second[0].addresses.tolist()
    assert len(np.unique([first[0].addresses, third[0].addresses])) == 4
    assert [function.digest for function in first[1]] == [function.digest for function in second[1]]
    assert {function.digest for function in first[1]}.isdisjoint(function.digest for function in third[1])


def test_states_go_with_what_the_functions_compute(ending_mdp):
    def engine(sigma=0.01, table=None, functions=None):
        objective = Elementwise(*(functions or entropy_of(sigma)), table=table)
        return TabularEngine(ending_mdp, [RunSettings(objective=objective)])

    mine = engine()
    mine.run(5)
    engine().load_state_dict(mine.state_dict())
    value, _ = entropy_of(0.01)
    for other in (engine(sigma=0.02), engine(table=TABLE), engine(functions=(value, lambda m, e: 1.0 - m))):
        with pytest.raises(CheckpointMismatch):
            other.load_state_dict(mine.state_dict())


def test_digests_are_the_same_in_every_process():
    program = """
import math
import numba
from constrained_maxent.engine.compiled import compile_user_function

FACTOR = 2.0

@numba.njit
def inner(mass):
    return FACTOR * math.log(mass + 1.0) if mass in (0.0, 1.0) else mass

def outer(mass, entry):
    return inner(mass) - entry

print(compile_user_function("value", outer).digest)
"""
    digests = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert len(digests[0]) == 65
    assert digests[0] == digests[1]


# What is refused.


def test_a_functional_that_says_no_terms_is_refused(ending_mdp):
    @dataclass(frozen=True, eq=False)
    class Own(Functional):
        def value(self, measure):
            return 0.0

        def derivative(self, measure, points):
            return np.zeros(points.density.shape)

    for settings in (
        RunSettings(objective=Own()),
        RunSettings(objective=Entropy() + Own()),
        RunSettings(constraints={"own": Constraint(Own(), Quadratic(1.0))}),
    ):
        with pytest.raises(UnsupportedFunctional, match=r"Own.*engine_terms"):
            TabularEngine(ending_mdp, [settings])


ELEMENTWISE = EngineTerm(kind="elementwise", value=square, slope=twice)


@pytest.mark.parametrize(
    ("term", "name"),
    [
        (EngineTerm(kind="cubic"), "kind"),
        (EngineTerm(kind="linear", weight=math.inf), "weight"),
        (EngineTerm(kind="linear", weight="1"), "weight"),
        (EngineTerm(kind="entropy"), "smoothing"),
        (EngineTerm(kind="divergence", table=TABLE), "smoothing"),
        (EngineTerm(kind="entropy", smoothing=math.nan), "smoothing"),
        (EngineTerm(kind="elementwise", value=square), "slope"),
        (EngineTerm(kind="linear", slope=twice), "slope"),
        (EngineTerm(kind="linear", over_states=True), "over_states"),
        (replace(ELEMENTWISE, over_states=True, table=TABLE), "over_states"),
        (replace(ELEMENTWISE, value="m"), "value"),
        (replace(ELEMENTWISE, value=math.log), "value"),
        (replace(ELEMENTWISE, slope=lambda mass: mass), "slope"),
        (replace(ELEMENTWISE, slope=lambda mass, entry: np.linalg.no_such_thing(mass)), "slope"),
        (replace(ELEMENTWISE, slope=lambda mass, entry: "text"), "slope"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.kind,
)
def test_terms_that_make_no_sense(ending_mdp, term, name):
    with pytest.raises(InvalidSetting, match=name):
        TabularEngine(ending_mdp, [RunSettings(objective=Terms(terms=[term]))])


@pytest.mark.parametrize("table", [np.zeros((3, 5)), np.full((5, 3), np.nan)], ids=["size", "not a number"])
def test_tables_that_do_not_fit(ending_mdp, table):
    with pytest.raises(InvalidData, match="table"):
        TabularEngine(ending_mdp, [RunSettings(objective=Terms(terms=[EngineTerm(kind="linear", table=table)]))])
