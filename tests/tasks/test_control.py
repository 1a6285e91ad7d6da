"""SafeCartpole-PGP-v0 and PointMass-PGP-v0: the settings, the stack, and what Gymnasium wants of an environment."""

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import constrained_maxent  # noqa: F401  (registers the ids)
from constrained_maxent.agents import PGP
from constrained_maxent.envs import PointMassVector, SafeCartpoleVector
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.occupancy import AdamGaussianMixture, GaussianMixture, NearestNeighbors, estimator_config
from constrained_maxent.penalties import Exact, Quadratic
from constrained_maxent.tasks import PRESETS, make_cartpole, make_point_mass
from constrained_maxent.testing import check_constrained_env
from constrained_maxent.tracker import find_tracker

pytestmark = pytest.mark.filterwarnings("ignore::constrained_maxent.errors.UnplannedRun")

CARTPOLE, POINT_MASS = "SafeCartpole-PGP-v0", "PointMass-PGP-v0"
IDS = [CARTPOLE, POINT_MASS]
SMALL = {"steps_per_batch": 60, "estimator": GaussianMixture(n_components=2), "time_limit": 0.5}


def play(env, n_steps, seed=0):
    rng = np.random.default_rng(seed)
    trace = []
    for _ in range(n_steps):
        action = rng.uniform(-1.0, 1.0, env.action_space.shape).astype(np.float32)
        observation, reward, terminated, truncated, info = env.step(action)
        trace.append((observation.tolist(), reward, info.get("batch", {}).get("objective")))
        if terminated or truncated:
            env.reset()
    return trace


