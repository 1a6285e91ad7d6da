"""The paper's constants: by hand, against exact occupancies and simulated episodes, and as the proofs use them."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals import Entropy
from constrained_maxent.oracle import TabularMDP, theory
from constrained_maxent.oracle.theory import FunctionalConstants, ProblemConstants
from constrained_maxent.oracle.theory.gradient import SCORE_BOUND, SCORE_SLOPE
from constrained_maxent.penalties import Exact, Quadratic

UNIT = FunctionalConstants(ell=1.0, ell_2=1.0, L=1.0, L_inf=1.0)
seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=25, deadline=None)
mdps = st.builds(TabularMDP.random, st.integers(1, 4), st.integers(2, 3), seed=seeds, discount=st.floats(0.1, 0.95))


def softmax(theta: np.ndarray) -> np.ndarray:
    weights = np.exp(theta - theta.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def gradient(mdp: TabularMDP, theta: np.ndarray, pseudo_reward: np.ndarray) -> np.ndarray:
    """∇_θ of ⟨r, λ(θ)⟩ by the chain rule through the softmax."""
    pi = softmax(theta)
    upstream = mdp.policy_gradient(pi, pseudo_reward, scale="truncated")
    return pi * (upstream - (pi * upstream).sum(axis=1, keepdims=True))


def mass(mdp: TabularMDP) -> float:
    return 1.0 / (1.0 - mdp.discount)


def entropy_of(mdp: TabularMDP, sigma: float) -> tuple[Entropy, FunctionalConstants]:
    cells = mdp.n_states * mdp.n_actions
    return Entropy(smoothing=sigma), theory.entropy_constants(sigma, n_cells=cells, mass=mass(mdp))


def problem(**changes: Any) -> ProblemConstants:
    given = {
        "discount": 0.9,
        "n_states": 4,
        "n_actions": 2,
        "radius": 1.0,
        "initial_min": 0.25,
        "objective": theory.entropy_constants(1e-2, n_cells=8),
        "constraint": theory.linear_constants([[1.0, -0.5]]),
        "constraint_max": 1.0,
    }
    return ProblemConstants(**{**given, **changes})


class TestByHand:
    """γ = 1/2, so 1/(1−γ) = 2, and all constants of the functional 1."""

    def test_constants_of_the_gradient(self) -> None:
        assert theory.occupancy_lipschitz(0.5) == 8.0
        assert theory.gradient_bound(UNIT, 0.5) == 8.0
        assert theory.gradient_lipschitz(UNIT, 0.5) == 4 * 16 + 8 * 8 + 2 * 4

    def test_constants_of_the_estimator(self) -> None:
        # D_1² = 8 · 64 + 16 (4 · 4 + 16) = 1024.
        assert theory.truncation_constant(UNIT, 0.5, 1) == pytest.approx(32.0, rel=1e-15)
        assert theory.truncation_bias(UNIT, 0.5, 1) == pytest.approx(16.0, rel=1e-15)
        assert theory.occupancy_constant(UNIT, 0.5, n_states=2, n_actions=2) == 8 * 2 * 2
        assert theory.gradient_spread(UNIT, 0.5, 1) == 4.0
        assert theory.gradient_spread(UNIT, 0.5, 99) == pytest.approx(4.0 * math.sqrt(2.0))

    def test_penalized_problem(self) -> None:
        objective = FunctionalConstants(ell=1.0, ell_2=2.0, L=3.0, L_inf=4.0)
        constraint = FunctionalConstants(ell=5.0, ell_2=6.0, L=7.0, L_inf=8.0)
        penalized = theory.penalized_constants(objective, constraint, beta=0.5, constraint_max=10.0)
        assert penalized == FunctionalConstants(ell=51.0, ell_2=62.0, L=3.0 + 70.0 + 30.0, L_inf=4.0 + 80.0 + 25.0)
        assert theory.penalized_constants(objective, constraint, beta=0.0, constraint_max=10.0) == objective

    def test_functionals(self) -> None:
        # Slopes −log σ = log 4 at 0 and −log(5/4) − 4/5 at 1; curvature 2/σ.
        entropy = theory.entropy_constants(0.25, n_cells=4)
        assert entropy.ell == pytest.approx(math.log(4.0))
        assert entropy.ell_2 == pytest.approx(2.0 * math.log(4.0))
        assert entropy.L == entropy.L_inf == 8.0
        assert theory.linear_max([[2.0, 1.0]], limit=3.0, mass=10.0) == 17.0
        assert theory.linear_max([[2.0, 1.0]], limit=30.0, mass=10.0) == 30.0
        assert theory.linear_max([[2.0, -4.0]], mass=0.5) == 2.0
        assert theory.linear_constants([0.0, 0.0]).ell_2 == 0.0

    def test_strong_duality(self) -> None:
        printed = 2.0 * (1.0 + math.sqrt(3.0)) / 0.1
        assert theory.quadratic_beta(1.0, 0.1) == pytest.approx(printed / 2.0)
        assert theory.penalty_gap(1.0, 0.1) == pytest.approx(1.0 / printed)
        assert theory.quadratic_violation(2.0, 1.0, 1.0) == 2.0  # (1 + √9) / 2
        assert theory.exact_beta(3.0) == 4.0
        assert theory.exact_violation(1.0, 4.0, 2.0) == 0.5

    def test_geometry(self) -> None:
        assert theory.parameter_diameter(3, 3, 2.0) == 12.0
        assert theory.occupancy_diameter(0.5) == pytest.approx(2.0 * math.sqrt(2.0))
        assert theory.inverse_lipschitz(4, 0.0, initial_min=0.5) == 3.0 * 4.0 / 0.5
        assert theory.inverse_lipschitz(4, 0.5, initial_min=1.0) == pytest.approx(3.0 * (1.0 + 3.0 * math.e))

    def test_descent(self) -> None:
        # 3 · 2² · 3² · 5 / 0.1 · log(30 · 2 / 2) with L = 5, D = 3, μ = 2, Δ₀ = 1.
        figures = theory.biased_descent(5.0, 0.1, mu_lambda=2.0, diameter=3.0, initial_gap=1.0)
        assert figures == (0.2, math.ceil(5400.0 * math.log(30.0)), pytest.approx(0.1 / 18.0))
        assert theory.biased_descent(5.0, 3.0, mu_lambda=2.0, diameter=3.0, initial_gap=1.0).iterations == 0.0


class TestFunctionals:
    @few
    @given(mdp=mdps, seed=seeds, sigma=st.floats(1e-4, 1.0), beta=st.floats(0.0, 10.0))
    def test_constants_bound_every_gradient_and_its_change(
        self, mdp: TabularMDP, seed: int, sigma: float, beta: float
    ) -> None:
        rng = np.random.default_rng(seed)
        shape = (mdp.n_states, mdp.n_actions)
        entropy, objective = entropy_of(mdp, sigma)
        cost, limit = rng.normal(size=shape), float(rng.normal())
        largest = theory.linear_max(cost, limit=limit, mass=mass(mdp))
        penalized = theory.penalized_constants(
            objective, theory.linear_constants(cost), beta=beta, constraint_max=largest
        )

        def penalized_gradient(occupancy: np.ndarray) -> np.ndarray:
            violation = float(np.sum(cost * occupancy)) - limit
            assert abs(violation) <= largest + 1e-12
            return -entropy.gradient(occupancy) + Quadratic(beta).slope(violation) * cost

        first, second = (rng.dirichlet(np.full(cost.size, 0.3)).reshape(shape) * mass(mdp) for _ in range(2))
        for gradient_of, bound in ((entropy.gradient, objective), (penalized_gradient, penalized)):
            here, there = gradient_of(first), gradient_of(second)
            assert np.abs(here).max() <= bound.ell + 1e-9
            assert np.linalg.norm(here) <= bound.ell_2 + 1e-9
            change, distance = here - there, first - second
            assert np.abs(change).max() <= bound.L * np.linalg.norm(distance) + 1e-9
            assert np.abs(change).max() <= bound.L_inf * np.abs(distance).sum() + 1e-9

    def test_entropy_bounds_are_reached(self) -> None:
        table, sigma = np.array([[0.0, 1.0]]), 1e-3
        bound = theory.entropy_constants(sigma, n_cells=2)
        assert np.abs(Entropy(smoothing=sigma).gradient(table)).max() == pytest.approx(bound.ell)
        nudged = table + np.array([[1e-8, 0.0]])
        change = Entropy(smoothing=sigma).gradient(nudged) - Entropy(smoothing=sigma).gradient(table)
        assert abs(change[0, 0]) / 1e-8 == pytest.approx(bound.L, rel=1e-4)

    @given(factor=st.floats(0.01, 1.0), seed=seeds)
    @few
    def test_rescaled_is_the_functional_of_a_scaled_table(self, factor: float, seed: int) -> None:
        table = np.random.default_rng(seed).dirichlet(np.ones(6)).reshape(3, 2) / factor
        bound = theory.entropy_constants(0.1, n_cells=6).rescaled(factor)
        assert np.abs(factor * Entropy(smoothing=0.1).gradient(factor * table)).max() <= bound.ell + 1e-12


class TestParametrization:
    @few
    @given(seed=seeds, n_actions=st.integers(1, 5), scale=st.floats(0.0, 20.0))
    def test_score(self, seed: int, n_actions: int, scale: float) -> None:
        pi = softmax(np.random.default_rng(seed).normal(size=n_actions) * scale)
        assert np.linalg.norm(np.eye(n_actions) - pi, axis=1).max() <= SCORE_BOUND
        assert np.linalg.norm(np.diag(pi) - np.outer(pi, pi), 2) <= SCORE_SLOPE

    @few
    @given(
        mdp=mdps, seed=seeds, horizon=st.one_of(st.none(), st.integers(1, 8)), step=st.sampled_from([1e-3, 0.1, 3.0])
    )
    def test_occupancy_and_gradient_change_no_faster(
        self, mdp: TabularMDP, seed: int, horizon: int | None, step: float
    ) -> None:
        rng = np.random.default_rng(seed)
        mdp = dataclasses.replace(mdp, horizon=horizon)
        entropy, bound = entropy_of(mdp, 1e-2)
        first = rng.normal(size=(mdp.n_states, mdp.n_actions))
        second = first + step * rng.normal(size=first.shape)
        distance = np.linalg.norm(first - second)
        here, there = (mdp.occupancy(softmax(theta), scale="truncated") for theta in (first, second))
        assert np.abs(here - there).sum() <= theory.occupancy_lipschitz(mdp.discount) * distance

        slopes = [gradient(mdp, theta, entropy.gradient(o)) for theta, o in ((first, here), (second, there))]
        assert np.linalg.norm(slopes[0]) <= theory.gradient_bound(bound, mdp.discount)
        assert np.linalg.norm(slopes[0] - slopes[1]) <= theory.gradient_lipschitz(bound, mdp.discount) * distance

    @few
    @given(mdp=mdps, seed=seeds, radius=st.floats(0.1, 3.0), share=st.floats(1e-3, 1.0))
    def test_mixed_occupancies_have_parameters_nearby(
        self, mdp: TabularMDP, seed: int, radius: float, share: float
    ) -> None:
        rng = np.random.default_rng(seed)
        # Many entries at the ends of the box, where a step could leave it.
        start, goal = (
            np.clip(rng.normal(size=(mdp.n_states, mdp.n_actions)) * 2.0 * radius, -radius, radius) for _ in range(2)
        )
        here, there = (mdp.occupancy(softmax(theta), scale="truncated") for theta in (start, goal))
        mixed = (1.0 - share) * here + share * there
        moved = start + np.log(mixed / here)
        low, high = -radius - moved.min(axis=1), radius - moved.max(axis=1)
        assert (low <= high + 1e-9).all()
        moved += np.where(low > 0.0, low, np.where(high < 0.0, high, 0.0))[:, None]

        assert np.abs(moved).max() <= radius + 1e-9
        np.testing.assert_allclose(mdp.occupancy(softmax(moved), scale="truncated"), mixed, rtol=1e-7, atol=1e-12)
        lipschitz = theory.inverse_lipschitz(mdp.n_actions, radius, initial_min=float(mdp.initial.min()))
        assert np.linalg.norm(moved - start) <= lipschitz * share * np.linalg.norm(there - here) + 1e-9
        assert np.linalg.norm(there - here) <= theory.occupancy_diameter(mdp.discount)


class TestDensity:
    @given(n_actions=st.integers(2, 20), epsilon=st.floats(1e-6, 1.0))
    @few
    def test_deterministic_policy_is_just_within_reach(self, n_actions: int, epsilon: float) -> None:
        target = np.eye(n_actions)[0]

        def distance(radius: float) -> float:
            theta = np.full(n_actions, -radius)
            theta[0] = radius
            return float(np.abs(softmax(theta) - target).sum())

        radius = theory.density_radius(n_actions, epsilon)
        assert distance(radius) == pytest.approx(min(epsilon, 2.0 * (1.0 - 1.0 / n_actions)), rel=1e-6)
        assert radius == 0.0 or distance(radius - 1e-3) > epsilon

    @given(n_actions=st.integers(1, 6), epsilon=st.floats(1e-4, 3.0), seed=seeds)
    @few
    def test_every_policy_is_within_reach(self, n_actions: int, epsilon: float, seed: int) -> None:
        target = np.random.default_rng(seed).dirichlet(np.full(n_actions, 0.2))
        # The mixture of the proof, as derived for the L1 norm.
        share = min(1.0, epsilon / (2.0 * (1.0 - 1.0 / n_actions))) if n_actions > 1 else 1.0
        theta = np.log((1.0 - share) * target + share / n_actions)
        theta -= (theta.max() + theta.min()) / 2.0
        assert np.abs(theta).max() <= theory.density_radius(n_actions, epsilon) + 1e-9
        assert np.abs(softmax(theta) - target).sum() <= epsilon + 1e-9

    def test_the_mixture_moves_twice_as_far_as_the_paper_says(self) -> None:
        mixture = 0.9 * np.eye(10)[0] + 0.1 / 10
        assert np.abs(mixture - np.eye(10)[0]).sum() == pytest.approx(2 * 0.1 * 0.9)

    def test_deterministic_policies(self) -> None:
        best = np.eye(3)[np.random.default_rng(1).integers(3, size=5)]
        radius = theory.density_radius(3, 0.05)
        close = softmax(radius * (2.0 * best - 1.0))
        assert np.abs(close - best).sum(axis=1).max() <= 0.05 + 1e-12


def simulate(mdp: TabularMDP, pi: np.ndarray, n_episodes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """States and actions of episodes of full length, ``(n_episodes, horizon)`` each."""
    assert mdp.horizon is not None
    rng = np.random.default_rng(seed)
    outcomes = mdp.transition.toarray().reshape(mdp.n_states, mdp.n_actions, -1)

    def draw(probabilities: np.ndarray) -> np.ndarray:
        cumulative = probabilities.cumsum(axis=-1)
        return (rng.random((n_episodes, 1)) * cumulative[:, -1:] > cumulative).sum(axis=1)

    states, actions = np.empty((2, n_episodes, mdp.horizon), dtype=np.int64)
    state = draw(np.tile(mdp.initial, (n_episodes, 1)))
    for t in range(mdp.horizon):
        action = draw(pi[state])
        states[:, t], actions[:, t] = state, action
        state = draw(outcomes[state, action])
    return states, actions


class TestEstimator:
    @few
    @given(mdp=mdps, seed=seeds, horizon=st.integers(1, 30), sigma=st.sampled_from([1e-3, 0.1]))
    def test_truncation_bias(self, mdp: TabularMDP, seed: int, horizon: int, sigma: float) -> None:
        theta = np.random.default_rng(seed).normal(size=(mdp.n_states, mdp.n_actions))
        entropy, bound = entropy_of(mdp, sigma)
        slopes = []
        for problem_ in (mdp, dataclasses.replace(mdp, horizon=horizon)):
            occupancy = problem_.occupancy(softmax(theta), scale="truncated")
            slopes.append(gradient(problem_, theta, entropy.gradient(occupancy)))
        assert np.linalg.norm(slopes[0] - slopes[1]) <= theory.truncation_bias(bound, mdp.discount, horizon) + 1e-12

    @pytest.mark.parametrize(("discount", "horizon"), [(0.5, 6), (0.9, 12), (0.9, 40)])
    def test_simulated_episodes(self, discount: float, horizon: int) -> None:
        mdp = TabularMDP.random(3, 2, seed=3, discount=discount, horizon=horizon)
        entropy, bound = entropy_of(mdp, 1e-2)
        theta = np.random.default_rng(0).normal(size=(3, 2))
        pi = softmax(theta)
        states, actions = simulate(mdp, pi, 2000, seed=1)
        weights = discount ** np.arange(horizon)
        episodes = np.zeros((2000, 3, 2))
        np.add.at(episodes, (np.arange(2000)[:, None], states, actions), weights)
        exact = mdp.occupancy(pi, scale="truncated")
        # The occupancy: unbiased, and E‖λ̂ − λ_H‖₁ from batches of 4.
        np.testing.assert_allclose(episodes.mean(axis=0), exact, atol=0.05 * mass(mdp))
        batches = episodes.reshape(500, 4, 3, 2).mean(axis=1)
        rewards = entropy.gradient(exact)
        errors = np.abs(batches - exact).sum(axis=(1, 2))
        assert math.sqrt((errors**2).mean()) <= math.sqrt(6.0) * mass(mdp) / math.sqrt(4.0)
        # The estimated pseudo-rewards move the expected gradient by no more than D_ĝ / √4.
        shifts = [np.linalg.norm(gradient(mdp, theta, entropy.gradient(b) - rewards)) for b in batches[:200]]
        allowed = theory.occupancy_constant(bound, discount, n_states=3, n_actions=2) / 2.0
        assert math.sqrt(np.mean(np.square(shifts))) <= allowed
        # The gradient of one episode, given pseudo-rewards as large as they can be: unbiased, bounded, of spread σ_H.
        signs = np.where(np.random.default_rng(2).random((3, 2)) < 0.5, -1.0, 1.0)
        to_go = np.cumsum((weights * signs[states, actions])[:, ::-1], axis=1)[:, ::-1]
        estimates = np.zeros((2000, 3, 2))
        for action in range(2):
            scores = (actions == action) - pi[states, action]
            np.add.at(estimates, (np.arange(2000)[:, None], states, action), to_go * scores)
        spread = math.sqrt(((estimates - estimates.mean(axis=0)) ** 2).sum(axis=(1, 2)).mean())
        assert spread <= theory.gradient_spread(UNIT, discount, horizon)
        assert np.linalg.norm(estimates, axis=(1, 2)).max() <= theory.gradient_bound(UNIT, discount)
        np.testing.assert_allclose(
            estimates.mean(axis=0), gradient(mdp, theta, signs), atol=5.0 * spread / math.sqrt(2000)
        )

    def test_the_printed_variance_is_too_small(self) -> None:
        # One state, two fair actions, pseudo-reward 100 for both, one step: the gradient is 100 (1/2, −1/2) or its
        # negative, of variance 5000. The paper's H ℓ_λ ℓ_ψ / (1−γ) is 200.
        variance = np.sum((100.0 * (np.eye(2) - 0.5)) ** 2) / 2.0
        bound = FunctionalConstants(ell=100.0, ell_2=150.0, L=0.0, L_inf=0.0)
        assert variance == 5000.0
        assert 1 * 100.0 * 1.0 / (1.0 - 0.5) < variance <= theory.gradient_spread(bound, 0.5, 1) ** 2

    @given(discount=st.floats(0.01, 0.999), bias=st.floats(1e-12, 1e3), ell=st.floats(1e-3, 1e6), L=st.floats(0, 1e6))
    @few
    def test_horizon_is_the_smallest_that_suffices(self, discount: float, bias: float, ell: float, L: float) -> None:
        bound = FunctionalConstants(ell=ell, ell_2=ell, L=L, L_inf=L)
        horizon = theory.sufficient_horizon(bound, discount, bias)
        assert horizon % 1.0 == 0.0
        assert theory.truncation_bias(bound, discount, horizon) <= bias * (1.0 + 1e-9)
        first = math.ceil(-1.0 / math.log(discount))
        assert horizon == first or theory.truncation_bias(bound, discount, horizon - 1.0) > bias * (1.0 - 1e-9)
        later = [theory.truncation_bias(bound, discount, horizon + k) for k in range(5)]
        assert later == sorted(later, reverse=True)


class TestStrongDuality:
    """min (x − 1 − ν/2)² subject to x ≤ 1: optimum at x = 1 with value ν²/4, multiplier ν."""

    x = np.linspace(-2.0, 6.0, 400_001)

    def objective(self, multiplier: float) -> np.ndarray:
        return (self.x - 1.0 - multiplier / 2.0) ** 2

    @pytest.mark.parametrize("multiplier", [0.0, 0.5, 2.0, 5.0])
    @pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0])
    def test_small_gaps_of_the_quadratic_penalty_suffice(self, multiplier: float, epsilon: float) -> None:
        beta, gap = theory.quadratic_beta(multiplier, epsilon), theory.penalty_gap(multiplier, epsilon)
        penalty, optimum = Quadratic(beta), multiplier**2 / 4.0
        assert gap <= epsilon / math.sqrt(2.0) * (1.0 + 1e-12)
        near = self.objective(multiplier) + penalty.value(1.0) * np.maximum(self.x - 1.0, 0.0) ** 2 <= optimum + gap
        assert near.any()
        assert np.maximum(self.x[near] - 1.0, 0.0).max() <= epsilon / (multiplier + 1.0)
        assert np.abs(self.objective(multiplier)[near] - optimum).max() <= epsilon
        assert theory.quadratic_violation(gap, beta, multiplier) == pytest.approx(epsilon / (multiplier + 1.0))

    def test_the_bound_of_the_violation_is_tight(self) -> None:
        # min −νx subject to x ≤ 0: the penalized gap −νx + βx² equals 0.3 at the bound.
        bound = theory.quadratic_violation(0.3, 4.0, 2.0)
        assert -2.0 * bound + Quadratic(4.0).value(bound) == pytest.approx(0.3)
        # The paper's own formula, for β/2 and so with twice our β, says the same.
        assert (2.0 + math.sqrt(4.0 + 2.0 * 8.0 * 0.3)) / 8.0 == pytest.approx(bound)

    @pytest.mark.parametrize("multiplier", [0.5, 2.0])
    def test_exact_penalty_needs_more_than_the_multiplier(self, multiplier: float) -> None:
        violation = np.maximum(self.x - 1.0, 0.0)
        for beta, is_exact in ((0.9 * multiplier, False), (1.1 * multiplier, True)):
            assert Exact(beta).value(1.0) == beta
            best = self.x[np.argmin(self.objective(multiplier) + beta * violation)]
            assert bool(best <= 1.0 + 1e-4) is is_exact

    @pytest.mark.parametrize("multiplier", [0.0, 0.5, 2.0])
    def test_small_gaps_of_the_exact_penalty_suffice(self, multiplier: float) -> None:
        beta, epsilon, optimum = theory.exact_beta(multiplier), 0.1, multiplier**2 / 4.0
        violation = np.maximum(self.x - 1.0, 0.0)
        near = self.objective(multiplier) + beta * violation <= optimum + epsilon / beta
        assert violation[near].max() <= theory.exact_violation(epsilon / beta, beta, multiplier) <= epsilon
        assert np.abs(self.objective(multiplier)[near] - optimum).max() <= epsilon


class TestDescent:
    def test_noisy_biased_descent_arrives_in_time(self) -> None:
        # min x²/2 + max(x, 0)²/2 on [−1, 1]: convex as it is (μ = 1, D = 2), L = 2, Δ₀ = 1.
        epsilon = 0.05
        figures = theory.biased_descent(2.0, epsilon, mu_lambda=1.0, diameter=2.0, initial_gap=1.0)
        rng = np.random.default_rng(0)
        x = np.ones(1000)
        for _ in range(int(figures.iterations)):
            slope = x + np.maximum(x, 0.0) + figures.error + figures.error * rng.normal(size=x.size)
            x = np.clip(x - figures.step_size * slope, -1.0, 1.0)
        assert np.mean(x**2 / 2.0 + np.maximum(x, 0.0) ** 2 / 2.0) <= epsilon

    def test_coarse_accuracy_takes_one_fold(self) -> None:
        # ε > 3 D² μ² L: one step of full length, and the error allowed is √(ε L / 3).
        figures = theory.biased_descent(3.0, 100.0, mu_lambda=1.0, diameter=1.0, initial_gap=50.0)
        assert figures.iterations == 1.0
        assert figures.error == 10.0


constants = st.builds(
    problem,
    discount=st.floats(0.05, 0.999),
    n_states=st.integers(1, 1000),
    n_actions=st.integers(1, 10),
    radius=st.floats(0.0, 30.0),
    initial_min=st.floats(1e-6, 1.0),
    objective=st.builds(theory.entropy_constants, st.floats(1e-8, 1.0), n_cells=st.integers(1, 100)),
    constraint_max=st.floats(0.0, 100.0),
    scale=st.sampled_from(["normalized", "truncated"]),
    horizon=st.one_of(st.none(), st.integers(1, 1000)),
)
FALLING = ("beta", "L_P_lambda", "L_P_theta", "ell_P_theta", "D_g", "horizon", "batch_size", "iterations",
           "trajectories", "transitions", "density_radius", "initial_gap")  # fmt: skip
RISING = ("gap", "error", "step_size")


class TestPlan:
    @few
    @given(constants=constants, epsilon=st.floats(1e-6, 10.0), factor=st.floats(1.0, 100.0), nu=st.floats(0.0, 50.0))
    def test_more_accuracy_costs_more(
        self, constants: ProblemConstants, epsilon: float, factor: float, nu: float
    ) -> None:
        fine, coarse = (theory.plan(constants, accuracy, nu) for accuracy in (epsilon, epsilon * factor))
        for names, direction in ((FALLING, 1.0), (RISING, -1.0)):
            for name in names:
                more, less = direction * getattr(fine, name), direction * getattr(coarse, name)
                assert more >= less - 1e-9 * abs(less), name

    @few
    @given(constants=constants, epsilon=st.floats(1e-6, 10.0), nu=st.floats(0.0, 50.0))
    def test_the_proof_goes_through_with_the_figures(
        self, constants: ProblemConstants, epsilon: float, nu: float
    ) -> None:
        figures = theory.plan(constants, epsilon, nu)
        allowed = figures.error * (1.0 + 1e-6)
        assert (
            figures.D_H * constants.discount**figures.horizon + figures.D_g / math.sqrt(figures.batch_occupancy)
            <= allowed
        )
        assert figures.sigma_H / math.sqrt(figures.batch_gradient) <= allowed
        assert figures.batch_size / 2.0 >= max(figures.batch_occupancy, figures.batch_gradient)
        # (1 − α)^N Δ₀ + D² μ² α / η + η (σ² + δ²) / (2α) ≤ ε̃
        reach = (figures.D_lambda * figures.mu_lambda) ** 2
        alpha = min(1.0, figures.step_size * figures.gap / (3.0 * reach))
        log_start = math.log(figures.initial_gap) + (
            figures.iterations * math.log1p(-alpha) if alpha < 1.0 else (-math.inf if figures.iterations else 0.0)
        )
        total = math.exp(log_start) + reach * alpha / figures.step_size + figures.step_size * figures.error**2 / alpha
        assert total <= figures.gap * (1.0 + 1e-6)
        assert theory.quadratic_violation(figures.gap, figures.beta, nu) <= epsilon * (1.0 + 1e-9)

    @few
    @given(constants=constants, nu=st.floats(0.0, 50.0))
    def test_growing_problems_cost_more(self, constants: ProblemConstants, nu: float) -> None:
        base = theory.plan(constants, 0.1, nu)
        harder = (
            dataclasses.replace(constants, radius=constants.radius + 1.0),
            dataclasses.replace(constants, constraint_max=constants.constraint_max + 1.0),
            dataclasses.replace(constants, initial_min=constants.initial_min / 2.0),
        )
        for changed in harder:
            assert theory.plan(changed, 0.1, nu).transitions >= base.transitions
        assert theory.plan(constants, 0.1, nu + 1.0).beta > base.beta

    def test_both_scales_are_the_same_problem(self) -> None:
        # ⟨c, λ⟩ of the normalized occupancy is ⟨(1−γ) c, λ⟩ of the truncated one, entropies alike.
        normalized = problem()
        truncated = problem(
            scale="truncated",
            objective=normalized.objective.rescaled(0.1),
            constraint=normalized.constraint.rescaled(0.1),
        )
        first, second = (dataclasses.asdict(theory.plan(p, 0.1, 0.5)) for p in (normalized, truncated))
        assert first == pytest.approx(second, rel=1e-12)

    def test_order_in_epsilon_is_that_of_the_corollary(self) -> None:
        # β ~ 1/ε, η ~ ε, N ~ 1/ε² and B ~ 1/ε⁴ up to logarithms, the radius held fixed.
        coarse, fine = (theory.plan(problem(), accuracy, 1.0) for accuracy in (1e-6, 1e-7))
        assert fine.beta / coarse.beta == pytest.approx(10.0)
        assert coarse.step_size / fine.step_size == pytest.approx(10.0, rel=1e-3)
        assert 100.0 <= fine.iterations / coarse.iterations <= 130.0
        assert fine.batch_size / coarse.batch_size == pytest.approx(1e4, rel=1e-3)
        assert 0.0 < fine.horizon - coarse.horizon < 100.0

    def test_a_short_horizon_has_its_own_bias(self) -> None:
        figures = theory.plan(problem(horizon=10), 0.1, 1.0)
        assert figures.truncation_bias > figures.error

    def test_rows_name_every_figure(self) -> None:
        figures = theory.plan(problem(), 0.1, 1.0)
        rows = figures.to_rows()
        assert sorted(row.value for row in rows) == sorted(dataclasses.asdict(figures).values())
        assert len({row.symbol for row in rows}) == len(rows)
        assert all(row.meaning for row in rows)

    @pytest.mark.parametrize(
        ("changes", "epsilon", "multiplier"),
        [
            ({}, 5e-324, 1e308),
            ({}, 1e-300, 0.0),
            ({}, 0.1, math.inf),
            ({"radius": 1e4}, 0.1, 1.0),
            ({"initial_min": 0.0}, 0.1, 1.0),
            ({"discount": 1.0 - 1e-15}, 1e-9, 1.0),
            ({"discount": 5e-324}, 0.1, 1.0),
            ({"objective": theory.entropy_constants(5e-324, n_cells=8)}, 0.1, 1.0),
            ({"constraint": theory.linear_constants([1e308, 1e308]), "constraint_max": 1e308}, 0.1, 1.0),
            ({"n_states": 10**18, "n_actions": 1}, 0.1, 1.0),
            ({"objective": theory.linear_constants([0.0]), "constraint": theory.linear_constants([0.0])}, 0.1, 1.0),
        ],
    )
    def test_extremes_are_infinite_and_never_fail(
        self, changes: dict[str, Any], epsilon: float, multiplier: float
    ) -> None:
        for row in theory.plan(problem(**changes), epsilon, multiplier).to_rows():
            assert row.value >= 0.0, row


class TestErrors:
    @pytest.mark.parametrize(
        "changes",
        [
            {"discount": 0.0},
            {"discount": 1.0},
            {"discount": math.nan},
            {"n_states": 0},
            {"n_actions": 1.5},
            {"radius": -1.0},
            {"initial_min": 11.0},
            {"initial_min": math.nan},
            {"constraint_max": -1.0},
            {"scale": "paper"},
            {"horizon": 0},
        ],
    )
    def test_problem(self, changes: dict[str, Any]) -> None:
        with pytest.raises(InvalidSetting, match=next(iter(changes))):
            problem(**changes)

    @pytest.mark.parametrize(("epsilon", "multiplier"), [(0.0, 1.0), (math.nan, 1.0), (math.inf, 1.0), (0.1, -1.0)])
    def test_plan(self, epsilon: float, multiplier: float) -> None:
        with pytest.raises(InvalidSetting, match=r"epsilon|multiplier"):
            theory.plan(problem(), epsilon, multiplier)

    def test_functions(self) -> None:
        with pytest.raises(InvalidSetting, match="sigma"):
            theory.entropy_constants(0.0, n_cells=4)
        with pytest.raises(InvalidSetting, match="cost"):
            theory.linear_constants([math.nan])
        with pytest.raises(InvalidSetting, match="limit"):
            theory.linear_max([1.0], limit=math.inf)
        with pytest.raises(InvalidSetting, match="L_inf"):
            FunctionalConstants(ell=1.0, ell_2=1.0, L=1.0, L_inf=-1.0)
        with pytest.raises(InvalidSetting, match="factor"):
            UNIT.rescaled(0.0)
        with pytest.raises(InvalidSetting, match="not exact"):
            theory.exact_violation(0.1, 1.0, 1.0)
        with pytest.raises(InvalidSetting, match="horizon"):
            theory.truncation_constant(UNIT, 0.5, 0)
        with pytest.raises(InvalidSetting, match="discount"):
            theory.occupancy_diameter(1.0)
        with pytest.raises(InvalidSetting, match="epsilon"):
            theory.density_radius(3, 0.0)
        with pytest.raises(InvalidSetting, match="initial_min"):
            theory.inverse_lipschitz(3, 1.0, initial_min=math.inf)
