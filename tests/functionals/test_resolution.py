"""The entropy of cells: Entropy(resolution=), of densities whose episodes may end early."""

from __future__ import annotations

import json
import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from constrained_maxent.errors import CheckpointMismatch, DegenerateDensity, EndsRewarded, InvalidSetting
from constrained_maxent.evaluation import UniformActions, evaluate_rollouts
from constrained_maxent.functionals import Entropy, LinearCost, Reward
from constrained_maxent.functionals.config import functional_config, functional_from_config
from constrained_maxent.occupancy import Counts, GaussianMixture, NearestNeighbors
from constrained_maxent.tracker import find_tracker
from constrained_maxent.types import Batch, Measure, Points
from constrained_maxent.wrappers import EntropyObjective, TrackOccupancy, constrain

pytestmark = pytest.mark.fault


def measure(density: Any, *, actions: Any = None, weights: Any = None, **known: Any) -> Measure:
    """λ̂ at states 0, 1, 2, ... of two coordinates, the second ten times the first."""
    density = np.asarray(density, dtype=np.float64)
    states = np.arange(len(density))[:, None] * np.array([[1.0, 10.0]])
    points = Points(
        density=density,
        state_density=density,
        observations=states,
        states=states,
        actions=np.zeros(len(density), dtype=np.int64) if actions is None else actions,
        **known,
    )
    return Measure(points=points, weights=np.full(len(density), 0.5 / len(density)) if weights is None else weights)


class TestValue:
    def test_by_hand(self) -> None:
        # Cells of 0.1 × 0.2, λ = 5 and 20: -½ (½ log 0.1 + ½ log 0.4), and the derivative -log(λ v) - 1.
        here, entropy = measure([5.0, 20.0]), Entropy(resolution=(0.1, 0.2))
        assert entropy.value(here) == pytest.approx(-0.25 * math.log(0.1 * 0.4))
        np.testing.assert_allclose(entropy.gradient(here), -np.log([0.1, 0.4]) - 1.0)
        np.testing.assert_allclose(entropy.integrand(here, here.points), -np.log([0.1, 0.4]))

    def test_is_that_of_the_density_but_for_the_mass_times_the_volume(self) -> None:
        here = measure(np.random.default_rng(0).random(30))
        shifted = Entropy().value(here) - 0.5 * math.log(0.02)
        assert Entropy(resolution=(0.1, 0.2)).value(here) == pytest.approx(shifted)

    def test_of_a_normal_distribution_in_cells(self) -> None:
        # 100 cells a standard deviation: ½ log 2πe + log 100, whatever the unit.
        for unit in (1e-9, 1.0, 1e6):
            states = unit * np.random.default_rng(0).normal(size=(3000, 1))
            batch = Batch(observations=states, actions=np.zeros(3000, int), lengths=[3000], weights=np.full(3000, 1e-3))
            estimator = GaussianMixture(n_components=1).bind(Box(-np.inf, np.inf, (1,)), Discrete(2)).fit(batch)
            found = estimator.measure()
            entropy = Entropy(resolution=0.01).resolved(found)
            exact = 0.5 * math.log(2.0 * math.pi * math.e) + math.log(100.0)
            assert entropy.value(found) / 3.0 == pytest.approx(exact - math.log(3.0), abs=1e-3)  # of mass 3

    @pytest.mark.parametrize("smoothing", [None, 1e-3, 0.3])
    def test_derivative_by_finite_differences(self, smoothing: float | None) -> None:
        rng = np.random.default_rng(0)
        density, step = rng.random(40) + 0.1, 1e-6
        volume, direction = (0.5 / 40) / density, rng.normal(size=40)
        entropy = Entropy(resolution=(0.3, 0.4), smoothing=smoothing)

        def at(epsilon: float) -> float:
            moved = density + epsilon * direction
            return entropy.value(measure(moved, weights=moved * volume))

        slope = float(np.sum(entropy.gradient(measure(density)) * direction * volume))
        assert (at(step) - at(-step)) / (2.0 * step) == pytest.approx(slope, rel=1e-6)

    def test_smoothing_is_in_masses_of_cells(self) -> None:
        entropy = Entropy(resolution=(0.1, 0.1), smoothing=0.01)
        assert entropy.value(measure([1.0, 1.0])) == pytest.approx(-0.5 * math.log(0.02))
        np.testing.assert_allclose(entropy.exact().value(measure([1.0, 1.0])), -0.5 * math.log(0.01))

    def test_actions_have_cells_where_the_density_is_over_them(self) -> None:
        actions, sizes = np.zeros((2, 1)), (0.1, 0.2, 0.5)
        entropy = Entropy(resolution=sizes)
        assert entropy.value(measure([5.0, 5.0], actions=actions)) == pytest.approx(-0.5 * math.log(0.05))
        alone = measure([5.0, 5.0], actions=actions, is_over_actions=False)
        assert entropy.value(alone) == pytest.approx(-0.5 * math.log(0.1))
        of_states = Entropy(over="state", resolution=sizes[:2])
        assert of_states.value(measure([5.0, 5.0], actions=actions)) == pytest.approx(-0.5 * math.log(0.1))
        with pytest.raises(InvalidSetting, match="1 of the action"):
            Entropy(resolution=sizes[:2]).value(measure([5.0, 5.0], actions=actions))

    def test_what_underflows_in_a_small_cell(self) -> None:
        # e^-700 times a cell of 1e-40 is no float64, its logarithm is -792.
        points = {"log_density": np.full(2, -700.0), "log_state_density": np.full(2, -700.0)}
        entropy = Entropy(resolution=(1e-20, 1e-20))
        found = entropy.value(measure(np.full(2, math.exp(-700.0)), **points))
        assert found == pytest.approx(0.5 * (700.0 + 40.0 * math.log(10.0)))


