"""λ_ref at points, KL to it by quadrature and finite differences, and where references come from."""

from contextlib import nullcontext

import gymnasium as gym
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from constrained_maxent.agents import PGP
from constrained_maxent.errors import InvalidData, InvalidSetting, MissingState, UnsupportedPolicy, UnsupportedSpace
from constrained_maxent.functionals import KLDivergence
from constrained_maxent.functionals.entropy import DENSITY_SMOOTHING
from constrained_maxent.occupancy import GaussianMixture, Gaussians, Mixture
from constrained_maxent.penalties import Quadratic
from constrained_maxent.references import CallablePolicy, Reference
from constrained_maxent.seeds import REFERENCE, derived_seed
from constrained_maxent.types import Measure, Points, Trajectory
from constrained_maxent.wrappers import ImitationConstraint, TrackOccupancy, constrain
from constrained_maxent.wrappers.declarations import imitation

RNG = np.random.default_rng(0)
ROWS, ACTIONS = RNG.normal(size=(2, 30, 2))
ACTIONS = np.tanh(ACTIONS)


def normal(center, variance, mass=1.0):
    return Mixture(Gaussians(np.ones(1), np.array([[center]]), np.array([[[variance]]])), mass=mass)


def follow(rows, actions):
    """π_ref(a|s) = N(a; s/2, 0.3)."""
    return norm.logpdf(actions[:, 0], rows[:, 0] / 2.0, 0.3)


def points_at(states=ROWS, actions=ACTIONS, **settings):
    n = len(states)
    return Points(
        density=np.ones(n), state_density=np.ones(n), states=states, observations=states, actions=actions, **settings
    )


class TestDensity:
    def test_is_mass_times_mixture_times_policy(self, small):
        reference = small.reference
        gaussians = reference.states.gaussians
        d = sum(
            weight * multivariate_normal(mean, covariance).pdf(ROWS)
            for weight, mean, covariance in zip(
                *(gaussians.weights, gaussians.means, gaussians.covariances), strict=True
            )
        )
        expected = 0.8 * d * np.exp(reference.policy.log_prob(ROWS, ACTIONS))
        np.testing.assert_allclose(reference(points_at()), expected, rtol=1e-9)
        np.testing.assert_allclose(reference.log_prob(points_at()), np.log(expected / 0.8), rtol=1e-9)

    def test_of_states_alone_where_the_estimate_is(self, small):
        expected = small.plane(mass=0.8).density(ROWS)
        np.testing.assert_array_equal(small.reference(points_at(is_over_actions=False)), expected)
        assert Reference(small.plane()).over == "state"
        assert small.reference.over == "state-action"

    def test_underflows_to_zero_and_not_to_an_error(self, small):
        far = Reference(normal(0.0, 1e-6))(points_at(np.array([[0.0], [1.0]]), np.zeros((2, 1))))
        assert far[0] == pytest.approx(1e3 / np.sqrt(2.0 * np.pi))
        assert far[1] == 0.0

    def test_refuses_cells_and_other_states(self, small):
        with pytest.raises(InvalidData, match="table"):
            small.reference(Points(density=np.ones(1), state_density=np.ones(1), cells=np.zeros(1, dtype=int)))
        with pytest.raises(InvalidData, match="coordinates"):
            small.reference(points_at(RNG.normal(size=(30, 3))))

    def test_refuses_parts_of_another_kind(self, small):
        with pytest.raises(InvalidSetting, match="Mixture"):
            Reference(small.plane().gaussians)
        with pytest.raises(InvalidSetting, match="log_prob"):
            Reference(small.plane(), policy=lambda rows, actions: 0.0)

    def test_samples_and_acts(self, small):
        states = small.reference.sample(500, np.random.default_rng(0))
        np.testing.assert_array_equal(states, small.plane().sample(500, np.random.default_rng(0)))
        assert (np.abs(small.reference.act(ROWS, np.random.default_rng(0))) <= 1.0).all()
        with pytest.raises(UnsupportedPolicy, match="policy"):
            Reference(small.plane()).act(ROWS, RNG)