class TestSettings:
    def test_default(self):
        env = gym.make_vec(CARTPOLE, num_envs=8)
        tracker = find_tracker(env)
        estimator = tracker.estimator
        assert isinstance(estimator, GaussianMixture)
        assert (estimator.n_components, estimator.covariance, estimator.buffer_size) == (16, "full", 16_000)
        assert tuple(estimator.periodic) == (2,)
        assert (tracker.weighting.discount, tracker.weighting.horizon) == (1.0, 1000)
        assert tracker.weighting.scale == "normalized"
        assert not env.unwrapped._staggered_starts

    @pytest.mark.parametrize(
        ("num_envs", "episodes", "steps", "staggered"),
        [
            (None, 8, None, None),
            (1, 8, None, False),
            (8, 8, None, False),
            (9, None, 8192, True),
            (64, None, 8192, True),
        ],
    )
    def test_batches_keep_their_size_however_many_copies_there_are(self, num_envs, episodes, steps, staggered):
        env = make_cartpole(num_envs=num_envs)
        tracker = find_tracker(env)
        assert (tracker.episodes_per_batch, tracker.steps_per_batch) == (episodes, steps)
        assert tracker.steps_of_full_batch == (steps or episodes * 1000)
        assert getattr(env.unwrapped, "_staggered_starts", None) == staggered

    def test_the_papers(self):
        tracker = find_tracker(gym.make(CARTPOLE, preset="paper"))
        estimator = tracker.estimator
        assert isinstance(estimator, AdamGaussianMixture)
        assert (estimator.n_components, estimator.n_steps, estimator.batch_size) == (16, 200, 512)
        assert (estimator.learning_rate, tuple(estimator.log_std_bounds), estimator.buffer_size) == (
            3e-4,
            (-5, 2),
            200_000,
        )
        constraint = tracker.problem.constraints["cost"]
        assert (constraint.penalty, constraint.functional.limit) == (Quadratic(10.0), 0.0)
        agent = PGP(gym.make(CARTPOLE, preset="paper")).hyperparameters
        assert (agent.learning_rate, agent.return_discount, agent.max_gradient_norm) == (3e-4, 0.99, 1.0)
        assert (agent.critic_learning_rate, agent.critic_steps, agent.critic_batch_size) == (3e-4, 10, 512)
        assert (agent.epochs, agent.baseline, agent.hidden_sizes) == (1, "critic", (256, 256))
        assert PRESETS[CARTPOLE]["paper"].steps_per_batch == 4096

    def test_what_is_given_goes_before_the_preset(self):
        given = {"pairing": "previous", "discount": 0.9, "scale": "truncated", "over": "state"}
        env = gym.make(CARTPOLE, preset="paper", beta=2.0, limit=0.5, memory=0.25, buffer_size=99, slider_limit=1.5,
                       **given)  # fmt: skip
        tracker = find_tracker(env)
        constraint = tracker.problem.constraints["cost"]
        assert (constraint.penalty.beta, constraint.functional.limit) == (2.0, 0.5)
        assert (tracker.pairing, tracker.weighting.discount, tracker.weighting.scale) == ("previous", 0.9, "truncated")
        assert (tracker.problem.objective.over, tracker.estimator.memory) == ("state", 0.25)
        assert tracker.estimator.buffer_size == 99
        assert env.unwrapped.slider_limit == 1.5

    @pytest.mark.parametrize("env_id", [CARTPOLE, POINT_MASS, "FrozenLake-PGP-v0"])
    def test_a_penalty_of_ones_own(self, env_id):
        settings = {"limit": 3.0} if env_id == POINT_MASS else {}
        for penalty in (Exact(2.0), {"kind": "Exact", "beta": 2.0}):
            (constraint,) = find_tracker(gym.make(env_id, penalty=penalty, **settings)).problem.constraints.values()
            assert constraint.penalty == Exact(2.0)

    @pytest.mark.parametrize("make", [make_cartpole, make_point_mass])
    @pytest.mark.parametrize("given", [{}, {"preset": "paper"}, {"discount": 1, "num_envs": 2}])
    def test_without_a_time_limit_the_discount_is_below_one(self, make, given):
        with pytest.raises(InvalidSetting, match="time_limit"):
            make(time_limit=None, **given)
        assert find_tracker(make(time_limit=None, **given | {"discount": 0.9})).weighting.horizon is None

    def test_tiny_violations_are_not_scaled_up(self):
        """A violation of a micrometre is worth a thousandth of the rate, and not the whole rate."""
        penalty = find_tracker(gym.make(CARTPOLE)).problem.constraints["cost"].penalty
        assert penalty.updated(1e-6, 0.0).price == pytest.approx(3.0 * 1e-3)
        assert penalty.updated(0.02, 0.0).price == pytest.approx(3.0)

    def test_an_estimator_of_ones_own(self):
        tracker = find_tracker(gym.make(CARTPOLE, estimator=NearestNeighbors(periodic=(2,)), buffer_size=50))
        assert isinstance(tracker.estimator, NearestNeighbors)
        assert tracker.estimator.buffer_size == 50

    def test_the_point_mass_has_no_constraint(self):
        tracker = find_tracker(gym.make(POINT_MASS))
        assert tracker.problem.term_names == ("objective",)
        assert tuple(tracker.estimator.periodic) == ()

    def test_staggered_unless_episodes_are_whole(self):
        def staggered(**settings):
            return make_cartpole(num_envs=2, **settings).unwrapped._staggered_starts

        assert staggered(steps_per_batch=64)
        assert not staggered()
        assert not staggered(episodes_per_batch=2)
        assert not staggered(staggered_starts=False)
        assert not staggered(time_limit=None, scale="truncated", discount=0.9)

    def test_a_penalty_in_a_spec_keeps_its_kind(self):
        env = gym.make(CARTPOLE, penalty=Exact(3.0), **(SMALL | {"estimator": estimator_config(SMALL["estimator"])}))
        again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
        assert find_tracker(again).problem.constraints["cost"].penalty == Exact(3.0)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"preset": "papers"}, "preset"),
            ({"pairing": "next"}, "pairing"),
            ({"scale": "big"}, "scale"),
            ({"over": "action"}, "over"),
            ({"beta": -1.0}, "beta"),
            ({"beta": 1.0, "penalty": Quadratic(1.0)}, "penalty="),
            ({"penalty": {"kind": "Fine"}}, "Fine"),
            ({"penalty": 3.0}, "penalty"),
            ({"memory": 1.0}, "memory"),
            ({"buffer_size": 0}, "buffer_size"),
            ({"episodes_per_batch": 4, "steps_per_batch": 4}, "episodes_per_batch"),
            ({"reference": "expert.npz"}, "reference="),
            ({"iterations": 0}, "iterations"),
            ({"estimator": {"kind": "Nothing"}}, "Nothing"),
        ],
    )
    @pytest.mark.parametrize("num_envs", [None, 2])
    def test_bad_ones(self, settings, message, num_envs):
        with pytest.raises(InvalidSetting, match=message):
            make_cartpole(num_envs=num_envs, **settings)


