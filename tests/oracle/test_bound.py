"""Upper bounds hold for whatever potentials, rewards and multipliers they are given, and are tight at the optimum."""

from __future__ import annotations

import itertools
import math
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from constrained_maxent.errors import InvalidSetting, NonFiniteValue
from constrained_maxent.functionals import Entropy, Functional, KLDivergence, L2Distance, LinearCost, Majorant
from constrained_maxent.oracle import TabularMDP
from constrained_maxent.oracle.bound import lagrangian_majorant, potential_bound, reward_bound
from constrained_maxent.oracle.planning import best_return
from constrained_maxent.oracle.program import OccupancyProgram
from constrained_maxent.penalties import Exact, Penalty, Quadratic

few = settings(max_examples=40, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def evaluate(bound: Majorant, occupancy: np.ndarray, added: np.ndarray | float = 0.0) -> float:
    """k + ⟨q + added, λ⟩ − τ Σ λ log λ − τ_d Σ d log d."""
    entropy, states = Entropy(smoothing=0.0), Entropy(smoothing=0.0, over="state")
    reward = np.where(occupancy > 0.0, bound.reward + added, 0.0)
    return (
        bound.constant
        + float(np.sum(reward * occupancy))
        + bound.temperature * entropy(occupancy)
        + bound.state_temperature * states(occupancy)
    )


class Case:
    """A random MDP with an objective, constraints, some of them penalized, multipliers and directions."""

    def __init__(self, seed: int, horizon: int | None = None) -> None:
        self.rng = rng = np.random.default_rng(seed)
        n_states, n_actions = int(rng.integers(1, 6)), int(rng.integers(1, 4))
        self.shape = (n_states, n_actions)
        self.mdp = TabularMDP.random(
            n_states, n_actions, seed=rng, discount=float(rng.choice([0.5, 0.9])), horizon=horizon
        )
        cost = rng.normal(size=self.shape)
        self.objective: Functional = [
            Entropy(smoothing=0.0),
            Entropy(smoothing=0.0, over="state"),
            LinearCost(rng.normal(size=self.shape)),
        ][rng.integers(3)]
        reference = self.occupancy()
        constraints: dict[str, Functional] = {
            "linear": LinearCost(cost, limit=float(rng.normal())),
            "kl": KLDivergence(reference, limit=float(rng.random()), smoothing=0.0),
            "l2": L2Distance(reference, limit=float(rng.random())),
        }
        self.constraints = {name: constraints[name] for name in constraints if rng.random() < 0.6}
        kinds = [None, Quadratic(float(rng.exponential())), Exact(float(rng.exponential()))]
        drawn = {name: kinds[rng.integers(3)] for name in self.constraints}
        self.penalties: dict[str, Penalty] = {name: kind for name, kind in drawn.items() if kind is not None}
        self.multipliers = {name: float(rng.exponential()) for name in self.constraints}
        self.point = reference
        self.direction = rng.normal(size=self.shape)

    def occupancy(self) -> np.ndarray:
        size = self.shape[0] if self.mdp.horizon is None else (self.mdp.horizon, self.shape[0])
        return self.mdp.occupancy(self.rng.dirichlet(np.ones(self.shape[1]), size=size))

    def majorant(self) -> Majorant:
        distance = self.constraints.get("l2")
        return lagrangian_majorant(
            self.objective,
            self.constraints,
            self.multipliers,
            self.point,
            penalties=self.penalties,
            subgradients={} if distance is None else {"l2": {id(distance): self.direction}},
        )

    def lagrangian(self, occupancy: np.ndarray) -> float:
        value = self.objective(occupancy)
        for name, functional in self.constraints.items():
            residual = functional(occupancy) - functional.limit
            if name in self.penalties:
                value -= self.penalties[name].value(residual)
            else:
                value -= self.multipliers[name] * residual
        return value


class TestMajorant:
    @few
    @given(seed=seeds)
    def test_it_is_above_the_lagrangian_everywhere(self, seed: int) -> None:
        case = Case(seed)
        bound = case.majorant()
        for _ in range(5):
            anywhere = case.rng.exponential(size=case.shape)
            assert evaluate(bound, anywhere) >= case.lagrangian(anywhere) - 1e-9

    @few
    @given(seed=seeds)
    def test_it_touches_where_slopes_and_directions_are_right(self, seed: int) -> None:
        case = Case(seed)
        point = case.rng.exponential(size=case.shape)
        case.penalties = {name: kind for name, kind in case.penalties.items() if isinstance(kind, Quadratic)}
        for name, penalty in case.penalties.items():
            functional = case.constraints[name]
            case.multipliers[name] = penalty.slope(functional(point) - functional.limit)
        if "l2" in case.constraints:
            case.direction = case.constraints["l2"].gradient(point)
        assert evaluate(case.majorant(), point) == pytest.approx(case.lagrangian(point), rel=1e-9, abs=1e-9)

    @few
    @given(seed=seeds)
    def test_the_supremum_is_one(self, seed: int) -> None:
        case = Case(seed)
        bound, added = case.majorant(), case.rng.normal(size=case.shape)
        supremum = bound.supremum(added)
        for spread in (0.1, 1.0, 10.0):
            anywhere = spread * case.rng.exponential(size=case.shape)
            assert evaluate(bound, anywhere, added) <= supremum + 1e-9

    def test_the_supremum_by_hand(self) -> None:
        # −x log x + r x is largest, e^(r−1), at x = e^(r−1).
        bound = Majorant(2.0, np.array([[0.0, 1.0], [-np.inf, 2.0]]), 1.0, 0.0)
        assert bound.supremum(np.zeros((2, 2))) == pytest.approx(2.0 + math.exp(-1.0) + 1.0 + math.e)
        # Only over states: of each state the best action.
        bound = Majorant(0.0, np.array([[0.0, 1.0], [-np.inf, 2.0]]), 0.0, 1.0)
        assert bound.supremum(np.zeros((2, 2))) == pytest.approx(1.0 + math.e)

    def test_the_supremum_is_attained_with_both_entropies(self) -> None:
        reward = np.array([[0.3, -0.2], [1.0, 0.4]])
        bound = Majorant(0.0, reward, 0.7, 1.0)
        found = minimize(lambda x: -evaluate(bound, np.exp(x.reshape(2, 2))), np.zeros(4), method="BFGS", tol=1e-10)
        assert bound.supremum(np.zeros((2, 2))) == pytest.approx(-found.fun, rel=1e-8)

    def test_without_entropies_a_positive_reward_has_no_supremum(self) -> None:
        bound = Majorant(3.0, np.array([[-1.0, 0.0]]), 0.0, 0.0)
        assert bound.supremum(np.zeros((1, 2))) == 3.0
        assert bound.supremum(np.full((1, 2), 1e-9)) == math.inf


class TestBounds:
    @few
    @given(seed=seeds, size=st.sampled_from([0.0, 0.1, 1.0, 30.0]))
    def test_any_potential_bounds_every_policy(self, seed: int, size: float) -> None:
        case = Case(seed)
        potential = size * case.rng.normal(size=case.shape[0])
        upper = potential_bound(case.mdp, case.majorant(), potential)
        assert all(case.lagrangian(case.occupancy()) <= upper + 1e-9 for _ in range(5))

    @few
    @given(seed=seeds, size=st.sampled_from([0.0, 0.1, 1.0, 30.0]), horizon=st.one_of(st.none(), st.integers(1, 5)))
    def test_any_reward_bounds_every_policy(self, seed: int, size: float, horizon: int | None) -> None:
        case = Case(seed, horizon)
        reward = size * case.rng.normal(size=case.shape)
        upper = reward_bound(case.mdp, case.majorant(), reward)
        assert all(case.lagrangian(case.occupancy()) <= upper + 1e-9 for _ in range(5))

    @few
    @pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
    @given(seed=seeds, horizon=st.one_of(st.none(), st.integers(1, 4)))
    def test_the_gradient_at_the_optimum_is_the_best_reward(self, seed: int, horizon: int | None) -> None:
        mdp = TabularMDP.random(3, 2, seed=seed, discount=0.8, horizon=horizon)
        entropy = Entropy(smoothing=0.0)
        program = OccupancyProgram.of(mdp, "normalized")
        problem = cp.Problem(cp.Maximize(program.express(entropy, program.view())), program.flow)
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        assume(problem.status == cp.OPTIMAL)  # which the solver does not reach of a few of them, so precisely
        occupancy = mdp.occupancy(program.policy())
        bound = lagrangian_majorant(entropy, {}, {}, np.zeros((3, 2)))
        # Of first order in what the gradient lacks, which is a logarithm: 1e-10 of mass may be 1e-5 of it.
        upper = reward_bound(mdp, bound, entropy.gradient(np.maximum(occupancy, 1e-12)))
        assert upper == pytest.approx(entropy(occupancy), abs=1e-3)
        assert program.bound(bound) == pytest.approx(entropy(occupancy), abs=1e-7)

    @pytest.mark.parametrize("horizon", [None, 4])
    def test_wrong_dual_values_only_loosen_the_bound(self, horizon: int | None) -> None:
        mdp = TabularMDP.random(4, 3, seed=3, discount=0.8, horizon=horizon)
        entropy, rng = Entropy(smoothing=0.0), np.random.default_rng(0)
        program = OccupancyProgram.of(mdp, "normalized")
        best = cp.Problem(cp.Maximize(program.express(entropy, program.view())), program.flow).solve(solver=cp.CLARABEL)
        bound = lagrangian_majorant(entropy, {}, {}, np.zeros((4, 3)))
        found = np.array(program.flow[-1].dual_value)
        distances = []
        for size in (1e-3, 1e-2, 1e-1, 1.0):
            program.flow[-1].dual_variables[0].save_value(found + size * rng.normal(size=found.shape))
            distances.append(program.bound(bound) - best)
        assert distances == sorted(distances)
        assert distances[0] > 0.0
        if horizon is None:
            # Of second order in what is wrong.
            assert distances[0] < 1e-4

    def test_states_out_of_reach_do_not_matter(self) -> None:
        stay = np.eye(2)[:, None, :]
        mdp = TabularMDP.from_arrays(stay, [1.0, 0.0], discount=0.5)
        bound = lagrangian_majorant(Entropy(smoothing=0.0), {}, {}, np.zeros((2, 1)))
        # One cell with λ = 1: the entropy is 0. V/2 + exp(−V/2 − 1) is least at V = −2, by hand: −1 + 1.
        assert potential_bound(mdp, bound, np.array([-2.0, 1e6])) == pytest.approx(0.0)
        assert reward_bound(mdp, bound, np.array([[-1.0], [math.nan]])) == pytest.approx(0.0)

    def test_potentials_are_for_infinite_horizon(self) -> None:
        mdp = TabularMDP.random(2, 2, seed=0, discount=0.9, horizon=3)
        with pytest.raises(InvalidSetting, match="infinite horizon"):
            potential_bound(mdp, lagrangian_majorant(Entropy(), {}, {}, np.zeros((2, 2))), np.zeros(2))


class TestBestReturn:
    @few
    @given(seed=seeds, scale=st.sampled_from(["normalized", "truncated"]))
    def test_equals_linear_programming_and_brute_force(self, seed: int, scale: Any) -> None:
        rng = np.random.default_rng(seed)
        n_states, n_actions = int(rng.integers(1, 5)), int(rng.integers(1, 4))
        mdp = TabularMDP.random(n_states, n_actions, seed=rng, discount=float(rng.choice([0.3, 0.9, 0.99])))
        reward = rng.normal(size=(n_states, n_actions))
        upper = best_return(mdp, reward, scale=scale)
        # max ⟨r, λ⟩ over λ ≥ 0 whose inflow is its outflow
        flow = np.kron(np.eye(n_states), np.ones((1, n_actions))) - mdp.discount * mdp.transition.toarray().T
        start = mdp.weighting(scale).constant * mdp.initial
        assert upper == pytest.approx(-linprog(-reward.ravel(), A_eq=flow, b_eq=start).fun, rel=1e-7, abs=1e-9)
        returns = [
            float(np.sum(reward * mdp.occupancy(np.eye(n_actions)[list(actions)], scale=scale)))
            for actions in itertools.product(range(n_actions), repeat=n_states)
        ]
        assert upper == pytest.approx(max(returns), rel=1e-9, abs=1e-12)

    @pytest.mark.parametrize("seed", range(5))
    def test_finite_horizon_equals_brute_force_over_time(self, seed: int) -> None:
        mdp = TabularMDP.random(2, 2, seed=seed, discount=0.7, horizon=3)
        reward = np.random.default_rng(seed).normal(size=(2, 2))
        returns = [
            float(np.sum(reward * mdp.occupancy(np.eye(2)[np.reshape(actions, (3, 2))])))
            for actions in itertools.product(range(2), repeat=6)
        ]
        assert best_return(mdp, reward) == pytest.approx(max(returns), rel=1e-12)

    def test_forbidden_pairs_are_not_taken(self) -> None:
        # State 0: stay for 1/2, or go to 1 for 2. In state 1 nothing is allowed, so one may go only as the last step.
        step = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
        reward = np.array([[0.5, 2.0], [-np.inf, -np.inf]])
        mdp = TabularMDP.from_arrays(step, [1.0, 0.0], discount=0.5, horizon=2)
        assert best_return(mdp, reward, scale="truncated") == pytest.approx(0.5 + 0.5 * 2.0)
        mdp = TabularMDP.from_arrays(step, [1.0, 0.0], discount=0.5)
        reward[0, 1] = -np.inf
        assert best_return(mdp, reward) == pytest.approx(0.5)

    def test_rewards_must_be_finite_where_it_matters(self) -> None:
        mdp = TabularMDP.from_arrays(np.eye(2)[:, None, :], [1.0, 0.0], discount=0.5)
        assert best_return(mdp, np.array([[2.0], [math.nan]])) == pytest.approx(2.0)
        for wrong in (math.nan, math.inf):
            with pytest.raises(NonFiniteValue, match="finite"):
                best_return(mdp, np.array([[wrong], [0.0]]))

    def test_discount_near_one(self) -> None:
        mdp = TabularMDP.random(5, 3, seed=0, discount=0.999999)
        reward = np.random.default_rng(0).normal(size=(5, 3))
        returns = [
            float(np.sum(reward * mdp.occupancy(np.eye(3)[list(actions)])))
            for actions in itertools.product(range(3), repeat=5)
        ]
        assert best_return(mdp, reward) == pytest.approx(max(returns), abs=1e-6)
        assert best_return(mdp, reward) >= max(returns) - 1e-9