class TestShares:
    def test_of_the_standard_deviations_of_the_first_batch(self) -> None:
        # States 0, 1, 2 weighted 1, 2, 1: mean 1, variance ½; the second coordinate is ten times as wide.
        here = measure([1.0, 1.0, 1.0], weights=np.array([1.0, 2.0, 1.0]), actions=np.array([[-1.0], [0.0], [1.0]]))
        entropy = Entropy(resolution=0.01)
        assert entropy.cell_sizes is None
        sizes = entropy.resolved(here).cell_sizes
        np.testing.assert_allclose(sizes, np.array([1.0, 10.0, 1.0]) * math.sqrt(0.5) * 0.01)
        np.testing.assert_allclose(Entropy(over="state", resolution=0.01).resolved(here).cell_sizes, sizes[:2])
        # Once and for all.
        wider = measure([1.0] * 30, actions=np.zeros((30, 1)))
        assert entropy.resolved(here).resolved(wider).cell_sizes == sizes
        assert entropy.resolved(here).exact().cell_sizes == sizes

    def test_an_angle_about_its_mean_direction(self) -> None:
        states = np.array([[math.pi - 0.1], [-math.pi + 0.1]])
        points = Points(density=np.ones(2), state_density=np.ones(2), observations=states, states=states)
        here = Measure(points=points, weights=np.ones(2))
        np.testing.assert_allclose(Entropy(resolution=1.0).resolved(here, (0,)).cell_sizes, [0.1])

    def test_a_constant_coordinate_counts_as_if_it_were_1(self) -> None:
        states = np.array([[0.1, 0.0], [0.1, 2.0]])
        points = Points(density=np.ones(2), state_density=np.ones(2), observations=states, states=states)
        here = Measure(points=points, weights=np.ones(2))
        np.testing.assert_allclose(Entropy(resolution=0.5).resolved(here).cell_sizes, [0.5, 0.5])

    def test_sums_pass_it_on(self) -> None:
        here = measure([1.0, 2.0, 3.0])
        total = (0.5 * Entropy(resolution=0.1) + LinearCost([[1.0]])).resolved(here)
        alone = Entropy(resolution=0.1).resolved(here)
        assert total.cell_sizes == alone.cell_sizes
        again = (0.5 * Entropy(resolution=0.1) + LinearCost([[1.0]])).with_state(total.state_dict())
        assert again.cell_sizes == total.cell_sizes

    def test_before_there_was_a_batch(self) -> None:
        with pytest.raises(InvalidSetting, match="first batch"):
            Entropy(resolution=0.01).value(measure([1.0]))


