"""What every density over continuous states must do: contract, degenerate data, angles, buffers, functionals."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from sklearn.neighbors import KernelDensity

from constrained_maxent.errors import InvalidData, InvalidSetting, NotFitted, UnsupportedSpace
from constrained_maxent.functionals import Entropy, KLDivergence, LinearCost
from constrained_maxent.occupancy import (
    AdamGaussianMixture,
    ContinuousEstimator,
    FromScikitLearn,
    GaussianMixture,
    NearestNeighbors,
    estimator_config,
    estimator_from_config,
)
from constrained_maxent.testing import check_estimator
from constrained_maxent.types import Batch, Measure, Points, Trajectory

Make = Callable[..., ContinuousEstimator]


def kernels(**options: Any) -> FromScikitLearn:
    return FromScikitLearn(KernelDensity(bandwidth=0.3), **options)


KINDS: dict[str, Make] = {
    "mixture": GaussianMixture,
    "adam": AdamGaussianMixture,
    "neighbors": NearestNeighbors,
    "kernels": kernels,
}
ACTIONS = Box(-1.0, 1.0, (2,))
every_kind = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


def space(n: int) -> Box:
    return Box(-np.inf, np.inf, (n,))


def batch_of(states: Any, *, seed: int = 0, **columns: Any) -> Batch:
    """One trajectory through the given states, with random actions."""
    states = np.asarray(states, dtype=np.float64)
    actions = np.random.default_rng(seed).uniform(-1.0, 1.0, (len(states), 2))
    return Batch(observations=states, **({"actions": actions, "lengths": [len(states)]} | columns))


def normal(n: int = 400, d: int = 2, seed: int = 0) -> Batch:
    return batch_of(np.random.default_rng(seed).normal(size=(n, d)), seed=seed)


def bound(estimator: ContinuousEstimator, n: int = 2) -> ContinuousEstimator:
    return estimator.bind(space(n), ACTIONS)


@every_kind
class TestContract:
    @pytest.mark.parametrize(
        "options",
        [{}, {"over": "state-action"}, {"periodic": (1,)}, {"memory": 0.5}, {"buffer_size": 90}, {"buffer_size": 30}],
        ids=str,
    )
    def test_holds(self, make: Make, options: dict[str, Any]) -> None:
        rng = np.random.default_rng(1)
        batch = Batch(
            observations=rng.normal(size=(60, 2)),
            actions=rng.uniform(-1.0, 1.0, (60, 2)),
            lengths=[20, 40],
            weights=rng.random(60) + 0.1,
            costs={"cost": rng.random(60)},
        )
        if make is AdamGaussianMixture:
            options = options | {"n_steps": 5}
        check_estimator(make(**options), batch, space(2), ACTIONS)

    def test_holds_over_states_of_their_own(self, make: Make) -> None:
        rng = np.random.default_rng(1)
        batch = replace(normal(50), states=rng.normal(size=(50, 3)), log_probs=rng.normal(size=50))
        check_estimator(make(), batch, space(3), ACTIONS)

    def test_comes_back_from_its_configuration(self, make: Make) -> None:
        made = make(over="state-action", periodic=(1,), memory=0.25, buffer_size=7, seed=3)
        again = estimator_from_config(estimator_config(made))
        assert type(again) is type(made)
        assert estimator_config(again) == estimator_config(made)
        if make is not kernels:  # its density is an object
            assert estimator_from_config(json.loads(json.dumps(estimator_config(made)))).over == "state-action"

    def test_refuses_bad_settings(self, make: Make) -> None:
        for options in (
            {"over": "actions"},
            {"periodic": (0, 0)},
            {"periodic": (-1,)},
            {"buffer_size": 0},
            {"memory": 1.0},
            {"seed": -1},
        ):
            with pytest.raises(InvalidSetting, match=next(iter(options))):
                make(**options)

    def test_refuses_what_has_no_density(self, make: Make) -> None:
        with pytest.raises(UnsupportedSpace, match="Box"):
            make().bind(Discrete(3), ACTIONS)
        with pytest.raises(UnsupportedSpace, match="no coordinates"):
            make().bind(space(0), ACTIONS)
        with pytest.raises(UnsupportedSpace, match="over="):
            make(over="state-action").bind(space(2), Discrete(3))
        with pytest.raises(NotFitted, match="bind"):
            make().fit(normal())
        with pytest.raises(InvalidSetting, match="periodic="):
            bound(make(periodic=(2,))).fit(normal())
        fitted = bound(make()).fit(normal(30))
        with pytest.raises(InvalidData, match="coordinates"):
            fitted.log_prob(np.zeros((1, 3)), np.zeros((1, 2)))
        with pytest.raises(InvalidData, match="coordinates"):
            fitted.fit(normal(30, d=3))
        with pytest.raises(InvalidData, match="over"):
            fitted.load_state_dict({"kind": "Counts"})

    def test_an_unfitted_state_forgets(self, make: Make) -> None:
        blank = bound(make()).state_dict()
        fitted = bound(make()).fit(normal(30))
        fitted.load_state_dict(blank)
        assert not fitted.is_fitted


@every_kind
@pytest.mark.filterwarnings("error")
class TestDegenerateData:
    """None of it may give NaN, +inf or a warning."""

    def fitted(self, make: Make, states: Any, **options: Any) -> ContinuousEstimator:
        batch = batch_of(states)
        fitted = bound(make(**options), batch.observations.shape[1])
        for _ in range(2):  # from a cold start and from a warm one
            fitted.fit(batch)
            places = np.concatenate((batch.observations, batch.observations + 1e6, batch.observations - 0.1))
            log_prob = fitted.log_prob(places, np.zeros((len(places), 2)))
            assert not np.isnan(log_prob).any()
            assert np.isfinite(log_prob[: len(batch.observations)]).all()
            assert np.isfinite(Entropy().value(fitted.measure()))
            assert np.isfinite(Entropy(over="state").gradient(fitted.measure())).all()
        return fitted

    @pytest.mark.parametrize("periodic", [(), (0,)])
    def test_identical_states(self, make: Make, periodic: Any) -> None:
        self.fitted(make, np.full((50, 2), 3.0), periodic=periodic)

    @pytest.mark.parametrize("over", ["state", "state-action"])
    def test_a_single_state(self, make: Make, over: str) -> None:
        self.fitted(make, [[0.5, -2.0]], over=over)

    def test_fewer_states_than_components(self, make: Make) -> None:
        self.fitted(make, np.random.default_rng(0).normal(size=(5, 2)))

    def test_a_constant_coordinate(self, make: Make) -> None:
        for value in (0.0, 1e6, -0.3):
            states = np.random.default_rng(0).normal(size=(80, 2))
            states[:, 1] = value
            self.fitted(make, states)

    def test_outliers(self, make: Make) -> None:
        states = np.random.default_rng(0).normal(size=(80, 2))
        states[7] = 1e6, -1e6
        self.fitted(make, states)

    def test_two_places_far_apart(self, make: Make) -> None:
        self.fitted(make, np.repeat([[0.0, 0.0], [1e6, 1e-6]], 30, axis=0))

    def test_many_constant_coordinates_do_not_overflow(self, make: Make) -> None:
        fitted = self.fitted(make, np.zeros((20, 120)))
        points = fitted.points(np.zeros((1, 120)), np.zeros((1, 2)))
        assert np.isfinite(points.density).all()

    def test_no_mass_at_all(self, make: Make) -> None:
        # Far into an episode, γᵗ is 0 in float64.
        fitted = bound(make()).fit(replace(normal(40), weights=np.zeros(40)))
        assert fitted.mass_ == 0.0
        assert Entropy().value(fitted.measure()) == 0.0
        assert np.isfinite(fitted.log_prob(np.zeros((1, 2)), np.zeros((1, 2)))).all()

    def test_after_a_change_of_scale(self, make: Make) -> None:
        fitted = bound(make())
        for scale in (1.0, 1e-4, 1e4, 1.0):
            batch = batch_of(scale * np.random.default_rng(0).normal(size=(80, 2)))
            log_prob = fitted.fit(batch).log_prob(batch.observations, batch.actions)
            assert np.isfinite(log_prob).all()


class TestAngles:
    @pytest.mark.parametrize("kind", ["mixture", "adam", "kernels"])
    @pytest.mark.parametrize("spread", [0.1, 1.0, 3.0])
    def test_density_of_one_angle_integrates_to_one_turn(self, kind: str, spread: float) -> None:
        angles = np.pi + spread * np.random.default_rng(0).normal(size=(500, 1))
        fitted = bound(KINDS[kind](periodic=(0,)), 1).fit(batch_of(angles))
        grid = np.linspace(-np.pi, np.pi, 20_001)[:-1, None]
        integral = np.exp(fitted.log_prob(grid, np.zeros((len(grid), 2)))).mean() * 2.0 * np.pi
        assert integral == pytest.approx(1.0, abs=1e-6)

    @pytest.mark.parametrize("bounds", [(-180.0, 180.0), (0.0, 360.0)])
    def test_degrees_are_refused(self, bounds: tuple[float, float]) -> None:
        states = Box(np.array([-1.0, bounds[0]]), np.array([1.0, bounds[1]]), dtype=np.float64)
        GaussianMixture(periodic=(0,)).bind(states, Box(-1.0, 1.0))
        with pytest.raises(InvalidSetting, match=r"coordinate 1 lies between .* in radians here"):
            GaussianMixture(periodic=(1,)).bind(states, Box(-1.0, 1.0))

    @pytest.mark.parametrize("kind", KINDS)
    def test_neighbors_across_the_cut(self, kind: str) -> None:
        angles = np.pi + 0.3 * np.random.default_rng(0).normal(size=(600, 1))
        fitted = bound(KINDS[kind](periodic=(0,)), 1).fit(batch_of(angles))
        below, above = fitted.log_prob(np.array([[np.pi - 1e-9], [-np.pi + 1e-9]]), np.zeros((2, 2)))
        assert below == pytest.approx(above, abs=1e-4)
        # A whole number of turns changes nothing.
        places = np.linspace(-3.0, 3.0, 7)[:, None]
        turned = fitted.log_prob(places + 6.0 * np.pi, np.zeros((7, 2)))
        np.testing.assert_allclose(turned, fitted.log_prob(places, np.zeros((7, 2))), rtol=1e-6)

    def test_two_angles_and_a_velocity(self) -> None:
        rng = np.random.default_rng(0)
        speed = rng.normal(size=400)
        noise = rng.normal(size=(2, 400))
        states = np.stack((np.pi + speed + 0.7 * noise[0], speed, -3.0 + 0.5 * speed + noise[1]), axis=1)
        fitted = bound(GaussianMixture(n_components=3, periodic=(0, 2)), 3).fit(batch_of(states))
        turn = (np.arange(64) + 0.5) / 64 * 2.0 * np.pi - np.pi
        line = np.linspace(-8.0, 8.0, 161)
        grid = np.stack(np.meshgrid(turn, line, turn, indexing="ij"), axis=-1).reshape(-1, 3)
        total = np.exp(fitted.log_prob(grid, np.zeros((len(grid), 2)))).sum() * (2.0 * np.pi / 64) ** 2 * 0.1
        assert total == pytest.approx(1.0, abs=1e-4)


class TestBuffer:
    def test_by_default_the_batch_alone(self) -> None:
        fitted = bound(GaussianMixture(n_components=1))
        fitted.fit(batch_of(np.full((10, 2), 9.0))).fit(batch_of([[0.0, 0.0], [2.0, 0.0]]))
        np.testing.assert_allclose(fitted.mixture_.means, [[1.0, 0.0]])

    def test_keeps_the_latest_steps(self) -> None:
        fitted = bound(GaussianMixture(n_components=1, buffer_size=4))
        for x in (7.0, 8.0, 9.0):
            fitted.fit(batch_of(np.full((2, 2), x)))
        np.testing.assert_allclose(fitted.mixture_.means, [[8.5, 8.5]])
        # Mass and points are those of the last batch.
        measure = fitted.measure()
        assert measure.points.states.tolist() == [[9.0, 9.0]] * 2
        assert measure.weights.sum() == fitted.mass_ == 2.0

    def test_thins_a_batch_that_is_longer(self) -> None:
        fitted = bound(GaussianMixture(buffer_size=30)).fit(normal(200))
        measure = fitted.measure()
        assert len(measure.weights) == 30
        assert measure.weights.sum() == pytest.approx(200.0)

    def test_memory_is_the_exponential_average(self) -> None:
        fitted = bound(GaussianMixture(n_components=1, memory=0.75))
        for x, cost in ((0.0, 4.0), (8.0, 8.0), (4.0, 0.0)):
            fitted.fit(batch_of(np.full((2, 2), x), costs={"cost": np.full(2, cost)}, weights=np.full(2, 0.5)))
        # Shares 9/16, 3/16 and 1/4.
        np.testing.assert_allclose(fitted.mixture_.means, [[2.5, 2.5]])
        assert fitted.expected_costs_ == pytest.approx({"cost": 9 / 16 * 4.0 + 3 / 16 * 8.0})
        measure = fitted.measure()
        assert measure.weights @ measure.points.costs["cost"] == pytest.approx(3.75)

    def test_memory_forgets_what_has_faded(self) -> None:
        fitted = bound(GaussianMixture(n_components=1, memory=0.5))
        for _ in range(20):
            fitted.fit(normal(10))
        assert len(fitted.measure().weights) == 70  # 1/2⁶ is above 1 %, 1/2⁷ below
        assert fitted.measure().weights.sum() == pytest.approx(fitted.mass_)

    def test_another_kind_of_batch_begins_anew(self) -> None:
        fitted = bound(GaussianMixture(buffer_size=1000)).fit(normal(50))
        fitted.fit(replace(normal(50), log_probs=np.zeros(50)))
        assert len(fitted._samples) == 50


class Counted(NearestNeighbors):
    """Knows how often λ̂ was evaluated."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.n_evaluations = 0

    def log_density(self, rows: Any) -> Any:
        self.n_evaluations += 1
        return super().log_density(rows)


