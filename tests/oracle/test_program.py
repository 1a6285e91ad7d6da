"""What the program contains, against hand calculation and the exact occupancies of policies."""

from __future__ import annotations

import math
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from constrained_maxent.errors import InvalidData, MissingCost, UnsupportedFunctional
from constrained_maxent.functionals import Entropy, KLDivergence, L2Distance, LinearCost, MixtureDistance
from constrained_maxent.occupancy import Gaussians, Mixture
from constrained_maxent.oracle import TabularMDP
from constrained_maxent.oracle.program import OccupancyProgram, possible_pairs

few = settings(max_examples=30, deadline=None)
# From state 0, action 0 stays and action 1 goes to 1; from 1 both lead to 2, where one stays. 3 is out of reach.
LINE = np.array(
    [
        [[1, 0, 0, 0], [0, 1, 0, 0]],
        [[0, 0, 1, 0], [0, 0, 1, 0]],
        [[0, 0, 1, 0], [0, 0, 1, 0]],
        [[1, 0, 0, 0], [0, 0, 0, 1]],
    ],
    dtype=float,
)


def line(**options: Any) -> TabularMDP:
    return TabularMDP.from_arrays(LINE, [1.0, 0.0, 0.0, 0.0], **{"discount": 0.5, **options})


mdps = st.builds(
    TabularMDP.random,
    st.integers(2, 6),
    st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
    discount=st.sampled_from([0.5, 0.9]),
    horizon=st.one_of(st.none(), st.integers(1, 6)),
    branching=st.integers(1, 2),
)


def policy_within(possible: np.ndarray, mdp: TabularMDP) -> np.ndarray:
    allowed = np.where(possible.any(axis=-1, keepdims=True), possible, True).astype(float)
    allowed /= allowed.sum(axis=-1, keepdims=True)
    return allowed[0] if mdp.horizon is None else allowed


def assign(program: OccupancyProgram, occupancy: np.ndarray) -> None:
    program.scaled.value = occupancy.reshape(-1)[program.cells] / program.unit


class TestPossiblePairs:
    def test_without_restriction_it_is_what_can_be_reached(self) -> None:
        mdp = line()
        possible = possible_pairs(mdp, np.ones((4, 2), dtype=bool))
        assert possible.tolist() == [[[True, True], [True, True], [True, True], [False, False]]]

    def test_actions_into_a_dead_end_go_too(self) -> None:
        # Without any action in state 2, state 1 has no way on, so in state 0 only staying is left.
        support = np.array([[True, True], [True, True], [False, False], [True, True]])
        assert possible_pairs(line(), support).nonzero() == (0, 0, 0)

    def test_at_finite_horizon_the_dead_end_may_be_entered_last(self) -> None:
        support = np.array([[True, True], [True, True], [False, False], [True, True]])
        possible = possible_pairs(line(horizon=3), support)
        # At t = 0, 1 one may still stay; state 1 is allowed only at t = 2, when its successor takes no action.
        assert possible[0].tolist() == [[True, False], [False, False], [False, False], [False, False]]
        assert possible[1].tolist() == [[True, True], [False, False], [False, False], [False, False]]
        assert possible[2].tolist() == [[True, True], [True, True], [False, False], [False, False]]

    def test_nothing_is_left_when_the_start_has_no_way_on(self) -> None:
        support = np.array([[False, True], [True, True], [False, False], [True, True]])
        assert not possible_pairs(line(), support).any()
        program = OccupancyProgram.of(line(), "normalized", support)
        assert program.is_blocked
        assert not OccupancyProgram.of(line(), "normalized").is_blocked

    @few
    @given(mdp=mdps, seed=st.integers(0, 2**32 - 1))
    def test_some_policy_has_mass_on_exactly_these_pairs(self, mdp: TabularMDP, seed: int) -> None:
        support = np.random.default_rng(seed).random((mdp.n_states, mdp.n_actions)) < 0.8
        possible = possible_pairs(mdp, support)
        if not possible[0].any(axis=1)[mdp.initial > 0.0].all():
            return
        occupancy = mdp.occupancy(policy_within(possible, mdp))
        np.testing.assert_array_equal(occupancy > 0.0, possible.any(axis=0))
        assert not (possible & ~support).any()


