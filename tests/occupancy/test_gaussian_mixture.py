"""The Gaussian mixture: against scikit-learn, against repeated samples, on circles, and in closed form."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box
from scipy.stats import multivariate_normal, norm
from sklearn import mixture as scikit_learn
from sklearn.decomposition import FactorAnalysis
from sklearn.exceptions import ConvergenceWarning

from constrained_maxent.errors import InvalidData, InvalidSetting
from constrained_maxent.occupancy import FromScikitLearn, GaussianMixture, Gaussians, Mixture
from constrained_maxent.occupancy.samples import resampled
from constrained_maxent.occupancy.weighted_em import from_labels, weighted_em
from constrained_maxent.types import Batch

STATES = Box(-np.inf, np.inf, (2,))
NAMES = {"full": "full", "diagonal": "diag", "tied": "tied"}
every_covariance = pytest.mark.parametrize("covariance", NAMES)


def bound(n: int = 2, **options: Any) -> GaussianMixture:
    return GaussianMixture(**options).bind(Box(-np.inf, np.inf, (n,)), Box(-1.0, 1.0, (1,)))


def batch_of(states: Any, weights: Any = None) -> Batch:
    return Batch(observations=states, actions=np.zeros((len(states), 1)), lengths=[len(states)], weights=weights)


def three_clusters(n: int = 600, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    centers = np.array([[0.0, 0.0], [5.0, 1.0], [-3.0, 4.0]])
    labels = rng.integers(3, size=n)
    return centers[labels] + rng.normal(size=(n, 2)) * [[0.5, 1.0], [1.0, 0.3], [0.7, 0.7]][0], labels


def learnt_by_scikit_learn(start: Gaussians, covariance: str, z: Any, n_steps: int, floor: float = 1e-6) -> Any:
    precisions = np.linalg.inv(start.covariances)
    if covariance == "diagonal":
        precisions = np.diagonal(precisions, axis1=1, axis2=2)
    learner = scikit_learn.GaussianMixture(
        len(start.weights),
        covariance_type=NAMES[covariance],
        reg_covar=floor,
        tol=0.0,
        max_iter=n_steps,
        weights_init=start.weights,
        means_init=start.means,
        precisions_init=precisions[0] if covariance == "tied" else precisions,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return learner.fit(z)


class TestAgainstScikitLearn:
    @every_covariance
    def test_equal_weights_take_the_same_steps(self, covariance: str) -> None:
        z, labels = three_clusters()
        labels = (labels + np.arange(len(z)) % 7) % 3  # a poor start
        start = from_labels(z, np.ones(len(z)), labels, covariance=covariance, floor=1e-6)
        ours = weighted_em(z, np.full(len(z), 0.3), start, covariance=covariance, max_iter=12, tol=0.0)
        theirs = learnt_by_scikit_learn(start, covariance, z, 12)
        np.testing.assert_allclose(ours.weights, theirs.weights_, rtol=1e-8)
        np.testing.assert_allclose(ours.means, theirs.means_, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(ours.log_density(z), theirs.score_samples(z), rtol=1e-8)

    @every_covariance
    def test_scores_are_those_of_score_samples(self, covariance: str) -> None:
        z, _ = three_clusters()
        fitted = bound(n_components=5, covariance=covariance).fit(batch_of(1e3 * z + 1e4))
        theirs = scikit_learn.GaussianMixture(5, covariance_type="full")
        theirs.weights_, theirs.means_ = fitted.mixture_.weights, fitted.mixture_.means
        theirs.covariances_ = fitted.mixture_.covariances
        theirs.precisions_cholesky_ = np.linalg.inv(np.linalg.cholesky(theirs.covariances_)).transpose(0, 2, 1)
        places = 1e3 * np.random.default_rng(1).normal(size=(200, 2)) * 3 + 1e4
        scores = theirs.score_samples(places)
        nothing = np.zeros((200, 1))
        np.testing.assert_allclose(fitted.log_prob(places, nothing), scores, rtol=0, atol=1e-9)
        single = [fitted.log_prob(place[None], nothing[:1]).item() for place in places]
        np.testing.assert_allclose(single, scores, rtol=0, atol=1e-9)
        many = np.repeat(places, 50, axis=0)  # more rows than are evaluated at once
        np.testing.assert_allclose(fitted.log_prob(many, np.zeros((10_000, 1))), np.repeat(scores, 50), atol=1e-9)


class TestWeights:
    @every_covariance
    def test_a_whole_weight_is_a_repeated_sample(self, covariance: str) -> None:
        z, labels = three_clusters()
        weights = np.random.default_rng(2).integers(1, 5, size=len(z))
        start = from_labels(z, weights.astype(float), labels, covariance=covariance, floor=1e-6)
        ours = weighted_em(z, weights.astype(float), start, covariance=covariance, max_iter=9, tol=0.0)
        theirs = learnt_by_scikit_learn(start, covariance, np.repeat(z, weights, axis=0), 9)
        np.testing.assert_allclose(ours.log_density(z), theirs.score_samples(z), rtol=1e-8)

    def test_is_what_scikit_learn_finds_in_samples_drawn_by_weight(self) -> None:
        z, _ = three_clusters(6000)
        weights = np.exp(-0.5 * np.abs(z[:, 0]))
        batch, nothing = batch_of(z, weights), np.zeros((6000, 1))
        em = bound(n_components=3).fit(batch)
        sampled = FromScikitLearn(scikit_learn.GaussianMixture(3, n_init=3)).bind(STATES, STATES).fit(batch)
        assert em.mass_ == sampled.mass_ == pytest.approx(weights.sum())
        np.testing.assert_allclose(em.mixture_.weights.sum(), 1.0)
        difference = em.log_prob(z, nothing) - sampled.log_prob(z, nothing)
        assert np.average(np.abs(difference), weights=weights) < 0.02
        unweighted = bound(n_components=3).fit(batch_of(z)).log_prob(z, nothing)
        assert np.average(np.abs(em.log_prob(z, nothing) - unweighted), weights=weights) > 0.2

    def test_resampling_draws_each_its_share(self) -> None:
        counts = np.bincount(resampled(np.array([1.0, 0.0, 3.0]), 400, np.random.default_rng(0)), minlength=3)
        assert counts.tolist() == [100, 0, 300]

    def test_likelihood_never_falls(self) -> None:
        z, labels = three_clusters()
        z[:, 1] = np.remainder(z[:, 1], 2.0 * np.pi) - np.pi
        weights = np.random.default_rng(0).random(len(z))
        mixture = from_labels(z, weights, labels % 2, covariance="full", floor=1e-9)
        likelihoods = []
        for _ in range(25):
            mixture = weighted_em(z, weights, mixture, floor=1e-9, periodic=[1], max_iter=1)
            likelihoods.append(weights @ mixture.on_circles([1]).log_density(z))
        assert (np.diff(likelihoods) > -1e-6).all()


class TestFits:
    def test_warm_start_goes_on_from_the_last_fit(self) -> None:
        z, _ = three_clusters()
        fitted = bound(n_components=3).fit(batch_of(z))
        before = fitted.mixture_.means
        fitted.fit(batch_of(z + 0.01))
        np.testing.assert_allclose(fitted.mixture_.means, before + 0.01, atol=0.05)  # the same order, too

    def test_idle_components_start_anew(self) -> None:
        rng = np.random.default_rng(0)
        fitted = bound(n_components=2).fit(batch_of(rng.normal(size=(300, 2)) * 0.1 + np.array([[0.0, 0.0]])))
        apart = np.where(rng.random((300, 1)) < 0.5, -20.0, 20.0) + rng.normal(size=(300, 2)) * 0.1
        for _ in range(3):
            fitted.fit(batch_of(apart))
        assert sorted(np.sign(fitted.mixture_.means[:, 0])) == [-1.0, 1.0]

    def test_cold_starts_are_independent_of_the_past(self) -> None:
        z, _ = three_clusters()
        once = bound(n_components=3, warm_start=False, seed=1)
        once.fit(batch_of(z))
        first = once.mixture_.means
        once.fit(batch_of(z * 7.0)).fit(batch_of(z))
        assert sorted(once.mixture_.means[:, 0]) == pytest.approx(sorted(first[:, 0]), abs=1e-2)

    def test_the_floor_is_the_least_width(self) -> None:
        fitted = bound(1, covariance_floor=1e-4).fit(batch_of(np.full((9, 1), 2.0)))
        # N(2, 10⁻⁴): its density at 2 is 100 / sqrt(2π).
        assert np.exp(fitted.log_prob(np.array([[2.0]]), np.zeros((1, 1)))) == pytest.approx(100 / np.sqrt(2 * np.pi))

    def test_as_many_components_as_distinct_samples(self) -> None:
        fitted = bound(n_components=16).fit(batch_of(np.repeat(three_clusters(4)[0], 10, axis=0)))
        assert len(fitted.mixture_.weights) == 4
        assert len(fitted.fit(batch_of(three_clusters()[0])).mixture_.weights) == 16

    def test_refuses_bad_settings(self) -> None:
        for options in (
            {"n_components": 0},
            {"covariance": "round"},
            {"covariance_floor": 0.0},
            {"max_iter": 0},
            {"tol": -1.0},
        ):
            with pytest.raises(InvalidSetting):
                GaussianMixture(**options)


class TestCircles:
    def test_one_component_lies_across_the_cut(self) -> None:
        rng = np.random.default_rng(0)
        speed = rng.normal(size=4000)
        states = np.stack((np.pi + 0.5 * speed + 0.2 * rng.normal(size=4000), speed), axis=1)
        fitted = bound(n_components=1, periodic=(0,)).fit(batch_of(states))
        (mean,), (covariance,) = fitted.mixture_.means, fitted.mixture_.covariances
        assert abs(mean[0]) == pytest.approx(np.pi, abs=0.02)
        np.testing.assert_allclose(covariance, [[0.29, 0.5], [0.5, 1.0]], atol=0.04)

    def test_is_the_sum_over_turns(self) -> None:
        mixture = Gaussians(np.array([0.3, 0.7]), np.array([[3.0], [-0.5]]), np.array([[[4.0]], [[0.01]]]))
        places = np.linspace(-np.pi, np.pi, 50)
        turns = places[:, None] + 2.0 * np.pi * np.arange(-30, 31)
        exact = sum(
            weight * norm(mean, np.sqrt(variance)).pdf(turns).sum(axis=1)
            for weight, mean, variance in ((0.3, 3.0, 4.0), (0.7, -0.5, 0.01))
        )
        circled = mixture.on_circles([0])
        np.testing.assert_allclose(np.exp(circled.log_density(places[:, None])), exact, rtol=1e-6, atol=1e-6)

    def test_a_narrow_component_has_one_image(self) -> None:
        mixture = Gaussians(np.ones(1), np.zeros((1, 1)), np.full((1, 1, 1), 0.01))
        assert len(mixture.on_circles([0]).weights) == 1


class TestClosedForms:
    def mixtures(self) -> tuple[Gaussians, Gaussians]:
        first = Gaussians(
            np.array([0.4, 0.6]),
            np.array([[0.0, 1.0], [2.5, -0.5]]),
            np.array([[[1.0, 0.3], [0.3, 0.5]], [[0.3, 0.0], [0.0, 0.4]]]),
        )
        return first, Gaussians(np.array([1.0]), np.array([[-2.8, 0.2]]), np.array([[[0.7, -0.2], [-0.2, 1.0]]]))

    def test_squared_distance_is_the_integral(self) -> None:
        first, second = self.mixtures()
        line = np.linspace(-12.0, 12.0, 481)
        grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
        difference = 0.5 * np.exp(first.log_density(grid)) - 2.0 * np.exp(second.log_density(grid))
        integral = np.sum(difference**2) * 0.05**2
        assert Mixture(first, 0.5).squared_distance(Mixture(second, 2.0)) == pytest.approx(integral, rel=1e-8)
        assert Mixture(first).squared_distance(Mixture(first)) == pytest.approx(0.0, abs=1e-15)

    def test_squared_distance_on_a_circle(self) -> None:
        first, second = self.mixtures()
        turn, line = (np.arange(400) + 0.5) / 400 * 2.0 * np.pi - np.pi, np.linspace(-12.0, 12.0, 481)
        grid = np.stack(np.meshgrid(turn, line), axis=-1).reshape(-1, 2)
        p, q = (np.exp(one.on_circles([0]).log_density(grid)) for one in (first, second))
        integral = np.sum((p - q) ** 2) * (2.0 * np.pi / 400) * 0.05
        distance = Mixture(first, periodic=(0,)).squared_distance(Mixture(second, periodic=(0,)))
        assert distance == pytest.approx(integral, rel=1e-7)

    def test_marginal_and_change_of_unit(self) -> None:
        first, _ = self.mixtures()
        marginal = first.marginal(1)
        np.testing.assert_allclose(marginal.covariances[:, 0, 0], [1.0, 0.3])
        moved = first.moved(np.array([1.0, -1.0]), np.array([2.0, 3.0]))
        z = np.array([[0.3, 0.4]])
        expected = first.log_density(z) - np.log(6.0)
        np.testing.assert_allclose(moved.log_density(np.array([1.0, -1.0]) + np.array([2.0, 3.0]) * z), expected)

    def test_refuses_what_is_no_mixture(self) -> None:
        with pytest.raises(InvalidData, match="covariance"):
            Gaussians(np.ones(1), np.zeros((1, 1)), -np.ones((1, 1, 1)))

    def test_so_far_away_that_even_the_logarithm_ends(self) -> None:
        first, _ = self.mixtures()
        with np.errstate(over="ignore"):
            assert first.log_density(np.full((3, 2), 1e200)).tolist() == [-np.inf] * 3
            assert first.log_density(np.full((1, 2), 1e200)).tolist() == [-np.inf]


class TestLowRank:
    rng = np.random.default_rng(0)
    loadings = rng.normal(size=(12, 2))
    own = rng.uniform(0.2, 1.0, 12)
    rows = rng.normal(size=(2000, 2)) @ loadings.T + np.sqrt(own) * rng.normal(size=(2000, 12))

    def test_one_component_is_factor_analysis(self) -> None:
        expected = FactorAnalysis(2, tol=1e-8, max_iter=5000).fit(self.rows).get_covariance()
        fitted = bound(12, n_components=1, covariance="low-rank", rank=2).fit(batch_of(self.rows)).mixture_
        np.testing.assert_allclose(fitted.covariances[0], expected, atol=0.01 * np.abs(expected).max())

    def test_few_samples_say_more_than_of_full_covariances(self) -> None:
        # Each of 8 components has 25 samples, and a full covariance of 12 coordinates 78 numbers.
        rows, fresh = self.rows[:200], self.rows[1000:]
        scores = {
            kind: bound(12, n_components=8, covariance=kind, rank=2)
            .fit(batch_of(rows))
            .log_prob(fresh, np.zeros((1000, 1)))
            .mean()
            for kind in ("full", "low-rank")
        }
        exact = multivariate_normal(np.zeros(12), self.loadings @ self.loadings.T + np.diag(self.own)).logpdf(fresh)
        assert scores["full"] < scores["low-rank"] < exact.mean()

    def test_all_factors_are_a_full_covariance(self) -> None:
        for rank in (3, 7):
            low, full = (
                bound(3, n_components=2, covariance=kind, rank=rank).fit(batch_of(self.rows[:, :3])).mixture_
                for kind in ("low-rank", "full")
            )
            np.testing.assert_array_equal(low.covariances, full.covariances)

    def test_fewer_samples_than_coordinates(self) -> None:
        fitted = bound(12, n_components=2, covariance="low-rank").fit(batch_of(self.rows[:9]))
        assert np.isfinite(fitted.log_prob(self.rows[:20], np.zeros((20, 1)))).all()