class TestOncePerBatch:
    @pytest.mark.parametrize(
        ("options", "expected"),
        [({}, 1), ({"buffer_size": 1000}, 1), ({"buffer_size": 60}, 2), ({"memory": 0.5}, 2)],
        ids=str,
    )
    def test_where_the_measure_is_over_the_steps_of_the_batch(self, options: dict[str, Any], expected: int) -> None:
        estimator = bound(Counted(**options))
        for seed in range(2):
            batch = normal(80, seed=seed)
            estimator.fit(batch)
            estimator.n_evaluations = 0
            measure, points = estimator.measure(), estimator.points_of(batch)
            assert estimator.n_evaluations == expected
            # What was evaluated is what a stranger's question about the same places gets.
            fresh = estimator.points(batch.observations, batch.actions)
            np.testing.assert_array_equal(points.density, fresh.density)
            if expected == 1:
                np.testing.assert_array_equal(measure.points.density, fresh.density)

    def test_other_batches_and_later_estimates_are_evaluated_anew(self) -> None:
        batch, other = normal(50), normal(50, seed=1)
        estimator = bound(Counted()).fit(batch)
        first = estimator.points_of(batch).density
        estimator.fit(other)
        assert not np.array_equal(estimator.points_of(batch).density, first)
        state = bound(Counted()).fit(batch).state_dict()
        estimator.points_of(other)
        estimator.load_state_dict(state)
        np.testing.assert_array_equal(estimator.measure().points.density, first)
        assert not np.array_equal(estimator.points_of(other).density, first)

    def test_copies_do_not_carry_the_batch(self) -> None:
        batch = normal(50)
        estimator = bound(Counted()).fit(batch)
        estimator.measure()
        assert len(pickle.dumps(estimator)) == len(pickle.dumps(bound(Counted()).fit(batch)))
        twin = deepcopy(estimator)
        np.testing.assert_array_equal(twin.measure().points.density, estimator.measure().points.density)