class TestFlow:
    @few
    @given(mdp=mdps, seed=st.integers(0, 2**32 - 1), scale=st.sampled_from(["normalized", "truncated"]))
    def test_every_occupancy_satisfies_it(self, mdp: TabularMDP, seed: int, scale: Any) -> None:
        shape = (mdp.n_states,) if mdp.horizon is None else (mdp.horizon, mdp.n_states)
        policy = np.random.default_rng(seed).dirichlet(np.ones(mdp.n_actions), size=shape)
        program = OccupancyProgram.of(mdp, scale)
        occupancy = mdp.occupancy(policy, scale=scale)
        assign(program, occupancy)
        if mdp.horizon is not None:
            rho, steps = mdp.initial, []
            for pi in policy:
                steps.append(rho[:, None] * pi)
                rho = steps[-1].reshape(-1) @ mdp.transition
            (variable,) = program.masses.variables()
            variable.value = np.ones(variable.size)
            variable.value = np.array(steps)[program.possible] / program.masses.value
        for rule in program.flow:
            assert np.abs(rule.violation()).max() <= 1e-12
        np.testing.assert_allclose(program.table(program.occupancy.value), occupancy, rtol=1e-14)

    @few
    @pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
    @given(mdp=mdps, seed=st.integers(0, 2**32 - 1))
    def test_every_solution_is_the_occupancy_of_its_policy(self, mdp: TabularMDP, seed: int) -> None:
        program = OccupancyProgram.of(mdp, "normalized")
        reward = np.random.default_rng(seed).normal(size=len(program.cells))
        goal = cp.Maximize(reward @ program.occupancy + cp.sum(cp.entr(program.occupancy)))
        problem = cp.Problem(goal, program.flow)
        problem.solve(solver=cp.CLARABEL)
        assume(problem.status == cp.OPTIMAL)  # the solver may be unsure of it where there is but one action
        occupancy = mdp.occupancy(program.policy())
        np.testing.assert_allclose(program.table(program.occupancy.value), occupancy, atol=1e-6)

    def test_where_nothing_is_the_policy_is_uniform_within_the_support(self) -> None:
        support = np.array([[True, True], [False, True], [True, True], [True, True]])
        program = OccupancyProgram.of(line(), "normalized", support)
        assign(program, np.array([[0.75, 0.0], [0.0, 0.0], [0.125, 0.125], [0.0, 0.0]]))
        assert program.policy().tolist() == [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.5, 0.5]]


class TestFunctionals:
    rng = np.random.default_rng(0)
    reference = rng.dirichlet(np.ones(8)).reshape(4, 2)

    @pytest.mark.parametrize("horizon", [None, 4])
    @pytest.mark.parametrize(
        "functional",
        [LinearCost(rng.normal(size=(4, 2))), KLDivergence(reference, smoothing=0.0), L2Distance(reference)],
        ids=lambda functional: type(functional).__name__,
    )
    def test_expressions_have_the_functionals_values(self, functional: Any, horizon: int | None) -> None:
        # The reference has mass in state 3 too, which cannot be reached.
        mdp = line(horizon=horizon)
        program = OccupancyProgram.of(mdp, "normalized")
        occupancy = mdp.occupancy(np.full((4, 2), 0.5))
        assign(program, occupancy)
        view = program.view()
        value = program.express(functional, view)
        for definition in view.definitions.values():
            (difference,) = definition.args[0].variables()
            difference.value = (occupancy - functional.table).reshape(-1) / program.unit
            assert np.abs(definition.violation()).max() <= 1e-14
        assert float(value.value) == pytest.approx(functional(occupancy), rel=1e-12)

    @pytest.mark.parametrize("over", ["state-action", "state"])
    def test_entropies(self, over: Any) -> None:
        # Staying with probability 1/2: 2/3 in state 0, (1/2)(1/4)/(1-1/4) = 1/6 in state 1, the rest in state 2.
        program = OccupancyProgram.of(line(), "normalized")
        assign(program, np.array([[2 / 6, 2 / 6], [1 / 12, 1 / 12], [1 / 12, 1 / 12], [0.0, 0.0]]))
        masses = [2 / 3, 1 / 6, 1 / 6]
        expected = -sum(mass * math.log(mass) for mass in masses) + (math.log(2.0) if over == "state-action" else 0.0)
        assert float(program.express(Entropy(over=over), program.view()).value) == pytest.approx(expected)

    def test_unknown_ones_are_refused_by_name(self) -> None:
        program = OccupancyProgram.of(line(), "normalized")
        with pytest.raises(UnsupportedFunctional, match="MixtureDistance has no conic"):
            program.express(
                MixtureDistance(Mixture(Gaussians(np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1))))), program.view()
            )
        with pytest.raises(MissingCost, match="cost"):
            program.express(LinearCost("cost"), program.view())
        with pytest.raises(InvalidData, match=r"shape \(1, 2\)"):
            program.express(LinearCost([[1.0, 2.0]]), program.view())

    def test_an_expression_of_another_curvature_than_was_said(self) -> None:
        class Wrong(L2Distance):
            def conic(self, occupancy: Any) -> Any:
                return -super().conic(occupancy)

        program = OccupancyProgram.of(line(), "normalized")
        with pytest.raises(UnsupportedFunctional, match="Wrong has no convex conic form"):
            program.express(Wrong(self.reference), program.view())