class TestGymnasium:
    @pytest.mark.filterwarnings("ignore:.*different from the unwrapped version")
    @pytest.mark.filterwarnings("ignore:.*(minimum|maximum) value is")
    @pytest.mark.parametrize("env_id", IDS)
    def test_check_env(self, env_id):
        check_env(gym.make(env_id, **SMALL), skip_render_check=True)

    @pytest.mark.parametrize("env_id", IDS)
    def test_spec_round_trip(self, env_id):
        settings = {"steps_per_batch": 60, "buffer_size": 80, "time_limit": 0.5}
        env = gym.make(env_id, **settings)
        for again in (gym.make(env.spec), gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))):
            assert str(again) == str(env)
            fresh = gym.make(env_id, **settings)
            for made in (fresh, again):
                made.reset(seed=0)
            trace = play(fresh, 130)
            assert play(again, 130) == trace
            assert any(objective is not None for *_, objective in trace)

    @pytest.mark.parametrize("env_id", IDS)
    def test_pickled_it_goes_on_where_it_stood(self, env_id):
        env = gym.make(env_id, **SMALL)
        env.reset(seed=0)
        play(env, 70)
        twin = pickle.loads(pickle.dumps(env))
        assert play(twin, 70, seed=1) == play(env, 70, seed=1)

    @pytest.mark.parametrize(("env_id", "kind"), [(CARTPOLE, SafeCartpoleVector), (POINT_MASS, PointMassVector)])
    def test_the_vector_form(self, env_id, kind):
        env = gym.make_vec(env_id, num_envs=3, pairing="split", **SMALL)
        assert isinstance(env.unwrapped, kind)
        again = gym.make_vec(env.spec)
        assert (again.num_envs, find_tracker(again).pairing) == (3, "split")

    @pytest.mark.parametrize("env_id", IDS)
    @pytest.mark.filterwarnings("ignore::constrained_maxent.errors.PartialEpisodes")  # small on purpose
    def test_keeps_the_contract(self, env_id):
        check_constrained_env(gym.make(env_id, **SMALL), n_batches=3)
        check_constrained_env(gym.make_vec(env_id, num_envs=4, **SMALL), n_batches=3)


class TestPGP:
    @pytest.mark.parametrize("env_id", IDS)
    @pytest.mark.parametrize("kind", ["scalar", "vector"])
    def test_knows_the_density_of_its_actions(self, env_id, kind):
        env = gym.make(env_id, **SMALL) if kind == "scalar" else gym.make_vec(env_id, num_envs=4, **SMALL)
        agent, policies = PGP(env, seed=0, hidden_sizes=(16,), return_discount=0.99), []
        agent.learn(iterations=2, callback=lambda agent, report: policies.append(copy.deepcopy(agent.policy)))
        acting = policies[0]  # in the second batch
        tracker = find_tracker(env)
        batch = tracker.last_batch
        # Inverting the squashing gives the raw actions back, up to the float32 of the environment's.
        raw = np.arctanh(np.clip(batch.actions.astype(np.float64), -0.9999, 0.9999))
        inside = (np.abs(batch.actions) < 0.99).all(axis=1)
        expected = acting.log_prob(batch.observations, raw).detach().double().numpy()
        assert inside.mean() > 0.5
        assert batch.log_probs.dtype == np.float64
        np.testing.assert_allclose(batch.log_probs[inside], expected[inside], atol=1e-3)
        assert not tracker.knows_log_prob

    def test_of_the_state_alone(self):
        env = gym.make_vec(CARTPOLE, num_envs=4, over="state", **SMALL)
        PGP(env, seed=0, hidden_sizes=(16,)).learn(iterations=2)
        measure = find_tracker(env).estimator.measure()
        density = measure.points.state_density
        expected = -(measure.weights @ np.log(density + 1e-6))
        assert find_tracker(env).problem.evaluate(measure).objective == pytest.approx(expected)