class TestRefusals:
    @pytest.mark.parametrize("resolution", [0.0, -1.0, math.inf, math.nan, (), (0.1, 0.0), "0.01", True, {"a": 1}])
    def test_no_sizes(self, resolution: Any) -> None:
        with pytest.raises(InvalidSetting, match="resolution="):
            Entropy(resolution=resolution)

    def test_finite_spaces_have_cells_already(self) -> None:
        for entropy in (Entropy(resolution=0.01), Entropy(resolution=(1.0, 1.0))):
            for ask in (
                lambda one: one([[0.5, 0.5]]),
                lambda one: one.gradient([[0.5, 0.5]]),
                lambda one: one.engine_terms(1, 2),
                lambda one: one.check(1, 2),
            ):
                with pytest.raises(InvalidSetting, match="finite space"):
                    ask(entropy)
            env = TrackOccupancy(gym.make("FrozenLake-v1"), Counts(), episodes_per_batch=2)
            with pytest.raises(InvalidSetting, match="finite space"):
                constrain(gym.make("FrozenLake-v1"), entropy, episodes_per_batch=2)
            env.close()

    def test_another_number_of_coordinates(self) -> None:
        with pytest.raises(InvalidSetting, match="3 sizes, here are 2"):
            Entropy(resolution=(1.0, 1.0, 1.0)).value(measure([1.0]))


def test_is_plain_data() -> None:
    for resolution in (None, 0.01, (0.1, 0.2)):
        entropy = 0.5 * Entropy(over="state", resolution=resolution) + Reward()
        config = json.loads(json.dumps(functional_config(entropy)))
        assert functional_from_config(config).parts[0][1].resolution == resolution
        assert functional_config(functional_from_config(config)) == config


class Beam(gym.Env[Any, Any]):
    """A walk in tenths of a millimetre [m] that ends where it is more than 2.5 of them off."""

    observation_space = Box(-np.inf, np.inf, (1,))
    action_space = Box(-1.0, 1.0, (1,))

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.x = 0.0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.x = 0.9 * self.x + float(action[0]) + 0.3 * self.np_random.normal()
        return np.array([1e-4 * self.x], np.float32), 0.0, abs(self.x) > 2.5, False, {}


def beam(resolution: Any = None, *, limit: int = 100, **options: Any) -> Any:
    env = gym.wrappers.TimeLimit(Beam(), limit)
    options = {"estimator": GaussianMixture(n_components=2), "episodes_per_batch": 20, "discount": 1.0} | options
    return constrain(env, Entropy(resolution=resolution), **options)


def run(env: Any, batches: int = 1) -> Any:
    tracker = find_tracker(env)
    env.reset(seed=0)
    env.action_space.seed(0)
    end = tracker.iteration + batches
    while tracker.iteration < end:
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
    return tracker


class TestInTraining:
    def test_an_end_that_is_rewarded_is_named_once(self) -> None:
        env = beam()
        with pytest.warns(EndsRewarded, match=r"resolution=0\.01") as caught:
            tracker = run(env)
        # H(λ) = m (H(d) - log m), with H(d) as the message has it.
        mass, objective = tracker.estimator.mass_, tracker.last_report.objective
        assert mass < 1.0
        assert f"is {objective / mass + math.log(mass):.1f} nats" in str(caught[0].message)
        run(env, 2)  # warnings are errors
        assert len(caught) == 1

    @pytest.mark.parametrize("estimator", [NearestNeighbors(), GaussianMixture(n_components=2)])
    def test_with_cells_a_step_of_life_is_worth_their_number(self, estimator: Any) -> None:
        tracker = run(beam(0.01, estimator=estimator), 2)
        assert tracker.last_report.objective > 0.0
        # log 100 for the state, and the width of a normal distribution: log √2πe = 1.4; less the mass's -log m - 1.
        reward = np.concatenate(tracker.last_report.pseudo_rewards).mean()
        mass = tracker.estimator.mass_
        assert reward == pytest.approx(math.log(100.0) + 1.4 - 1.0 - math.log(mass), abs=0.5)

    def test_where_all_last_nothing_is_named(self) -> None:
        run(beam(limit=1))  # the mass is 1

    def test_sizes_come_with_the_checkpoint(self) -> None:
        tracker = run(beam(0.01))
        sizes, state = tracker.problem.cell_sizes, tracker.state_dict()
        assert len(sizes["objective"]) == 2  # state and action
        again = find_tracker(beam(0.01))
        again.load_state_dict(state)
        assert again.problem.cell_sizes == sizes
        assert again.problem.evaluate(again.estimator.measure()).objective == tracker.last_report.objective
        for other, match in ((0.02, "standard deviations"), ((1.0, 1.0), "standard deviations")):
            env = beam(other)
            with pytest.raises(CheckpointMismatch, match=match):
                find_tracker(env).load_state_dict(state)
            assert not find_tracker(env).estimator.is_fitted
        del state["settled"]
        with pytest.raises(CheckpointMismatch, match="cells"):
            find_tracker(beam(0.01)).load_state_dict(state)

    def test_evaluation_has_the_cells_of_the_training(self) -> None:
        env = beam(0.01, episodes_per_batch=8)
        agent = UniformActions(env, seed=0)
        before = evaluate_rollouts(env, agent, n_episodes=8, seed=1)
        assert find_tracker(env).problem.cell_sizes == {}  # evaluation settles nothing
        run(env)
        sizes = find_tracker(env).problem.cell_sizes
        after = evaluate_rollouts(env, agent, n_episodes=8, seed=2)
        assert after.cell_sizes == sizes != before.cell_sizes
        figures = after.figures()
        assert list(figures)[:3] == ["entropy (nats)", "mass of λ", "episode length (steps)"]
        assert after.mass.mean == pytest.approx(after.length.mean / 100.0)

    def test_the_wrapper_is_the_functional(self) -> None:
        env = TrackOccupancy(gym.make("Pendulum-v1"), NearestNeighbors(), episodes_per_batch=1, discount=1.0)
        env = EntropyObjective(env, over="state", resolution=(0.1, 0.2, 0.3))
        assert find_tracker(env).problem.objective.cell_sizes == (0.1, 0.2, 0.3)
        remade = gym.make(env.spec)
        assert find_tracker(remade).problem.objective.cell_sizes == (0.1, 0.2, 0.3)
        assert remade.spec == env.spec