class TestDivergence:
    REFERENCE = Reference(normal(0.5, 2.0), CallablePolicy(follow))
    S, A = np.linspace(-8.0, 8.0, 161), np.linspace(-6.0, 6.0, 121)
    CELL = 0.1 * 0.1

    def measure(self, density):
        """λ(s, a) on a grid."""
        rows, actions = (grid.reshape(-1, 1) for grid in np.meshgrid(self.S, self.A, indexing="ij"))
        points = points_at(rows, actions)
        marginal = np.repeat(density.reshape(161, 121).sum(axis=1) * 0.1, 121)
        points = Points(density=density, state_density=marginal, states=rows, observations=rows, actions=actions)
        return Measure(points=points, weights=density * self.CELL)

    def density(self):
        """N(0, 1) times N(a; 0, 0.5)."""
        return np.outer(norm.pdf(self.S), norm.pdf(self.A, 0.0, 0.5)).reshape(-1)

    def test_value_is_the_known_one_of_normals(self):
        # E[(a - s/2)²] = 0.25 + 0.25, so E KL(π‖π_ref) = log(0.3/0.5) - 1/2 + 0.5 / (2·0.09).
        states = 0.5 * (np.log(2.0) + 1.0 / 2.0 - 1.0 + 0.25 / 2.0)
        actions = np.log(0.3 / 0.5) - 0.5 + 0.5 / 0.18
        measure = self.measure(self.density())
        kl = imitation(self.REFERENCE, "kl", 1.0)
        assert kl.value(measure) == pytest.approx(states + actions, rel=1e-6)
        of_states = imitation(Reference(self.REFERENCE.states), "kl", 1.0)
        assert of_states.value(measure) == pytest.approx(states, rel=1e-6)
        expected = norm.logpdf(self.S) - norm.logpdf(self.S, 0.5, np.sqrt(2.0)) + 1.0
        np.testing.assert_allclose(of_states.gradient(measure)[::121], expected, rtol=1e-5, atol=1e-8)

    @pytest.mark.parametrize("over", ["state-action", "state"])
    def test_derivative_is_the_slope_of_the_value(self, over):
        reference = self.REFERENCE if over == "state-action" else Reference(self.REFERENCE.states)
        kl = imitation(reference, "kl", 1.0)
        density = self.density()
        rng, h = np.random.default_rng(1), 1e-5
        derivative = kl.gradient(self.measure(density))
        for _ in range(3):
            direction = density * rng.uniform(-1.0, 1.0, density.shape)
            ahead, behind = (kl.value(self.measure(density + sign * h * direction)) for sign in (1.0, -1.0))
            slope = np.sum(derivative * direction) * self.CELL
            assert (ahead - behind) / (2.0 * h) == pytest.approx(slope, rel=1e-5)

    def test_hundreds_of_nats_are_told_apart(self):
        # KL of N(m, 1) to N(0, 1) is m²/2: 200 and 300 nats, and beyond 690 the smoothing is the bound.
        rng = np.random.default_rng(0)
        noise = rng.normal(size=(20_000, 1))
        kl = imitation(Reference(normal(0.0, 1.0)), "kl", 200.0)
        for nats in (200.0, 300.0):
            states = np.sqrt(2.0 * nats) + noise
            density = norm.pdf(noise[:, 0])
            points = points_at(states, states)
            points = Points(density=density, state_density=density, states=states, observations=states, actions=states)
            value = kl.value(Measure(points=points, weights=np.full(20_000, 1.0 / 20_000)))
            assert value == pytest.approx(nats, rel=0.01)
        far = Points(density=np.ones(1), state_density=np.ones(1), states=np.full((1, 1), 1e3),
                     observations=np.ones((1, 1)), actions=np.ones((1, 1)))  # fmt: skip
        assert kl.value(Measure(points=far, weights=np.ones(1))) == pytest.approx(-np.log(DENSITY_SMOOTHING))
        assert np.isfinite(kl.gradient(Measure(points=far, weights=np.ones(1)))).all()

    def test_over_states_needs_a_function(self):
        with pytest.raises(InvalidSetting, match="function"):
            KLDivergence([[1.0]], over="state")
        with pytest.raises(InvalidSetting, match="over="):
            KLDivergence(self.REFERENCE, over="action")