def test_fresh_remembers_nothing() -> None:
    first, second = normal(60), normal(30, seed=1)
    for options in ({"memory": 0.5}, {"buffer_size": 200}):
        fresh = bound(NearestNeighbors(n_neighbors=3, **options).fresh())
        assert fresh.get_params() == NearestNeighbors(n_neighbors=3).get_params()
        alone = bound(NearestNeighbors(n_neighbors=3)).fit(second)
        np.testing.assert_array_equal(
            fresh.fit(first).fit(second).points_of(second).density, alone.points_of(second).density
        )


def test_a_density_of_ones_own() -> None:
    """A uniform density over the box of the samples, which needs two methods."""

    @dataclass(kw_only=True, eq=False, repr=False)
    class Uniform(ContinuousEstimator):
        margin: float = 0.0

        def learn(self, rows: Any, weights: Any, rng: Any) -> None:
            self._low, self._high = rows.min(axis=0) - self.margin, rows.max(axis=0) + self.margin

        def log_density(self, rows: Any) -> Any:
            inside = ((rows >= self._low) & (rows <= self._high)).all(axis=1)
            return np.where(inside, -np.log(np.prod(self._high - self._low)), -np.inf)

    states = np.array([[0.0, 0.0], [1.0, 4.0], [2.0, 1.0]])
    check_estimator(Uniform(margin=0.5), batch_of(np.tile(states, (2, 1)), lengths=[3, 3]), space(2), ACTIONS)
    fitted = bound(Uniform()).fit(batch_of(states))
    np.testing.assert_allclose(fitted.points_of(batch_of(states)).density, 3.0 / 8.0)
    with pytest.raises(UnsupportedSpace, match="over"):
        bound(Uniform(over="state-action")).fit(batch_of(states)).measure()