class Flagged(Beam):
    """The walk, and a flag that is a number."""

    observation_space = Box(-np.inf, np.inf, (2,))

    def reset(self, **options: Any) -> Any:
        super().reset(**options)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        observation, *rest = super().step(action)
        return np.array([1e4 * observation[0], max(self.x, 0.0)], np.float32), *rest  # half of them at 0


def test_states_without_a_density_are_named_once() -> None:
    env = gym.wrappers.TimeLimit(Flagged(), 100)
    env = constrain(env, Entropy(resolution=0.01), estimator=GaussianMixture(), episodes_per_batch=20, discount=1.0)
    with pytest.warns(DegenerateDensity, match="coordinate 1 of the state: the same values") as caught:
        run(env, 3)
    assert len(caught) == 1


def test_a_batch_beyond_the_samples_is_named_once() -> None:
    env = beam(0.01, pairing="previous")
    tracker = run(env)
    env.unwrapped.observation_space = Box(-np.inf, np.inf, (1,))
    shifted = Beam.step
    try:
        Beam.step = lambda self, action: (np.ones(1, np.float32) * self.np_random.normal(), *shifted(self, action)[1:])
        with pytest.warns(DegenerateDensity, match="of the steps") as caught:
            run(env)
    finally:
        Beam.step = shifted
    assert len(caught) == 1
    assert all(np.isfinite(rewards).all() for rewards in tracker.last_report.pseudo_rewards)


def test_uniform_actions() -> None:
    for action_space, log_prob in (
        (Box(-2.0, 2.0, (2,)), -math.log(16.0)),
        (Discrete(3, start=5), -math.log(3.0)),
        (gym.spaces.MultiDiscrete([2, 3]), -math.log(6.0)),
        (Box(-np.inf, np.inf, (1,)), None),
    ):
        env = gym.Env()
        env.observation_space, env.action_space = Box(-1.0, 1.0, (1,)), action_space
        agent = UniformActions(env, seed=0)
        assert action_space.contains(agent.predict(np.zeros(1), deterministic=False)[0])
        if log_prob is None:
            assert agent.log_prob is None
        else:
            np.testing.assert_allclose(agent.log_prob(np.zeros((4, 1)), np.zeros((4, 1))), log_prob)


@pytest.mark.parametrize("given", [np.array(0.01), 10**400, [[0.1]], "0.1", ["0.1"], [], True, math.nan])
def test_what_is_no_size_is_refused(given: Any) -> None:
    with pytest.raises(InvalidSetting, match="must be the size of a cell"):
        Entropy(resolution=given)