class TestOrigins:
    def test_from_a_policy(self, small):
        env = small.Line()
        rng = np.random.default_rng(0)

        def act(observation):
            return np.clip(rng.normal([0.4, -0.2], 0.1), -1.0, 1.0)

        reference = Reference.from_policy(lambda rows, actions: np.full(len(rows), 0.5), env, act=act, n_episodes=40,
                                          n_components=1, seed=3)  # fmt: skip
        # Nine of ten states are N((0.4, -0.2), 0.1²), and the first is uniform over [-½, ½]².
        mixture = reference.states.gaussians
        np.testing.assert_allclose(mixture.means[0], [0.36, -0.18], atol=0.03)
        expected = 0.9 * 0.01 + 0.1 / 12.0 + 0.09 * np.array([0.16, 0.04])
        np.testing.assert_allclose(np.diag(mixture.covariances[0]), expected, rtol=0.35)
        assert (reference.states.mass, reference.about["mean_return"]) == (pytest.approx(1.0), 20.0)
        np.testing.assert_array_equal(reference.policy.log_prob(ROWS, ACTIONS), 0.5)
        of_states = Reference.from_policy(None, env, act=act, n_episodes=2, n_components=1)
        assert of_states.policy is None

    def test_only_scalar_environments(self, small):
        vector = gym.vector.SyncVectorEnv([small.Line])
        for env in (vector, "PointMass-v0", None):
            with pytest.raises(InvalidSetting, match="scalar"):
                Reference.from_policy(None, env, act=lambda observation: np.zeros(2))
            with pytest.raises(InvalidSetting, match="scalar"):
                Reference.from_rollouts(small.network(), env)

    def test_discount_and_scale_are_those_of_the_comparison(self, small):
        settings = {"act": lambda o: np.zeros(2), "n_episodes": 2, "n_components": 1}
        reference = Reference.from_policy(None, small.Line(), discount=0.5, scale="truncated", **settings)
        assert reference.states.mass == pytest.approx(2.0 - 0.5**9)
        # The state of time 0 weighs half, so the mean is about half the first state's, with zeros after it.
        env = small.Line()
        first = np.mean([env.reset(seed=derived_seed(0, 0, REFERENCE))[0], env.reset()[0]], axis=0)
        np.testing.assert_allclose(reference.states.gaussians.means[0], first / reference.states.mass, rtol=1e-6)
        assert Reference.from_policy(None, small.Line(), horizon=20, **settings).states.mass == pytest.approx(0.5)

    def test_the_state_comes_from_where_it_is_told(self, small):
        settings = {"act": lambda o: np.zeros(2), "n_episodes": 2, "n_components": 1}
        assert Reference.from_policy(None, small.Line(), state="place", **settings).states.n_states == 1
        assert Reference.from_policy(None, small.Line(), state=lambda o: o[1:], **settings).states.n_states == 1
        folded = Reference.from_policy(None, small.Line(), periodic=(1,), **settings)
        assert folded.states.periodic == (1,)
        with pytest.raises(MissingState, match="nowhere"):
            Reference.from_policy(None, small.Line(), state="nowhere", **settings)

    def test_from_an_agent(self, small):
        env = constrain(small.Line(), estimator={"kind": "GaussianMixture", "n_components": 1}, episodes_per_batch=2)
        agent = PGP(env, seed=0, hidden_sizes=(8,)).learn(iterations=1)
        reference = Reference.from_agent(agent, small.Line(), n_episodes=2, n_components=2)
        raw = agent.policy.sample(ROWS, np.random.default_rng(0)).clip(-2.0, 2.0)
        expected = agent.policy.log_prob(ROWS, raw).detach().numpy()
        np.testing.assert_allclose(reference.policy.log_prob(ROWS, agent.policy.to_env(raw)), expected, atol=1e-3)

    def test_from_any_agent_that_tells_its_log_probabilities(self, small):
        class Coin:
            """Goes to (-½, 0) or (½, 0), one by one."""

            def __init__(self):
                self.n_drawn = 0

            def predict(self, observation, *, deterministic=False):
                assert observation.dtype == np.float32
                self.n_drawn += 1
                return np.tile([0.5 * (-1.0) ** self.n_drawn, 0.0], (len(observation), 1)), None

            def log_prob(self, observations, actions):
                return np.full(len(observations), np.log(0.5))

        reference = Reference.from_agent(Coin(), small.Line(), n_episodes=20, n_components=1)
        mixture = reference.states.gaussians
        # Nine of ten states are the actions; the first is uniform over [-½, ½]².
        np.testing.assert_allclose(mixture.means[0], 0.0, atol=0.1)
        np.testing.assert_allclose(np.diag(mixture.covariances[0]), [0.9 * 0.25 + 0.1 / 12.0, 0.1 / 12.0], rtol=0.4)
        np.testing.assert_array_equal(reference.policy.log_prob(ROWS, ACTIONS), np.log(0.5))
        with pytest.raises(UnsupportedPolicy, match="object"):
            Reference.from_agent(object(), small.Line())

    def test_from_trajectories_by_cloning(self):
        rng = np.random.default_rng(0)
        trajectories = []
        for length in (400, 300, 300):
            observations = rng.uniform(-3.0, 3.0, size=(length, 1)) + 50.0
            u = 0.3 * (observations - 50.0) + 0.4 * rng.normal(size=(length, 1))
            trajectories.append(Trajectory(observations=observations, actions=np.tanh(u), states=observations - 50.0))
        space = gym.spaces.Box(-1.0, 1.0, (1,))
        reference = Reference.from_trajectories(trajectories, space, n_components=3, n_steps=1200, hidden_sizes=(16,))
        # Three trajectories of 1000 steps in all, where full ones would have 400 each.
        assert reference.states.mass == pytest.approx(1000 / 1200)
        rows, u = np.linspace(48.0, 52.0, 9)[:, None], np.linspace(-0.5, 0.9, 9)[:, None]
        expected = norm.logpdf(u, 0.3 * (rows - 50.0), 0.4) - np.log(1.0 - np.tanh(u) ** 2)
        np.testing.assert_allclose(reference.policy.log_prob(rows, np.tanh(u)), expected[:, 0], atol=0.25)
        assert reference.states.n_states == 1
        assert Reference.from_trajectories(trajectories, None, n_components=1).policy is None

    def test_refuses(self, small):
        steps = Trajectory(observations=np.zeros((5, 1)), actions=np.full((5, 1), 2.0))
        with pytest.raises(InvalidData, match="outside"):
            Reference.from_trajectories([steps], gym.spaces.Box(-1.0, 1.0, (1,)), n_components=1)
        with pytest.raises(InvalidData, match="shape"):
            Reference.from_trajectories([steps], gym.spaces.Box(-3.0, 3.0, (2,)), n_components=1)
        with pytest.raises(UnsupportedSpace, match="Box"):
            Reference.from_trajectories([steps], gym.spaces.Discrete(3), n_components=1)
        with pytest.raises(InvalidData, match="trajectory"):
            Reference.from_trajectories([], None)
        with pytest.raises(InvalidSetting, match="scalar"):
            Reference.from_policy(None, gym.make_vec("PointMass-v0", num_envs=1), act=lambda o: o, horizon=3)
        with pytest.raises(InvalidSetting, match="n_episodes"):
            Reference.from_policy(None, small.Line(), act=lambda o: o, n_episodes=0)
        with pytest.raises(TypeError, match="episodes"):
            Reference.from_policy(None, small.Line(), act=lambda o: o, episodes=3)

    def test_functions_are_checked(self):
        with pytest.raises(InvalidSetting, match="functions"):
            CallablePolicy(1.0)
        with pytest.raises(InvalidData, match="shape"):
            CallablePolicy(lambda rows, actions: 0.0).log_prob(ROWS, ACTIONS)
        with pytest.raises(InvalidData, match="NaN"):
            CallablePolicy(lambda rows, actions: np.full(30, np.nan)).log_prob(ROWS, ACTIONS)
        with pytest.raises(UnsupportedPolicy, match="act="):
            CallablePolicy(follow).act(ROWS, RNG)


@pytest.mark.fault
@pytest.mark.parametrize(
    ("wrap", "settings", "error"),
    [
        (lambda env: gym.wrappers.RescaleAction(env, np.float32(-2.0), np.float32(2.0)), {}, UnsupportedSpace),
        (lambda env: env, {"discount": 0.5, "scale": "truncated"}, None),  # at most 2: it may be
        (lambda env: env, {"discount": 0.01, "scale": "truncated"}, InvalidSetting),  # at most 1.01
    ],
)
def test_what_imitates_it_has_its_actions_and_its_scale(small, wrap, settings, error):
    reference = Reference(small.plane(mass=1.9), small.network())
    env = wrap(gym.wrappers.TimeLimit(small.Line(), 10))
    env = TrackOccupancy(env, GaussianMixture(n_components=1), episodes_per_batch=1, **settings)
    with nullcontext() if error is None else pytest.raises(error, match=r"RescaleAction|mass 1\.9"):
        ImitationConstraint(env, reference, limit=1.0, penalty=Quadratic(1.0))