class TestStatesAndActions:
    def test_times_the_policy(self) -> None:
        batch = replace(normal(), log_probs=np.linspace(-3.0, 1.0, 400), weights=np.full(400, 0.5))
        fitted = bound(GaussianMixture()).fit(batch)
        points = fitted.points_of(batch)
        np.testing.assert_allclose(points.density, points.state_density * np.exp(batch.log_probs), rtol=1e-12)
        alone = fitted.log_prob(batch.observations, batch.actions)
        np.testing.assert_allclose(points.state_density, 200.0 * np.exp(alone), rtol=1e-12)
        np.testing.assert_array_equal(fitted.measure().points.density, points.density)

    def test_without_a_policy_the_state_alone(self) -> None:
        points = bound(GaussianMixture()).fit(normal()).measure().points
        np.testing.assert_array_equal(points.density, points.state_density)

    @pytest.mark.parametrize("kind", ["mixture", "adam"])
    def test_marginal_of_a_joint_fit(self, kind: str) -> None:
        fitted = bound(KINDS[kind](over="state-action"), 1).fit(normal(d=1))
        state, line = np.array([[0.3]]), np.linspace(-12.0, 12.0, 241)
        actions = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
        points = fitted.points(np.repeat(state, len(actions), axis=0), actions)
        assert points.density.sum() * 0.01 == pytest.approx(points.state_density[0], rel=1e-3)

    def test_points_know_where_they_are(self) -> None:
        batch = replace(normal(), states=normal(seed=1).observations[:, :1])
        fitted = GaussianMixture().bind(space(1), ACTIONS).fit(batch)
        for points in (fitted.points_of(batch), fitted.measure().points):
            np.testing.assert_array_equal(points.observations, batch.observations)
            np.testing.assert_array_equal(points.states, batch.states)
            np.testing.assert_array_equal(points.actions, batch.actions)


class TestFunctionals:
    """On samples: plain means, against closed forms."""

    def gaussian(self, n: int = 20_000) -> tuple[ContinuousEstimator, Any]:
        factor = np.array([[2.0, 0.0], [1.0, 0.5]])
        states = np.random.default_rng(5).normal(size=(n, 2)) @ factor.T
        batch = batch_of(states, weights=np.full(n, 1.0 / n), costs={"cost": states[:, 0] ** 2})
        return bound(GaussianMixture(n_components=1)).fit(batch), factor @ factor.T

    def test_entropy_of_a_gaussian(self) -> None:
        fitted, covariance = self.gaussian()
        exact = 0.5 * math.log(np.linalg.det(2.0 * np.pi * np.e * covariance))
        assert Entropy().value(fitted.measure()) == pytest.approx(exact, abs=0.02)
        # ∂H/∂λ = -log λ - 1, whose mean is H - 1.
        derivative = Entropy().gradient(fitted.measure())
        assert derivative.mean() == pytest.approx(exact - 1.0, abs=0.02)

    @pytest.mark.parametrize("unit", [1e-6, 1e6])
    def test_units_shift_the_entropy_and_no_reward_against_another(self, unit: float) -> None:
        """H(a·s) = H(s) + n log a; a floor under λ would cut rewards off at large units."""
        states = np.random.default_rng(5).normal(size=(2_000, 2))
        weights = np.full(2_000, 1.0 / 2_000)
        measures = [
            bound(GaussianMixture(n_components=1)).fit(batch_of(factor * states, weights=weights)).measure()
            for factor in (1.0, unit)
        ]
        for entropy in (Entropy(), Entropy(over="state")):
            plain, scaled = map(entropy.value, measures)
            assert scaled == pytest.approx(plain + 2.0 * math.log(unit), abs=1e-6)
            plain_r, scaled_r = map(entropy.gradient, measures)
            np.testing.assert_allclose(scaled_r - scaled_r[0], plain_r - plain_r[0], atol=1e-6)

    def test_divergence_of_two_gaussians(self) -> None:
        fitted, covariance = self.gaussian()

        def reference(points: Points) -> Any:  # N((1, 0), I)
            squares = ((points.states - [1.0, 0.0]) ** 2).sum(axis=-1)
            return np.exp(-0.5 * squares) / (2.0 * np.pi)

        exact = 0.5 * (np.trace(covariance) + 1.0 - 2.0 - math.log(np.linalg.det(covariance)))
        divergence = KLDivergence(reference, limit=1.0)
        assert divergence.value(fitted.measure()) == pytest.approx(exact, rel=0.03)
        place = np.array([[0.5, 0.25]])
        points = fitted.points(place, np.zeros((1, 2)))
        log_ratio = fitted.log_prob(place, np.zeros((1, 2))) - np.log(reference(points))
        np.testing.assert_allclose(divergence.derivative(fitted.measure(), points), log_ratio + 1.0, rtol=1e-6)

    def test_a_reference_must_be_a_density(self) -> None:
        fitted, _ = self.gaussian(100)
        for wrong in (lambda points: np.ones(3), lambda points: -points.density):
            with pytest.raises(InvalidData, match="shape"):
                KLDivergence(wrong).value(fitted.measure())
        with pytest.raises(UnsupportedSpace, match="table"):
            _ = KLDivergence(lambda points: points.density).table

    def test_cost_is_the_plain_mean(self) -> None:
        fitted, covariance = self.gaussian()
        cost = LinearCost("cost", limit=1.0)
        assert cost.value(fitted.measure()) == pytest.approx(covariance[0, 0], rel=0.03)
        np.testing.assert_array_equal(cost.gradient(fitted.measure()), fitted.measure().points.costs["cost"])

    def test_derivative_of_the_entropy_by_finite_differences(self) -> None:
        # λ + ε (δ - λ) among its own samples: move weight onto one of two halves, the density with it.
        rng = np.random.default_rng(0)
        density, weights = rng.random(50) + 0.1, np.full(50, 0.02)
        points = Points(density=density, state_density=density)
        direction = rng.normal(size=50)
        volume, entropy, step = weights / density, Entropy(smoothing=1e-9), 1e-6  # cells of ∫ λ = Σ λ volume

        def at(epsilon: float) -> float:
            moved = density + epsilon * direction
            return entropy.value(Measure(points=Points(density=moved, state_density=moved), weights=moved * volume))

        slope = (at(step) - at(-step)) / (2.0 * step)
        derivative = entropy.gradient(Measure(points=points, weights=weights))
        assert slope == pytest.approx(float(np.sum(derivative * direction * volume)), rel=1e-6)


def test_images_of_observations_are_flattened() -> None:
    batch = Batch(
        observations=np.random.default_rng(0).normal(size=(30, 2, 2)), actions=np.zeros(30, int), lengths=[30]
    )
    fitted = GaussianMixture(n_components=2).bind(gym.spaces.Box(-1.0, 1.0, (2, 2)), Discrete(2)).fit(batch)
    assert fitted.mixture_.means.shape == (2, 4)


def test_states_travel_with_their_batch() -> None:
    trajectories = [
        Trajectory(observations=np.arange(n), actions=np.zeros(n), states=np.full((n, 2), float(n))) for n in (2, 3)
    ]
    batch = Batch.from_trajectories(trajectories)
    assert batch.states.tolist() == [[2.0, 2.0]] * 2 + [[3.0, 3.0]] * 3
    assert batch.take(1, 2).states.tolist() == [[3.0, 3.0]] * 3
    assert [one.states.tolist() for one in batch] == [one.states.tolist() for one in trajectories]
    with pytest.raises(InvalidData, match="states"):
        Batch.from_trajectories([trajectories[0], replace(trajectories[1], states=None)])
    with pytest.raises(InvalidData, match="states"):
        replace(trajectories[0], states=np.zeros((3, 1)))
